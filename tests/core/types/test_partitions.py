"""Partition values: one identity, whoever spells it, for every type and every value."""

# ruff: noqa: DTZ001 - values of TIMESTAMP_NTZ have no zone

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.partitions import NO_VALUE, logged, misfit, stored_type, text
from tests.helpers import a_run, active_files, read_back

NOON = datetime(2026, 1, 5, 12, 30, tzinfo=timezone.utc)
PLUS_ONE = timezone(timedelta(hours=1))
VALUES = {
    "STRING": [
        "New York",
        "a/b",
        "100%",
        "%20",
        "a=b",
        "ünï cödé",
        "x'y\"z",
        "back\\slash",
        "{[*?]}",
        ".",
        "NULL",
        " pad ",
    ],
    "VARCHAR(4)": ["ab", "ab c"],
    "BOOLEAN": [True, False],
    "INT": [0, -7, 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1],
    "SMALLINT": [-(2**15)],
    "TINYINT": [127],
    "DATE": [date(1, 1, 1), date(2026, 1, 5), date(9999, 12, 31)],
    "TIMESTAMP": [NOON, NOON + timedelta(microseconds=1), datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc)],
    "TIMESTAMP_NTZ": [datetime(2026, 1, 5, 12, 30), datetime(1, 1, 1), datetime(2026, 3, 29, 2, 30, 0, 5)],
}
"""Values of every type that a partition column can have, the odd ones among them."""


# --- the spelling of the log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spellings", "identity"),
    [
        ("date", [date(2026, 1, 5), "2026-01-05"], "2026-01-05"),
        ("boolean", [True, "true", "TRUE"], "true"),
        ("long", [7, "7", "+7", "007"], "7"),
        (
            "timestamp",
            [
                NOON,
                NOON.astimezone(PLUS_ONE),
                "2026-01-05T12:30:00Z",
                "2026-01-05 12:30:00",
                "2026-01-05T13:30:00.0+01:00",
            ],
            "2026-01-05T12:30:00.000000Z",
        ),
        ("timestamp_ntz", [NOON.replace(tzinfo=None), "2026-01-05T12:30:00.0"], "2026-01-05 12:30:00.000000"),
    ],
)
def test_every_spelling_of_a_value_is_one_identity(kind, spellings, identity):
    """Python's value, Spark's text, delta-rs's text and a person's text are the same partition."""
    assert {text(value, kind) for value in spellings} == {identity}
    assert {logged(str(value), kind) for value in spellings if isinstance(value, str)} == {identity}
    assert text(identity, kind) == identity


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "2026-1-5"),
        ("date", "20260105"),
        ("date", NOON),
        ("date", 5),
        ("boolean", "yes"),
        ("boolean", 1),
        ("integer", 2**31),
        ("integer", "1.0"),
        ("integer", "1_000"),
        ("integer", True),
        ("timestamp", "12:30"),
        ("timestamp", "yesterday"),
        ("timestamp_ntz", NOON),
        ("string", ""),
        ("string", NO_VALUE),
        ("string", "a\0b"),
        ("string", 5),
        ("double", 1.0),
    ],
)
def test_what_is_no_value_of_its_type_is_refused(kind, value):
    """Nobody replaces a partition that no row can lie in."""
    with pytest.raises(ValueError, match=r"."):
        text(value, kind)


@given(
    st.datetimes(timezones=st.timezones()),
    st.dates(),
    st.integers(-(2**63), 2**63 - 1),
)
def test_spelling_is_stable_and_tells_values_apart(moment, day, integer):
    """What was spelled once is spelled the same again, and equal text means equal value."""
    for value, kind, back in (
        (moment, "timestamp", lambda t: datetime.fromisoformat(t[:-1]).replace(tzinfo=timezone.utc)),
        (day, "date", date.fromisoformat),
        (integer, "long", int),
    ):
        try:
            spelled = text(value, kind)
        except ValueError:  # before year 1 in UTC
            continue
        assert text(spelled, kind) == logged(spelled, kind) == spelled
        assert back(spelled) == (value.astimezone(timezone.utc) if kind == "timestamp" else value)


@given(
    st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.text("/=%NUL", max_size=6)), min_size=1, max_size=2)
)
def test_names_of_partition_sets_are_told_apart(partition):
    """A name reads back as the partition it names: separators in values do not make two of one."""

    def plain(part):
        return part.replace("%2F", "/").replace("%25", "%") if part != "%4EULL" else "NULL"

    pairs = (segment.split("=", 1) for segment in slice_name(partition).split("/"))
    assert {c: None if v == "NULL" else plain(v) for c, v in pairs} == partition


@pytest.mark.parametrize(
    "kind",
    ["DOUBLE", "FLOAT", "DECIMAL(6,2)", "BINARY", "CHAR(3)", "ARRAY<INT>", "VARIANT", "STRING COLLATE UTF8_LCASE"],
)
def test_a_type_without_one_spelling_cannot_tell_partitions_apart(kind):
    """It is refused where the table is declared, by the name of the column."""
    with pytest.raises(ConfigError, match=r"t/t cannot be partitioned by p: not every .* has one spelling"):
        TableSpec("t/t", {"id": Column("INT"), "p": Column(kind)}, partition_by=("p",))


# --- tables -----------------------------------------------------------------------------------------------------------


