"""Time Travel."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, milestones, version_at
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.compactor import vacuum
from dedp_assets.patterns.storage import time_travel
from dedp_assets.patterns.storage.time_travel import compare_versions, roll_back, set_milestone
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, field_of, read_back, write_protocol
from tests.scans import files_read
from tests.two_runs import two_runs

START = datetime(2026, 1, 5, tzinfo=timezone.utc)
LATER = datetime(2100, 1, 1, tzinfo=timezone.utc)
PRICES = TableSpec(
    "gold/prices", {"id": Column("BIGINT"), "price": Column("BIGINT"), "day": Column("STRING")}, partition_by=("day",)
)


def no_spark():
    raise AssertionError("Spark was started")


def into(table, run="1", **more):
    return table.target(a_run(table.name, run_id=run, **more))


def clean(table):
    """A vacuum without any retention."""
    return vacuum(into(table, "vacuum"), retention_hours=0, now=LATER, allow_unsafe=True)


def written(place, *loads):
    """A table of which each load replaces the days that it names; by delta-rs."""
    for load in loads:
        days = sorted({day for _, _, day in load})
        rows = pa.table(dict(zip(("id", "price", "day"), map(list, zip(*load, strict=True)), strict=True)))
        named = " OR ".join(f"day = '{day}'" for day in days)
        more = {"predicate": named} if (place / "_delta_log").exists() else {"partition_by": ["day"]}
        write_deltalake(str(place), rows, mode="overwrite", **more)
    return place


MONDAY, TUESDAY = [(1, 10, "mon"), (2, 20, "mon")], [(7, 70, "tue")]
CORRUPT = [(1, -10, "mon"), (3, 30, "mon")]


@pytest.fixture
def prices(tmp_path):
    """Two days, of which the first was written again, corrupt: versions 0, 1, 2."""
    return Table.at(written(tmp_path / "lake/gold/prices", MONDAY, TUESDAY, CORRUPT), no_spark)


def dated(table, *times):
    """Give the commits of a table their times, by hand."""
    for version, at in enumerate(times):
        path = table.location / "_delta_log" / f"{version:020d}.json"
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = int(at.timestamp() * 1000)
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(path, (at.timestamp(), at.timestamp()))


# --- versions by moment -----------------------------------------------------------------------------------------------


@pytest.mark.both
def test_a_version_is_read_by_number_instant_and_milestone(spark, prices):
    """Each gives the rows of then, as an independent reader has them at that version."""
    dated(prices, START, START + timedelta(hours=1), START + timedelta(hours=2))
    table = Table.at(prices.location, spark)
    set_milestone(into(table), name="before-the-sale", at=1)
    expected = read_back(table, 1)
    for at in (1, "1", "2026-01-05T01:00Z", "2026-01-05T02:59:59.999+01:00", "2026-01-05 01:30", "before-the-sale"):
        rows = [row.asDict() for row in table.read(version=at).collect()]
        assert sorted(rows, key=str) == sorted(expected, key=str), at
    assert version_at(table.ledger, "2026-01-05") == 0
    assert version_at(table.ledger, LATER.isoformat()) == table.ledger.version()
    rows = table.read({"day": "tue"}, version="before-the-sale").collect()
    assert [row["id"] for row in rows] == [7]


def test_an_instant_means_the_version_that_delta_rs_finds(prices):
    """The control, for instants at, before and after each commit."""
    times = [START + timedelta(minutes=n) for n in (0, 7, 9)]
    dated(prices, *times)
    for at in (each + timedelta(milliseconds=more) for each in times for more in (0, 1, 60_000)):
        control = DeltaTable(str(prices.location))
        control.load_as_version(at)
        assert version_at(Table.at(prices.location, no_spark).ledger, at.isoformat()) == control.version()


@settings(max_examples=25)
@given(st.lists(st.integers(-3, 9), min_size=1, max_size=6), st.integers(-4, 11))
def test_clocks_that_go_back_give_versions_in_order(tmp_path_factory, hours, asked):
    """The version before the first commit after the instant, against a list."""
    folder = tmp_path_factory.mktemp("clock")
    write_protocol(folder, [field_of("id", "long")])
    for version in range(1, len(hours)):
        commits.write(Table.at(folder, no_spark).store, version, [{"commitInfo": {"operation": "WRITE"}}])
    path = folder / "_delta_log" / f"{0:020d}.json"
    path.write_text(path.read_text() + json.dumps({"commitInfo": {"operation": "CREATE TABLE"}}) + "\n")
    table = Table.at(folder, no_spark)
    dated(table, *(START + timedelta(hours=hour) for hour in hours))
    later = [version for version, hour in enumerate(hours) if hour > asked]
    expected = (later[0] if later else len(hours)) - 1
    at = (START + timedelta(hours=asked)).isoformat()
    if expected < 0:
        with pytest.raises(ConfigError, match="has no version at"):
            version_at(Table.at(folder, no_spark).ledger, at)
    else:
        assert version_at(Table.at(folder, no_spark).ledger, at) == expected


def test_moments_that_are_not_there_are_named(prices):
    """Before the first commit, after the newest version, of no milestone, of no form at all, and no table."""
    dated(prices, START, START, START)
    ledger = Table.at(prices.location, no_spark).ledger
    with pytest.raises(
        ConfigError,
        match=r"gold/prices has no version at 2026-01-04T23:59:59\+00:00: its first commit is at 2026-01-05",
    ):
        version_at(ledger, "2026-01-04T23:59:59")
    with pytest.raises(NotReady, match="gold/prices has no version 3: its newest is 2"):
        version_at(ledger, 3)
    with pytest.raises(NotReady, match="gold/prices has no version -1: its newest is 2"):
        version_at(ledger, -1)
    with pytest.raises(NotReady, match="gold/prices has no milestone quarter: it has none"):
        version_at(ledger, "quarter")
    set_milestone(into(prices), name="year", at=0)
    with pytest.raises(NotReady, match="gold/prices has no milestone quarter: it has year"):
        version_at(ledger, "quarter")
    for odd in ("yesterday at noon", "2026-13-01", "", "ä"):
        with pytest.raises(ConfigError, match="a moment must be a version, an instant like"):
            version_at(ledger, odd)
    with pytest.raises(NotReady, match="does not exist yet"):
        version_at(Table(PRICES, prices.location.with_name("none"), no_spark).ledger, 0)


# --- milestones -------------------------------------------------------------------------------------------------------


def test_a_milestone_survives_vacuums_and_the_cleanup_of_the_log(prices):
    """Its rows are the same ones; the control, a version without a name, is gone by file and by log."""
    write_deltalake(str(prices.location), pa.table({"id": [4], "price": [40], "day": ["mon"]}), mode="overwrite")
    before = read_back(prices, 1)
    assert set_milestone(into(prices), name="q1", at=1).reason == "q1 is version 1"
    removed = clean(prices).figures["files_removed"]
    assert removed == 1, "the file of version 2 alone"
    assert read_back(prices, 1) == before
    with pytest.raises(FileNotFoundError):
        read_back(prices, 2)
    for hour in range(12):  # past a checkpoint, at which an expired log is cleaned up
        mark = {"commitInfo": {"operation": "WRITE", "timestamp": hour}}
        commits.write(prices.store, prices.ledger.version() + 1, [mark])
    table = DeltaTable(str(prices.location))
    table.create_checkpoint()
    assert table.metadata().configuration["delta.enableExpiredLogCleanup"] == "false"
    assert Table.at(prices.location, no_spark).ledger.begins_at() == 0
    assert milestones(Table.at(prices.location, no_spark).ledger) == {"q1": 1}
    clean(prices)
    assert read_back(prices, 1) == before


def test_a_released_milestone_goes_with_the_next_vacuum(prices):
    """And the log may be cleaned up again, unless the owner of the table says otherwise."""
    set_milestone(into(prices), name="q1", at=0)
    set_milestone(into(prices), name="q2", at=1)
    assert clean(prices).figures["files_removed"] == 0
    assert set_milestone(into(prices), name="q1", change="release").reason == "q1 is released"
    assert clean(prices).figures["files_removed"] == 0, "the files of version 0 are those of version 1"
    assert "delta.enableExpiredLogCleanup" in prices.ledger.state().properties
    set_milestone(into(prices), name="q2", change="release")
    assert milestones(prices.ledger) == {}
    assert "delta.enableExpiredLogCleanup" not in prices.ledger.state().properties
    assert clean(prices).figures["files_removed"] == 1
    with pytest.raises(ConfigError, match="can no longer be read at version 1: a vacuum removed 1 of its files"):
        set_milestone(into(prices), name="q3", at=1)
    with pytest.raises(NotReady, match="has no milestone q2: it has none"):
        set_milestone(into(prices), name="q2", change="release")
    mine = [{"delta.enableExpiredLogCleanup": "false"}]
    commits.write(
        prices.store,
        prices.ledger.version() + 1,
        [commits.with_properties(prices.ledger, prices.ledger.state(), *mine)],
    )
    set_milestone(into(prices), name="q4")
    set_milestone(into(prices), name="q4", change="release")
    assert prices.ledger.state().properties["delta.enableExpiredLogCleanup"] == "false"


def test_a_milestone_stays_where_it_is_until_it_is_moved(prices):
    """Made again it is the same, whatever was written since; another version is asked for in words."""
    assert set_milestone(into(prices), name="weekly").applied
    write_deltalake(str(prices.location), pa.table({"id": [4], "price": [40], "day": ["wed"]}), mode="append")
    again = set_milestone(into(prices), name="weekly")
    assert (again.applied, again.reason) == (False, "weekly is version 2 already")
    with pytest.raises(
        ConfigError, match="at must be version 2, where weekly of gold/prices is, or change be move, not 4"
    ):
        set_milestone(into(prices), name="weekly", at=4)
    assert set_milestone(into(prices), name="weekly", at=4, change="move").reason == "weekly is version 4"
    assert set_milestone(into(prices), name="copy", at="weekly").reason == "copy is version 4"
    assert milestones(prices.ledger) == {"copy": 4, "weekly": 4}
    last = prices.ledger.commit(prices.ledger.version())
    assert (last.maintenance.run_id, last.changed, last.record) == ("1", frozenset(), None)


def test_the_vectors_of_a_milestone_survive(tmp_path):
    """A file with deletion vectors that only the milestone has."""
    vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    features, place = ["deletionVectors"], tmp_path / "vectors"
    add = {"path": "a.parquet", "partitionValues": {}, "size": 9, "modificationTime": 1, "dataChange": True}
    more = [{"add": {**add, "deletionVector": vector}}]
    write_protocol(place, [field_of("id", "long")], readers=features, writers=features, more=more)
    (place / "a.parquet").write_bytes(b"nine bytes"[:9])
    file = place / f"deletion_vector_{'0' * 8}-0000-0000-0000-{'0' * 12}.bin"
    file.write_bytes(b"\x01")
    table = Table.at(place, no_spark)
    set_milestone(into(table), name="q1")
    gone = {"remove": {**add, "deletionVector": vector, "deletionTimestamp": 1}}
    commits.write(table.store, table.ledger.version() + 1, [gone])
    clean(table)
    assert (file.exists(), (place / "a.parquet").exists()) == (True, True)
    set_milestone(into(table), name="q1", change="release")
    clean(table)
    assert (file.exists(), (place / "a.parquet").exists()) == (False, False)


@pytest.mark.parametrize("name", ["1st", "a b", "a/b", "ä", "2026-01-05", "x" * 101])
def test_names_that_cannot_be_are_refused(prices, name):
    """Before anything is written; a version or an instant is no name."""
    with pytest.raises(ConfigError, match="name must be a letter and up to 99 letters"):
        set_milestone(into(prices), name=name)
    assert prices.ledger.version() == 2


def test_milestones_that_could_not_be_kept_are_refused(prices):
    """A table that forgets transaction ids; a release that names a version."""
    with pytest.raises(ConfigError, match="at must be None for a release, not 1"):
        set_milestone(into(prices), name="q1", at=1, change="release")
    forgets = commits.with_properties(
        prices.ledger, prices.ledger.state(), {"delta.setTransactionRetentionDuration": "interval 1 day"}
    )
    commits.write(prices.store, 3, [forgets])
    with pytest.raises(ConfigError, match=r"forgets its transaction ids .* so take the property away"):
        set_milestone(into(prices), name="q1")
    assert prices.ledger.version() == 3


@pytest.mark.slow
def test_a_milestone_in_a_bucket_survives_a_vacuum(tmp_path, bucket_store):
    """As in a folder."""
    place = written(tmp_path / "prices", MONDAY, CORRUPT)
    for file in (path for path in place.rglob("*") if path.is_file()):
        bucket_store.put(file.relative_to(place).as_posix(), file.read_bytes())
    table = Table.at(bucket_store, no_spark, name="gold/prices")
    set_milestone(into(table), name="q1", at=0)
    assert clean(table).figures["files_removed"] == 0
    assert version_at(table.ledger, "q1") == 0
    set_milestone(into(table), name="q1", change="release")
    assert clean(table).figures["files_removed"] == 1


# --- rollback ---------------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_a_rollback_is_a_new_version_with_the_rows_of_then_and_the_reason(spark, make_table):
    """Again it changes nothing, the version before stays readable; and what was taken back can be written again."""
    table = make_table(PRICES)

    def load(run, *rows):
        frame = spark.createDataFrame(rows, "id BIGINT, price BIGINT, day STRING")
        by = a_run(run_id=run, inputs={"prices": run})
        return overwrite_partition(frame, table.target(by, partition={"day": "mon"}))

    right, wrong = load("1", *MONDAY).version, load("2", *CORRUPT).version
    before, corrupt = read_back(table, right), read_back(table, wrong)
    result = roll_back(into(table, "undo"), to=right, because="prices came without a sign")
    assert (result.applied, result.reason) == (True, f"the rows are those of version {right} again")
    assert (read_back(table), read_back(table, wrong)) == (before, corrupt)
    last = table.ledger.commit(result.version)
    assert (last.operation, last.restored_to) == ("RESTORE", right)
    assert last.record.notes == {"because": "prices came without a sign", "to": str(right)}
    assert last.changed == {(("day", "mon"),)}
    again = roll_back(into(table, "undo"), to=right, because="prices came without a sign")
    assert (again.applied, again.version) == (False, result.version)
    assert load("2", *CORRUPT).applied
    assert read_back(table) == corrupt


@pytest.mark.spark
def test_a_rollback_that_died_is_made_by_the_next_run_and_milestones_outlive_it(spark, prices, monkeypatch):
    """Killed at the commit before the RESTORE, then at the one after, which keeps the log for a milestone."""
    table = Table.at(prices.location, spark)
    set_milestone(into(table), name="corrupt", at=2)
    before, corrupt, made = read_back(table, 1), read_back(table, 2), commits.commit_actions
    for step in (1, 2):
        left = [step]

        def dies(*args, left=left, **kwargs):
            left[0] -= 1
            if not left[0]:
                raise RuntimeError("killed")
            return made(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr("dedp_assets.patterns.delta.commit.file_exchange.commit_actions", dies)
            patch.setattr(commits, "commit_actions", dies)
            with pytest.raises(RuntimeError, match="killed"):
                roll_back(into(table), to=1, because="signs")
    assert "delta.enableExpiredLogCleanup" not in table.ledger.state().properties
    assert not roll_back(into(table), to=1, because="signs").applied
    assert table.ledger.state().properties["delta.enableExpiredLogCleanup"] == "false"
    assert milestones(table.ledger) == {"corrupt": 2}
    clean(table)
    assert (read_back(table), read_back(table, 2)) == (before, corrupt)


def test_rollbacks_that_cannot_be_are_refused(prices):
    """Without a reason, to a version that a vacuum removed, of a table that only grows; nothing is written."""
    with pytest.raises(ConfigError, match="because must be a reason, not an empty text"):
        roll_back(into(prices), to=1, because=" ")
    with pytest.raises(ConfigError, match="must have no partition"):
        roll_back(prices.target(a_run(), partition={"day": "mon"}), to=1, because="signs")
    grows = {"delta.appendOnly": "true"}
    commits.write(prices.store, 3, [commits.with_properties(prices.ledger, prices.ledger.state(), grows)])
    with pytest.raises(ConfigError, match="is append-only"):
        roll_back(into(prices), to=1, because="signs")
    assert prices.ledger.version() == 3
    clean(prices)
    with pytest.raises(ConfigError, match="can no longer be read at version 1: a vacuum removed"):
        roll_back(into(prices), to=1, because="signs")
    assert prices.ledger.version() == 4


# --- comparison -------------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_two_versions_are_compared_by_key(spark, prices):
    """Rows in, rows out and changed values; only the day that changed is read, where the whole has one file more."""
    table = Table.at(prices.location, spark)
    found = compare_versions(table, keys=["id"], before=1, after=2)
    assert (found.passed, found.severity) == (False, "warn")
    assert found.figures == {
        "version 1 rows": 2,
        "version 2 rows": 2,
        "compared": 1,
        "keys missing in version 2": 1,
        "keys missing in version 1": 1,
        "repeated keys": 0,
        "price differs": 1,
        "day differs": 0,
        "samples": "id 1: price 10 -> -10; id 2: 1 rows of version 1, 0 of version 2; "
        "id 3: 0 rows of version 1, 1 of version 2",
    }
    turned = compare_versions(table, keys=["id"], before=2, after=1)
    assert turned == found
    assert compare_versions(table, keys=["id"], before=2).passed


@pytest.mark.spark
def test_a_comparison_reads_the_changed_partitions_alone(spark, prices, monkeypatch):
    """Counted by Spark's scans: one file of each version, of two; unchanged rows are not read at all."""
    table, read = Table.at(prices.location, spark), []
    compared = time_travel.compared_by_key
    monkeypatch.setattr(
        time_travel,
        "compared_by_key",
        lambda one, other, **more: read.extend([one, other]) or compared(one, other, **more),
    )
    compare_versions(table, keys=["id"], before=1, after=2)
    control = [table.read(version=version) for version in (1, 2)]
    assert [files_read(rows) for rows in (*read, *control)] == [1, 1, 2, 2]
    read.clear()
    set_milestone(into(table), name="same")
    assert compare_versions(table, keys=["id"], before="same").passed
    assert [files_read(rows) for rows in read] == [0, 0]


