"""Changes of fields: new, vanished and retyped ones are told, and chance is not."""

from __future__ import annotations

import json
import random
from datetime import datetime, timezone

import pytest

from dedp_assets.patterns.core.audits import judge
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.parsing.field_census import CENSUS, NEW_FIELDS, DeclaredField, FieldCensus, FieldFigures
from dedp_assets.patterns.core.parsing.field_changes import (
    DECLARED_FIELDS,
    USUAL_FIELDS,
    audits_of_fields,
    measure_fields,
    with_new_columns,
)
from dedp_assets.patterns.core.parsing.json_fields import census_of
from dedp_assets.patterns.core.schema import Column, TableSpec

NOW = datetime(2026, 1, 9, tzinfo=timezone.utc)
TREE = DeclaredField(
    frozenset({"object"}),
    {
        "id": DeclaredField(frozenset({"integer"})),
        "page": DeclaredField(frozenset({"string"})),
        "ref": DeclaredField(frozenset({"string"})),
    },
)


def day(count=1_000, **fields):
    """Take the census of a day; a field is a value, or a function of the record's number (``...``: absent)."""
    records = []
    for n in range(count):
        values = {"id": n, "page": "/a", "ref": "x", **{k: v(n) if callable(v) else v for k, v in fields.items()}}
        records.append(json.dumps({name: value for name, value in values.items() if value is not ...}))
    return census_of(records, TREE)


def judged(census, earlier=(), new_fields="report"):
    figures = {CENSUS: census.as_dict(), NEW_FIELDS: census.strange, "read": census.records}
    return {each.name: each for each in judge(audits_of_fields(new_fields, earlier), figures)}


USUAL = [day(), day(), day()]


def test_an_unchanged_source_is_as_usual():
    """Nothing is told of a day like the days before."""
    found = judged(day(), USUAL)
    assert [(each.passed, each.note) for each in found.values()] == [(True, "")] * 2


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"ref": ...}, "ref is absent in 100.00% of 1,000, usual is 0.00%"),
        ({"ref": None}, "ref is null in 100.00% of 1,000, usual is 0.00%"),
        ({"ref": lambda n: None if n % 5 < 2 else "x"}, "ref is null in 40.00% of 1,000, usual is 0.00%"),
        ({"id": lambda n: str(n) if n % 50 == 0 else n}, "id is a string in 2.00% of 1,000, usual is 0.00%"),
        ({"page": lambda n: n if n % 50 == 0 else "/a"}, "page is a number in 2.00% of 1,000, usual is 0.00%"),
        ({"id": lambda n: n + 0.5}, "id is a number in 100.00% of 1,000, usual is 0.00%"),
        ({"page": {"path": "/a"}}, "page is an object in 100.00% of 1,000, usual is 0.00%"),
    ],
)
def test_a_field_that_vanishes_goes_null_or_takes_another_type_is_told_with_both_shares(fields, told):
    """Each change has its own sentence and nothing else is told, for 2 % of the records already."""
    found = judged(day(**fields), USUAL)
    assert found[DECLARED_FIELDS].passed
    assert (found[USUAL_FIELDS].passed, found[USUAL_FIELDS].severity, found[USUAL_FIELDS].note) == (False, "warn", told)


def test_a_field_that_few_records_had_is_told_when_none_has_it():
    """95 % of absences are usual, 100 % are not."""
    rare = {"ref": lambda n: "x" if n % 20 == 0 else ...}
    earlier = [day(**rare)] * 3
    assert judged(day(**rare), earlier)[USUAL_FIELDS].passed
    assert judged(day(ref=...), earlier)[USUAL_FIELDS].note == "ref is absent in 100.00% of 1,000, usual is 95.00%"


@pytest.mark.parametrize("count", [10, 40, 1_000])
def test_chance_is_no_change(count):
    """Over 200 days from one distribution, none is told."""
    dice = random.Random(7)  # noqa: S311 - draws, no secrets
    drawn = {"ref": lambda _: dice.choice(["x", "y", None, ...]), "page": lambda _: "/a" if dice.random() < 0.99 else 5}
    days = [day(count, **drawn) for _ in range(207 if count < 1_000 else 57)]
    told = [judged(days[at], days[at - 7 : at])[USUAL_FIELDS].note for at in range(7, len(days))]
    assert [each for each in told if each] == []


def test_a_day_that_was_told_is_not_the_measure_for_the_next():
    """The median of earlier days bears a few that were unusual, and a new level is usual in the end."""
    broken = day(ref=...)
    assert not judged(broken, [broken, *USUAL])[USUAL_FIELDS].passed
    assert judged(broken, [broken, broken, broken, *USUAL[:2]])[USUAL_FIELDS].passed


