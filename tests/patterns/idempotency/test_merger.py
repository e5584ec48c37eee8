"""Changes are merged by key, and merging them again, late or in another order changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AmbiguousKeys, AuditFailed, ConfigError, ContractError, SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import repeated_keys
from dedp_assets.patterns.delta.rows import touched_files
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.idempotency.merger import merge_changes
from tests.helpers import a_run, active_files, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

LETTERS = TableSpec("silver/letters", {"letter": Column("STRING", required=True), "form": Column("STRING")})
DEVICES = TableSpec(
    "silver/devices",
    {
        "type": Column("STRING", required=True),
        "the.version": Column("BIGINT", required=True),
        "name": Column("STRING"),
        "at": Column("INT"),
        "place": Column("STRING"),
        "gone": Column("BOOLEAN"),
    },
)
SCHEMA = "type STRING, `the.version` BIGINT, name STRING, at INT, place STRING, gone BOOLEAN"
ORDERED = {"keys": ["type", "the.version"], "order_by": ["at", "place"], "deleted": "gone"}
HOURS = {
    7: [("A", "A", False)],
    8: [("A", "A-U", False), ("B", "B", False)],
    9: [("B", "B", True), ("C", "C", False)],
    10: [("M", "M", False), ("N", "N", False), ("O", "O", False)],
}


@pytest.fixture
def letters(spark, make_table):
    """Merge batches of letters in order; their deletions remove rows."""
    table = make_table(LETTERS)

    def merge(hour, rows, **more):
        changes = spark.createDataFrame(rows, "letter STRING, form STRING, gone BOOLEAN")
        run = a_run(sequence=hour, run_id=str(hour), **more)
        return merge_changes(changes, table.target(run), keys=["letter"], deleted="gone")

    merge.table = table
    return merge


def forms(table):
    return [row["form"] for row in read_back(table)]


@pytest.mark.both
def test_batches_in_order_mirror_the_source(letters):
    """Insert, update, delete, a key that comes again; the newest batch once more changes nothing, an older is refused.

    What is refused points to the pattern that can do it: merged on the newest table, the past would overwrite it.
    """
    seen = {}
    for hour, rows in HOURS.items():
        letters(hour, rows)
        seen[hour] = forms(letters.table)
    assert seen == {7: ["A"], 8: ["A-U", "B"], 9: ["A-U", "C"], 10: ["A-U", "C", "M", "N", "O"]}
    version = letters.table.ledger.version()
    assert not letters(10, HOURS[10]).applied
    with pytest.raises(ContractError, match=r"batch 8 was merged before batch 10.*Stateful Merger"):
        letters(8, HOURS[8])
    assert letters.table.ledger.version() == version
    # The same rows under another number, an unknown key deleted, a deleted one that comes again.
    assert not letters(11, HOURS[10]).changed
    assert not letters(12, [("X", "X", True)]).changed
    assert letters(13, [("B", "B2", False)]).figures["inserted"] == 1
    assert forms(letters.table) == ["A-U", "B2", "C", "M", "N", "O"]


def test_what_is_deleted_already_is_not_inserted_by_the_first_batch(letters):
    """Of a table that does not exist yet, and with a key that nobody knows."""
    letters(1, [("A", "A", True), ("B", "B", False)])
    assert forms(letters.table) == ["B"]


@pytest.mark.both
def test_a_row_that_nobody_can_place_is_refused(letters, spark, make_table):
    """No key, no deletion flag, no place in the order, two rows for one key: named by column and by key."""
    letters(1, HOURS[7])
    before = read_back(letters.table)
    with pytest.raises(ContractError, match="1 rows of the source with no letter, 2 rows of the source with no gone"):
        letters(2, [(None, "x", None), ("Q", "y", None), ("R", "z", False)])
    with pytest.raises(AmbiguousKeys, match="letter=K"):
        letters(2, [("K", "1", False), ("K", "2", False)])
    with pytest.raises(ConfigError, match="sequence"):
        letters(None, HOURS[7])
    assert read_back(letters.table) == before
    table = make_table(DEVICES)
    rows = [(None, 1, "a", 1, "", False), ("p", 1, "a", 1, None, False), ("p", 1, "b", 2, "", False)]
    changes = spark.createDataFrame(rows, SCHEMA)
    with pytest.raises(ContractError, match="with no type, 1 rows of the source with no place"):
        merge_changes(changes, table.target(a_run()), **ORDERED)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"keys": []}, "no key"),
        ({"keys": ["type"], "order_by": ["x"]}, "x"),
        ({"keys": ["type"], "order_by": ["type"]}, "different columns"),
        ({"keys": ["type"], "deleted": "gone"}, "requires the.version"),
    ],
)
def test_options_that_can_never_work_are_refused(spark, make_table, options, why):
    """Before anything is computed."""
    changes, table = spark.createDataFrame([], SCHEMA), make_table(DEVICES)
    with pytest.raises(ConfigError, match=why):
        merge_changes(changes, table.target(a_run(sequence=1)), **options)


def test_an_order_needs_a_place_for_what_was_deleted(spark, make_table):
    """A removed row could not refuse the older change that brings it back."""
    table = make_table(replace(LETTERS, columns={**LETTERS.columns, "at": Column("INT")}))
    changes = spark.createDataFrame([], "letter STRING, form STRING, at INT, gone BOOLEAN")
    with pytest.raises(ConfigError, match=r"does not declare gone.*bring it back"):
        merge_changes(changes, table.target(a_run()), keys=["letter"], order_by=["at"], deleted="gone")


CHANGE = st.tuples(
    st.tuples(st.sampled_from(["", "a/b c", "'", "é"]), st.integers(0, 2)),
    st.tuples(st.integers(-2, 2), st.sampled_from(["", "b", "ß"])),
)
VALUES = ((None, False), ("", False), ("x", False), ("y", True))


def as_rows(changes):
    return [(*key, None if gone else name, *place, gone) for (key, place), (name, gone) in changes]


def newest(changes):
    """The model: of each key the change with the greatest place."""
    found = {}
    for row in as_rows(changes):
        key, place = row[:2], (row[3], row[4].encode())
        if key not in found or place > found[key][0]:
            found[key] = (place, row)
    return sorted((row for _, row in found.values()), key=repr)


@pytest.mark.promise("the-order-of-delivery-does")
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=4, derandomize=True)
@given(changes=st.dictionaries(CHANGE, st.sampled_from(VALUES), min_size=12, max_size=60), random=st.randoms())
def test_the_order_of_delivery_does_not_count(spark, tmp_path_factory, make_table, changes, random):
    """Any split into batches, any order, repetitions and replays: the table holds each key's newest change."""
    table = make_table(replace(DEVICES, name=tmp_path_factory.mktemp("t").name))
    listed = list(changes.items())
    random.shuffle(listed)
    cut = random.randrange(len(listed) + 1)
    first, second = listed[:cut], listed[cut:] + random.sample(listed, len(listed) // 3)
    for batch in (first + first[:3], second, first):
        rows = spark.createDataFrame(as_rows(batch), SCHEMA)
        merge_changes(rows, table.target(a_run(asset=table.name)), **ORDERED)
    held = sorted((tuple(row.values()) for row in read_back(table)), key=repr)
    assert held == newest(listed)


def test_two_truths_for_one_place_are_refused(spark, make_table):
    """In one batch and against the table, with the key; the same change again is none, and an older one is nothing."""
    table = make_table(DEVICES)

    def merge(*rows):
        return merge_changes(spark.createDataFrame(rows, SCHEMA), table.target(a_run(run_id=str(rows))), **ORDERED)

    there = ("p", 1, "a", 5, "", False)
    merge(there)
    with pytest.raises(AuditFailed, match=r"changes_of_one_place_agree.*'the\.version': 1"):
        merge(("p", 1, "b", 5, "", False), ("q", 1, "b", 5, "", False))
    with pytest.raises(AmbiguousKeys, match="type=q"):
        merge(("q", 1, "a", 5, "", False), ("q", 1, "b", 5, "", False))
    result = merge(there, there, ("r", 1, "a", 1, "", False), ("r", 1, "b", 1, "x", False))
    assert (result.figures["inserted"], result.figures["updated"]) == (1, 0)
    assert not merge(("p", 1, "older", 4, "z", True)).changed
    # A deletion stays, without its values, so that what came before it does not bring the key back.
    merge(("p", 1, "a", 6, "", True))
    assert not merge(("p", 1, "late", 5, "zzz", False)).changed
    held = [tuple(row.values()) for row in read_back(table)]
    assert held == [("p", 1, None, 6, "", True), ("r", 1, "b", 1, "x", False)]


def test_only_files_with_a_key_of_the_changes_are_rewritten(spark, make_table, monkeypatch):
    """500 new rows, 20 updates and 5 deletions of 10,000: 495 more, and one file of ten is rewritten.

    No key has two rows, until a foreign writer appends some.
    """
    monkeypatch.setattr(touched_files, "SMALL_BYTES", 0)
    columns = {"id": Column("BIGINT", required=True), "name": Column("STRING")}
    table = make_table(TableSpec("silver/users", columns, key=("id",)))
    rows = spark.range(0, 10_000, 1, 10).selectExpr("id", "concat('u', id) AS name")
    table.overwrite(rows, provenance=a_run(sequence=1))
    before = active_files(table)
    assert len(before) == 10
    changes = spark.range(525).selectExpr(
        "if(id < 25, 3000 + id, 3500 - 25 + id + 10000) AS id", "concat('new', id) AS name", "id < 5 AS gone"
    )
    result = merge_changes(changes, table.target(a_run(sequence=2, run_id="2")), keys=["id"], deleted="gone")
    assert {name: result.figures[name] for name in ("inserted", "updated", "deleted", "after")} == {
        "inserted": 500,
        "updated": 20,
        "deleted": 5,
        "after": 10_495,
    }
    assert len(before - active_files(table)) == 1
    held = {row["id"]: row["name"] for row in read_back(table)}
    assert len(held) == 10_495
    assert repeated_keys(table) == 0
    write_deltalake(table.location, pa.table({"id": [1, 1, 2, 99_999], "name": ["x"] * 4}), mode="append")
    assert repeated_keys(table) == 2
    assert {key: held.get(key) for key in (3004, 3005, 3024, 3025)} == {
        3004: None,
        3005: "new5",
        3024: "new24",
        3025: "u3025",
    }


def test_a_map_is_the_same_in_whatever_order_its_entries_come(spark, make_table):
    """Merged in order, by places, or by the table's key: equal entries change nothing, another value does."""
    columns, more = "id INT, tags MAP<STRING, DOUBLE>, at INT", {"id": Column("INT"), "at": Column("INT")}
    kinds = {**more, "tags": Column("MAP<STRING, DOUBLE>")}
    placed, ordered = (make_table(TableSpec(f"silver/tags_{n}", kinds, key=("id",))) for n in range(2))
    for number, (tags, changed) in enumerate([("a b", True), ("b a", False), ("a c", True)]):
        rows = spark.createDataFrame([(1, dict.fromkeys(tags.split(), 0.5), 7)], columns)
        run = a_run(sequence=number, code_version=str(number))
        assert merge_changes(rows, ordered.target(run), keys=["id"]).changed == changed
        assert upsert_keyed(rows, placed.target(run)).changed == changed
    other = rows.selectExpr("id", "map('a', 1D) AS tags", "at")
    with pytest.raises(AuditFailed):
        merge_changes(other, placed.target(a_run(code_version="other")), keys=["id"], order_by=["at"])


def test_a_struct_with_another_field_is_refused_by_name(spark, make_table):
    """One that the table's column does not have, or lacks: nothing is merged."""
    columns = {"id": Column("INT"), "place": Column("STRUCT<city: STRING, zip: INT>"), "at": Column("INT")}
    table = make_table(TableSpec("silver/places", columns))
    table.ensure()
    for place in ("named_struct('city', 'x', 'zip', 1, 'land', 'y')", "named_struct('city', 'x')"):
        rows = spark.range(1).selectExpr("CAST(id AS INT) AS id", f"{place} AS place", "7 AS at")
        with pytest.raises(SchemaMismatch, match=r"place has a field (land|zip) only in the"):
            merge_changes(rows, table.target(a_run()), keys=["id"], order_by=["at"])
    assert table.ledger.version() == 0


@any_names(STORED, handed_on=("name",))
def merged(n):
    columns, parts = "id INT, name STRING, seq INT, gone BOOLEAN", "id INT, name STRING, day STRING"
    placed, ordered = n.table(columns), n.table(parts, by=["day"])
    options = {"keys": n.all("id"), "deleted": n("gone")}
    first, second = (
        [(1, "x", 3, False), (2, "y", 3, False)],
        [(1, "z", 1, False), (2, "z", 5, True), (2, "w", 4, False)],
    )
    for rows in (first, second):
        merge_changes(n.frame(columns, *rows), placed.target(a_run()), order_by=n.all("seq"), **options)
    for number in range(2):
        rows = n.frame(f"{parts}, gone BOOLEAN", (1, f"x{number}", "a=b", number == 1), (2, f"x{number}", "ü", False))
        merge_changes(rows, ordered.target(a_run(sequence=number)), **options)
    yield placed
    yield ordered


def test_technical_columns_alone_change_no_row(spark, make_table):
    """A row that comes again keeps its stamp; a deletion is seen, whatever its column is declared as."""
    columns = {"id": Column("INT"), "run": Column("STRING", technical=True), "gone": Column("BOOLEAN", technical=True)}
    table = make_table(TableSpec("silver/marks", columns))

    def merge(number, *rows):
        changes = spark.createDataFrame(rows, "id INT, run STRING, gone BOOLEAN")
        merge_changes(changes, table.target(a_run(sequence=number, run_id=str(number))), keys=["id"], deleted="gone")
        return [(row["id"], row["run"], row["gone"]) for row in read_back(table)]

    assert merge(1, (1, "a", False), (2, "a", False)) == [(1, "a", False), (2, "a", False)]
    assert merge(2, (1, "b", False), (2, "b", True)) == [(1, "a", False), (2, None, True)]


@two_runs()
def merged_at_once(world):
    columns = "id INT, name STRING, seq INT, gone BOOLEAN"
    table = world.table("placed", columns)
    options = {"keys": ["id"], "order_by": ["seq"], "deleted": "gone"}
    merge_changes(world.frame(columns, (1, "a", 3, False)), table.target(world.run("base")), **options)
    for name, row in (("1", (1, "b", 5, False)), ("2", (1, "c", 4, True))):
        yield lambda w, name=name, row=row: merge_changes(
            w.frame(columns, row, (9, name, 1, False)) if name == "1" else w.frame(columns, row),
            w.into("placed", name),
            **options,
        )


@two_runs()
def merged_in_order_at_once(world):
    columns = "id INT, name STRING"
    table = world.table("batches", columns)
    merge_changes(world.frame(columns, (1, "a")), table.target(world.run("base", sequence=1)), keys=["id"])
    for number in (2, 3):
        yield lambda w, number=number: merge_changes(
            w.frame(columns, (1, f"b{number}")), w["batches"].target(w.run(str(number), sequence=number)), keys=["id"]
        )