def spec_of(kind):
    return TableSpec(
        "t/typed", {"id": Column("INT"), "p": Column(kind), "q": Column("STRING")}, partition_by=("p", "q")
    )


def rows_of(spark, kind, numbered, q="x y"):
    """Rows by Spark, of values by number; the value reaches Spark as a typed literal, whatever its spelling here."""
    sql = [f"SELECT CAST({n} AS INT) AS id, {_sql(v, kind)} AS p, '{q}' AS q" for n, v in numbered]
    return spark.sql(" UNION ALL ".join(sql))


def _sql(value, kind):
    if value is None:
        return f"CAST(NULL AS {kind})"
    if kind == "TIMESTAMP":
        return f"timestamp_micros({(value - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)})"
    if isinstance(value, str):
        return "CAST('{}' AS STRING)".format(value.replace("\\", "\\\\").replace("'", "\\'"))
    return f"CAST('{value}' AS {kind})"


@pytest.mark.promise("every-value-of-every-type")
@pytest.mark.parametrize("kind", VALUES)
def test_every_value_of_every_type_is_replaced_read_and_found(make_table, spark, kind):
    """Loaded at once, reloaded one by one, appended to by others: each value is one partition, and NULL is another."""
    table, values = make_table(spec_of(kind)), VALUES[kind]
    numbered = [*enumerate(values), (99, None)]
    table.overwrite(rows_of(spark, kind, numbered), provenance=a_run("t/typed", sequence=1))
    assert {row["id"]: row["p"] for row in read_back(table)} == dict(numbered)
    again = table.overwrite(rows_of(spark, kind, numbered), provenance=a_run("t/typed", sequence=2))
    assert (again.changed, again.reason) == (False, "the same rows as before: nothing changed")

    first, stored = values[0], stored_type(kind)
    foreign = rows_of(spark, kind, [(50, first), (51, None)])
    foreign.write.format("delta").mode("append").save(str(table.location))
    write_deltalake(str(table.location), foreign.limit(1).toArrow(), mode="append")
    state, owned = table.ledger.state(), {"p": first}
    assert sorted(r.id for r in table.read(owned).collect()) == [0, 50, 50]
    assert state.holds({"p": text(first, stored)})
    assert table.ledger.latest({"p": text(first, stored)}).record is None, "the foreign append is the newest commit"

    result = table.overwrite(
        rows_of(spark, kind, [(60, first)]), partition=owned, provenance=a_run("t/typed", sequence=3)
    )
    assert (result.changed, result.partition) == (True, {"p": text(first, stored)})
    expected = {n: v for n, v in numbered if n} | {60: first, 51: None}
    assert {row["id"]: row["p"] for row in read_back(table)} == expected
    assert {r.id: r.q for r in spark.read.format("delta").load(str(table.location)).collect()} == dict.fromkeys(
        expected, "x y"
    )
    assert [r.id for r in table.read({"p": text(first, stored), "q": "x y"}).collect()] == [60]
    assert table.ledger.latest({"p": text(first, stored)}).version == result.version

    table.clear(partition=owned, provenance=a_run("t/typed", sequence=4))
    assert 60 not in {row["id"] for row in read_back(table)}
    assert {row["id"] for row in read_back(table)} == set(expected) - {60}


def test_the_partitions_of_a_two_column_table_keep_their_files(make_table, spark):
    """A reload of one day leaves the files of cities alone whose rows did not change, whatever the cities' names."""
    cities = TableSpec(
        "t/cities", {"id": Column("INT"), "day": Column("DATE"), "city": Column("STRING")}, partition_by=("day", "city")
    )
    table = make_table(cities)
    rows = spark.sql(
        "SELECT id, DATE'2026-01-05' AS day, city FROM VALUES (1, 'New York'), (2, 'a%b'), (3, NULL) AS t(id, city)"
    )
    day = {"day": date(2026, 1, 5)}
    table.overwrite(rows, partition=day, provenance=a_run("t/cities", sequence=1))
    before = active_files(table)
    changed = rows.selectExpr("if(id = 1, 10, id) AS id", "day", "city")
    table.overwrite(changed, partition=day, provenance=a_run("t/cities", sequence=2))
    assert sorted(row["id"] for row in read_back(table)) == [2, 3, 10]
    assert len(before & active_files(table)) == 2
    assert dict(table.ledger.changes(since=table.ledger.version() - 1)[1]).keys() == {
        (("city", "New York"), ("day", "2026-01-05"))
    }


@pytest.mark.parametrize(
    "value", ["", NO_VALUE, "x" * 300], ids=["empty", "Spark's word for NULL", "longer than the name of a file"]
)
def test_rows_whose_partition_value_the_log_cannot_hold_are_refused(make_table, spark, value):
    """They would come back as NULL, beside the rows without a value; they are counted and shown instead."""
    table = make_table(spec_of("STRING"))
    rows = rows_of(spark, "STRING", [(1, "fine"), (2, value), (3, None)])
    with pytest.raises(AuditFailed, match=r"constraints_hold: failed \(p_is_a_partition_value=1\)"):
        table.overwrite(rows, provenance=a_run("t/typed"))
    assert read_back(table) == []


def test_types_that_hold_every_value_need_no_rule():
    """Whole numbers and booleans cost no predicate."""
    assert [misfit("c", kind) for kind in ("long", "byte", "boolean")] == [""] * 3
