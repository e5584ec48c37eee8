"""What tests share beside fixtures."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from dedp_assets.graph.resources.announced import listens
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.engine import use_java
from dedp_assets.graph.resources.environments import Settings, child_environment
from dedp_assets.laptop.servers import engine, ports
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Store, Table
from dedp_assets.patterns.delta.storage.store import delta_table

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)

EVENTS = TableSpec(
    "silver/events",
    {
        "id": Column("BIGINT", "identity", required=True),
        "user_id": Column("STRING", "who", classification="personal"),
        "amount": Column("DOUBLE", "how much, in euros"),
        "event_date": Column("DATE", "when", required=True),
    },
    partition_by=("event_date",),
    checks={"amount_is_positive": "amount IS NULL OR amount >= 0"},
    comment="One row per event.",
)
"""A small partitioned table with a constraint, a required and a personal column."""


OF_PRODUCERS = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
"""Settings of a topic whose records have the times of their producers: the broker deletes none for its age."""


def within_one_day(room: timedelta) -> None:
    """Wait for midnight (UTC) to pass if less than ``room`` is left of the day.

    A test of "today" that a broker's or a platform's clock dates as well would see two days.
    """
    now = Clock().now()
    left = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), timezone.utc) - now
    if left < room:
        time.sleep(left.total_seconds() + 1)


def free_pair() -> int:
    """A port that nobody listens on right now, nor on the one after it."""
    while True:
        with socket.socket() as first, socket.socket() as second, suppress(OSError, OverflowError):
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", first.getsockname()[1] + 1))
            return int(first.getsockname()[1])


class ServicesUnderTest:
    """The HTTP services as a test sees them: where they are, how they are to behave, how often they were asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._before: dict[str, int] = {}
        self._told: set[str] = set()

    def behave(self, service: str, name: str, *, times: int = 1, seconds: float = 0) -> None:
        """Say how the next requests to a service are answered."""
        self._told.add(service)
        self._control(service, {"name": name, "times": times, "seconds": seconds})

    def forget(self) -> None:
        """Let every service behave well again."""
        for service in self._told:
            self._control(service, {"name": "", "times": 0})

    def requests(self, service: str) -> int:
        """How many requests a service got since this was asked the last time."""
        now = int(self._control(service)["requests"])
        before, self._before[service] = self._before.get(service, 0), now
        return now - before

    def _control(self, service: str, told: object = None) -> Any:
        data = None if told is None else json.dumps(told).encode()
        url = f"{self.url}/behaviour/{service}"
        with urlopen(Request(url, data=data, method="PUT" if data else "GET"), timeout=30) as reply:  # noqa: S310
            return json.loads(reply.read())


_JOB_GROUP = "spark.jobGroup.id"


@contextmanager
def job_group(spark: Any) -> Iterator[None]:
    """Count the Spark jobs of this thread by themselves for the time of a block; other processes share the engine."""
    spark.sparkContext.setLocalProperty(_JOB_GROUP, uuid.uuid4().hex)
    yield
    spark.sparkContext.setLocalProperty(_JOB_GROUP, None)


def jobs_of(spark: Any) -> set[int]:
    """Return the jobs that the thread's :func:`job_group` has started so far."""
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty(60_000)  # what it tells of jobs comes a moment later
    return {*context.statusTracker().getJobIdsForGroup(context.getLocalProperty(_JOB_GROUP))}


