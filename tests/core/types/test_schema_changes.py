"""Differences between schemas of a table, and which of them a stored table makes in place."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dedp_assets.patterns.core.errors import SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.schema_changes import schema_changes
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.delta.snapshots.definition import alterations
from tests.helpers import write_log

WIDENING = {"delta.enableTypeWidening": "true"}


def fields(**columns):
    return [ddl.field(name, kind) for name, kind in columns.items()]


@pytest.mark.parametrize(
    ("before", "after", "kind", "path"),
    [
        ({"a": "INT"}, {"a": "INT", "b": "INT"}, "added", "b"),
        ({"a": "INT", "b": "INT"}, {"a": "INT"}, "removed", "b"),
        ({"a": "INT"}, {"a": "BIGINT"}, "retyped", "a"),
        ({"a": "VARCHAR(3)"}, {"a": "VARCHAR(4)"}, "retyped", "a"),
        ({"a": "STRUCT<b: INT>"}, {"a": "STRUCT<b: INT, c: INT>"}, "added", "a.c"),
        ({"a": "STRUCT<b: INT NOT NULL>"}, {"a": "STRUCT<b: INT>"}, "null_allowed", "a.b"),
        ({"a": "STRUCT<b: INT>"}, {"a": "STRUCT<b: INT NOT NULL>"}, "null_forbidden", "a.b"),
        ({"a": "ARRAY<STRUCT<b: INT>>"}, {"a": "ARRAY<STRUCT<b: BIGINT>>"}, "retyped", "a.element.b"),
        ({"a": "MAP<STRING, STRUCT<b: INT, c: INT>>"}, {"a": "MAP<STRING, STRUCT<b: INT>>"}, "removed", "a.value.c"),
        ({"a": "MAP<INT, INT>"}, {"a": "MAP<BIGINT, INT>"}, "retyped", "a.key"),
        ({"a": "ARRAY<INT>"}, {"a": "INT"}, "retyped", "a"),
    ],
)
def test_a_difference_is_found_at_every_depth(before, after, kind, path):
    """One change, with the path to it."""
    (found,) = schema_changes(fields(**before), fields(**after))
    assert (found.kind, found.name) == (kind, path)


def test_neither_order_nor_case_is_a_difference():
    """As for Spark, at every depth."""
    before, after = fields(id="INT", at="STRUCT<b: INT, c: INT>"), fields(At="STRUCT<C: INT, B: INT>", ID="INT")
    assert list(schema_changes(before, after)) == []


def test_two_names_that_differ_in_case_only_are_refused():
    """Which of them a name means nobody could say."""
    with pytest.raises(SchemaMismatch, match="id and ID differ in case only"):
        list(schema_changes(fields(id="INT"), fields(id="INT", ID="INT")))


STORED = {"id": "integer", "day": "integer", "user": {"type": "struct", "fields": fields(age="INT")}}
SPEC = TableSpec(
    "silver/users",
    {"id": Column("INT"), "day": Column("INT"), "user": Column("STRUCT<age: INT>")},
    partition_by=("day",),
    properties=WIDENING,
)


@pytest.fixture
def altered(tmp_path):
    """The statements that bring a stored table to a declaration."""
    write_log(tmp_path, STORED, ["day"], [])
    state = Ledger(tmp_path).state()

    def of(properties=WIDENING, **types):
        columns = {**SPEC.columns, **{name: Column(kind) for name, kind in types.items()}}
        spec = replace(SPEC, columns=columns, properties=properties)
        return [text for text in alterations(spec, "/t", state) if "SET TBLPROPERTIES" not in text]

    return of


def test_a_stored_table_is_widened_and_gets_nested_fields(altered):
    """With the property of Delta that says so, in statements of their own; an unchanged table gets none."""
    assert altered() == []
    assert altered(id="BIGINT") == ["ALTER TABLE delta.`/t` ALTER COLUMN `id` TYPE bigint"]
    assert altered(user="STRUCT<age: BIGINT, `a b`: ARRAY<INT>>") == []
    assert altered(user="STRUCT<age: BIGINT, e_mail: ARRAY<INT>>") == [
        "ALTER TABLE delta.`/t` ALTER COLUMN `user`.`age` TYPE bigint",
        "ALTER TABLE delta.`/t` ADD COLUMNS (`user`.`e_mail` ARRAY<int>)",
    ]


@pytest.mark.parametrize(
    ("properties", "types"),
    [
        ({}, {"id": "BIGINT"}),
        (WIDENING, {"id": "SMALLINT"}),
        (WIDENING, {"id": "STRING"}),
        (WIDENING, {"day": "BIGINT"}),
    ],
)
def test_another_type_needs_a_migration(altered, properties, types):
    """Without the property, where Delta cannot, and of a partition column."""
    with pytest.raises(SchemaMismatch, match="this needs a migration"):
        altered(properties, **types)


def test_fields_are_written_as_the_log_writes_them():
    """The declaration's own form is the log's: what was written is read back without a difference."""
    stored = json.loads(json.dumps(fields(a="STRUCT<b: ARRAY<INT>>")))
    assert list(schema_changes(stored, fields(a="STRUCT<b: ARRAY<INT>>"))) == []
