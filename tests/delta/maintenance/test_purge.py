"""Purge: no byte of a deleted row is left, what the graph lives on is, and a purge that dies is completed."""

from __future__ import annotations

import itertools
import json
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady, PatternError, TransactionReused
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import (
    ActivityLog,
    Insert,
    Ledger,
    Merge,
    Table,
    Update,
    folder_at,
    milestones,
    verify_table,
)
from dedp_assets.patterns.delta.log.redacted import REDACTED, RedactedHistory, redacted
from dedp_assets.patterns.delta.maintenance import hold_partition, purge_history, put_milestone, remove_unneeded
from dedp_assets.patterns.delta.maintenance import purge as purging
from dedp_assets.patterns.delta.staging.stages import new_stage
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.ingestion._replica_contents import table_contents
from dedp_assets.patterns.ingestion._replica_files import copy_replica
from tests.canaries import Canary, Search, people, texts_in
from tests.helpers import a_record, a_run, fill, read_back, refusal, rows_at, write_log

pytestmark = pytest.mark.budget(40, "a purge killed at each of its writes, and tables of every kind that Spark writes")

NOW = datetime(2026, 1, 6, tzinfo=timezone.utc)
COLUMNS = {"id": Column("BIGINT", required=True), "email": Column("STRING"), "day": Column("DATE", required=True)}
DAYS = ("2026-01-05", "2026-01-06")
GONE = people(1)[0]
EMAIL = GONE.value.decode()
RUN = a_run("silver/p", pattern="t.t")


def purge(table, now=NOW, **options):
    return purge_history(table, provenance=RUN, now=now, **options)


def hits(folder):
    """The places that hold the removed value."""
    search = Search([GONE])
    return [name for name, content in texts_in(folder) if search.found(content)]


def no_spark():
    raise AssertionError("Spark was asked for")


# --- without Spark ----------------------------------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path):
    """A table by deltalake: two days, the person in both, deleted from the second by a predicate that names them."""
    table = Table(TableSpec("silver/p", COLUMNS, partition_by=("day",)), tmp_path / "p", no_spark)
    schema = pa.schema([("id", pa.int64()), ("email", pa.string()), ("day", pa.date32())])
    for number, day in enumerate(DAYS):
        rows = [{"id": n, "email": EMAIL if n == 3 else f"x{n}", "day": datetime.fromisoformat(day)} for n in range(6)]
        made = pa.Table.from_pylist([{**row, "day": row["day"].date()} for row in rows], schema=schema)
        write_deltalake(str(table.location), made, partition_by=["day"], mode="append" if number else "overwrite")
    DeltaTable(str(table.location)).create_checkpoint()
    DeltaTable(str(table.location)).delete(f"email = '{EMAIL}'")
    DeltaTable(str(table.location)).create_checkpoint()
    return table


def test_data_and_log_of_the_past_go(plain):
    """Bounds in commits, predicates, both checkpoints, drafts, Hadoop's checksums and dead stages of whatever age."""
    log = plain.location / "_delta_log"
    (log / ".00000000000000000001.json.crc").write_bytes(b"crc\0")
    (log / f".{'a' * 32}.tmp").write_text(EMAIL)
    (log / "00000000000000000001.00000000000000000002.compacted.json").write_text(EMAIL)
    (log / "_sidecars").mkdir()
    (log / "_sidecars" / "x.parquet").write_text(EMAIL)
    for path in ("staged-0123456789abcdef/_delta_log/00000000000000000000.json", f"day=2026-01-05/.{'b' * 32}.tmp",
                 "staged-0123456789abcdef/part-0.parquet", "_change_data/cdc-0.parquet", "part-9.parquet"):  # fmt: skip
        place = plain.location / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(EMAIL)
    (plain.location / "README.md").write_text("mine")
    before = read_back(plain)
    assert len(hits(plain.location)) > 8
    result = purge(plain)
    assert (result.applied, result.changed, result.version) == (True, False, 4)
    assert hits(plain.location) == []
    assert sorted(path.name for path in log.iterdir()) == [
        "00000000000000000003.checkpoint.parquet", "00000000000000000003.json",
        "00000000000000000004.json", "_last_checkpoint", REDACTED,
    ]  # fmt: skip
    assert (plain.location / "README.md").read_text() == "mine"
    assert read_back(plain) == before
    assert [row["id"] for row in before] == [0, 0, 1, 1, 2, 2, 4, 4, 5, 5]
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 3
    assert verify_table(plain.ledger).sound
    again = purge(plain)
    assert (again.applied, again.reason) == (False, "nothing to purge: version 4 is all that there is")


