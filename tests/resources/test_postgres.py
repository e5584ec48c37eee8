"""The operational database: our own server from the wheel, another one by URL, and nothing secret in sight."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
from dataclasses import replace
from datetime import datetime
from urllib.parse import unquote

import dagster as dg
import psycopg
import pytest

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from resources import postgres
from resources.environments import settings
from resources.ports import free as free_port
from resources.postgres import Address, OperationalDatabase
from tests.faults.processes import living

URL = "postgresql://reader:s3cr%40t-word@db.example:6432/shop?sslmode=require"
PASSWORD = unquote("s3cr%40t-word")


@pytest.fixture
def home(tmp_path):
    """Settings with a home of their own; a server that was started in it is stopped."""
    chosen = replace(settings(), home=tmp_path / "home", postgres=None)
    yield chosen
    postgres.stop(chosen)


def process(chosen):
    """The server's process, as its process file names it."""
    return int((chosen.home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


@pytest.fixture
def reaper():
    """This process takes in the orphans of its children, as the first process of a machine does, and reaps them."""
    adopts = 36
    ctypes.CDLL(None).prctl(adopts, 1)
    yield lambda orphan: os.waitpid(orphan, 0)
    ctypes.CDLL(None).prctl(adopts, 0)


@pytest.mark.slow
def test_our_own_server_starts_answers_stops_and_keeps_what_it_holds(home):
    """It listens where it was told to, is the same one for a second start, and its data outlive a stop."""
    port = free_port()
    made = postgres.start(home, port=port)
    first = process(home)
    assert (made.port, made.host, postgres.start(home), process(home)) == (port, "127.0.0.1", made, first)
    with made.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.info.dbname == "operational"
    postgres.stop(home)
    postgres.stop(home)
    assert not living({first})
    with pytest.raises(NotReady, match=r"not running.*make up.*DEDP_POSTGRES"):
        postgres.address(home)
    with postgres.start(home).connect() as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (1,)


@pytest.mark.slow
def test_a_server_that_was_killed_starts_again(home, reaper):
    """A process file that a crash left behind is not taken for a running server."""
    postgres.start(home)
    killed = process(home)
    os.kill(killed, signal.SIGKILL)
    reaper(killed)
    with pytest.raises(NotReady):
        postgres.address(home)
    again = postgres.start(home)
    assert process(home) != killed
    with again.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
def test_a_port_in_use_is_one_clear_error(home, own_postgres):
    """It names the folder and says what the server said; nothing is left running."""
    taken = postgres.address(own_postgres).port
    with pytest.raises(postgres.PostgresError, match=r"(?s)pg_ctl in .*Address already in use"):
        postgres.start(home, port=taken)
    with pytest.raises(NotReady):
        postgres.address(home)


def test_the_server_listens_on_the_loopback_interface_and_asks_for_the_password(own_postgres):
    """No socket file, no other address, and nobody gets in without the password, which only its user may read."""
    own = postgres.address(own_postgres)
    with own.connect() as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed") as refused:
        replace(own, password="wrong-one").connect()
    assert "wrong-one" not in str(refused.value)
    password = own_postgres.home / "postgres" / "password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert password.read_text() == own.password
    log = (own_postgres.home / "postgres" / "log").read_text()
    assert own.password not in log


def test_two_homes_have_two_servers(own_postgres, home):
    """Each with its own data, port and password."""
    one, other = postgres.address(own_postgres), postgres.start(home)
    assert one.port != other.port
    assert one.password != other.password


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
