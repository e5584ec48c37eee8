"""Storage Tiering."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.cost import storage_tiering
from dedp_assets.patterns.cost.storage_tiering import (
    Savings,
    Tier,
    bring_back,
    estimate_savings,
    move_to_tiers,
)
from dedp_assets.patterns.delta import Delete, Ledger, Merge, Table, lost_files, store_at
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.maintenance import export_version, hold_partition, repartition
from dedp_assets.patterns.delta.snapshots.tiers import tiered
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.compactor import vacuum
from dedp_assets.patterns.storage.manifest import write_manifest
from dedp_assets.patterns.storage.time_travel import set_milestone
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, field_of, write_protocol
from tests.two_runs import two_runs

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
LATER = datetime(2100, 1, 1, tzinfo=timezone.utc)
PRICES = {"hot": 0.023, "warm": 0.0125, "cold": 0.004, "archive": 0.00099}
AGES = [0, 100, 400, 1100]
VISITS = TableSpec(
    "silver/visits", {"id": Column("BIGINT"), "page": Column("STRING"), "day": Column("DATE")}, partition_by=("day",)
)


def no_spark():
    raise AssertionError("Spark was started")


def day(age):
    return NOW.date() - timedelta(days=age)


def ladder(root=None, *, warm=30):
    """The guide's tiers: the first two lie with the table, or with ``root`` all but the first elsewhere."""
    at = {name: str(root / name) if root else "" for name in PRICES}
    ages = {"hot": 0, "warm": warm, "cold": 365, "archive": 1095}
    return [
        Tier(name, ages[name], price, at="" if name == "hot" else at[name], online=name != "archive" or not root)
        for name, price in PRICES.items()
    ]


@pytest.fixture
def tiers(tmp_path):
    """Three places beside the lake, the last of which is not read by queries."""
    for name in ("warm", "cold", "archive"):
        (tmp_path / "tiers" / name).mkdir(parents=True)
    return ladder(tmp_path / "tiers", warm=90)


@pytest.fixture
def visits(tmp_path):
    """Two visits on each of four days, of four ages, and one without a day; by delta-rs."""
    place = str(tmp_path / "lake/silver/visits")
    for n, age in enumerate(AGES):
        rows = pa.table({"id": [2 * n, 2 * n + 1], "page": ["/a", None], "day": [day(age)] * 2})
        write_deltalake(place, rows, partition_by=["day"], mode="append")
    nowhere = pa.table({"id": [99], "page": ["/x"], "day": pa.array([None], pa.date32())})
    write_deltalake(place, nowhere, partition_by=["day"], mode="append")
    return Table.at(place, no_spark)


def move(table, tiers, now=NOW, **more):
    return move_to_tiers(table.target(a_run(table.name)), tiers=tiers, by="day", now=now, **more)


def back(table, age, now=NOW):
    return bring_back(table.target(a_run(table.name), partition={"day": day(age)}), now=now)


def hold(table, age, by="legal", because="case 17", *, release=False):
    return hold_partition(table, {"day": day(age)}, a_run(table.name), by=by, because=because, release=release)


def where(table):
    """Age -> tier, by the table's log."""
    return {
        (NOW.date() - date.fromisoformat(part.partition["day"])).days: part.tier
        for part in tiered(table.ledger.state())
    }


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


def left(table):
    """The rows that a reader without the library sees."""
    return sorted(DeltaTable(table.store.address).to_pyarrow_table()["id"].to_pylist())