def test_tombstones_of_a_checkpoint_hold_no_statistics(plain):
    """Another engine's removals state the bounds of the removed file; the checkpoint of a purge has none of them."""
    commit = plain.location / "_delta_log" / "00000000000000000002.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "remove" in line:
            line["remove"]["stats"] = json.dumps({"numRecords": 6, "maxValues": {"email": EMAIL}})
            line["remove"]["tags"] = {"t": EMAIL}
    (plain.location / "_delta_log" / "_last_checkpoint").unlink()
    for file in plain.location.glob("_delta_log/*.checkpoint.parquet"):
        file.unlink()
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    purge(plain)
    assert hits(plain.location) == []


def test_versions_of_the_past_are_refused_by_name(plain):
    """Time travel, by number and by instant, says where the table begins."""
    purge(plain)
    assert "its log was cleaned up and begins at version 3" in refusal(lambda: plain.read(version="1"))
    with pytest.raises(PatternError):
        plain.ledger.state(1)


def test_a_running_write_is_waited_for(plain):
    """Its staged files may hold what is to go, and may be published yet."""
    stage = new_stage(plain.store)
    with pytest.raises(NotReady, match="1 writes are running, nothing was purged"):
        purge(plain)
    assert plain.ledger.version() == 2
    stage.discard()
    assert purge(plain).applied


def test_a_legal_hold_is_named_and_kept(plain):
    """Whoever has to keep rows has to keep their history; once released, everything goes but the hold's end."""
    hold_partition(plain, {"day": DAYS[0]}, by="team:legal", because="case 7", run=RUN, release=False)
    before = hits(plain.location)
    with pytest.raises(
        ContractError, match=r"on legal hold: day=2026-01-05 \(team:legal: case 7\): nothing was purged"
    ):
        purge(plain)
    assert hits(plain.location) == before
    hold_partition(plain, {"day": DAYS[0]}, by="team:legal", because="case 7", run=RUN, release=True)
    assert purge(plain).applied


def test_a_milestone_is_given_up_by_name_only(plain):
    """It keeps a version, which a purge removes; given up, it is released, and the log is cleaned up as before."""
    put_milestone(plain, plain.ledger.state(), "quarter", 1, RUN)
    with pytest.raises(ConfigError, match=r"give_up must name the milestones .*: quarter \(version 1\)"):
        purge(plain)
    with pytest.raises(ConfigError, match="quarter"):
        purge(plain, give_up=["other"])
    assert purge(plain, give_up=["quarter"]).applied
    assert milestones(plain.ledger) == {}
    assert "delta.enableExpiredLogCleanup" not in plain.ledger.state().properties
    assert hits(plain.location) == []


class Killed(BaseException):
    """A process that ends, whatever it would catch."""


def steps_of(table, kill_at):
    """Run a purge that dies at its n-th write to the store; returns the number of writes that it came to."""
    count = itertools.count()

    def counted(name):
        real = getattr(LocalStore, name)

        def call(store, *arguments, **more):
            if name == "delete":
                for path in arguments:
                    if next(count) == kill_at:
                        raise Killed
                    real(store, path, **more)
                return
            if next(count) == kill_at:
                raise Killed
            real(store, *arguments, **more)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("delete", "put", "put_if_absent"):
            patch.setattr(LocalStore, name, counted(name))
        with suppress(Killed):
            purge(table)
            return None
    return next(count)


def test_killed_at_any_write_a_purge_is_completed_by_the_next(plain, tmp_path):
    """And at each death readers have all rows of the newest version, by two engines' ways to the log."""
    rows, origin = read_back(plain), plain.location
    for kill_at in itertools.count():
        shutil.copytree(origin, tmp_path / str(kill_at))
        table = Table(plain.spec, tmp_path / str(kill_at), no_spark)
        if steps_of(table, kill_at) is None:
            break
        assert read_back(table) == rows
        assert sum(each.rows for each in Ledger(table.location).state().statistics().values()) == len(rows)
        purge(Table(plain.spec, table.location, no_spark))
        assert hits(table.location) == []
        assert read_back(table) == rows
        assert table.ledger.version() in (4, 5)
    assert kill_at > 8


