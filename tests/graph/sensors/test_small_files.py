"""The small-files sensor: a scattered partition starts maintenance once, and nothing else does."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.graph.sensors import small_files
from dedp_assets.graph.sensors.small_files import files_scattered

TABLE = "silver/visits"


@pytest.fixture
def limit(monkeypatch):
    """The limit for these tests."""
    monkeypatch.setattr(small_files, "MANY", 12)


def write(zone, table, files, *, day="2026-01-05"):
    """As many commits of one small file each."""
    zone.dated(table, *[{"changed": [{"event_date": day}]} for _ in range(files)])


def merge(zone, table):
    """What a compaction leaves: one file in the place of all."""
    log = zone.root / "lake" / table / "_delta_log"
    entries = [json.loads(line) for path in sorted(log.glob("*.json")) for line in path.read_text().splitlines()]
    adds = [entry["add"] for entry in entries if "add" in entry]
    gone = [{"path": add["path"], "dataChange": False, "deletionTimestamp": 1} for add in adds]
    merged = {**adds[0], "path": "merged.parquet", "dataChange": False}
    actions = [{"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE"}}, *({"remove": file} for file in gone)]
    actions.append({"add": merged})
    (log / f"{len(list(log.glob('*.json'))):020d}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


def keys(data):
    return [request.run_key for request in data.run_requests or []]


def test_an_empty_lake_and_few_files_start_nothing(zone, limit):
    """Eleven of twelve, twice, in partitions of their own."""
    assert keys(zone.tick(files_scattered)) == []
    for day in ("2026-01-05", "2026-01-06"):
        write(zone, TABLE, 11, day=day)
    assert zone.tick(files_scattered).skip_message == "no partition has 12 small files"


def test_the_file_that_reaches_the_limit_starts_one_run(zone, limit):
    """Of the job that maintains all tables, with its cause; until the run is there the same key is asked for."""
    write(zone, "gold/daily_visitors", 3)
    write(zone, TABLE, 11)
    zone.tick(files_scattered)
    write(zone, TABLE, 1)
    (request,) = zone.tick(files_scattered).run_requests
    assert (request.job_name, request.partition_key) == ("maintain_tables", None)
    assert request.tags["dedp/cause"] == "small-files"
    write(zone, TABLE, 1)
    assert keys(zone.tick(files_scattered)) == [request.run_key]


def test_a_compacted_table_is_quiet_until_it_is_scattered_again(zone, limit):
    """And then a run of its own is asked for."""
    write(zone, TABLE, 12)
    (first,) = keys(zone.tick(files_scattered))
    merge(zone, TABLE)
    assert keys(zone.tick(files_scattered)) == []
    write(zone, TABLE, 12)
    (second,) = keys(zone.tick(files_scattered))
    assert first != second


def test_a_table_that_cannot_be_compacted_is_not_tried_for_ever(zone, limit):
    """Three attempts, however often it is written meanwhile; another table that is scattered later gets its run."""
    write(zone, TABLE, 12)
    for _ in range(3):
        (request,) = zone.tick(files_scattered).run_requests
        zone.ran(dict(request.tags), fails=True)
        write(zone, TABLE, 1)
    data = zone.tick(files_scattered)
    assert keys(data) == []
    assert data.skip_message.startswith("silver/visits: 1 partitions have 12 or more files below")
    assert "gave up after 3 failed runs" in data.skip_message
    write(zone, "gold/daily_visitors", 12)
    assert len(keys(zone.tick(files_scattered))) == 1


def test_while_maintenance_runs_nothing_is_asked_for(zone, limit):
    """It looks at every table anyway."""
    write(zone, TABLE, 12)
    zone.instance.add_run(dg.DagsterRun(job_name="maintain_tables", status=dg.DagsterRunStatus.STARTED))
    assert zone.tick(files_scattered).skip_message == "maintain_tables is running"


def test_a_table_that_nobody_wrote_is_not_looked_at_again(zone, limit, monkeypatch):
    """A quiet tick reads no log, only its newest version."""
    write(zone, TABLE, 3)
    zone.tick(files_scattered)
    monkeypatch.setattr(small_files, "plan_compaction", lambda *_, **__: pytest.fail("looked at"))
    assert keys(zone.tick(files_scattered)) == []
