"""Modules loaded in the fork server of runs: Dagster's command and storage, Spark, the definitions."""

import dagster as dg
import dagster._cli.api
import dagster._daemon.cli

import dedp_assets.components
import dedp_assets.graph.declare  # noqa: F401
from dedp_assets.graph.resources.environments import settings
from dedp_assets.project import project

__all__: list[str] = []

# Definitions may look at tables, and a process that used a bucket cannot be forked: there each run loads definitions.
if __name__ == "__main__" or not settings().uses_buckets:
    project().definitions().get_repository_def()
with dg.DagsterInstance.local_temp():
    pass  # opening one is what loads the database's modules
