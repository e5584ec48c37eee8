"""Modules loaded in the fork server of runs: Dagster's command and storage, Spark, the definitions."""

import dagster as dg
import dagster._cli.api
import dagster._daemon.cli
import pyspark.sql.connect.session  # noqa: F401

from dedp_assets.project import project

__all__: list[str] = []

project().definitions().get_repository_def()
with dg.DagsterInstance.local_temp():
    pass  # opening one is what loads the database's modules
