"""A run replaces the partition it owns, all of it and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from threading import Barrier

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, TransactionReused
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.delta.staging.stages import Stage
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.compactor import vacuum
from tests.helpers import EVENTS, a_run, active_files, files_of, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

DAYS = ("2026-01-05", "2026-01-06", "2026-01-07")
FIRST, SECOND, THIRD = ({"event_date": day} for day in DAYS)


@pytest.fixture
def events(make_table):
    """The events without their constraint, which takes a second to add and is beside the point here."""
    return make_table(replace(EVENTS, checks={}))


@pytest.fixture
def fill(events, event_rows):
    """Overwrite one day by some rows."""

    def filled(partition, count, *, start=0, **fields):
        rows = event_rows(count, day=partition["event_date"], start=start)
        return overwrite_partition(rows, events.target(a_run(**fields), partition=partition))

    return filled


def ids(table, version=None):
    """The ids of each day, through an independent reader."""
    held = {}
    for row in read_back(table, version):
        held.setdefault(str(row["event_date"]), []).append(row["id"])
    return {day: sorted(found) for day, found in held.items()}


def stored_bytes(table):
    """What all data files in the table's folder occupy, current or not."""
    return sum(path.stat().st_size for path in table.location.rglob("*.parquet"))


@pytest.mark.both
def test_a_backfill_replaces_its_partition_and_touches_no_other(events, fill):
    """Rows that vanished from the input vanish, later days keep their very files, and all of it is one commit."""
    for day in (FIRST, SECOND, THIRD):
        fill(day, 4)
    neighbours, before = files_of(events, **SECOND) | files_of(events, **THIRD), events.ledger.version()
    fill(FIRST, 3, start=2)
    assert ids(events) == {DAYS[0]: [2, 3, 4], DAYS[1]: [0, 1, 2, 3], DAYS[2]: [0, 1, 2, 3]}
    assert files_of(events, **SECOND) | files_of(events, **THIRD) == neighbours
    (commit,) = events.ledger.commits(since=before)
    assert commit.changed == {(("event_date", DAYS[0]),)}
    assert (commit.record.partition, commit.record.pattern) == (FIRST, "idempotency.data_overwrite")


def test_the_same_run_twice_is_applied_once(events, fill):
    """A retry of what is in the table makes no commit, and one that comes back with other rows is refused."""
    first = fill(FIRST, 4, inputs={"bronze": 7})
    again = fill(FIRST, 4, inputs={"bronze": 7}, run_id="run-2")
    assert (again.applied, again.version, events.ledger.version()) == (False, first.version, first.version)
    with pytest.raises(TransactionReused, match="came back with other rows"):
        fill(FIRST, 5, inputs={"bronze": 7})
    assert ids(events) == {DAYS[0]: [0, 1, 2, 3]}


@pytest.mark.parametrize("rerun", [{"inputs": {"bronze": 8}}, {"code_version": "2"}], ids=["new inputs", "new code"])
def test_a_rerun_that_is_no_retry_replaces_the_partition(events, fill, rerun):
    """With other inputs or other code the former rows go, all of them, once."""
    ran = {"inputs": {"bronze": 7}, "code_version": "1"}
    fill(SECOND, 2, **ran)
    fill(FIRST, 4, **ran)
    neighbours, former = files_of(events, **SECOND), files_of(events, **FIRST)
    result = fill(FIRST, 2, start=3, **{**ran, **rerun})
    assert (result.applied, result.changed) == (True, True)
    assert ids(events) == {DAYS[0]: [3, 4], DAYS[1]: [0, 1]}
    assert (files_of(events, **FIRST) & former, files_of(events, **SECOND)) == (set(), neighbours)
    again = fill(FIRST, 2, start=3, **{**ran, **rerun})
    assert (again.applied, again.version) == (False, result.version)