@contextmanager
def connect_server(chosen: Settings) -> Iterator[str]:
    """A Spark Connect server for the time of a block; ended by its process id."""
    port = ports.free()
    use_java(chosen)
    process = subprocess.Popen(
        engine.connect_command(chosen, port),
        env=child_environment({"SPARK_CONNECT_MODE": "0"}, without=("SPARK_REMOTE",)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_port(port, process)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def _await_port(port: int, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        if listens(port):
            return
        time.sleep(0.2)
    raise RuntimeError("the Spark Connect server did not start")


def a_run(asset: str = "silver/events", **fields: Any) -> Provenance:
    """A provenance with everything a test does not care about."""
    return Provenance(**{"asset": asset, "run_id": "run-1", "at": NOW, **fields})


def read_back(table: Table, version: int | None = None) -> list[dict[str, Any]]:
    """The table's rows through an independent reader, in a stable order."""
    rows = DeltaTable(str(table.location), version=version).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def refusal(call: Callable[[], object]) -> str:
    """What a refused call says: one sentence in one line."""
    try:
        call()
    except PatternError as refused:
        said = str(refused)
    else:
        raise AssertionError("nothing was refused")
    assert "\n" not in said
    assert ". " not in said.removesuffix(".")
    assert len(said) < 400
    return said


def rows_at(store: Store, version: int | None = None) -> list[dict[str, Any]]:
    """The rows of the table in any store, by deltalake alone.

    Its way through pyarrow, for a table in a bucket, leaves threads that end the process as it exits.
    """
    found = QueryBuilder().register("rows", delta_table(store, version)).execute("SELECT * FROM rows")
    return pa.table(found.read_all()).to_pylist()


def active_files(table: Table) -> set[str]:
    """Paths of the table's active files."""
    found = pa.table(DeltaTable(str(table.location)).get_add_actions(flatten=True)).to_pylist()
    return {file["path"] for file in found}


def files_of(table: Table, **partition: str) -> set[str]:
    """Paths of the active files of one partition, by what the log says of them and not by their names."""
    found = pa.table(DeltaTable(str(table.location)).get_add_actions(flatten=True)).to_pylist()
    return {file["path"] for file in found if all(str(file[f"partition.{c}"]) == v for c, v in partition.items())}


def a_record(asset: str, partition: dict[str, str], **fields: Any) -> CommitRecord:
    """A commit record with everything a test does not care about."""
    known: dict[str, Any] = {
        "asset": asset,
        "run_id": "run-1",
        "code_version": "1",
        "pattern": "",
        "cause": "landing",
        "inputs": {},
        "partition": partition,
        "sequence": None,
        "verdict": "passed",
        "rows": {"read": 1, "written": 1, "dead": 0, "duplicates": 0, "filtered": 0},
        "figures": {},
        "findings": (),
        "fingerprint": "1 rows 1",
    }
    return CommitRecord(**{**known, **fields})


def write_log(location: Path, columns: dict[str, str], partition_by: list[str], commits: list[dict[str, Any]]) -> None:
    """A Delta log written by hand: no data files, no JVM.

    Each commit may have ``changed`` (partition values of files it adds), ``record``, ``txn`` (app id -> version),
    ``data_change``, ``operation`` and its ``parameters``.
    """
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    log = location / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    first = len(list(log.glob("*.json")))
    if first == 0:
        meta = {
            "id": "00000000-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": partition_by,
            "configuration": {},
        }
        actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": meta}]
        _commit(log, 0, actions)
        first = 1
    for version, commit in enumerate(commits, start=first):
        info = {"timestamp": 1767600000000 + version, "operation": commit.get("operation", "WRITE")}
        if commit.get("parameters"):
            info["operationParameters"] = commit["parameters"]
        if commit.get("record"):
            info["userMetadata"] = commit["record"].to_json()
        actions = [{"commitInfo": info}]
        for number, values in enumerate(commit.get("changed", [])):
            add = {
                "path": f"v{version}/part-{number}.parquet",
                "partitionValues": values,
                "size": 100,
                "modificationTime": 1767600000000,
                "dataChange": commit.get("data_change", True),
                "stats": json.dumps({"numRecords": 1}),
            }
            actions.append({"add": add})
        actions += [{"txn": {"appId": app, "version": v}} for app, v in commit.get("txn", {}).items()]
        _commit(log, version, actions)


def _commit(log: Path, version: int, actions: list[dict[str, Any]]) -> None:
    """A commit that is there as a whole, as others may read the log meanwhile."""
    draft = log / f".{version}.draft"
    draft.write_text("".join(json.dumps(action) + "\n" for action in actions))
    draft.replace(log / f"{version:020d}.json")


def fill(lake: Path) -> None:
    """Put the data files of hand-written logs below a folder where the logs say they are."""
    for log in lake.rglob("_delta_log/*.json"):
        for line in log.read_text().splitlines():
            with suppress(ValueError):
                if added := json.loads(line).get("add"):
                    file = log.parents[1] / added["path"]
                    file.parent.mkdir(exist_ok=True)
                    file.write_bytes(b"x" * added["size"])


def field_of(name: str, kind: Any, sized: str = "", *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """A column in the schema of a log; ``sized`` is the text by which Spark keeps lengths."""
    stated = {**({"__CHAR_VARCHAR_TYPE_STRING": sized} if sized else {}), **metadata}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": stated}


def write_protocol(
    location: Path,
    fields: list[dict[str, Any]],
    *,
    partition_by: list[str] | None = None,
    configuration: dict[str, str] | None = None,
    description: str = "",
    readers: list[str] | None = None,
    writers: list[str] | None = None,
    version: tuple[int, int] | None = None,
    more: list[dict[str, Any]] | None = None,
) -> None:
    """The first commit of a table of another tool, by hand: any schema, any features, any protocol."""
    reads, writes = version or (3 if readers else 1, 7 if writers else 2)
    protocol: dict[str, Any] = {"minReaderVersion": reads, "minWriterVersion": writes}
    protocol |= {"readerFeatures": readers} if readers else {}
    protocol |= {"writerFeatures": writers} if writers else {}
    meta = {
        "id": str(uuid.uuid4()),
        **({"description": description} if description else {}),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": partition_by or [],
        "configuration": configuration or {},
    }
    log = location / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    actions = [{"protocol": protocol}, {"metaData": meta}, *(more or [])]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))
