"""Fields of JSON records: what a census counts, held against a model that looks at each value by itself."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.parsing.field_census import MOST_FIELDS, DeclaredField, FieldCensus, FieldFigures
from dedp_assets.patterns.core.parsing.json_fields import census_of, undeclared


def of(*types, **more):
    return DeclaredField(frozenset(types), **more)


def object_of(**fields):
    return of("object", fields=fields)


TREE = of(
    "object",
    fields={
        "id": of("integer"),
        "price": of("number"),
        "name": of("string"),
        "a.b": of("boolean"),
        "": of("string"),
        "device": object_of(type=of("string"), name=object_of(first=of("string"))),
        "tags": of("array", items=of("string")),
        "lines": of("array", items=object_of(sku=of("string"), tags=of("array", items=of("integer")))),
        "prices": of("object", values=object_of(net=of("number"))),
    },
)
NAMES = [
    "id",
    "ID",
    "price",
    "name",
    "a.b",
    "a`b",
    "",
    " ",
    '"',
    "größe",
    "☃",
    "*",
    "[]",
    "x\ny",
    "sku",
    "net",
]
NAMES += ["device", "type", "first", "tags", "lines", "prices", "Device", "new_field"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)


class Pairs(list):
    """An object as pairs of names and values."""


def pairs(values):
    named = st.tuples(st.sampled_from(NAMES), values)
    return st.lists(named, max_size=6, unique_by=lambda pair: pair[0]).map(Pairs)


VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | pairs(inner), max_leaves=8)


def written(value):
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{json.dumps(name)} : {written(each)}" for name, each in value) + "}"
    return "[" + ",".join(map(written, value)) + "]" if isinstance(value, list) else json.dumps(value)


RECORDS = pairs(VALUES).map(written)


def kind_of(value):
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    if isinstance(value, int):
        return "integer"
    return {str: "string", float: "number", dict: "object", list: "array"}[type(value)]


ELEMENT, KEY = 0, 1


def spelled(path):
    """Spell the path of a place: names, elements and keys."""
    text = ""
    for part in path:
        if part in (ELEMENT, KEY):
            text += "[]" if part == ELEMENT else ".*"
        else:
            text += f".{part}" if part.isidentifier() else ".`" + part.replace("`", "``") + "`"
    return text.removeprefix(".")


def places(value, declared, path=()):
    """List every place of a value with its declaration: (path, field or None, value)."""
    if isinstance(value, list) and declared.items:
        return [p for each in value for p in place((*path, ELEMENT), declared.items, each)]
    if isinstance(value, dict) and declared.values:
        return [p for each in value.values() for p in place((*path, KEY), declared.values, each)]
    if isinstance(value, dict) and declared.fields is not None:
        return [p for name, each in value.items() for p in place((*path, name), declared.fields.get(name), each)]
    return []


def place(path, declared, value):
    return [(path, declared, value), *(places(value, declared, path) if declared else [])]


def model(texts):
    """Count by one pass over the places of each record, without any bound."""
    known, new, strange = Counter(), Counter(), 0
    for text in texts:
        found = places(json.loads(text), TREE)
        strange += any(declared is None for _, declared, _ in found)
        for path, declared, value in found:
            kind = kind_of(value)
            if declared is None:
                kind = "number" if kind == "integer" and not -(2**63) <= value < 2**63 else kind
                new[spelled(path), kind] += 1
            else:
                known[spelled(path), "number" if kind == "integer" and "integer" not in declared.types else kind] += 1
    return known, new, strange


def counts(fields):
    return Counter({(path, kind): n for path, each in fields.items() for kind, n in each.types.items() if n})


@given(st.lists(RECORDS, max_size=8))
def test_a_census_counts_what_a_look_at_each_value_finds(texts):
    """Every value of every depth, under odd names, is counted once by its path and its JSON type."""
    known, new, strange = model(texts)
    seen = census_of(texts, TREE)
    assert (seen.records, seen.unreadable, seen.others, seen.strange) == (len(texts), 0, 0, strange)
    assert counts(seen.declared) == known
    assert counts(seen.undeclared) == new


@given(st.lists(RECORDS, max_size=8))
def test_a_field_is_there_or_absent_in_each_object_around(texts):
    """Absences and values add up to the objects that could have the field."""
    seen = census_of(texts, TREE).declared
    devices = seen["device"].types.get("object", 0)
    lines = seen["lines[]"].types.get("object", 0)
    assert {seen[name].places for name in ("id", "price", "`a.b`", "``", "device", "prices")} == {len(texts)}
    assert {seen[path].places for path in ("device.type", "device.name")} == {devices}
    assert (seen["lines[].sku"].places, seen["lines[]"].absent) == (lines, 0)
    assert all(each.absent >= 0 for each in seen.values())


@given(st.lists(RECORDS, max_size=8), st.data())
def test_the_censuses_of_parts_add_up_to_that_of_the_whole(texts, data):
    """However a batch is cut, and in which order its parts are added, the counts are the same."""
    at = data.draw(st.integers(0, len(texts)))
    one, other = census_of(texts[:at], TREE), census_of(texts[at:], TREE)
    assert plain(one + other) == plain(other + one) == plain(census_of(texts, TREE))
    assert FieldCensus.sum([one, other, FieldCensus()]) == one + other


def plain(census):
    unsampled = {path: replace(each, sample="") for path, each in census.undeclared.items()}
    kept = {
        path: replace(each, types={k: n for k, n in each.types.items() if n}) for path, each in census.declared.items()
    }
    return replace(census, undeclared=unsampled, declared=kept)


@given(st.lists(RECORDS, max_size=4))
def test_a_census_is_one_line_of_text_that_is_read_back(texts):
    """Quotes and line feeds in names do not leave the line."""
    seen = census_of(texts, TREE)
    line = seen.to_json()
    assert line.isascii()
    assert line.splitlines() == [line]
    assert FieldCensus.from_json(line) == seen


@given(RECORDS)
def test_the_rest_is_what_no_schema_names(text):
    """The rest has a place for each undeclared value, and none for a record without one."""
    found = [value for _, declared, value in places(json.loads(text), TREE) if declared is None]
    rest = undeclared(text, TREE)
    assert (rest is None) == (not found)
    assert sorted(map(comparable, found)) == sorted(rest.values() if rest else [])


def comparable(value):
    """Spell a value as the rest does; floats by what json wrote of them."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def test_the_rest_keeps_numbers_and_texts_as_they_are():
    """No digit is lost, and elements and keys have paths of their own."""
    text = '{"id": 7, "n": 1.10, "big": 123456789012345678901234567890, "o": {"e": 1E+2, "s": "é"},'
    text += (
        ' "s": "1.10", "z": null, "lines": [{"sku": "a"}, {"sku": "b", "qty": 2}], "prices": {"EUR": {"gross": 3.50}}}'
    )
    assert undeclared(text, TREE) == {
        "n": "1.10",
        "big": "123456789012345678901234567890",
        "o": '{"e":1E+2,"s":"é"}',
        "s": "1.10",
        "z": "null",
        "lines[1].qty": "2",
        "prices.EUR.gross": "3.50",
    }
    assert undeclared('{"id": 7}', TREE) is undeclared("[", TREE) is undeclared(None, TREE) is None