def test_the_same_rows_from_other_inputs_change_nothing(events, fill):
    """A rerun that computes the same rows is on record, keeps the files and wakes nobody."""
    fill(FIRST, 4, inputs={"bronze": 7})
    files = active_files(events)
    again = fill(FIRST, 4, inputs={"bronze": 8})
    assert (again.applied, again.changed) == (True, False)
    assert events.ledger.commit(again.version).changed == frozenset()
    assert active_files(events) == files
    assert ids(events) == {DAYS[0]: [0, 1, 2, 3]}


@pytest.mark.parametrize("stray", [f"DATE '{DAYS[1]}'", "CAST(NULL AS DATE)"], ids=["another day", "no day"])
def test_one_row_outside_the_partition_refuses_the_write(events, event_rows, fill, stray):
    """The stray row is not filed under the wrong day, and the good rows beside it are not published either."""
    fill(FIRST, 3)
    version = events.ledger.version()
    event_date = f"if(id = 37, {stray}, event_date) AS event_date"
    rows = event_rows(50).selectExpr("id", "user_id", "amount", event_date)
    with pytest.raises(AuditFailed, match=r"rows_lie_in_their_partition: failed \(outside=1\)"):
        overwrite_partition(rows, events.target(a_run(), partition=FIRST))
    assert (ids(events), events.ledger.version()) == ({DAYS[0]: [0, 1, 2]}, version)


def test_an_audit_refuses_before_anything_is_replaced(events, event_rows, fill):
    """The partition's own rules are judged on the new rows while the old ones still stand."""
    fill(FIRST, 3)
    known = Audit.none_where("every_event_has_a_user", "user_id IS NULL")
    nameless = event_rows(5).selectExpr("id", "nullif(user_id, 'u3') AS user_id", "amount", "event_date")
    with pytest.raises(AuditFailed, match="every_event_has_a_user"):
        overwrite_partition(nameless, events.target(a_run(), partition=FIRST, audits=[known]))
    assert ids(events) == {DAYS[0]: [0, 1, 2]}


def test_an_empty_input_is_refused_unless_it_is_allowed(events, fill, event_rows):
    """A source that delivers nothing is usually broken; a caller who knows better empties exactly that day."""
    fill(FIRST, 3)
    fill(SECOND, 2)
    with pytest.raises(AuditFailed, match="input_is_not_empty: below 1"):
        fill(FIRST, 0)
    assert ids(events) == {DAYS[0]: [0, 1, 2], DAYS[1]: [0, 1]}
    neighbours = files_of(events, **SECOND)
    result = overwrite_partition(event_rows(0), events.target(a_run(), partition=FIRST), allow_empty=True)
    assert (result.changed, result.rows.written) == (True, 0)
    assert [(f.name, f.severity, f.note) for f in result.findings if not f.passed] == [
        ("input_is_not_empty", "warn", "below 1")
    ]
    assert ids(events) == {DAYS[1]: [0, 1]}
    assert active_files(events) == neighbours


def test_a_named_person_may_approve_an_empty_input(events, fill):
    """The exception is in the commit that empties the partition."""
    fill(FIRST, 3)
    result = fill(FIRST, 0, approval=Approval(by="Ada", because="the shop was closed"))
    record = events.ledger.commit(result.version).record
    assert (record.verdict, record.approval["by"]) == ("approved", "Ada")
    assert ids(events) == {}


def test_emptying_what_is_empty_changes_nothing(events, fill, event_rows):
    """No rows in place of no rows: the result says the same as the log."""
    fill(SECOND, 2)
    result = overwrite_partition(event_rows(0), events.target(a_run(), partition=FIRST), allow_empty=True)
    assert events.ledger.commit(result.version).changed == frozenset()
    assert not result.changed
    assert ids(events) == {DAYS[1]: [0, 1]}