@pytest.mark.parametrize(
    ("census", "earlier", "why"),
    [
        (day(), [], "too little history: no earlier partition"),
        (census_of(["{", "["], TREE), USUAL, "no record of 2 is readable"),
    ],
)
def test_too_little_to_compare_is_an_answer_of_its_own(census, earlier, why):
    """It is neither a change nor a confirmation."""
    found = judged(census, earlier)[USUAL_FIELDS]
    assert (found.passed, found.note) == (True, why)
    _, changed = measure_fields("t", NOW, partition="d", census=census, earlier=earlier).measurements
    assert (changed.verdict, changed.value, changed.reason) == ("unknown", None, why)


def test_a_field_declared_since_has_no_history_of_its_own():
    """A column that was added today is not compared with days that did not know it."""
    old = DeclaredField(TREE.types, {"id": TREE.fields["id"]})
    assert judged(day(ref=None), [census_of(['{"id": 1}'], old)])[USUAL_FIELDS].passed


def test_new_fields_are_told_with_counts_types_shapes_and_likeness():
    """The most frequent come first, five are named, and a field that differs in case says so."""
    new = {"mail": "ada@x.org", "Page": lambda n: n if n % 2 else ..., **{f"k{n}": 1 for n in range(5)}}
    found = judged(day(10, **new))[DECLARED_FIELDS]
    assert (found.passed, found.severity, found.figures) == (False, "warn", {NEW_FIELDS: 10})
    assert found.note.startswith("k0 is not declared: 10 values, integer such as 9; ")
    assert found.note.endswith("; and 2 further fields")
    only = judged(day(10, mail="ada@x.org", Page=lambda n: n if n % 2 else ...))[DECLARED_FIELDS].note
    assert only == (
        "mail is not declared: 10 values, string such as aaa@a.aaa; "
        "Page is not declared, which differs from page in case only: 5 values, integer such as 9"
    )


def test_the_answer_to_new_fields_is_a_choice():
    """Ignored, warned of, or a reason to publish nothing that a person may overrule."""
    census = day(10, mail="a")
    assert DECLARED_FIELDS not in judged(census, new_fields="ignore")
    assert not judged(census, new_fields="report")[DECLARED_FIELDS].refuses
    refused = judged(census, new_fields="refuse")[DECLARED_FIELDS]
    assert (refused.refuses, refused.approvable) == (True, True)
    with pytest.raises(ConfigError, match="new_fields"):
        audits_of_fields("reject")


def test_fields_that_nobody_counted_are_no_success():
    """A target with the audits and a step without the census is a mistake that shows."""
    found = {each.name: each for each in judge(audits_of_fields("refuse"), {"read": 3})}
    assert found[DECLARED_FIELDS].refuses
    assert not found[USUAL_FIELDS].passed


def test_measurements_say_the_same_as_the_audits():
    """Records with new fields and changed fields are figures with verdicts."""
    census = day(10, mail="a", ref=...)
    new, changed = measure_fields("silver/x", NOW, partition="2026-01-08", census=census, earlier=USUAL).measurements
    assert (new.metric, new.value, new.verdict, new.partition) == (NEW_FIELDS, 10, "warn", "2026-01-08")
    assert (changed.value, changed.verdict, changed.reason) == (1, "warn", judged(census, USUAL)[USUAL_FIELDS].note)
    calm = measure_fields("silver/x", NOW, partition="d", census=day(), earlier=USUAL)
    assert [each.verdict for each in calm.measurements] == ["ok", "ok"]


def test_new_columns_take_their_types_from_all_values():
    """Only values of one kind make another type than text, and what no column can hold stays out."""
    kinds = {
        "age": {"integer": 3, "null": 1}, "score": {"integer": 1, "number": 2}, "vip": {"boolean": 1},
        "mixed": {"integer": 9, "string": 1}, "empty": {"null": 2}, "when": {"string": 1}, "who": {"object": 1},
        "ID": {"integer": 1}, "`a b`": {"string": 1}, "device.os": {"string": 1},
    }  # fmt: skip
    census = FieldCensus(9, undeclared={path: FieldFigures(types) for path, types in kinds.items()})
    spec = with_new_columns(TableSpec("t", {"id": Column("BIGINT", required=True)}), census)
    assert {name: column.type for name, column in spec.columns.items()} == {
        "id": "BIGINT", "age": "BIGINT", "score": "DOUBLE", "vip": "BOOLEAN", "mixed": "STRING", "empty": "STRING",
        "when": "STRING", "who": "STRING",
    }  # fmt: skip
    assert all(
        column.classification == "personal" and not column.required
        for name, column in spec.columns.items()
        if name != "id"
    )
