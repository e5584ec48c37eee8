"""The operational database by its URL, and nothing secret in sight."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from urllib.parse import unquote

import dagster as dg
import pytest

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems import postgres
from dedp_assets.graph.systems.postgres import Address, OperationalDatabase
from dedp_assets.patterns.connectors.postgres import READING
from dedp_assets.patterns.core.errors import ConfigError

URL = "postgresql://reader:s3cr%40t-word@db.example:6432/shop?sslmode=require"
PASSWORD = unquote("s3cr%40t-word")


def test_one_url_names_any_other_database(monkeypatch):
    """Its parts arrive where they belong, for the driver and for JDBC; the password does not go into JDBC's URL."""
    monkeypatch.setenv("DEDP_POSTGRES", URL)
    found = postgres.address(settings())
    assert found == Address("db.example", 6432, "shop", "reader", PASSWORD, {"sslmode": "require"})
    assert found.jdbc() == {
        "url": "jdbc:postgresql://db.example:6432/shop?sslmode=require",
        "user": "reader",
        "password": PASSWORD,
        "driver": "org.postgresql.Driver",
        "sessionInitStatement": READING,
    }
    short = postgres.address(replace(settings(), postgres="postgres://reader@db.example"))
    assert (short.port, short.database, short.password) == (5432, "reader", "")
    assert short.jdbc()["url"] == "jdbc:postgresql://db.example:5432/reader"


@pytest.mark.parametrize(
    "url", ["mysql", f"postgresql://u:{PASSWORD}@h:port/d", f"host=h password='{PASSWORD}", "postgresql:///d"]
)
def test_a_url_that_is_none_is_refused_without_repeating_it(url):
    """The text names the setting and the form, and not what stood there; neither does the cause."""
    with pytest.raises(
        ConfigError, match=r"^DEDP_POSTGRES is no PostgreSQL URL: write postgresql://user:password@"
    ) as no:
        postgres.address(replace(settings(), postgres=url))
    assert PASSWORD not in str(no.value)
    assert no.value.__cause__ is None
    assert no.value.__suppress_context__


def test_nothing_that_is_printed_shows_the_password(monkeypatch):
    """Neither settings, address, resource nor a table to capture; the resource has no field at all."""
    monkeypatch.setenv("DEDP_POSTGRES", URL)
    resource = OperationalDatabase()
    shown = [settings(), postgres.address(settings()), resource, resource.table("public.users", slot="dedp_users")]
    for text in [f"{thing!r} {thing}" for thing in shown]:
        assert PASSWORD not in text
        assert "s3cr" not in text
    assert OperationalDatabase.model_fields == {}


def test_no_run_config_metadata_or_event_holds_the_password(own_postgres, monkeypatch):
    """A run that reads the database, and one that fails at it, leave no trace of the password in Dagster's instance."""
    own = postgres.address(own_postgres)

    @dg.asset
    def reads(database: OperationalDatabase) -> dg.MaterializeResult:
        with database.connect() as connection:
            (found,) = connection.execute("SELECT 1").fetchone()
        return dg.MaterializeResult(metadata={"found": found})

    for password, works in ((own.password, True), (PASSWORD, False)):
        url = f"postgresql://{own.user}:{password.replace('@', '%40')}@{own.host}:{own.port}/{own.database}"
        monkeypatch.setenv("DEDP_POSTGRES", url)
        with dg.DagsterInstance.ephemeral() as instance:
            ran = dg.materialize(
                [reads], resources={"database": OperationalDatabase()}, instance=instance, raise_on_error=False
            )
            assert ran.success is works
            run = instance.get_run_by_id(ran.run_id)
            everything = json.dumps(run.run_config) + "".join(str(entry) for entry in instance.all_logs(ran.run_id))
        assert password not in everything


@pytest.mark.slow
def test_spark_reads_a_table_by_jdbc(spark, database):
    """The driver is on the engine's class path, and a large table can be read in parts."""
    with database.connect() as connection:
        connection.execute("CREATE TABLE numbers AS SELECT n, now() AS at FROM generate_series(1, 100) AS n")
    parts = {"partitionColumn": "n", "lowerBound": "1", "upperBound": "100", "numPartitions": "4"}
    rows = spark.read.format("jdbc").options(**database.jdbc(), dbtable="numbers", **parts).load()
    read = rows.collect()
    assert sorted(row["n"] for row in read) == list(range(1, 101))
    assert isinstance(read[0]["at"], datetime)
    assert rows.selectExpr("spark_partition_id() AS part").distinct().count() == 4
