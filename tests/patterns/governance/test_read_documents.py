"""Documents of the Open Data Contract Standard that others wrote: each part is read, or named."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.types.ddl import field
from dedp_assets.patterns.governance._documents import read_contract
from dedp_assets.patterns.governance.contract_testing import verify_producer

SCHEMA = json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft201909Validator(SCHEMA)
BASE = {"apiVersion": "v3.2.0", "kind": "DataContract", "id": "a1", "version": "1.0.0", "status": "active"}


def document(*properties, quality=(), sla=(), **more):
    """A document of the table `orders`, valid by the standard."""
    table = {"name": "orders", "properties": [*(properties or [{"name": "id", "logicalType": "string"}])]}
    table |= {"quality": [*quality]} if quality else {}
    found = {**BASE, "schema": [table], **({"slaProperties": [*sla]} if sla else {}), **more}
    VALIDATOR.validate(found)
    return found


def column(logical="string", name="c", **more):
    return {"name": name, "logicalType": logical, **more}


TYPES = {
    "VARCHAR(5)": [column(logicalTypeOptions={"maxLength": 5}), column(physicalType="varchar2(5)")],
    "STRING": [column(), column("time"), column(physicalType="text"), column(physicalType="nvarchar")],
    "BIGINT": [column("integer"), column("integer", physicalType="int8"), column("integer", physicalType="serial")],
    "INT": [column("integer", logicalTypeOptions={"format": "i32"}), column("integer", physicalType="INT4")],
    "FLOAT": [column("number", logicalTypeOptions={"format": "f32"})],
    "DECIMAL(10,2)": [column("number", physicalType="numeric(10, 2)"), column("number", physicalType="NUMBER(10,2)")],
    "TIMESTAMP_NTZ": [
        column("timestamp", logicalTypeOptions={"timezone": False}),
        column("timestamp", physicalType="timestamp without time zone"),
    ],
    "TIMESTAMP": [column("timestamp"), column("timestamp", physicalType="timestamptz(6)")],
    "VARIANT": [column("object"), column("object", physicalType="jsonb")],
    "ARRAY<STRING>": [column("array", items={"logicalType": "string"})],
    "MAP<STRING, DOUBLE>": [column("map", map={"key": column(name="k"), "value": column("number", name="v")})],
    "STRUCT<`zip`: STRING NOT NULL, `lines`: ARRAY<STRUCT<`n`: BIGINT>>>": [
        column(
            "object",
            properties=[
                column(name="zip", required=True),
                column("array", name="lines", items=column("object", properties=[column("integer", name="n")])),
            ],
        )
    ],
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_column_has_the_type_that_its_document_means(kind):
    """By its physical type in any database's words, otherwise by the logical one with options and inner types."""
    for stated in TYPES[kind]:
        found = read_contract(document(stated)).columns["c"].type
        assert field("c", found) == field("c", kind)


AGES = {
    ("freshness", 2, "d"): 48,
    ("freshness", "3", "hours"): 3,
    ("freshness", 90, "min"): 1.5,
    ("freshness", "1 day", ""): 24,
    ("freshness", 1, "week"): 168,
    ("freshness", 2, ""): None,
    ("freshness", 1, "m"): None,
    ("freshness", 1, "y"): None,
    ("latency", 4, "d"): None,
    ("retention", 3, "y"): None,
}


@pytest.mark.parametrize("stated", AGES, ids=str)
def test_an_age_is_read_in_its_unit_or_named(stated):
    """A month or a minute, a year of some length, no unit at all: nobody guesses."""
    name, value, unit = stated
    contract = read_contract(document(sla=[{"property": name, "value": value, **({"unit": unit} if unit else {})}]))
    assert contract.sla.fresh_hours == AGES[stated]
    assert contract.not_read == (() if AGES[stated] else (f"slaProperties[{name}]",))


def test_a_deadline_with_an_offset_is_the_same_time_of_day_in_utc():
    """And an age of another table, or a second one, is named."""
    freshness = {"property": "freshness", "value": 1, "unit": "h"}
    contract = read_contract(
        document(
            sla=[
                {"property": "timeOfAvailability", "value": "09:00-08:00"},
                {**freshness, "element": "customers.at"},
                {**freshness, "value": 2, "element": "orders.at"},
                freshness,
            ]
        )
    )
    assert (contract.sla.due, contract.sla.zone, contract.sla.fresh_hours) == ("17:00", "UTC", 2)
    assert contract.not_read == ("slaProperties[freshness]",) * 2