DELETED = {"operation": "DELETE", "parameters": {"predicate": f"email = '{EMAIL}'"}}


def logged(tmp_path, *commits):
    """A table of a hand-written log, with its files."""
    location = tmp_path / "t"
    write_log(location, {"id": "long", "day": "date"}, ["day"], list(commits))
    return Table(TableSpec("t", COLUMNS, partition_by=("day",)), location, no_spark)


def changed(day, sequence=None, **fields):
    owned = {"day": day}
    record = a_record("t", owned, sequence=sequence, inputs={"in": sequence or 1}, **fields)
    return {"record": record, "changed": [owned], "txn": {f"t/day={day}/0": sequence or 1}}


def test_downstream_sees_the_same_changes_as_before(tmp_path):
    """From whatever version on it asks; only what changes afterwards is news."""
    commits = [changed(DAYS[n % 2], n + 1) for n in range(5)] + [{"operation": "OPTIMIZE", "data_change": False}]
    table = logged(tmp_path, *commits)
    head = table.ledger.version()
    before = {since: table.ledger.changes(since=since)[1] for since in range(-1, head)}
    glimpses = [(g.version, g.changed, g.transactions) for g in table.ledger.glimpses()]
    latest = {day: table.ledger.latest({"day": day}).record for day in DAYS}
    restored = table.ledger.first_restore()
    kept = Ledger(table.location)
    kept.changes()
    purge(table)
    for ledger in (table.ledger, Ledger(table.location), kept):
        assert {since: ledger.changes(since=since) for since in before} == {s: (head + 2, c) for s, c in before.items()}
        seen = [(g.version, g.changed, g.transactions) for g in ledger.glimpses()]
        assert (seen[:-2], [each[1] for each in seen[-2:]]) == (glimpses, [frozenset()] * 2)
        assert {day: ledger.latest({"day": day}).record.fingerprint for day in DAYS} == {
            day: record.content_digest for day, record in latest.items()
        }
        assert all(replace(ledger.latest({"day": d}).record, fingerprint=r.fingerprint) == r for d, r in latest.items())
        assert ledger.first_restore() == restored + 2
        assert ledger.transaction(f"t/day={DAYS[0]}/0") == 5
        assert [c.version for c in ledger.newest_first()] == [*range(head + 2, -1, -1)]
        assert ledger.files.tells_from() == 0
        assert ledger.begins_at() == head + 1


def test_a_second_purge_keeps_the_history_of_the_first(tmp_path):
    """As long as the log's retention, then only which version of a partition was the last."""
    table = logged(tmp_path, changed(DAYS[0], 1), changed(DAYS[1], 2))
    purge(table)
    write_log_after(table, changed(DAYS[1], 3))
    expected = {(("day", DAYS[0]),): 1, (("day", DAYS[1]),): 5}
    assert table.ledger.changes() == (5, expected)
    purge(table)
    assert table.ledger.changes() == (7, expected)
    assert [c.version for c in table.ledger.newest_first()] == [*range(7, -1, -1)]
    write_log_after(table, {"operation": "OPTIMIZE"})
    purge(table, now=NOW + timedelta(days=40))
    assert table.ledger.changes() == (10, expected)
    assert table.ledger.changes(since=3) == (10, {(("day", DAYS[1]),): 5})
    assert [c.version for c in table.ledger.newest_first()] == [10, 9, 8, 7, 6]
    told = [(glimpse.version, glimpse.forgotten) for glimpse in table.ledger.glimpses()]
    assert told == [(6, True), *((version, False) for version in range(6, 11))]


STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(DAYS)),
    st.tuples(st.just("optimize"), st.just("")),
    st.tuples(st.just("restore"), st.integers(0, 3).map(str)),
    st.tuples(st.just("foreign"), st.sampled_from(DAYS)),
)


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=8), purges=st.integers(1, 2))
def test_a_log_and_the_same_log_purged_say_the_same(tmp_path_factory, steps, purges):
    """Of any commits, purged once or again: changes, records, cursors, arrivals and sizes are those of before."""
    root = tmp_path_factory.mktemp("same")
    first = [{"day": DAYS[0]}]
    made = {
        "write": changed,
        "optimize": lambda _, __: {"operation": "OPTIMIZE", "changed": first, "data_change": False},
        "restore": lambda to, _: {"operation": "RESTORE", "parameters": {"version": to}, "changed": first},
        "foreign": lambda day, _: {"changed": [{"day": day}]},
    }
    commits = [made[kind](what, number) for number, (kind, what) in enumerate(steps, 1)]
    one, other = (logged(root / name, *commits) for name in ("one", "other"))
    for _ in range(purges):
        purge(other)
    for since in range(-1, len(steps) + 1):
        assert one.ledger.changes(since=since)[1] == other.ledger.changes(since=since)[1]
    known = [[(g.version, g.changed, g.transactions, g.restored_to) for g in t.ledger.glimpses()] for t in (one, other)]
    assert known[1][: len(known[0])] == known[0]
    for day in DAYS:
        latest = [t.ledger.latest({"day": day}) for t in (one, other)]
        assert [c and c.version for c in latest] == [latest[0] and latest[0].version] * 2
        if latest[0] and latest[0].record:
            assert latest[1].record.same_content(latest[0].record)
    assert one.ledger.transactions().reached("t", {"day": DAYS[0]}) == other.ledger.transactions().reached(
        "t", {"day": DAYS[0]}
    )
    activity = [ActivityLog().poll(t.ledger) for t in (one, other)]
    assert (activity[0].arrivals, activity[0].partitions) == (activity[1].arrivals, activity[1].partitions)


def test_a_reader_in_the_middle_of_a_purge_goes_on(plain, monkeypatch):
    """What it has read of the version that the log is cut behind is not asked for again."""
    other, cut = Ledger(plain.location), purging._cut_log

    def cutting(*arguments):
        assert other.state().version == 3
        return cut(*arguments)

    monkeypatch.setattr(purging, "_cut_log", cutting)
    purge(plain)
    assert (other.state().version, other.state().transaction("x")) == (4, None)
    assert other.state().generation("p") == 0


def test_a_replica_of_a_purged_table_knows_as_much(tmp_path):
    """The redacted history is a file of the table like any other."""
    table = logged(tmp_path, changed(DAYS[0], 1), changed(DAYS[1], 2))
    fill(tmp_path)
    purge(table)
    contents = table_contents(table.ledger, table.ledger.version())
    copy_replica(contents, folder_at(tmp_path / "replica"), name="replica", provenance=RUN)
    assert Ledger(tmp_path / "replica").changes() == table.ledger.changes()
    assert [c.version for c in Ledger(tmp_path / "replica").newest_first()] == [4, 3, 2, 1, 0]


def write_log_after(table, commit):
    """Append a commit to a log whose first ones are gone."""
    version = table.ledger.version() + 1
    at = int(NOW.timestamp() * 1000)
    actions = [{"commitInfo": {"timestamp": at, "operation": commit.get("operation", "WRITE"),
                               "userMetadata": commit["record"].to_json() if "record" in commit else ""}}]  # fmt: skip
    told = {"path": f"v{version}.parquet", "size": 1, "modificationTime": 1, "dataChange": True}
    actions += [
        {"add": {**told, "partitionValues": values, "stats": '{"numRecords":1}'}}
        for values in commit.get("changed", ())
    ]
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (table.location / "_delta_log" / f"{version:020d}.json").write_text(text)


def test_a_log_that_loses_its_purge_forgets_the_history(tmp_path):
    """A later cleanup of the log leaves a gap, behind which nothing counts as known."""
    table = logged(tmp_path, changed(DAYS[0], 1))
    purge(table)
    write_log_after(table, changed(DAYS[1], 2))
    DeltaTable(str(table.location)).create_checkpoint()
    for version in (2, 3):
        (table.location / "_delta_log" / f"{version:020d}.json").unlink()
    assert table.ledger.changes() == (4, {(("day", day),): 4 for day in DAYS})
    assert table.ledger.latest({"day": DAYS[0]}) is None
    assert table.ledger.files.tells_from() == 4


