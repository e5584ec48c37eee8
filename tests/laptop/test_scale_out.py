"""`dedp up` with its lake on an S3 server and its engine on a cluster: all comes back, and rows are exact."""

from __future__ import annotations

import subprocess

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from dedp_assets.graph.resources.environments import child_environment, settings
from dedp_assets.laptop.servers import s3
from dedp_assets.laptop.servers.ports import free as free_port
from tests.faults.processes import wait_until
from tests.platforms import DEDP, platform_up

pytestmark = [
    pytest.mark.slow,
    pytest.mark.budget(60, "a platform with an S3 server, a Spark master, two workers and their executors"),
]

OPTIONS = ("--port", "--engine-port", "--status-port", "--registry-port", "--s3-port")
SALES = {"2026-01-05": (21, 420.0), "2026-01-06": (20, 410.0), "2026-01-07": (20, 400.0)}
MORE = {"2026-01-08": (1, 5.0)}
ORDERS = "order_id,ordered_at,customer,amount\n8000,2026-01-08T10:00:00Z,Ada,5.00\n"
PATIENCE = 600


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
    assert wait_until(lambda: sales(platform) == SALES, seconds=PATIENCE), platform.said()
    assert len([platform.find(f"--executor-id {number}") for number in (0, 1)]) == 2
    assert not (platform.home / "lakehouse").exists()


@pytest.mark.promise("what-is-killed-comes-back")
def test_a_server_and_a_worker_that_are_killed_come_back(platform):
    """A day that lands meanwhile is loaded with exactly its rows, and the others are as they were."""
    killed = {"s3": "weed -logtostderr", "master": "master.Master", "worker_1": "worker.Worker"}
    for words in killed.values():
        platform.find(words).kill()
    landed = platform.home / "landing" / "orders" / "2026-01-08"
    landed.mkdir()
    (landed / "orders.csv").write_text(ORDERS)
    (landed / "_SUCCESS").touch()
    for name in killed:
        assert platform.says(f"restart   {name} died and is started again; "), platform.said()
    for name in ("s3", "master"):
        assert platform.says(f"ready     {name}: ", times=2), platform.said()
    assert wait_until(lambda: sales(platform) == {**SALES, **MORE}, seconds=PATIENCE), platform.said()
    assert "Traceback" not in platform.said()
