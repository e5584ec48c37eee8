"""Operations of steps: every pattern, with the options of its signature."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame

from dedp_assets.components.chains.chaining import steps_of
from dedp_assets.components.chains.known import StepScope
from dedp_assets.components.chains.operations import StepOperation, account, operations
from dedp_assets.components.chains.steps import Chain
from dedp_assets.components.tending.upkeep import Action, At, Upkeep
from dedp_assets.components.yaml.documents import documents
from dedp_assets.graph.declare import OnRequest
from dedp_assets.patterns.catalog import patterns
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.contracts.test_interface import NOT_FROM_DATA, can_be_stated

PATTERNS = list(patterns())
NAMED = {"beside", "besides", "earlier", "frames", "object"}
"""Roles of data that a step names; rows, upstream table and target come by themselves."""


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_a_patterns_options_are_those_of_its_signature(pattern):
    """Names, defaults and requirements; and nothing is declared beside the function."""
    operation = operations()[pattern.id]
    assert (operation.function, operation.kind) == (pattern.function, pattern.kind)
    named = {name for name, role in operation.data.items() if role in NAMED}
    assert set(operation.model.model_fields) == named | set(pattern.options)
    parameters = inspect.signature(pattern.function).parameters
    for name, field in operation.model.model_fields.items():
        optional = name in operation.data and "None" in str(inspect.unwrap(pattern.function).__annotations__[name])
        assert field.is_required() == (parameters[name].default is inspect.Parameter.empty and not optional), name
        assert field.description, f"{pattern.id}: {name} has no help"
    positional = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
    assert list(operation.data) == positional


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_a_patterns_options_have_a_json_schema_that_refuses_others(pattern):
    """An editor completes each, and marks a misspelt one; null is no value of any."""
    schema = operations()[pattern.id].model.model_json_schema()
    assert schema["additionalProperties"] is False
    assert "null" not in str([each.get("type") for each in schema["properties"].values()])


def test_only_what_no_data_states_is_named_as_python():
    """The list of exceptions is that of the interface's contract."""
    for pattern in PATTERNS:
        schema = operations()[pattern.id].model.model_json_schema()["properties"]
        python = {name for name in pattern.options if ":" in str(schema[name].get("pattern", ""))}
        assert python == NOT_FROM_DATA.get(pattern.id, set())
    assert can_be_stated(str)


def test_companions_stand_in_steps_as_well():
    """By module and function, of the same kinds."""
    found = operations()
    assert found["error_management.dead_letter.route"].data["dead"] == "beside"
    assert found["value.static_joiner.judge_reference"].kind == "inspect"
    assert {"tally", "account"} <= set(found)


MART = """
steps:
  - from: sold
    modeling.dimensional_mart:
      facts: gold/facts
      members: {plans: gold/plans}
      dimensions: {plans: plans}
      links: {plan_key: {dimension: plans, keys: {plan: plan}}}
      names: {id: id, plan: plan_key.plan}
"""


def test_several_tables_beside_are_stated_by_name():
    """Each is one that the file declares; patterns at work in a table are those of the steps that name the table."""
    texts = dict.fromkeys(("id", "plan"), Column("STRING"))
    specs = {name: TableSpec(name, texts) for name in ("gold/mart", "gold/facts", "gold/plans", "gold/other")}
    upstream, beside = {name: TableSpec(f"silver/{name}", texts) for name in ("sold", "plans")}, dict(specs)
    mart = beside.pop("gold/mart")

    def read(text):
        (document,) = documents(text, "defs.yaml")
        return steps_of(document.value["steps"], document, ("steps",), StepScope(mart, upstream, beside))

    steps, faults = read(MART)
    assert faults == []
    chain = Chain("gold/mart", steps, upstream, list(beside.values()))
    assert steps[0].tables_beside == ["gold/facts", "gold/plans"]
    assert chain.patterns_beside(specs["gold/plans"]) == (operations()["modeling.dimensional_mart"].function,)
    (fault,) = read(MART.replace("members: {plans: gold/plans}", "members: {plans: gold/plnas}"))[1]
    assert "unknown table in beside gold/plnas: did you mean gold/plans?" in fault.message
    assert fault.line == 6


def test_account_states_the_rows_of_an_upstream_table():
    """The number by its log, under the name that a write's row accounting knows; and no option of a file."""
    upstream = {"visits": SimpleNamespace(count=lambda: 7)}
    assert account(upstream, read="visits") == {"figures": {"read": 7}, "represented": ""}
    assert account(upstream, represented="views") == {"figures": {}, "represented": "views"}
    assert set(operations()["account"].model.model_fields) == {"read", "represented"}


def opened(*, name: str) -> Access:
    """Open what a name names."""
    return Access("nobody", {}, f"{name} is not known")


def taken(rows: DataFrame, access: Access) -> DataFrame: ...


def test_an_access_stands_beside_the_rows_and_is_named_by_later_steps():
    """It is no rows, as a plan or a verdict is none; an action tells its sentence."""
    operation = StepOperation("security.opened", opened, "access", "Opens.")
    assert (operation.is_aside, operation.returns) == (True, Access)
    assert StepOperation("security.taken", taken, "transform", "Takes.").data == {"rows": "rows", "access": "earlier"}
    (done,) = upkeep_of(Action((), operation, {"name": "the door"})).on(At(STORED, None, None))
    assert (done.outcome, done.result.as_dict()["reason"]) == ("the door is not known", "the door is not known")


STORED = SimpleNamespace(name="gold/x", ledger=SimpleNamespace(exists=lambda: True))


def upkeep_of(action: Action) -> Upkeep:
    return Upkeep("platform/doors", (), [action], OnRequest(), "team:x")