COUNTS = {
    ("mustBeBetween", (10, 20)): (10, 20),
    ("mustBe", 7): (7, 7),
    ("mustBeGreaterThan", 10): (11, None),
    ("mustBeGreaterOrEqualTo", 10): (10, None),
    ("mustBeLessThan", 10): (None, 9),
    ("mustBeLessOrEqualTo", 10.5): (None, 10),
    ("mustNotBe", 0): None,
    ("mustNotBeBetween", (1, 2)): None,
}


@pytest.mark.parametrize("stated", COUNTS, ids=str)
def test_a_count_of_rows_is_a_bound_by_every_operator_or_words(stated):
    """Also by the name that the standard had before."""
    operator, value = stated
    rule = {operator: [*value] if isinstance(value, tuple) else value, "unit": "rows"}
    for older in ({"metric": "rowCount"}, {"metric": "rowCount", "rule": "rowCount"}):
        quality = read_contract(document(quality=[{**older, **rule}])).quality
        expected = COUNTS[stated] or (None, None)
        assert (quality.daily_rows_min, quality.daily_rows_max) == expected
        assert bool(quality.rules) == (COUNTS[stated] is None)
        assert COUNTS[stated] is not None or operator in quality.rules["rowCount"]


SQL = {"type": "sql", "query": "SELECT count(*) FROM {object} WHERE amount < 0", "mustBe": 0}


def test_a_rule_of_any_kind_is_kept_in_words():
    """SQL of others, a rule of another engine, a text without a name, two of one name."""
    found = read_contract(
        document(
            column("number", name="amount", unique=True, quality=[{"metric": "duplicateValues", "mustBeLessThan": 3}]),
            quality=[
                SQL,
                {**SQL, "name": "dear", "mustBe": 1},
                {**SQL, "name": "dear", "mustBe": 2},
                {"type": "custom", "engine": "soda", "implementation": {"valid": True}},
                {"type": "text", "description": "never on sundays"},
            ],
        )
    )
    query = SQL["query"]
    assert found.quality.rules == {
        "amount_unique": "no value of amount comes twice",
        "amount_duplicateValues": "metric duplicateValues; mustBeLessThan 3",
        "sql": f"query {query}; mustBe 0",
        "dear": f"query {query}; mustBe 1",
        "dear_2": f"query {query}; mustBe 2",
        "custom": 'engine soda; implementation {"valid": true}',
        "text": "never on sundays",
    }
    assert found.not_read == ()
    assert verify_producer(found, [{"AMOUNT": 1.5}]).figures["not_verified"] == [*found.quality.rules]


def test_missing_and_allowed_values_are_read_in_each_way_that_says_them():
    """As a share, as none at all; by a list of the column, by a metric, and both."""
    listed = {"metric": "invalidValues", "mustBe": 0, "arguments": {"validValues": ["a", "b"]}}
    share = {"metric": "nullValues", "unit": "percent"}
    found = read_contract(
        document(
            column(name="a", enum=[{"value": "b"}, {"value": "c"}], quality=[listed]),
            column(name="b", quality=[{"metric": "nullValues", "mustBe": 0}, {**share, "mustBeLessOrEqualTo": 5}]),
            column(name="c", quality=[{**share, "mustBeBetween": [0, 2.5]}]),
            column(name="d", quality=[{**share, "mustBeLessThan": 5}]),
            column("boolean", name="e", enum=[{"value": True}]),
        )
    ).quality
    assert found.allowed == {"a": ("b",), "e": ("true",)}
    assert found.null_shares == {"b": 0, "c": 0.025}
    assert found.rules == {"d_nullValues": "metric nullValues; unit percent; mustBeLessThan 5"}


def test_limits_of_a_type_are_checks_and_positions_may_be_missing():
    """Columns of a key without a position stay as they stand; a measure is no column."""
    limits = {"minimum": 0, "exclusiveMaximum": 10, "multipleOf": 2}
    found = read_contract(
        document(
            column(name="z", primaryKey=True, logicalTypeOptions={"pattern": "^a'b$", "minLength": 1}),
            column(name="y", physicalName="Y_1", primaryKey=True, classification="PII"),
            column("integer", name="n", logicalTypeOptions=limits),
            column("number", name="total", semanticType="measure"),
        )
    )
    assert found.quality.checks == {
        "z_minLength": "`z` IS NULL OR length(`z`) >= 1",
        "z_pattern": "`z` IS NULL OR `z` RLIKE '^a\\'b$'",
        "n_minimum": "`n` IS NULL OR `n` >= 0",
        "n_exclusiveMaximum": "`n` IS NULL OR `n` < 10",
        "n_multipleOf": "`n` IS NULL OR `n` % 2 = 0",
    }
    assert (found.key, found.columns["Y_1"].classification) == (("z", "Y_1"), "personal")
    assert found.not_read == ("schema[orders].properties[total]",)