@pytest.mark.spark
def test_a_column_that_came_is_a_difference(spark, tmp_path):
    """Of tables without partitions, too; a repeated key is named, and NULL is a key."""
    place = str(tmp_path / "plain")
    write_deltalake(place, pa.table({"id": [1, None], "a": [1.0, 2.0]}))
    write_deltalake(
        place, pa.table({"id": [1, 1], "a": [1.0, 1.05], "new": [1, 2]}), mode="overwrite", schema_mode="overwrite"
    )
    table = Table.at(place, spark)
    found = compare_versions(table, keys=["id"], before=0, tolerance=0.1)
    assert found.figures["columns missing in version 0"] == "new"
    assert (found.figures["repeated keys"], found.figures["keys missing in version 1"]) == (1, 1)
    with pytest.raises(ConfigError, match="keys must name the columns"):
        compare_versions(table, keys=[], before=0)
    with pytest.raises(ConfigError, match=r"samples and tolerance must be 0 or more, not -1 and 0\.0"):
        compare_versions(table, keys=["id"], before=0, samples=-1)


@known_calls
def calls_that_work(known):
    return {
        "set_milestone": {"into": known.daily.target(known.run), "name": "q1"},
        "compare_versions": {"table": known.daily, "keys": ["id"], "before": 0},
    }


@two_runs(under_one_lock=True)
def rolled_back_at_once(world):
    columns = "id INT, day STRING"
    world.table("prices", columns, by=["day"])
    for n in range(2):
        overwrite_partition(world.frame(columns, (n, "mon")), world.into("prices", f"base-{n}", "mon"))
    first = world["prices"].ledger.version() - 1
    yield lambda w: roll_back(w.into("prices", "undo"), to=first, because="wrong")
    yield lambda w: roll_back(w.into("prices", "again"), to=first, because="wrong")


@two_runs()
def milestones_at_once(world):
    columns = "id INT, day STRING"
    world.table("prices", columns, by=["day"])
    overwrite_partition(world.frame(columns, (1, "mon")), world.into("prices", "base", "mon"))
    yield lambda w: set_milestone(w.into("prices", "mark"), name="q1", at=1)
    yield lambda w: overwrite_partition(w.frame(columns, (2, "mon")), w.into("prices", "2", "mon"))
