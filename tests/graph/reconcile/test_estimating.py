"""What a planned run will take, by hand-written logs: seconds of past commits, and sizes of what it reads."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.reconcile.estimating import Estimates, Spread
from dedp_assets.graph.reconcile.late_files import LateFiles
from dedp_assets.graph.reconcile.outdated import outdated_partitions
from dedp_assets.graph.reconcile.reconciling import Want
from dedp_assets.graph.reconcile.run_plans import PlannedRun
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.ingestion.readiness_marker import delivering
from tests.graph.reconcile.test_convergence import BRONZE, TABLES
from tests.helpers import a_record, write_log
from tests.logs import LogOverTime

MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
SECONDS = [3.0, 10.0, 4.0, 5.0, 6.0]


@pytest.fixture
def lake(tmp_path):
    return Lake(root=str(tmp_path / "lake"), engine=SparkEngine())


@pytest.fixture
def landing(tmp_path):
    return Landing(root=str(tmp_path / "landing"))


def run_of(table, *keys):
    wants = tuple(Want((table,), key, "1", "behind", "x") for key in keys)
    return PlannedRun(1, 1, (table,), wants)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_spread_lies_around_its_median(values):
    """And within the values; of equal values it has no width."""
    found = Spread.of(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert found.runs == len(values)
    assert Spread() + found == found == found + Spread()
    assert (found + found).median == pytest.approx(2 * found.median) == found.times(2).median


def test_seconds_are_those_of_the_newest_commits(lake, landing, tmp_path):
    """From the start of a run to its commit; a table without a measured commit is named."""
    log = LogOverTime(tmp_path / "lake/silver/daily", "silver/daily")
    log.create(MONDAY)
    for number, seconds in enumerate(SECONDS):
        began = MONDAY + timedelta(hours=number)
        measured = {"at": began.isoformat(), "run_id": f"run-{number}", "cost": Cost(cpu_seconds=seconds / 2)}
        record = a_record("silver/daily", {"day": f"2026-01-{number + 5:02}"}, **measured)
        log.actions(began + timedelta(seconds=seconds), "WRITE", [], record)
    estimates = Estimates((), TABLES, lake, landing)
    found = estimates.of(run_of("silver/daily", "2026-01-06", "2026-01-07"))
    assert found.seconds == Spread(3.0 * 2, 5.0 * 2, 10.0 * 2, 5)
    assert found.cpu_seconds.median == 5.0
    assert not found.unknown
    assert estimates.of(run_of("gold/daily", "2026-01-06")).unknown == {"gold/daily"}


def test_a_run_reads_the_partitions_of_its_key(lake, landing, tmp_path):
    """Of a day that a run of the plan will write, as much as usual; of another one that is not there, nothing."""
    log = LogOverTime(tmp_path / "lake/silver/daily", "silver/daily")
    log.create(MONDAY)
    for number, rows in enumerate([1, 5, 9]):
        log.write(MONDAY, f"2026-01-{number + 5:02}", rows)
    before = run_of("silver/daily", "2026-01-08")
    estimates = Estimates((before,), TABLES, lake, landing)

    def rows(table, key):
        return estimates.of(run_of(table, key)).reads.rows_read

    assert [rows("gold/daily", f"2026-01-{number:02}") for number in (5, 6, 7, 8, 9)] == [1, 5, 9, 5, None]
    assert rows("gold/weekly", "2026-01-05") == 1 + 5 + 9 + 5
    assert rows("gold/all", "") == 15
    found = estimates.of(run_of("gold/weekly", "2026-01-05")).reads
    assert (found.files_read, found.bytes_read) == (4, 2_000)


def test_a_load_reads_the_files_of_its_delivery(lake, landing, tmp_path):
    """Whose rows nobody has counted."""
    with delivering(tmp_path / "landing/in/2026-01-06") as folder:
        (folder / "a.jsonl").write_text("12345")
        (folder / "b.jsonl").write_text("123")
    reads = Estimates((), TABLES, lake, landing).of(run_of(BRONZE.name, "2026-01-06")).reads
    assert reads == Cost(files_read=2, bytes_read=8)


def test_late_records_are_named_by_their_files(lake, landing, tmp_path):
    """By the load of the upstream version, through tables in between; the late files of a delivery, if it has some."""
    with delivering(tmp_path / "landing/in/2026-01-06") as folder:
        (folder / "a.jsonl").write_text("x")
    record = a_record(BRONZE.name, {"landed_on": "2026-01-06"})
    write_log(tmp_path / "lake/bronze/in", {"id": "long"}, [], [{"record": record}])
    between = a_record("silver/daily", {"day": "2026-01-05"}, inputs={"bronze/in": 1})
    write_log(tmp_path / "lake/silver/daily", {"id": "long"}, [], [{"record": between}])
    files, first = LateFiles(TABLES, lake, landing), ["in/2026-01-06/a.jsonl"]
    assert files.of_changes("silver/daily", "2026-01-05", {"bronze/in": 1}) == first
    assert files.of_changes("gold/both", "2026-01-05", {"silver/daily": 1, "bronze/in": 1}) == first
    assert files.of_changes("gold/daily", "2026-01-05", {"silver/daily": 7}) == []
    for number in range(5):
        (folder / f"late-{number}.jsonl").write_text("x")
    late = [f"in/2026-01-06/late-{number}.jsonl" for number in range(3)]
    assert files.of_delivery("bronze/in", "2026-01-06") == [*late, "and 2 more"]


def test_the_file_of_a_late_record_is_the_one_that_its_rows_name(lake, landing, tmp_path):
    """By the statistics of the rows of the day: of three delivered files, the one with records of that day."""
    with delivering(tmp_path / "landing/in/2026-01-06") as folder:
        for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
            (folder / name).write_text("x")
    record, log = a_record(BRONZE.name, {"landed_on": "2026-01-06"}), tmp_path / "lake/bronze/in/_delta_log"
    columns = {"id": "long", "source_file": "string", "landed_on": "date", "day": "date"}
    changed = [{"landed_on": "2026-01-06", "day": f"2026-01-0{day}"} for day in (5, 6)]
    write_log(log.parent, columns, ["landed_on", "day"], [{"record": record, "changed": changed}])
    info, *adds = map(json.loads, (log / f"{1:020d}.json").read_text().splitlines())
    for each, names in zip(adds, [("b.jsonl", "b.jsonl"), ("a.jsonl", "c.jsonl")], strict=True):
        ends = dict(zip(("minValues", "maxValues"), ({"source_file": name} for name in names), strict=True))
        each["add"]["stats"] = json.dumps({"numRecords": 1, **ends})
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, [info, *adds])))
    files = LateFiles(TABLES, lake, landing)
    assert files.of_changes("silver/daily", "2026-01-05", {"bronze/in": 1}) == ["in/2026-01-06/b.jsonl"]
    both = files.of_changes("silver/daily", "2026-01-06", {"bronze/in": 1})
    assert both == ["in/2026-01-06/a.jsonl", "in/2026-01-06/c.jsonl"]


def test_partitions_by_other_code_are_outdated(lake, tmp_path):
    """By the newest commit of each; and refusals that the present code, columns and gates would not repeat."""
    commits = [
        {"record": a_record("silver/daily", {"day": f"2026-01-0{day}"}, code_version=code)}
        for day, code in [(5, "0"), (6, "0"), (5, "1")]
    ]
    write_log(tmp_path / "lake/silver/daily", {"id": "long"}, [], commits)
    whole = a_record("gold/all", {}, code_version="0")
    write_log(tmp_path / "lake/gold/all", {"id": "long"}, [], [{"record": whole}])
    notes = Refusals(lake.refused("gold/daily"))
    for key, code, judges in [("2026-01-05", "0", ""), ("2026-01-06", "1", "others"), ("2026-01-07", "1", "")]:
        notes.note(key, Refusal(("1",), code, "run", "x", judged_by=judges))
    found = {(each.table, each.key): each for each in outdated_partitions(TABLES, lake)}
    assert found.keys() == {
        ("silver/daily", "2026-01-06"),
        ("gold/all", ""),
        ("gold/daily", "2026-01-05"),
        ("gold/daily", "2026-01-06"),
    }
    assert found["gold/all", ""].reason == "was computed by code version 0, the present one is 1"
    assert found["gold/daily", "2026-01-06"].judged
    assert found["gold/daily", "2026-01-05"].refused