def test_a_redacted_commit_holds_no_value_of_a_row(tmp_path):
    """Neither of statistics, predicates, other writers' notes nor of texts in figures, findings and fingerprints."""
    secret = Canary("id", EMAIL.encode())
    findings = ({"name": "f", "passed": True, "severity": "warn", "figures": {"worst": EMAIL, "n": 2}, "note": EMAIL},)
    figures = {"newest": "2026-01-05T10:00:00", "rows": 3, "top": EMAIL, "by": {EMAIL: 3}, "list": [EMAIL]}
    approval = {"by": "anna", "because": EMAIL, "audits": []}
    record = a_record("t", {"day": DAYS[0]}, findings=findings, figures=figures, approval=approval,
                      fingerprint=f"DELETE WHERE (email = '{EMAIL}') IN {{}}", notes={"topic": "x"})  # fmt: skip
    commit = {**changed(DAYS[0]), **DELETED, "record": record}
    table = logged(tmp_path, commit, {"operation": "RESTORE", "parameters": {"version": "0", "x": EMAIL}})
    note = {"commitInfo": {"operation": "WRITE", "userMetadata": EMAIL, "operationMetrics": {"a": EMAIL, "b": "3"}}}
    others = [note, {"domainMetadata": {"domain": EMAIL}}, {"cdc": {"path": EMAIL}},
              {"add": {"path": "p", "stats": json.dumps({"minValues": {"e": EMAIL}}), "tags": {"t": EMAIL}}},
              {"metaData": {"schemaString": EMAIL}}]  # fmt: skip
    raws = [table.ledger.files.raw(1), table.ledger.files.raw(2), "\n".join(map(json.dumps, others)).encode()]
    made = [redacted(raw, {"id": "now"}) for raw in raws]
    assert [Search([secret]).found(each) for each in made] == [set(), set(), set()]
    assert [redacted(each, {"id": "now"}) for each in made] == made
    parsed = [table.ledger.states.commit(n, each, dict) for n, each in enumerate(made)]
    assert parsed[0].record.figures == {"newest": "2026-01-05T10:00:00", "rows": 3}
    assert parsed[0].record.findings[0] == {**findings[0], "note": "", "figures": {"n": 2}}
    assert (parsed[0].record.notes, parsed[0].record.approval["by"]) == ({"topic": "x"}, "anna")
    assert parsed[0].record.same_content(record)
    assert record.same_content(parsed[0].record)
    assert (parsed[1].restored_to, parsed[2].metrics) == (0, {"b": "3"})


def test_a_history_is_read_as_it_was_written():
    """Of any partition and of names with quotes; a damaged file is none."""
    before = {(("a`b", None), ("d'", 'x"é/ü')): 3, (): 1}
    history = RedactedHistory(
        {4: b'{"txn": {"appId": "\xc3\xa9", "version": 1}}\n', 5: b'{"commitInfo": {}}\n'}, before
    )
    assert RedactedHistory.from_bytes(history.to_bytes()) == history


@pytest.mark.slow
def test_a_table_in_a_bucket_is_purged_as_one_in_a_folder(bucket_store, plain):
    """Under the lease of the bucket, object by object; the rows are those of before."""
    store = bucket_store.within("purge")
    for file in plain.store.files():
        store.put(file.path, plain.store.read(file.path))
    table = Table(plain.spec, store.uri, no_spark)
    before = rows_at(store)
    assert purge(table).applied
    search = Search([GONE])
    assert [f.path for f in store.files() if search.found(store.read(f.path))] == []
    assert sorted(map(str, rows_at(store))) == sorted(map(str, before))
    assert not purge(table).applied


# --- with Spark -------------------------------------------------------------------------------------------------------

