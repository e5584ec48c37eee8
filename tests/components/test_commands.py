"""The schema for editors: a validator of its draft takes what `dedp check` takes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft7Validator

from dedp_assets.components.commands import schema_of_files
from dedp_assets.components.kinds import KINDS
from tests.components.chains.test_declaring import VALUE as TABLE
from tests.components.tending.test_acting import VALUE as MAINTENANCE

SCHEMA = schema_of_files()
VALIDATOR = Draft7Validator(SCHEMA)
SINCE_2019 = {"prefixItems", "unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas",
              "minContains", "maxContains", "$dynamicRef", "$recursiveRef"}  # fmt: skip
"""Keywords of later drafts, over which a validator of draft 7 passes without a word."""


def mappings(schema: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a schema."""
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from mappings(each)


def test_the_schema_is_of_the_draft_that_it_names():
    """And by the draft's own schema."""
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    Draft7Validator.check_schema(SCHEMA)
    used = {key for each in mappings(SCHEMA) for key in each}
    assert not used & SINCE_2019
    # Draft 7 passes over what stands beside a reference.
    assert not [each for each in mappings(SCHEMA) if isinstance(each.get("$ref"), str) and len(each) > 1]


def test_every_kind_of_document_has_a_rule():
    """Under its type."""
    types = [rule["if"]["properties"]["type"]["const"] for rule in SCHEMA["allOf"]]
    assert types == list(KINDS)


@pytest.mark.parametrize("value", [TABLE, MAINTENANCE], ids=["table", "maintenance"])
def test_a_valid_document_is_valid(value):
    """As `dedp check` finds."""
    assert list(VALIDATOR.iter_errors(value)) == []


def test_a_pair_has_two_places():
    """A list of another length, or with a value of another type, is marked."""
    value = copy.deepcopy(TABLE)
    (judge,) = [step for step in value["attributes"]["steps"] if "value.static_joiner.judge_reference" in step]
    options = judge["value.static_joiner.judge_reference"]
    for wrong in (["valid_from"], ["valid_from", "valid_to", "more"], ["valid_from", 3]):
        options["valid"] = wrong
        errors = list(VALIDATOR.iter_errors(value))
        assert errors
        assert all("valid" in error.absolute_path for error in errors)
    options["valid"] = ["valid_from", "valid_to"]
    assert VALIDATOR.is_valid(value)


@pytest.mark.parametrize("value", [TABLE, MAINTENANCE], ids=["table", "maintenance"])
def test_a_misspelt_option_is_marked(value):
    """At any level."""
    changed = copy.deepcopy(value)
    changed["attributes"]["ownr"] = "team:x"
    assert [error.validator for error in VALIDATOR.iter_errors(changed)] == ["additionalProperties"]