def test_a_table_of_several_is_chosen_by_its_name():
    """Without one, the sentence names them; the others are named as not read."""
    several = document(quality=[SQL])
    several["schema"].append({"name": "customers", "properties": [column()]})
    with pytest.raises(ConfigError, match="must describe one table, or one named by table=, not orders, customers"):
        read_contract(several)
    with pytest.raises(ConfigError, match="must describe one table stock, not orders, customers"):
        read_contract(several, table="stock")
    found = read_contract(several, table="customers")
    assert [*found.columns] == ["c"]
    assert found.not_read == ("schema[orders]",)


@pytest.mark.parametrize("wrong", [None, [], "x", 3, {}, {"kind": "DataContract"}, {**BASE, "apiVersion": "v2.2.2"}])
def test_no_document_is_a_sentence(wrong):
    """Whatever a file of YAML may hold."""
    with pytest.raises(ConfigError, match=r"^document must be "):
        read_contract(wrong)


def test_a_team_of_members_and_a_short_version_are_read():
    """As documents before 3.1 have them."""
    members = [{"username": "ada", "role": "Steward"}, {"username": "bob", "role": "Data Owner"}]
    found = read_contract({**document(), "apiVersion": "v3.0.2", "team": members, "version": "v1.2"})
    assert (found.owner, found.version) == ("bob", "1.2.0")
    assert found.not_read == ("team[0]", "team[1].role")


def properties_of(schema: Any) -> dict[str, Any]:
    """The keys of an object by a JSON schema, those of the definitions that it refers to among them."""
    found = SCHEMA["$defs"].get(schema.get("$ref", "/").rpartition("/")[2], {})
    inner = [found, *schema.get("allOf", ()), *schema.get("anyOf", ())[:1], *schema.get("oneOf", ())[:1]]
    keys = {name: each for part in inner if part for name, each in properties_of(part).items()}
    return {**keys, **schema.get("properties", {})}


def whole(schema: Any, depth: int = 0) -> Any:
    """A value of a JSON schema with every key that it names, down to a depth."""
    schema = {**SCHEMA["$defs"].get(schema.get("$ref", "/").rpartition("/")[2], {}), **schema}
    if keys := properties_of(schema):
        return {name: whole(each, depth + 1) for name, each in keys.items() if depth < 4}
    if schema.get("type") == "array":
        return [whole(schema["items"], depth + 1)]
    known = schema.get("enum") or schema.get("examples") or [None]
    return known[0] or {"boolean": True, "integer": 1, "number": 1}.get(schema.get("type"), "x")


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a document that hold no other."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner:
        yield place
    for key, each in inner:
        yield from leaves(each, (*place, key))


def named(stated: Any, place: tuple[Any, ...]) -> str:
    """A place in the words of `not_read`."""
    text = ""
    for key in place:
        stated = stated[key]
        label = next(
            (stated[n] for n in ("name", "property", "metric", "rule") if isinstance(stated, dict) and stated.get(n)),
            key,
        )
        text += f"[{label}]" if isinstance(key, int) else f".{key}"
    return text.removeprefix(".")


def without(stated: Any, place: tuple[Any, ...]) -> Any:
    found = copy.deepcopy(stated)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return found


RULE = {"name": "r", "metric": "rowCount", "mustBe": 7, "severity": "error", "schedule": "daily", "tags": ["x"]}
COLUMN = {
    **whole({"$ref": "#/$defs/SchemaProperty"}),
    "semanticType": "column",
    "logicalType": "string",
    "logicalTypeOptions": {"maxLength": 3, "format": "email"},
    "physicalType": "varchar",
    "enum": [{"value": "a", "label": "A"}],
    "quality": [{**RULE, "metric": "nullValues", "mustBe": 0}],
}
AGE = {"property": "freshness", "value": 2, "unit": "d", "element": "orders"}
WHOLE = {
    **whole(SCHEMA),
    "apiVersion": "v3.2.0",
    "version": "1.0.0",
    "contractCreatedTs": "2026-01-05T00:00:00Z",
    "team": {"name": "shop", "description": "x", "members": [{"username": "ada"}]},
    "schema": [
        {**whole({"$ref": "#/$defs/SchemaObject"}), "name": "orders", "quality": [RULE], "properties": [COLUMN]}
    ],
    "slaProperties": [{**whole({"$ref": "#/$defs/ServiceLevelAgreementProperty"}), **AGE}],
}
IDENTITY = ("apiVersion", "kind", "id", "name", "status", "version")
LABELS = (
    "name",
    "physicalName",
    "unit",
    "dimension",
    "description",
    "physicalType",
    "logicalType",
    "semanticType",
    "element",
)
"""Keys that identify a part, or say in other words what is read."""
ALONE = ("primaryKeyPosition", "partitionKeyPosition")
"""Keys that order columns, of which the document has one."""


