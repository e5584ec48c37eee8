"""What a table declares, and how the stored one is brought up to it or refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import DECLARED, Column, TableSpec
from dedp_assets.patterns.delta import Ledger, require_partition
from dedp_assets.patterns.delta.snapshots.definition import alterations, conform
from tests.helpers import EVENTS, write_log

STORED = {"id": "long", "user_id": "string", "amount": "double", "event_date": "date"}
SPEC = TableSpec("silver/events", {name: Column(kind.upper()) for name, kind in STORED.items()}, ("event_date",))


@pytest.fixture
def state(tmp_path):
    """A stored table that :data:`SPEC` declares."""
    write_log(tmp_path, STORED, ["event_date"], [])
    return Ledger(tmp_path).state()


def statements(spec, state):
    return list(alterations(spec, "/lake/events", state))


def widened(**columns):
    return replace(SPEC, columns={**SPEC.columns, **columns})


def test_partition_columns_have_to_be_declared():
    """A typing mistake shows when the table is declared, not when it is written."""
    with pytest.raises(ConfigError, match=r"silver/events: partition columns \['day'\] are not among its columns"):
        TableSpec("silver/events", {"id": Column("BIGINT")}, ("day",))


def test_personal_columns_have_no_statistics():
    """Columns that have bounds are listed without personal, partition and nested ones."""
    columns = {**EVENTS.columns, "tags": Column("ARRAY<STRING>"), "at": Column("timestamp")}
    listed = replace(EVENTS, columns=columns).table_properties()
    assert listed["delta.dataSkippingStatsColumns"] == "id,amount,at"
    nothing_else = TableSpec("silver/people", {"name": Column("STRING", classification="personal")}).table_properties()
    assert nothing_else["delta.dataSkippingNumIndexedCols"] == "0"
    assert not [key for key in SPEC.table_properties() if "dataSkipping" in key]


def test_a_declaration_may_override_the_defaults():
    """The library's defaults are a start, not a rule."""
    spec = replace(SPEC, properties={"delta.checkpointInterval": "7"})
    assert spec.table_properties()["delta.checkpointInterval"] == "7"


def test_content_is_what_a_row_says_and_not_who_made_it():
    """Technical columns are stored but do not make rows differ."""
    assert widened(loaded_by=Column("STRING", technical=True)).content == tuple(SPEC.columns)


def test_new_columns_constraints_and_properties_are_added(state):
    """One statement for each, in the order that lets a constraint use a new column."""
    spec = replace(widened(city=Column("STRING", "it's where")), checks={"city_named": "city <> ''"})
    added, constrained, properties = statements(spec, state)
    assert added == "ALTER TABLE delta.`/lake/events` ADD COLUMNS (`city` STRING COMMENT 'it\\'s where')"
    assert constrained == "ALTER TABLE delta.`/lake/events` ADD CONSTRAINT `city_named` CHECK (city <> '')"
    assert properties.startswith(
        "ALTER TABLE delta.`/lake/events` SET TBLPROPERTIES ('delta.checkpointInterval' = '20'"
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (replace(SPEC, partition_by=()), r"is partitioned by \['event_date'\], declared is \[\]"),
        (replace(SPEC, columns={k: v for k, v in SPEC.columns.items() if k != "amount"}), r"has columns \['amount'\]"),
        (widened(city=Column("STRING", required=True)), r"cannot add required columns \['city'\]"),
        (widened(amount=Column("STRING")), "amount"),
        (widened(amount=Column("DOUBLE", required=True)), "amount"),
    ],
    ids=["partitioning", "dropped column", "new required column", "other type", "column now required"],
)
def test_what_needs_a_migration_is_refused_by_name(spec, words, state):
    """A difference that no ALTER can mend is said before anything is written."""
    with pytest.raises(SchemaMismatch, match=words):
        statements(spec, state)


def test_names_of_constraints_are_compared_as_delta_does(state):
    """Delta keeps them in lower case; a declaration in capitals is the same constraint."""
    state.snapshot.metadata()
    state.__dict__["properties"] = {**SPEC.table_properties(), "delta.constraints.named": "id > 0"}
    assert statements(replace(SPEC, checks={"Named": "id > 0"}), state) == []


def test_a_constraint_that_reads_otherwise_now_is_not_passed_over(state):
    """The stored rule would go on holding while the declaration promises another one."""
    state.__dict__["properties"] = {**SPEC.table_properties(), "delta.constraints.named": "id > 0"}
    try:
        changed = statements(replace(SPEC, checks={"named": "id > 5"}), state)
    except SchemaMismatch:
        return
    assert any("id > 5" in statement for statement in changed)