def test_a_write_that_dies_before_its_commit_leaves_the_partition_as_it_was(events, fill, monkeypatch):
    """Readers keep the complete former rows, and the rerun replaces them once."""
    fill(FIRST, 4)
    version = events.ledger.version()

    def die(*_, **__):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(stage_commit, "commit_files", die)
        with pytest.raises(SystemExit, match="killed"):
            fill(FIRST, 2, inputs={"bronze": 8})
    assert (ids(events), events.ledger.version()) == ({DAYS[0]: [0, 1, 2, 3]}, version)
    fill(FIRST, 2, inputs={"bronze": 8})
    assert ids(events) == {DAYS[0]: [0, 1]}


def test_rows_that_break_while_they_are_written_leave_the_partition_as_it_was(events, event_rows, fill):
    """A failing task publishes none of the rows that other tasks had written."""
    fill(FIRST, 4)
    version = events.ledger.version()
    broken = event_rows(6, amount="if(id = 5, double(raise_error('unreadable block')), 1D)").repartition(3)
    with pytest.raises(PySparkException, match="unreadable block"):
        overwrite_partition(broken, events.target(a_run(), partition=FIRST))
    assert (ids(events), events.ledger.version()) == ({DAYS[0]: [0, 1, 2, 3]}, version)
    fill(FIRST, 2)
    assert ids(events) == {DAYS[0]: [0, 1]}


def test_a_write_that_dies_after_its_commit_is_not_applied_twice(events, fill, monkeypatch):
    """The rerun finds its transaction in the log."""

    def die(_):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Stage, "finish", die)
        with pytest.raises(SystemExit):
            fill(FIRST, 4, inputs={"bronze": 8})
    rerun = fill(FIRST, 4, inputs={"bronze": 8})
    assert not rerun.applied
    assert rerun.reason.startswith("already applied")
    assert ids(events) == {DAYS[0]: [0, 1, 2, 3]}


@pytest.mark.parametrize("exists", [True, False], ids=["in a table", "in a table that both create"])
def test_two_partitions_are_overwritten_at_the_same_time(make_table, event_rows, exists):
    """Two backfills that start together both succeed, each with its own rows."""
    table, together = make_table(EVENTS), Barrier(2)
    if exists:
        table.ensure()

    def backfill(partition, count):
        rows = event_rows(count, day=partition["event_date"])
        together.wait(timeout=60)
        return overwrite_partition(rows, table.target(a_run(), partition=partition))

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(backfill, FIRST, 3), pool.submit(backfill, SECOND, 5)]
        results = [run.result() for run in running]
    assert all(result.applied for result in results)
    assert ids(table) == {DAYS[0]: [0, 1, 2], DAYS[1]: [0, 1, 2, 3, 4]}


def test_a_write_that_lost_to_another_writer_is_made_again(events, fill, monkeypatch):
    """A foreign commit to the same partition between decision and commit fails the first attempt, not the run."""
    fill(FIRST, 3)
    commit_files, attempts = stage_commit.commit_files, []

    def commit(*args, **kwargs):
        attempts.append(events.ledger.version())
        if len(attempts) == 1:
            DeltaTable(str(events.location)).delete("id = 0")
        commit_files(*args, **kwargs)

    monkeypatch.setattr(stage_commit, "commit_files", commit)
    result = fill(FIRST, 2, start=7)
    assert len(attempts) == 2
    assert result.version == attempts[1] + 1 == attempts[0] + 2
    assert ids(events) == {DAYS[0]: [7, 8]}


