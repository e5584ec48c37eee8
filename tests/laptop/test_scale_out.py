"""`dedp up` with its lake on an S3 server and its engine on a cluster: all comes back, and rows are exact."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from dedp_assets.graph.resources.environments import child_environment, settings
from dedp_assets.laptop.servers import s3
from dedp_assets.laptop.servers.ports import free as free_port
from tests.faults.clocks import clock_of
from tests.platforms import COMMANDS, DEDP, platform_up

pytestmark = [
    pytest.mark.slow,
    pytest.mark.budget(
        90, "a platform with an S3 server, a Spark master, two workers and their executors, and a second one"
    ),
]

OPTIONS = ("--port", "--engine-port", "--status-port", "--registry-port", "--s3-port")
SALES = {"2026-01-05": (21, 420.0), "2026-01-06": (20, 410.0), "2026-01-07": (20, 400.0)}
MORE = {"2026-01-08": (1, 5.0)}
ORDERS = "order_id,ordered_at,customer,amount\n8000,2026-01-08T10:00:00Z,Ada,5.00\n"
LATE = "order_id,ordered_at,customer,amount\n9000,2026-01-09T10:00:00Z,Bob,7.00\n9001,2026-01-05T11:00:00Z,Eve,3.00\n"
WITH_LATE = {**SALES, **MORE, "2026-01-05": (22, 423.0), "2026-01-09": (1, 7.0)}


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    """A small project's platform, with its lake on an S3 server and its engine on two workers."""
    folder = tmp_path_factory.mktemp("user")
    named = {"DEDP_CACHE": str(settings().cache), "DEDP_JIT": "quick", "DEDP_TICK_SECONDS": "2"}
    named |= {"DEDP_LAKE": "s3", "DEDP_CLUSTER": "2"}
    environment = child_environment(named, without=("SPARK_REMOTE", "DEDP_HOME", "DAGSTER_HOME"))
    subprocess.run([DEDP, "new", "river"], cwd=folder, env=environment, check=True, capture_output=True)
    root, ports = folder / "river", {option: free_port() for option in OPTIONS}
    with platform_up(root / ".dedp", ports, environment, said=folder / "said", cwd=root) as up:
        yield up


def land(platform, day, orders):
    """Deliver a day's orders."""
    landed = platform.home / "landing" / "orders" / day
    landed.mkdir()
    (landed / "orders.csv").write_text(orders)
    (landed / "_SUCCESS").touch()


def sales(platform):
    """Orders and amounts by day, as an independent reader finds them; none before there is a table."""
    options = s3.variables(platform.home / s3.FOLDER, port=platform.ports["--s3-port"])
    try:
        table = DeltaTable("s3://dedp/lakehouse/gold/sales_by_day", storage_options=options)
        found = QueryBuilder().register("sales", table).execute("SELECT event_date, orders, amount FROM sales")
    except (TableNotFoundError, DeltaError, OSError):
        return {}
    rows = pa.table(found.read_all()).to_pylist()
    return {str(row["event_date"]): (row["orders"], row["amount"]) for row in rows}


def test_tables_in_a_bucket_are_computed_by_executors(platform):
    """The days of the sample have all of their rows, each worker has an executor, and no lake is in a folder."""
    assert platform.says("ready     s3: the lake is in s3://dedp/lakehouse at "), platform.said()
    assert platform.comes(lambda: sales(platform) == SALES), platform.said()
    assert len([platform.find(f"--executor-id {number}") for number in (0, 1)]) == 2
    assert not (platform.home / "lakehouse").exists()


@pytest.mark.promise("what-is-killed-comes-back")
def test_a_server_and_a_worker_that_are_killed_come_back(platform):
    """A day that lands meanwhile is loaded with exactly its rows, and the others are as they were."""
    killed = {"s3": "weed -logtostderr", "master": "master.Master", "worker_1": "worker.Worker"}
    for words in killed.values():
        platform.find(words).kill()
    land(platform, "2026-01-08", ORDERS)
    for name in killed:
        assert platform.says(f"restart   {name} died and is started again; "), platform.said()
    for name in ("s3", "master"):
        assert platform.says(f"ready     {name}: ", times=2), platform.said()
    assert platform.comes(lambda: sales(platform) == {**SALES, **MORE}), platform.said()
    assert "Traceback" not in platform.said()


def test_a_second_platform_whose_clock_is_fast_computes_the_same_days(platform, tmp_path):
    """Of two platforms on one lake that load a delivery at once, each ends, and each row is there once.

    The second one has a home, an engine and runs of its own, and a clock that is ten minutes ahead.
    """
    root = platform.home.parent
    named = {"DEDP_HOME": str(tmp_path), "DEDP_LAKE": "s3://dedp/lakehouse"}
    named |= {"DEDP_LANDING": str(platform.home / "landing"), "DEDP_CACHE": str(settings().cache), "DEDP_JIT": "quick"}
    named |= s3.variables(platform.home / s3.FOLDER, port=platform.ports["--s3-port"])
    environment = child_environment({**named, **clock_of(minutes=10)}, without=("SPARK_REMOTE", "DAGSTER_HOME"))
    land(platform, "2026-01-09", LATE)
    words = [["run", "bronze/orders", "2026-01-09"], ["run", "bronze/orders", "2026-01-05", "--force"]]
    command = [sys.executable, "-c", COMMANDS, json.dumps(words)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [code for code, *_ in json.loads(done.stdout)] == [0, 0], done.stdout + done.stderr
    assert platform.comes(lambda: sales(platform) == WITH_LATE), platform.said()
    status = [DEDP, "status"]
    own = child_environment({**environment, "DEDP_HOME": str(platform.home)})
    seen = [
        subprocess.run(status, cwd=root, env=env, capture_output=True, text=True, check=True)
        for env in (environment, own)
    ]
    assert seen[0].stdout == seen[1].stdout