@pytest.mark.parametrize(
    "text",
    [
        *["", "{", "[1]", "7", "null", '{"id": NaN}', '{"id": 1} {}', "{'id': 1}", "[" * 100_000],
        *['{"id": 1, "id": 1}', '{"device": {"a": 1, "a": 1}}', '{"name": "\\ud800"}', '{"\\udc00": 1}'],
    ],
)
def test_what_is_no_json_object_is_counted_apart(text):
    """A text that not every parser of JSON reads as the same object has no fields; its record is a dead letter."""
    seen = census_of([text, '{"id": 1}'], TREE)
    assert (seen.records, seen.unreadable, seen.declared["id"].types) == (1, 1, {"integer": 1})


def test_missing_records_are_not_counted_and_long_numbers_are_numbers():
    """A NULL is no text, and an integer of 5,000 digits is JSON."""
    seen = census_of([None, f'{{"x": {"9" * 5000}, "price": {"1" * 5000}}}'], TREE)
    assert (seen.records, seen.unreadable, seen.undeclared["x"].types) == (1, 0, {"number": 1})


def test_random_names_do_not_hide_a_new_field_nor_take_memory():
    """Of 30,000 names, 100 are listed; the one that every record has is among them, counted exactly."""
    parts = [[f'{{"k{part}-{n}": 1, "m{part}-{n}": 2, "real": "a"}}' for n in range(3_000)] for part in range(5)]
    seen = FieldCensus.sum(census_of(part, TREE) for part in parts)
    assert len(seen.undeclared) == MOST_FIELDS
    assert seen.undeclared["real"].types == {"string": 15_000}
    assert sum(each.values for each in seen.undeclared.values()) + seen.others == 45_000
    assert len(seen.to_json()) < 10_000


def test_a_long_name_is_cut():
    """Names are a producer's, and the log keeps 100 characters of each."""
    (path,) = census_of([json.dumps({"x" * 5_000: 1})], TREE).undeclared
    assert path == f"`{'x' * 100}...`"


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("ada@example.org", "aaa@aaaaaaa.aaa"),
        ("10.0.0.1", "99.9.9.9"),
        ("Größe 7 ☃", "aaaaa 9 ☃"),
        ({"mail": "ada@x.org"}, '{"aaaa": "aaa@a.aaa"}'),
        ("x" * 99, "a" * 40),
        (None, ""),
    ],
)
def test_a_sample_shows_the_shape_of_a_value_and_not_the_value(value, shape):
    """A new field may be personal data, which no log should hold."""
    assert census_of([json.dumps({"new": value})], TREE).undeclared["new"].sample == shape


def test_a_value_of_another_type_is_counted_as_mistyped():
    """An integer is a number, a number is no integer, and null is of no type."""
    texts = ['{"id": 1, "price": 2}', '{"id": 1.5, "price": "2"}', '{"id": null}', '{"id": "1", "price": 2.5}']
    seen = census_of(texts, TREE).declared
    assert seen["id"] == FieldFigures({"integer": 1, "null": 1, "number": 1, "string": 1}, absent=0, mistyped=2)
    assert seen["price"] == FieldFigures({"number": 2, "string": 1}, absent=1, mistyped=1)