def bytes_of(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# --- ages and prices --------------------------------------------------------------------------------------------------


def sized(place, sizes):
    """A table of files that are nowhere, by age and size in bytes."""
    fields, adds = [field_of("id", "long"), field_of("day", "date")], []
    for n, (age, size) in enumerate(sizes):
        file = {"path": f"{n}.parquet", "size": size, "modificationTime": 1, "dataChange": True}
        adds.append({"add": {**file, "partitionValues": {"day": day(age).isoformat()}}})
    write_protocol(place, fields, partition_by=["day"], more=adds)
    return Ledger(place, name="silver/visits")


@pytest.mark.parametrize(
    ("warm", "expected"),
    [
        (90, {0: "hot", 89: "hot", 90: "warm", 364: "warm", 365: "cold", 1094: "cold", 1095: "archive", -5: "hot"}),
        (30, {29: "hot", 30: "warm"}),
    ],
)
def test_the_tier_follows_from_the_age(tmp_path, warm, expected):
    """On both sides of each limit, and for a day to come; what costs nothing more is due for no move."""
    ledger = sized(tmp_path / "lake/visits", [(age, 10**9) for age in expected])
    tiers = [Tier(t.name, t.from_days, t.price, at="" if t.name == "hot" else "/none") for t in ladder(warm=warm)]
    due = estimate_savings(ledger, tiers=tiers, by="day", now=NOW).due
    assert due == {f"day={day(age)}": f"hot -> {tier}" for age, tier in expected.items() if tier != "hot"}
    late = datetime(2026, 1, 20, 23, tzinfo=timezone(timedelta(hours=-5)))  # the 21st in UTC
    assert f"day={day(warm - 1)}" in estimate_savings(ledger, tiers=tiers, by="day", now=late).due


def test_savings_are_exact(tmp_path):
    """The guide's four partitions of 10 GB: 0.92 becomes 0.4049 a month."""
    ledger = sized(tmp_path / "lake/visits", [(age, 10 * 10**9) for age in (0, 90, 365, 1095)])
    found = estimate_savings(ledger, tiers=ladder(warm=90), by="day", now=NOW)
    assert (found.current, found.tiered) == (Decimal("0.92"), Decimal("0.4049"))
    assert (found.monthly, found.annual, found.percent) == (Decimal("0.5151"), Decimal("6.1812"), Decimal("55.99"))
    assert found.due == {}, "tiers without a place are classes of the store"


def test_a_table_without_bytes_saves_nothing(tmp_path):
    """No error, 0 percent."""
    for name, sizes in (("none", []), ("empty", [(500, 0)])):
        found = estimate_savings(sized(tmp_path / name, sizes), tiers=ladder(), by="day", now=NOW)
        assert (found.current, found.percent, found.annual) == (0, 0, 0)
    assert Savings(Decimal(2), Decimal(1)).percent == 50


# --- moves ------------------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_a_move_changes_no_row_and_no_history(spark, visits, tiers, tmp_path):
    """Rows of online tiers are read from there, the log has one commit more, and it is where it was."""
    table = Table.at(visits.location, spark)
    before, log = table.ledger.version(), bytes_of(table.location / "_delta_log")
    expected = sorted(map(str, table.read().collect()))
    result = move(table, tiers[:3])
    assert result.reason == (
        f"3 partitions moved: day={day(1100)} (hot -> cold), day={day(400)} (hot -> cold), day={day(100)} (hot -> warm)"
    )
    assert (result.applied, result.changed, result.version) == (True, False, before + 1)
    assert table.ledger.commit(before + 1).changed == frozenset()
    assert table.ledger.commit(before + 1).maintenance.figures["files_removed"] == 3
    assert where(table) == {100: "warm", 400: "cold", 1100: "cold"}
    assert {k: v for k, v in bytes_of(table.location / "_delta_log").items() if k in log} == log
    assert sorted(map(str, table.read().collect())) == expected
    assert ids(table.read({"day": day(400)}, {"day": day(0)})) == [0, 1, 4, 5]
    assert ids(table.read({"day": None})) == [99]
    assert ids(table.read(version=before)) == [0, 1, 2, 3, 4, 5, 6, 7, 99]
    assert left(table) == [0, 1, 99], "the control: what lies with the table"
    vacuum(table.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
    assert len(list(table.location.rglob("*.parquet"))) == 2
    assert sorted(map(str, table.read().collect())) == expected
    assert sorted(map(str, table.read(version=before).collect())) == expected
    assert lost_files(table.store, table.ledger.state()) == []
    moved = estimate_savings(table.ledger, tiers=tiers[:3], by="day", now=NOW)
    assert moved.due == {}
    assert moved.current == sum(each.stat().st_size for each in tmp_path.rglob("*.parquet")) * Decimal("0.023") / 10**9


def test_moved_again_nothing_moves(visits, tiers, tmp_path):
    """No commit, no file; a day later what has come of age."""
    assert move(visits, tiers).figures["partitions_moved"] == 3
    before = bytes_of(tmp_path)
    again = move(visits, tiers)
    assert (again.applied, again.reason) == (False, "every partition is on the tier of its age")
    assert bytes_of(tmp_path) == before
    assert move(visits, tiers, NOW + timedelta(days=90)).figures["partitions_moved"] == 1
    assert where(visits) == {0: "warm", 100: "warm", 400: "cold", 1100: "archive"}


@pytest.mark.both
def test_a_query_on_an_archived_partition_names_it(spark, visits, tiers):
    """Instead of a part of the rows, for all rows and for that day, pinned and by milestone; other days are read."""
    table = Table.at(visits.location, spark)
    before = table.ledger.version()
    move(table, tiers)
    text = rf"silver/visits cannot be read in day={day(1100)} \(tier archive\): bring them back"
    for read in (
        table.read,
        lambda: table.read({"day": day(1100)}),
        lambda: table.read({"day": day(0)}, {"day": day(1100)}),
        lambda: table.read(version=table.ledger.version()),
    ):
        with pytest.raises(ConfigError, match=text):
            read()
    assert ids(table.read({"day": day(0)}, {"day": day(400)})) == [0, 1, 4, 5]
    assert ids(table.read({"day": day(1100)}, version=before)) == [6, 7], "its files are there until the vacuum"
    vacuum(table.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
    with pytest.raises(ConfigError, match=text):
        table.read(version=before)
    assert back(table, 1100).reason == f"day={day(1100)} (archive) is in the table again"
    assert ids(table.read()) == [0, 1, 2, 3, 4, 5, 6, 7, 99]
    assert left(table) == [0, 1, 6, 7, 99]


def test_a_partition_moves_on_and_its_former_copies_go_after_a_while(visits, tiers, tmp_path):
    """Readers of the versions in between have the rows until then."""
    move(visits, tiers)
    next_year = NOW + timedelta(days=300)
    assert move(visits, tiers, next_year).figures["partitions_moved"] == 2  # 0 -> warm, 100 -> cold
    assert where(visits) == {0: "warm", 100: "cold", 400: "cold", 1100: "archive"}

    def copies(name):
        files = (tmp_path / "tiers" / name).rglob("*.parquet")
        return {path.relative_to(tmp_path / "tiers" / name / "silver/visits").parts[0] for path in files}

    assert copies("warm") == {f"{day(0)}", f"{day(100)}"}
    assert not move(visits, tiers, next_year + timedelta(days=6)).applied
    removed = move(visits, tiers, next_year + timedelta(days=7))
    assert (removed.applied, removed.figures["copies_removed"]) == (True, 1)
    assert removed.reason == "every partition is on the tier of its age; 1 former copy removed"
    assert copies("warm") == {f"{day(0)}"}
    assert not move(visits, tiers, next_year + timedelta(days=7)).applied
    back(visits, 400, next_year)
    assert where(visits) == {0: "warm", 100: "cold", 1100: "archive"}
    move(visits, tiers, next_year, keep_hours=0)
    assert where(visits) == {0: "warm", 100: "cold", 400: "cold", 1100: "archive"}, (
        "it came of age again: the same copy"
    )
    assert copies("cold") == {f"{day(100)}", f"{day(400)}"}


def test_what_comes_back_has_the_same_bytes(visits, tiers):
    """After a vacuum has removed the files of the table; again nothing is done."""
    before = bytes_of(visits.location)
    files = {path: sha for path, sha in before.items() if path.endswith(".parquet")}
    move(visits, tiers)
    vacuum(visits.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
    for age in AGES[1:]:
        assert back(visits, age).figures["partitions_moved"] == 1
        again = back(visits, age)
        assert (again.applied, again.reason) == (False, f"day={day(age)} is on no tier: nothing to do")
    after = bytes_of(visits.location)
    assert {path: sha for path, sha in after.items() if path.endswith(".parquet")} == files
    assert left(visits) == [0, 1, 2, 3, 4, 5, 6, 7, 99]
    statistics = {key: (stats.rows, stats.exact) for key, stats in visits.ledger.state().statistics().items()}
    assert set(statistics.values()) == {(2, True), (1, True)}


@settings(max_examples=15)
@given(st.lists(st.one_of(st.integers(0, 1500), st.sampled_from(["back 0", "back 1", "vacuum"])), max_size=6))
def test_rows_are_in_the_table_or_on_the_tier_of_their_age(tmp_path_factory, steps):
    """Whatever moves, comes back and is removed, against the ages alone: each row is in exactly one place."""
    root = tmp_path_factory.mktemp("model")
    for name in ("warm", "cold", "archive"):
        (root / name).mkdir()
    place, model, passed = str(root / "lake/visits"), {0: "hot", 100: "hot"}, 0
    for age in model:
        rows = pa.table({"id": [age], "day": [day(age)]})
        write_deltalake(place, rows, partition_by=["day"], mode="append")
    table, tiers = Table.at(place, no_spark, name="visits"), ladder(root)
    for step in steps:
        if step == "vacuum":
            vacuum(table.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
        elif isinstance(step, str):
            age = [*model][int(step[-1])]
            back(table, age)
            model[age] = "hot"
        else:
            passed = max(passed, step)
            move(table, tiers, NOW + timedelta(days=passed))
            model = {age: [t.name for t in tiers if t.from_days <= age + passed][-1] for age in model}
        assert where(table) == {age: tier for age, tier in model.items() if tier != "hot"}
        elsewhere = [Table.at(part.place, no_spark) for part in tiered(table.ledger.state())]
        assert sorted(left(table) + [row for each in elsewhere for row in left(each)]) == [0, 100]


# --- legal holds ------------------------------------------------------------------------------------------------------


def moved_as_estimated(table, tiers, now=NOW):
    """Move, and return the reason; the estimate before names what moves, and who holds what does not."""
    due = estimate_savings(table.ledger, tiers=tiers, by="day", now=now)
    result = move(table, tiers, now)
    figures = result.figures["partitions_moved"], result.figures["partitions_held"]
    assert figures == (len(due.due), len(due.held))
    assert all(f"{name} ({how})" in result.reason for name, how in due.due.items())
    return result.reason


def test_a_hold_wins_over_age_until_each_who_holds_has_released(visits, tiers):
    """Acceptance 5: in the table or on a tier, over a RESTORE and a checkpoint; the estimate names what then moves."""
    before = visits.ledger.version()
    assert hold(visits, 400).reason == f"day={day(400)} (legal: case 17) is held"
    assert not hold(visits, 400).applied
    hold(visits, 400, by="tax", because="audit of 2025")
    foreign = DeltaTable(visits.store.address)
    foreign.restore(before)
    foreign.create_checkpoint()
    reason = moved_as_estimated(visits, tiers)
    assert where(visits) == {100: "warm", 1100: "archive"}
    assert reason.endswith(
        f"on legal hold: day={day(400)} (legal: case 17), day={day(400)} (tax: audit of 2025)",
    )
    hold(visits, 1100)
    hold(visits, 100)
    hold(visits, 400, because="closed", release=True)
    moved_as_estimated(visits, tiers, NOW + timedelta(days=300))
    assert where(visits) == {0: "warm", 100: "warm", 1100: "archive"}, "what is held stays on its tier, too"
    hold(visits, 400, by="tax", because="over", release=True)
    assert back(visits, 1100).applied, "a request of a person"
    moved_as_estimated(visits, tiers)
    assert where(visits) == {0: "warm", 100: "warm", 400: "cold"}


def test_a_hold_is_logged_and_costs_what_the_present_tier_costs(tmp_path, visits):
    """Who holds and why, in a commit of its own; the day of 400 is held on the first tier."""
    hold(visits, 400)
    noted = visits.ledger.commit(visits.ledger.version())
    assert (noted.changed, noted.maintenance.notes["by"]) == (frozenset(), "legal")
    assert (noted.maintenance.notes["held"], noted.maintenance.notes["because"]) == (f"day={day(400)}", "case 17")
    ledger = sized(tmp_path / "lake/silver/held", [(age, 10 * 10**9) for age in (0, 365, 400)])
    hold(Table.at(ledger.store, no_spark), 400)
    found = estimate_savings(ledger, tiers=ladder(tmp_path / "tiers"), by="day", now=NOW)
    assert (found.current, found.tiered) == (Decimal("0.69"), Decimal("0.23") * 2 + Decimal("0.04"))
    assert found.due == {f"day={day(365)}": "hot -> cold"}
    assert found.held == {f"day={day(400)}": f"on legal hold: day={day(400)} (legal: case 17)"}


def test_a_hold_that_comes_meanwhile_keeps_the_partition(visits, tiers, monkeypatch):
    """Between the copy and the commit of a move."""
    copied = storage_tiering.to_tier

    def and_held(ledger, version, partition, *more, **options):
        made = copied(ledger, version, partition, *more, **options)
        if partition == {"day": day(400).isoformat()}:
            hold(visits, 400)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(storage_tiering, "to_tier", and_held)
        assert move(visits, tiers).figures["partitions_changed_meanwhile"] == 1
    assert where(visits) == {100: "warm", 1100: "archive"}
    assert not move(visits, tiers).applied


@pytest.mark.parametrize(
    ("age", "more", "error", "text"),
    [
        (400, {"by": " "}, ConfigError, "by and because must say who has a hold and why, not be ' ' and 'case 17'"),
        (400, {"because": ""}, ConfigError, "not be 'legal' and ''"),
        (401, {}, ConfigError, "a hold must be of a partition of silver/visits with rows, not of day="),
        (400, {"release": True}, NotReady, "is not held by legal, so nothing is released"),
        (
            100,
            {"because": "case 18"},
            ConfigError,
            "case 17. is held already: .* name another `by`, such as 'legal, case",
        ),
    ],
)
def test_a_hold_that_cannot_be_is_refused(visits, age, more, error, text):
    """Before anything is written."""
    hold(visits, 100)
    with pytest.raises(error, match=text):
        hold(visits, age, **more)
    with pytest.raises(ConfigError, match="not of the whole table"):
        hold_partition(visits, {}, a_run(), by="legal", because="case 17", release=False)
    assert visits.ledger.version() == 5


# --- writes -----------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_writes_to_a_partition_on_a_tier_are_refused(spark, make_table, tmp_path, tiers):
    """By each verb, before a row is looked at; once it is back they go on, and other days never stop."""
    table = make_table(VISITS)
    kinds = "id BIGINT, page STRING, day DATE"
    for n, age in enumerate((0, 400)):
        frame = spark.createDataFrame([(n, "/a", day(age))], kinds)
        overwrite_partition(frame, table.target(a_run(inputs={"n": n}), partition={"day": day(age)}))
    move(table, tiers)
    files, old = set(table.location.rglob("*.parquet")), {"day": day(400)}
    late = spark.createDataFrame([(7, "/b", day(400))], kinds)
    text = rf"silver/visits cannot be written in day={day(400)} \(tier cold\): bring them back first"
    run = a_run(run_id="2", inputs={"n": 2}, sequence=5)
    by_page = Table(replace(VISITS, partition_by=("day", "page")), table.store, spark)
    for write in (
        lambda: overwrite_partition(late, table.target(run, partition=old)),
        lambda: table.overwrite(late, provenance=run),
        lambda: table.clear(partition=old, provenance=run),
        lambda: table.delete("id = 1", provenance=run),
        lambda: table.merge(late, Merge(["id"], [Delete()]), provenance=run, partition=old),
        lambda: table.recompute(late, keys=["id"], identity=["id"], compute=lambda _, rows: rows, provenance=run),
        lambda: repartition(by_page, run, guard=lambda _: None, step_bytes=1),
    ):
        with pytest.raises(ConfigError, match=text):
            write()
    assert set(table.location.rglob("*.parquet")) == files
    with pytest.raises(ConfigError, match=rf"cannot be written in day={day(400)}"):
        table.append(late, provenance=run)
    today = spark.createDataFrame([(8, "/c", day(0))], kinds)
    assert overwrite_partition(today, table.target(run, partition={"day": day(0)})).applied
    back(table, 400)
    assert overwrite_partition(late, table.target(run, partition=old)).applied
    assert ids(table.read()) == [7, 8]


def test_what_another_writer_brings_meanwhile_stays(visits, tiers, monkeypatch):
    """A file that comes between the copy and the commit: the partition waits for the next run."""
    copied = storage_tiering.to_tier

    def and_late(ledger, *args, **kwargs):
        made = copied(ledger, *args, **kwargs)
        if made.partition == {"day": day(400).isoformat()} and ledger.version() == 4:
            late = pa.table({"id": [8], "page": ["/late"], "day": [day(400)]})
            write_deltalake(str(visits.location), late, mode="append")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(storage_tiering, "to_tier", and_late)
        result = move(visits, tiers)
    assert result.figures["partitions_changed_meanwhile"] == 1
    assert result.reason.endswith("1 changed meanwhile and stay")
    assert where(visits) == {100: "warm", 1100: "archive"}
    assert left(visits) == [0, 1, 4, 5, 8, 99]
    assert move(visits, tiers).figures["partitions_moved"] == 1
    assert left(visits) == [0, 1, 99]


def test_a_partition_to_which_a_stranger_adds_stays_where_it_is(visits, tiers):
    """Rows of both places are read, and none is lost by the next move; once it is back, all of them move."""
    move(visits, tiers[:2])
    late = pa.table({"id": [8], "page": ["/late"], "day": [day(400)]})
    write_deltalake(str(visits.location), late, mode="append")
    result = move(visits, tiers)
    assert (result.figures["partitions_moved"], result.figures["partitions_changed_meanwhile"]) == (1, 1)
    assert (where(visits), left(visits)) == ({100: "warm", 400: "warm", 1100: "archive"}, [0, 1, 8, 99])
    back(visits, 400)
    assert left(visits) == [0, 1, 4, 5, 8, 99]
    move(visits, tiers)
    (part,) = [part for part in tiered(visits.ledger.state()) if part.tier == "cold"]
    assert left(Table.at(part.place, no_spark)) == [4, 5, 8]


def test_a_copy_that_a_milestone_needs_stays_and_one_that_is_gone_is_named(visits, tiers, tmp_path):
    """By partition and tier, for who reads or restores a version with it."""
    move(visits, tiers)
    set_milestone(visits.target(a_run()), name="q1")
    version = visits.ledger.version()
    back(visits, 400)
    later = NOW + timedelta(hours=1)
    assert move(visits, tiers[:2], later, keep_hours=0).figures["copies_removed"] == 0
    set_milestone(visits.target(a_run()), name="q1", change="release")
    assert move(visits, tiers[:2], later, keep_hours=0).figures["copies_removed"] == 2
    text = rf"silver/visits can no longer be read in day={day(1100)} \(tier archive\) at that version"
    with pytest.raises(ConfigError, match=text):
        visits.restore(version, provenance=a_run())


def test_readers_of_files_get_no_part_of_the_rows(visits, tiers, tmp_path):
    """A manifest and an export of a table with partitions elsewhere are refused; an export of the tier is not."""
    move(visits, tiers)
    with pytest.raises(
        ContractError, match="has 3 partitions on storage tiers: bring them back first; a manifest would lie"
    ):
        write_manifest(visits)
    text = "cannot be exported at version 5: day=.* of 3 partitions lie on storage tiers"
    with pytest.raises(ConfigError, match=text):
        export_version(visits.ledger, 5, store_at(tmp_path / "exports"))
    assert not (tmp_path / "exports").exists()
    assert tiered(Ledger(tiered(visits.ledger.state())[0].place).state()) == ()


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("death", range(8))
def test_a_move_that_died_at_any_put_is_made_by_the_next_run(visits, tiers, tmp_path, monkeypatch, death):
    """Three files, three commits of copies with checksums, the commit of the table: all rows are in one place after."""
    control = left(visits)

    def dies(put, store, path, content):
        count[0] -= 1
        if count[0] < 0:
            raise RuntimeError("killed")
        put(store, path, content)

    count = [death]
    with monkeypatch.context() as patch:
        for name in ("put", "put_if_absent"):
            put = getattr(LocalStore, name)
            patch.setattr(LocalStore, name, lambda store, path, content, put=put: dies(put, store, path, content))
        with pytest.raises(RuntimeError, match="killed"):
            move(visits, tiers)
    assert left(visits) == control
    copied = {path: path.stat().st_mtime_ns for path in (tmp_path / "tiers").rglob("*.parquet")}
    write_deltalake(str(visits.location), pa.table({"id": [50], "page": ["/"], "day": [day(0)]}), mode="append")
    assert move(visits, tiers).figures["partitions_moved"] == 3
    assert all(path.stat().st_mtime_ns == at for path, at in copied.items()), "what was copied is not copied again"
    parts = [Table.at(part.place, no_spark) for part in tiered(visits.ledger.state())]
    assert sorted(left(visits) + [row for part in parts for row in left(part)]) == sorted([*control, 50])


def test_a_way_back_that_died_is_gone_on(visits, tiers, monkeypatch):
    """Before the commit the partition is on its tier, after it in the table; nothing is on both for a reader."""
    move(visits, tiers)
    vacuum(visits.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
    with monkeypatch.context() as patch:
        patch.setattr(commits, "commit_actions", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            back(visits, 400)
    assert (where(visits)[400], left(visits)) == ("cold", [0, 1, 99])
    back(visits, 400)
    assert (where(visits).get(400), left(visits)) == (None, [0, 1, 4, 5, 99])


def test_a_damaged_copy_comes_not_back(visits, tiers, tmp_path):
    """Named with both checksums, and the table is left as it is."""
    move(visits, tiers)
    vacuum(visits.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
    (path,) = (tmp_path / "tiers/cold").rglob("*.parquet")
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    version = visits.ledger.version()
    with pytest.raises(ContractError, match=rf"{path.name} is damaged: its SHA-256 is"):
        back(visits, 400)
    assert visits.ledger.version() == version


# --- buckets ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_partitions_move_into_a_bucket_and_back(visits, tiers, bucket_store, tmp_path):
    """A table of a folder, and one of the bucket itself."""
    place = bucket_store.above().within("cold")
    tiers = [tiers[0], Tier("cold", 365, 0.004, at=place.address)]
    for file in (path for path in visits.location.rglob("*") if path.is_file()):
        bucket_store.put(file.relative_to(visits.location).as_posix(), file.read_bytes())
    for table in (visits, Table.at(bucket_store, no_spark, name="bucket/visits")):
        log = table.store.list("_delta_log")
        assert move(table, tiers).figures["partitions_moved"] == 2
        assert where(table) == {400: "cold", 1100: "cold"}
        assert {*log} < {*table.store.list("_delta_log")}
        assert sum(stats.rows for stats in table.ledger.state().statistics().values()) == 5
        vacuum(table.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
        assert back(table, 400).applied
        assert sum(stats.rows for stats in table.ledger.state().statistics().values()) == 7
        assert lost_files(table.store, table.ledger.state()) == []
    nobody = [tiers[0], Tier("cold", 365, 0.004, at="s3://no-such-bucket/cold")]
    with pytest.raises(
        ConfigError, match="at of tier cold must be a place that is there, not s3://no-such-bucket/cold"
    ):
        move(visits, nobody, NOW + timedelta(days=300))


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "text"),
    [
        ({"name": ""}, "a tier must have a name"),
        ({"from_days": -1}, "from_days and price of 0 or more"),
        ({"price": -0.1}, "from_days and price of 0 or more"),
        ({"online": False}, "at of tier cold must be a root, as the tier is not online, not an empty text"),
    ],
)
def test_tiers_that_cannot_be_are_refused(tier, text):
    """One by one."""
    with pytest.raises(ConfigError, match=text):
        Tier(**{"name": "cold", "from_days": 365, "price": 0.004, **tier})


def test_moves_that_cannot_be_are_refused_before_anything_is_written(visits, tiers, tmp_path):
    """A place that is not there or in the table, ages out of order, a column or a time that tells no age."""
    hot, warm, cold, _ = tiers
    gone, inside = (replace(cold, at=str(place)) for place in (tmp_path / "unmounted", visits.location))
    before = bytes_of(tmp_path)
    for text, more in (
        ("at of tier cold must be a place that is there, not .*/unmounted", {"tiers": [hot, warm, gone]}),
        ("an export must lie apart from its table", {"tiers": [hot, warm, inside]}),
        ("tiers must begin at 0 days and be in order of age, not begin at nothing", {"tiers": []}),
        (r"tiers must begin at 0 days and be in order of age, not begin at \[90, 365\]", {"tiers": [warm, cold]}),
        ("tiers must begin at 0 days and be in order of age", {"tiers": [hot, cold, warm]}),
        ("names of tiers", {"tiers": [hot, warm, replace(warm, from_days=200)]}),
        ("at of the first tier must be empty", {"tiers": [replace(hot, at=str(tmp_path))]}),
        ("by must be a partition column of .* of type DATE, not id", {"by": "id"}),
        ("by must be a partition column of .* of type DATE, not none", {"by": "none"}),
        ("now must be a datetime with a time zone", {"now": NOW.replace(tzinfo=None)}),
        ("keep_hours must be between 0 and 876000, not -1", {"keep_hours": -1}),
    ):
        with pytest.raises(ConfigError, match=text):
            move_to_tiers(visits.target(a_run()), **{"tiers": tiers, "by": "day", "now": NOW, **more})
        assert bytes_of(tmp_path) == before


def test_a_way_back_of_no_partition_is_refused(visits):
    """The whole table, or a day that none can be."""
    with pytest.raises(ConfigError, match="must have a partition of silver/visits, not be the whole table"):
        bring_back(visits.target(a_run()), now=NOW)
    with pytest.raises(ConfigError, match="silver/visits has no partition day='x'"):
        bring_back(visits.target(a_run(), partition={"day": "x"}), now=NOW)


def test_a_table_that_only_spark_writes_is_refused(tiers, tmp_path):
    """With the name of the feature."""
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    fields = [
        field_of(name, kind, **{"delta.columnMapping.id": n, "delta.columnMapping.physicalName": f"c{n}"})
        for n, (name, kind) in enumerate({"day": "date", "id": "long"}.items(), 1)
    ]
    write_protocol(tmp_path / "mapped", fields, partition_by=["day"], configuration=mapped, version=(2, 5))
    with pytest.raises(ConfigError, match=r"has features that only Spark writes \(columnMapping\)"):
        move(Table.at(tmp_path / "mapped", no_spark), tiers)


def test_copies_that_another_run_removed_are_no_move(visits, tiers, monkeypatch):
    """The run that finds them gone at its commit gives up, and the next one copies them."""
    copied = storage_tiering.to_tier

    def and_gone(*args, **kwargs):
        made = copied(*args, **kwargs)
        store = store_at(made.place)
        store.delete(*(entry.path for entry in store.files() if entry.path.endswith(".parquet")))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(storage_tiering, "to_tier", and_gone)
        with pytest.raises(Conflict):
            move(visits, tiers)
    assert left(visits) == [0, 1, 2, 3, 4, 5, 6, 7, 99]
    assert move(visits, tiers).figures["partitions_moved"] == 3
    for part in tiered(visits.ledger.state()):
        assert lost_files(store_at(part.place), Ledger(part.place).state()) == []


@known_calls
def calls_that_work(known):
    columns = "id INT, day DATE"
    days = known.table("silver/tiered", columns, (1, date(2026, 1, 5)), by=("day",))
    tiers = [Tier("hot", 0, 0.023)]
    return {
        "bring_back": {"into": days.target(known.run, partition={"day": "2026-01-05"}), "now": NOW},
        "estimate_savings": {"ledger": days.ledger, "tiers": tiers, "by": "day", "now": NOW},
    }


@two_runs()
def moved_at_once(world):
    columns = "id INT, day DATE"
    world.table("days", columns, by=["day"])
    for age in (0, 500):
        overwrite_partition(world.frame(columns, (age, day(age))), world.into("days", f"base-{age}", day(age)))
    cold = world.root.parent / "cold"
    cold.mkdir(exist_ok=True)
    tiers = [Tier("hot", 0, 0.023), Tier("cold", 365, 0.004, at=str(cold))]
    yield lambda w: move_to_tiers(w.into("days", "move"), tiers=tiers, by="day", now=NOW)
    yield lambda w: overwrite_partition(w.frame(columns, (7, day(0))), w.into("days", "2", day(0)))


@two_runs()
def brought_back_at_once(world):
    columns = "id INT, day DATE"
    world.table("days", columns, by=["day"])
    for age in (0, 500):
        overwrite_partition(world.frame(columns, (age, day(age))), world.into("days", f"base-{age}", day(age)))
    cold = world.root.parent / "colder"
    cold.mkdir(exist_ok=True)
    tiers = [Tier("hot", 0, 0.023), Tier("cold", 365, 0.004, at=str(cold))]
    move_to_tiers(world.into("days", "move"), tiers=tiers, by="day", now=NOW)
    yield lambda w: bring_back(w.into("days", "back", day(500)), now=NOW)
    yield lambda w: overwrite_partition(w.frame(columns, (7, day(0))), w.into("days", "2", day(0)))