spark_only = pytest.mark.spark
VARIANTS = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "change feed": {"delta.enableChangeDataFeed": "true"},
    "mapped vectors": {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
}


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """Makes tables of two days, with the person on both; then deletes them."""
    root, numbers = tmp_path_factory.mktemp("lake"), itertools.count()

    def frame(day, *ids, email="x"):
        named = ", ".join(f"({n}L, '{email}{n}', DATE '{day}')" for n in ids)
        return spark.sql(f"SELECT * FROM VALUES {named} AS t(id, email, day)")

    def make(**properties):
        spec = TableSpec(f"silver/p{next(numbers)}", COLUMNS, partition_by=("day",), properties=properties)
        table = Table(spec, root / spec.name, spark)
        for sequence, day in enumerate(DAYS, start=1):
            rows = frame(day, *range(6)).union(spark.sql(f"SELECT 7L AS id, '{EMAIL}' AS email, DATE '{day}' AS day"))
            table.overwrite(rows, partition={"day": day}, provenance=into(table, sequence))
        table.delete(f"email = '{EMAIL}'", provenance=into(table, None))
        return table, frame

    def into(table, sequence):
        return a_run(table.name, sequence=sequence, inputs={"in": sequence or 0})

    make.into = into
    return make


@spark_only
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_byte_of_a_deleted_row_is_left(world, spark, variant):
    """In data files, change feed, vectors and log; other rows, the next write and the next merge are as ever."""
    table, frame = world(**VARIANTS[variant])
    assert hits(table.location)
    purge(table)
    assert hits(table.location) == []
    expected = sorted((n, day) for n in range(6) for day in DAYS)
    shown = lambda rows: sorted((row["id"], str(row["day"])) for row in rows.collect())  # noqa: E731
    spark.catalog.clearCache()
    assert shown(table.read()) == expected
    assert shown(spark.read.format("delta").load(str(table.location))) == expected
    if "mapped" not in variant:
        assert sorted((row["id"], str(row["day"])) for row in rows_at(table.store)) == expected
    table.ensure()
    table.overwrite(frame(DAYS[0], 9), partition={"day": DAYS[0]}, provenance=world.into(table, 3))
    table.merge(frame(DAYS[1], 9), Merge(["id", "day"], [Update(), Insert()]), provenance=world.into(table, None))
    assert shown(table.read()) == sorted([(9, DAYS[0]), *((n, DAYS[1]) for n in (*range(6), 9))])


@spark_only
def test_an_applied_write_is_still_recognised(world):
    """A rerun publishes nothing, other rows of the same inputs are refused, and a stale run stays stale."""
    table, frame = world()
    rows = frame(DAYS[0], 20)
    owned, run = {"day": DAYS[0]}, world.into(table, 5)
    version = table.overwrite(rows, partition=owned, provenance=run).version
    appended = replace(run, sequence=7, inputs={"a": 7})
    table.append(frame(DAYS[1], 30), provenance=appended)
    deleted = replace(run, sequence=None, inputs={"requests": "batch 1"})
    table.delete("id = 2", provenance=deleted)
    purge(table)
    for ledger in (table.ledger, Ledger(table.location, name=table.name)):
        assert ledger.latest(owned).record.verdict == ledger.latest(owned).record.verdict
    done = table.overwrite(rows, partition=owned, provenance=run)
    assert (done.applied, f"version {version}" in done.reason) == (False, True)
    with pytest.raises(TransactionReused):
        table.overwrite(frame(DAYS[0], 21), partition=owned, provenance=run)
    assert not table.append(frame(DAYS[1], 30), provenance=appended).applied
    assert not table.delete("id = 2", provenance=deleted).applied
    assert not remove_unneeded(table, cutoff=NOW + timedelta(days=1), provenance=RUN).applied


@spark_only
def test_engines_that_are_behind_get_a_clear_error(world, spark, tmp_path):
    """Time travel, RESTORE and a stream that has not read everything: none of them gets other rows instead."""
    table, frame = world()
    folder = str(table.location)

    def stream():
        rows = spark.readStream.format("delta").option("skipChangeCommits", "true").load(folder)
        query = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    stream()
    for day, n in zip(DAYS, (40, 41), strict=True):
        table.append(frame(day, n), provenance=world.into(table, n))
    purge(table)
    with pytest.raises(Exception, match=r"DELTA_VERSION_NOT_FOUND|Cannot time travel"):
        spark.read.format("delta").option("versionAsOf", 1).load(folder).collect()
    with pytest.raises(PatternError, match="version 1"):
        table.restore(1, provenance=RUN)
    with pytest.raises(Exception, match=r"(?i)version"):
        spark.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 1").collect()
    with pytest.raises(Exception, match=r"(?i)version|not available|DELTA_"):
        stream()
