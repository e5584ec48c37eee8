"""A run that compares publishes rows that are the stored ones, and refuses others until a person approves them."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AuditFailed
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table
from dedp_assets.patterns.delta.staging.comparing import AS_BEFORE
from dedp_assets.patterns.delta.staging.stage_files import KEPT_PART
from dedp_assets.patterns.idempotency.merger import merge_changes
from tests.helpers import a_run, read_back

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "a dozen generated pairs of writes")]

FUZZ = settings.get_current_profile_name() == "fuzz"
COLUMNS = {
    "id": Column("INT"),
    "text": Column("STRING"),
    "marks": Column("MAP<STRING, INT>"),
    "day": Column("STRING"),
    "loaded": Column("STRING", technical=True),
}
KEYED = TableSpec("counted", COLUMNS, partition_by=("day",), key=("id", "day"))
PLAIN = TableSpec("listed", COLUMNS, partition_by=("day",))
SCHEMA = "id INT, text STRING, marks MAP<STRING, INT>, day STRING, loaded STRING"
OWNED = {"day": "mon"}
VALUES = st.tuples(st.sampled_from([None, "", "a"]), st.sampled_from([None, 0, 1]))
BY_KEY = st.dictionaries(st.integers(0, 4), VALUES, max_size=5)
LISTS = st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=6)
NUMBERS = count()


@pytest.fixture
def fresh_table(spark, tmp_path):
    """A table of its own for each call."""
    return lambda spec: Table(spec, tmp_path / f"{spec.name}{next(NUMBERS)}", spark)


def rows_of(spark, rows, number=0):
    """Rows of Monday: an id with a text and a mark, of which one write differs from another in a technical column."""
    filled = [(i, text, {"n": mark}, "mon", f"write {number}") for i, (text, mark) in rows]
    return spark.createDataFrame(filled, SCHEMA)


def write(table, spark, rows, **run):
    """Overwrite Monday, by other code each time; return the figures of the comparison."""
    number = next(NUMBERS)
    fields = {"inputs": {"x": 1}, "code_version": str(number), "run_id": f"run-{number}", **run}
    target = table.target(a_run(**fields), partition=OWNED)
    result = target.stage(rows_of(spark, rows, number)).publish()
    return next((f.figures for f in result.findings if f.name == AS_BEFORE), None)


def compared(table, spark, rows, **run):
    """Differences that a run which compares tells: rows in, out and changed; ``None`` if the rows are published."""
    try:
        write(table, spark, rows, compare=True, **run)
    except AuditFailed as error:
        (found,) = (f for f in error.findings if f.refuses)
        assert (found.name, found.approvable) == (AS_BEFORE, True)
        return tuple(found.figures.values())
    return None


def by_key(before, after):
    """The same differences of two mappings."""
    changed = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    found = (len(after.keys() - before.keys()), len(before.keys() - after.keys()), len(changed))
    return found if any(found) else None


def by_row(before, after):
    """The same differences of two lists, whatever the order."""
    old, new = Counter(before), Counter(after)
    found = ((new - old).total(), (old - new).total(), 0)
    return found if any(found) else None


GENERATED = settings(max_examples=100 if FUZZ else 5, deadline=None, suppress_health_check=list(HealthCheck))


@GENERATED
@given(BY_KEY, BY_KEY)
def test_rows_with_a_key_differ_as_two_mappings(fresh_table, spark, before, after):
    """Technical columns play no part; what is refused changes nothing, and the stored rows are those of one write."""
    table = fresh_table(KEYED)
    write(table, spark, before.items())
    version = table.ledger.version()
    expected = by_key(before, after) if before else None
    assert compared(table, spark, after.items()) == expected
    assert (table.ledger.version() == version) == bool(expected)
    held = {row["id"]: (row["text"], dict(row["marks"])["n"]) for row in read_back(table)}
    assert held == (before if expected else after)


@GENERATED
@given(LISTS, LISTS)
def test_rows_without_a_key_differ_as_two_lists(fresh_table, spark, before, after):
    """How often a row comes counts, and its place does not."""
    table = fresh_table(PLAIN)
    write(table, spark, before)
    assert compared(table, spark, after) == (by_row(before, after) if before else None)


def test_an_approval_publishes_the_refused_rows(make_table, spark):
    """The record says who approved which differences."""
    table = make_table(KEYED)
    write(table, spark, [(1, ("a", 1)), (2, ("b", 1))])
    new = [(1, ("a", 2)), (3, ("c", 1))]
    assert compared(table, spark, new) == (1, 1, 1)
    assert compared(table, spark, new, approval=Approval("Ada", "the mark was wrong")) is None
    record = next(table.ledger.newest_first()).record
    assert (record.verdict, sorted(row["id"] for row in read_back(table))) == ("approved", [1, 3])
    (audit,) = (each for each in record.findings if each["name"] == AS_BEFORE)
    assert audit["figures"] == {"rows_in": 1, "rows_out": 1, "rows_changed": 1}


def test_no_rows_in_place_of_some_are_rows_out(make_table, spark):
    """Also by a write that starts no job."""
    table = make_table(KEYED)
    write(table, spark, [(1, ("a", 1)), (2, ("b", 1))])
    assert compared(table, spark, []) == (0, 2, 0)
    with pytest.raises(AuditFailed, match=f"{AS_BEFORE}.*rows_out=2"):
        table.clear(partition=OWNED, provenance=a_run(compare=True, inputs={"x": 2}))
    assert len(read_back(table)) == 2


def test_an_append_brings_rows_alone(make_table, spark):
    """Each of them is one that was not there before."""
    table = make_table(PLAIN)
    write(table, spark, [(1, ("a", 1))])
    with pytest.raises(AuditFailed, match=r"rows_in=1, rows_out=0, rows_changed=0"):
        table.append(rows_of(spark, [(1, ("a", 1))]), provenance=a_run(compare=True, inputs={"x": 2}, sequence=9))


def test_a_merge_is_compared_by_the_rows_that_it_changes(make_table, spark):
    """Equal rows are no difference; an update, an insert and a deletion are."""
    table = make_table(KEYED)
    write(table, spark, [(1, ("a", 1)), (2, ("b", 1))])

    def merge(rows, **run):
        number = next(NUMBERS)
        into = table.target(a_run(inputs={"x": number}, sequence=number, **run))
        return merge_changes(rows_of(spark, rows, "of 0"), into, keys=["id", "day"])

    with pytest.raises(AuditFailed, match=r"rows_in=1, rows_out=0, rows_changed=1"):
        merge([(1, ("z", 1)), (3, ("c", 1))], compare=True)
    assert sorted(row["id"] for row in read_back(table)) == [1, 2]


def test_the_stage_of_a_split_names_the_part_that_is_the_tables(make_table, spark):
    """A reader of refused rows leaves the letters beside them out."""
    table = make_table(PLAIN)
    write(table, spark, [(1, ("a", 1))])
    rows = rows_of(spark, [(1, ("a", 2)), (9, ("bad", 1))])
    marked = rows.selectExpr("*", "if(id = 9, 'dead', 'valid') AS outcome")
    split = Split(marked, {"valid": tuple(rows.columns), "dead": tuple(rows.columns)}, "outcome")
    with pytest.raises(AuditFailed) as refused:
        table.target(a_run(compare=True), partition=OWNED).stage(split, also=["dead"])
    state = Ledger(refused.value.stage).state()
    assert (state.properties[KEPT_PART], len(state.files())) == ("valid", 2)