def test_replaced_rows_stay_readable_until_they_are_vacuumed(events, fill):
    """Each overwrite takes space of its own; a vacuum frees it past the retention, and the current rows survive it."""
    first = fill(FIRST, 300)
    pinned = events.read(FIRST, version=first.version)
    fill(SECOND, 2)
    once = stored_bytes(events)
    fill(FIRST, 200, start=1)
    twice = stored_bytes(events)
    fill(FIRST, 3, start=1)
    full = stored_bytes(events)
    assert once < twice < full
    replaced = max(path.stat().st_mtime for path in events.location.rglob("*.json"))
    into, week = events.target(a_run()), {"retention_hours": 168}
    vacuum(into, now=datetime.fromtimestamp(replaced, timezone.utc) + timedelta(days=6), **week)
    assert stored_bytes(events) == full
    assert ids(events, first.version) == {DAYS[0]: list(range(300))}
    assert pinned.selectExpr("count(1)").collect()[0][0] == 300
    vacuum(into, now=datetime.fromtimestamp(replaced, timezone.utc) + timedelta(days=8), **week)
    assert stored_bytes(events) < once
    with pytest.raises(OSError, match="staged-"):
        ids(events, first.version)
    assert ids(events) == {DAYS[0]: [1, 2, 3], DAYS[1]: [0, 1]}
    assert active_files(events) == {str(p.relative_to(events.location)) for p in events.location.rglob("*.parquet")}


def test_a_partition_may_be_named_by_the_value_itself(events, event_rows, fill):
    """A date is as good as its text, and the same partition."""
    fill(FIRST, 3)
    fill(SECOND, 2)
    overwrite_partition(event_rows(1), events.target(a_run(inputs={}), partition={"EVENT_DATE": date(2026, 1, 5)}))
    assert ids(events) == {DAYS[0]: [0], DAYS[1]: [0, 1]}


@pytest.mark.parametrize(
    ("partition", "words"), [({}, "name the partition"), ({"user_id": "u1"}, r"is partitioned by \['event_date'\]")]
)
def test_what_to_replace_has_to_be_a_partition(events, event_rows, fill, partition, words):
    """Nobody replaces the whole table, or rows that no partition holds together, by accident."""
    fill(FIRST, 3)
    with pytest.raises(ConfigError, match=words):
        overwrite_partition(event_rows(1), events.target(a_run(), partition=partition))
    assert ids(events) == {DAYS[0]: [0, 1, 2]}


VALUES = ("a b", "a/b", "50%", "a=b", "a:b", "it's", 'say "x"', "ünï", "back\\slash", "{0}", "%2F", "a.b", None)


@any_names(STORED, handed_on=("id",))
def overwritten(n):
    columns = "id INT, day STRING, land STRING"
    table = n.table(columns, by=["day", "land"])
    every = [(number, value, land) for number, value in enumerate(VALUES) for land in ("x", None)]
    table.overwrite(n.frame(columns, *every), provenance=a_run())
    owned, rows = {n("day"): 'say "x"', n("land"): "x"}, n.frame(columns, (99, 'say "x"', "x"))
    overwrite_partition(rows, table.target(a_run(), partition=owned))
    table.clear(partition={n("day"): "a=b", n("land"): "x"}, provenance=a_run())
    yield table
    yield table.read({n("day"): "%2F"}, {n("land"): None})


@two_runs()
def overwritten_at_once(world):
    columns = "id INT, day STRING, hour INT"
    world.table("days", columns, by=["day", "hour"])
    overwrite_partition(world.frame(columns, (1, "mon", 1), (2, "mon", 2)), world.into("days", "0", "mon"))
    for name, rows in (("1", [(1, "mon", 1), (3, "mon", 3)]), ("2", [(9, "mon", 1)])):
        yield lambda w, name=name, rows=rows: overwrite_partition(w.frame(columns, *rows), w.into("days", name, "mon"))


@two_runs()
def overwritten_side_by_side_at_once(world):
    """Runs of two days: both are there whole, whichever commits first."""
    columns = "id INT, day STRING"
    world.table("daily", columns, by=["day"])
    overwrite_partition(world.frame(columns, (1, "mon")), world.into("daily", "base", "mon"))
    for day, ids in (("mon", (2, 3)), ("tue", (4, 5))):
        yield lambda w, day=day, ids=ids: overwrite_partition(
            w.frame(columns, *((n, day) for n in ids)), w.into("daily", day, day)
        )