def test_rows_have_exactly_the_columns_of_the_table(spark, state):
    """Every missing, unknown and differently typed column is named at once."""
    rows = spark.sql("SELECT 1 AS id, 1 AS user_id, DATE '2026-01-05' AS event_date, 1 AS city")
    words = (
        r"missing columns \['amount'\]; unknown columns \['city'\]; user_id is INT in the rows and STRING in the table"
    )
    with pytest.raises(SchemaMismatch, match=f"silver/events: {words}"):
        conform("silver/events", Split.of(rows), "valid", state)


@pytest.mark.both
def test_the_order_of_columns_and_their_nullability_do_not_matter(spark, state):
    """Rows are matched by name; of a split only the kept part has to fit."""
    rows = spark.sql("SELECT DATE '2026-01-05' AS event_date, 1.5D AS amount, 'a' AS user_id, 1L AS id")
    conform("silver/events", Split.of(rows), "valid", state)
    flagged = rows.selectExpr("*", "'valid' AS __dedp_outcome", "'x' AS reason")
    split = Split(flagged, {"valid": tuple(STORED), "dead": ("id", "reason")})
    conform("silver/events", split, "valid", state)
    with pytest.raises(SchemaMismatch, match=r"missing columns .*unknown columns \['reason'\]"):
        conform("silver/events", split, "dead", state)


def test_a_write_owns_partition_columns_only(event_rows, state):
    """Nobody can replace rows by a column the table is not partitioned by."""
    with pytest.raises(ConfigError, match=r"is partitioned by \['event_date'\], not by \['user_id'\]"):
        require_partition("silver/events", state, {"user_id": "u1"})


@pytest.mark.parametrize("kind", ["TIMESTAMP", "timestamp", "TIMESTAMP_NTZ", "DATE"])
def test_an_event_time_is_a_column_with_a_time(kind):
    """A partition column as well, with any name; it stands in the property that Delta's metadata has no place for."""
    columns = {"id": Column("BIGINT"), "o'clock.at": Column(kind)}
    spec = TableSpec("silver/timed", columns, ("o'clock.at",) if kind == "DATE" else (), event_time="o'clock.at")
    assert spec.event_time == "o'clock.at"
    assert json.loads(spec.table_properties()[DECLARED]) == {"event_time": "o'clock.at"}


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("when", r"must be a column of the table \(id, at, nested, times\), not when"),
        ("AT", r"must be a column of the table \(.*\), not AT"),
        ("nested.at", r"must be a column of the table \(.*\), not nested.at"),
        ("nested", r"must be a column of type TIMESTAMP or DATE, not nested, a STRUCT<at: TIMESTAMP>"),
        ("times", "must be a column of type TIMESTAMP or DATE, not times, a ARRAY<TIMESTAMP>"),
        ("id", "must be a column of type TIMESTAMP or DATE, not id, a BIGINT"),
    ],
)
def test_an_event_time_that_is_no_column_with_a_time_is_refused(named, words):
    """In another spelling, in a column, several in a column, a number: said when the table is declared."""
    columns = {"id": "BIGINT", "at": "TIMESTAMP", "nested": "STRUCT<at: TIMESTAMP>", "times": "ARRAY<TIMESTAMP>"}
    with pytest.raises(ConfigError, match=f"^silver/timed: event_time {words}"):
        TableSpec("silver/timed", {name: Column(kind) for name, kind in columns.items()}, event_time=named)


@pytest.mark.parametrize("wrong", [{"type": None}, {"type": "INT", "replica": 7}, {"type": "INT", "required": "yes"}])
def test_a_column_is_declared_by_texts_and_truths(wrong):
    """By name of the attribute, where it is declared."""
    with pytest.raises(ConfigError, match=f"Column.{[*wrong][-1]} must be"):
        Column(**wrong)


def test_a_column_has_a_name():
    """Spark would take an empty one, and no statement could say it again."""
    with pytest.raises(ConfigError, match=r"bronze/nameless has a column without a name"):
        TableSpec("bronze/nameless", {"id": Column("BIGINT"), "": Column("STRING")})


@pytest.mark.parametrize("name", ["__dedp_outcome", "__DEDP_x"])
def test_a_table_has_no_column_with_a_name_of_the_librarys_own(name):
    """In any case: what the library adds to rows on the way would meet it."""
    with pytest.raises(ConfigError, match=f"names like {name} are the library's own"):
        TableSpec("bronze/taken", {"id": Column("BIGINT"), name: Column("STRING")})