def test_each_part_of_the_standard_is_read_or_named():
    """Of a document with every key of the schema: without the part, the contract is another one, or it is named."""
    contract = read_contract(WHOLE)
    assert len([*leaves(WHOLE)]) > 150
    lost = []
    for place in leaves(WHOLE):
        if place[0] in IDENTITY or place[-1] in (*LABELS, *ALONE):
            continue
        path = named(WHOLE, place)
        known = any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in contract.not_read)
        if not known and read_contract(without(WHOLE, place)) == contract:
            lost.append(path)
    assert lost == []


SENTENCES = "$|document must (be a DataContract|describe one table)|.* must have a name|columns must name|version must"


@given(st.data())
def test_a_valid_document_is_read_or_refused_in_a_sentence(data):
    """Whatever of the optional parts is missing: no key is needed that the standard does not ask for."""
    found = WHOLE
    for place in data.draw(st.sets(st.sampled_from(sorted(leaves(WHOLE), key=str)), max_size=40)):
        with suppress(LookupError, TypeError):  # a part of it is gone already
            found = without(found, place[: data.draw(st.integers(1, len(place)))])
    try:
        contract = read_contract(found)
    except ConfigError as refused:
        sentence = str(refused)
    else:
        sentence = ""
        assert contract.columns
    assert re.match(SENTENCES, sentence)


@pytest.mark.parametrize("name", [5, 1.0, True, False, date(2026, 1, 5)])
def test_a_name_that_yaml_makes_no_text_of_is_refused(name):
    """Of a table, a column, and a field, in one sentence: which text it was, nobody knows."""
    inner = {**column("object"), "properties": [column(name=name)]}
    for stated in (column(name=name), inner, {**column("array"), "items": inner}):
        with pytest.raises(ConfigError, match=r"\.name must be a text, not .*: write it in quotes"):
            read_contract({**BASE, "schema": [{"name": "orders", "properties": [stated]}]})
    with pytest.raises(ConfigError, match=r"\.name must be a text"):
        read_contract({**BASE, "schema": [{"name": name, "properties": [column()]}]})


def test_two_names_that_spark_takes_for_one_are_refused():
    """Also if they differ in case alone."""
    for other in ("c", "C"):
        with pytest.raises(ConfigError, match=f"must have a name of its own, not {other} beside c"):
            read_contract(document(column(), column(name=other)))


def test_what_decides_a_type_is_not_named_as_unread():
    """An option of a type that was read, beside another one that was not; a logical type that nobody knows."""
    options = {"timezone": False, "format": "x"}
    assert read_contract(document(column("timestamp", logicalTypeOptions=options))).not_read == (
        "schema[orders].properties[c].logicalTypeOptions.format",
    )
    unknown = {**BASE, "schema": [{"name": "orders", "properties": [column("text")]}]}
    assert read_contract(unknown).not_read == ("schema[orders].properties[c].logicalType",)


@pytest.mark.parametrize("limit", [[1], {"a": 1}, float("nan"), float("inf"), True])
def test_a_limit_that_no_value_is_compared_with_is_refused(limit):
    """In a sentence that names the option."""
    stated = {**BASE, "schema": [{"name": "orders", "properties": [column("integer")]}]}
    stated["schema"][0]["properties"][0]["logicalTypeOptions"] = {"minimum": limit}
    with pytest.raises(ConfigError, match=r"logicalTypeOptions.minimum must be "):
        read_contract(stated)


@pytest.mark.parametrize("bounds", [[], [0], ["a", 2], 3, [0, None]])
def test_bounds_that_are_no_two_numbers_are_words(bounds):
    """Of a share of missing values; the rule is kept, and none of it is lost."""
    rule = {"metric": "nullValues", "unit": "percent", "mustBeBetween": bounds}
    stated = {**BASE, "schema": [{"name": "orders", "properties": [{**column(), "quality": [rule]}]}]}
    assert read_contract(stated).quality.null_shares == {}


STRANGE = (
    None,
    True,
    7,
    -1.5,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x00\x1b",
    [],
    [None],
    [[]],
    {},
    {"x": None},
)


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value)[:12])
def test_no_value_of_a_document_is_an_error_without_a_sentence(value):
    """Whatever JSON stands anywhere in it, also in place of the whole: it is read or refused."""
    for place in {leaf[:size] for leaf in leaves(WHOLE) for size in range(len(leaf) + 1)}:
        found = inner = {"all": copy.deepcopy(WHOLE)}
        *path, last = ("all", *place)
        for key in path:
            inner = inner[key]
        inner[last] = value
        with suppress(ConfigError):
            read_contract(found["all"])
