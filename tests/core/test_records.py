"""The commit record: what is stored in a commit is what is read back."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.costs import Cost, total
from dedp_assets.patterns.core.records import Approval, CommitRecord, Provenance, slice_name
from dedp_assets.patterns.core.results import BY_NAME, Finding
from tests.helpers import a_record, a_run

DAY = {"event_date": "2026-01-05"}

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
mappings = st.dictionaries(st.text(), plain, max_size=4)
counts = st.dictionaries(st.text(), st.integers(min_value=0), max_size=4)


@given(
    st.text(), mappings, mappings, mappings, counts, st.none() | st.integers(), st.dictionaries(st.text(), st.text())
)
def test_a_record_reads_back_as_it_was_stored(name, inputs, figures, finding, rows, sequence, partition):
    """Whatever plain values a record holds, JSON gives the very same record back."""
    fields = {"inputs": inputs, "figures": figures, "findings": (finding,), "rows": rows, "notes": inputs}
    record = a_record(name, partition, sequence=sequence, run_id=name, fingerprint=name, **fields)
    assert CommitRecord.from_json(record.to_json()) == record == record.stored()


def test_values_json_does_not_know_are_stored_as_their_text():
    """Dates and decimals become text before the commit, so the record in hand equals the one in the log."""
    figures = {"newest": datetime(2026, 1, 5, tzinfo=timezone.utc), "total": Decimal("1.50")}
    record = a_record("silver/events", DAY, figures=figures).stored()
    assert record.figures == {"newest": "2026-01-05 00:00:00+00:00", "total": "1.50"}
    assert CommitRecord.from_json(record.to_json()) == record


odd = st.one_of(
    st.floats(),
    st.floats(width=32).map(np.float32),
    st.integers(0, 9).map(np.int64),
    st.booleans().map(np.bool_),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
    st.text(st.characters(categories=["Cs", "Cc"])),
    st.integers(-(10**400), 10**400),
    st.frozensets(st.integers() | st.text()),
    st.builds(Finding, st.text(), passed=st.booleans(), figures=st.dictionaries(st.text(), st.floats())),
)
anything = st.recursive(
    odd,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


def no_constant(name):
    """JSON knows none."""
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.promise("a-record-is-json-whatever")
@given(st.dictionaries(st.text(), anything, max_size=4))
def test_a_record_is_json_whatever_it_holds(found):
    """A strict reader takes it, and what it reads back is stored as it is."""
    record = a_record("silver/events", DAY, figures=found, notes=found, inputs=found)
    assert json.loads(record.to_json(), parse_constant=no_constant)
    assert record.stored().to_json() == record.to_json()


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (Decimal("Infinity"), "Infinity"),
        (b"\x00\xff", "00ff"),
        (frozenset("ba"), ["a", "b"]),
        (np.float32(0.5), 0.5),
        (date(2026, 1, 5), "2026-01-05"),
    ],
)
def test_each_value_has_one_spelling(value, stored):
    """The one that the record states."""
    assert a_record("silver/events", DAY, figures={"of": value}).stored().figures == {"of": stored}


def test_a_record_with_bare_infinities_still_reads_back():
    """As records were written before."""
    old = a_record("silver/events", DAY, figures={"most": 1, "least": 2}).to_json()
    old = old.replace('"most":1', '"most":Infinity').replace('"least":2', '"least":NaN')
    assert CommitRecord.from_json(old).stored().figures == {"most": "Infinity", "least": "NaN"}


@pytest.mark.parametrize("text", [None, "", "new generation", "[1]", "1", "null", "{}", '{"dedp": 2}', '{"dedp": 1'])
def test_user_metadata_of_others_is_no_record(text):
    """A commit that somebody else annotated is a foreign commit, not an error."""
    assert CommitRecord.from_json(text) is None


@given(st.text())
def test_no_text_at_all_is_mistaken_for_a_record(text):
    """Arbitrary user metadata neither fails nor counts as ours."""
    assert CommitRecord.from_json(text) is None


@pytest.mark.parametrize(
    ("verdict", "promotable"), [("passed", True), ("warned", True), ("approved", True), ("none", False), ("", False)]
)
def test_only_an_explicit_verdict_is_promotable(verdict, promotable):
    """Rows that nobody audited are not taken for audited ones."""
    assert a_record("silver/events", DAY, verdict=verdict).promotable is promotable


def test_a_slice_is_named_the_same_in_whatever_order_its_columns_are_given():
    """The name is part of transaction ids, so it must not depend on the caller's order."""
    assert slice_name({"b": "2", "a": "1"}) == slice_name({"a": "1", "b": "2"}) == "a=1/b=2"
    assert slice_name({}) == "all"


@pytest.mark.parametrize("fields", [{"by": " ", "because": "checked"}, {"by": "ada", "because": ""}])
def test_an_approval_needs_a_person_and_a_reason(fields):
    """Nobody overrules an audit anonymously or without saying why."""
    with pytest.raises(ConfigError, match="name of the person who decided"):
        Approval(**fields)


@pytest.mark.parametrize(
    ("audits", "approvable", "covered"),
    [
        ((), True, True),
        (("x",), True, True),
        (("y",), True, False),
        ((), False, False),
        (("x",), False, False),
        ((), BY_NAME, False),
        (("x",), BY_NAME, True),
        (("y",), BY_NAME, False),
    ],
)
def test_an_approval_covers_only_what_it_names_and_what_may_be_approved(audits, approvable, covered):
    """A decision about one audit does not spill over to another; what asks for its name needs it."""
    finding = Finding("x", passed=False, approvable=approvable)
    assert Approval("ada", "checked by hand", audits).covers(finding) is covered


def test_a_pattern_signs_a_provenance_once():
    """The outermost pattern's name stays, an inner one does not overwrite it."""
    signed = a_run().by("ingestion.full_loader")
    assert isinstance(signed, Provenance)
    assert signed.by("idempotency.data_overwrite").pattern == "ingestion.full_loader"


VALUES = {"float | None": st.floats(0, 1e9), "int | None": st.integers(0)}
FIGURES = {each.name: st.none() | VALUES[str(each.type)] for each in fields(Cost)}
costs = st.builds(Cost, **FIGURES)
BEFORE_COSTS = {
    "dedp", "asset", "run_id", "code_version", "pattern", "cause", "inputs", "partition", "sequence", "verdict", "rows",
    "figures", "findings", "fingerprint", "channel", "approval", "replay", "notes", "at",
}  # fmt: skip


@given(costs, mappings)
def test_a_cost_reads_back_and_leaves_the_notes_as_they_are(cost, notes):
    """What was told comes back, what was not stays absent, and nobody finds the cost among the notes."""
    stored = a_record("silver/events", DAY, cost=cost, notes=notes).stored()
    assert stored.cost == cost
    assert stored.notes == a_record("silver/events", DAY, notes=notes).stored().notes


def test_a_record_without_a_cost_reads_back_without_one():
    """As records were written before there were costs."""
    old = a_record("silver/events", DAY).to_json()
    assert "cost" not in old
    assert CommitRecord.from_json(old).cost is None


def test_a_record_with_a_cost_has_no_field_that_earlier_releases_refuse():
    """They read the cost as one of the notes."""
    payload = json.loads(a_record("silver/events", DAY, cost=Cost(seconds=1.5)).to_json())
    assert payload.keys() == BEFORE_COSTS
    assert payload["notes"] == {"__dedp_cost": {"seconds": 1.5}}


def test_fields_and_figures_of_later_releases_are_passed_over():
    """A record with more than is known here reads back as what is known."""
    record = a_record("silver/events", DAY, cost=Cost(seconds=1.5))
    payload = json.loads(record.to_json())
    payload |= {"mood": "good", "notes": {"__dedp_cost": {"seconds": 1.5, "kilowatt_hours": 2}}}
    read = CommitRecord.from_json(json.dumps(payload))
    assert read == record
    assert read.cost == record.cost


def test_two_records_of_one_write_are_equal_whatever_they_cost():
    """A retry is told by what it writes, not by how long it took."""
    assert a_record("t", DAY, cost=Cost(seconds=1.0)) == a_record("t", DAY, cost=Cost(seconds=2.0))


@given(st.lists(costs, max_size=5))
def test_a_sum_of_costs_has_the_figures_that_anybody_told(found):
    """Each figure is the sum of those that were told, and absent if nobody told it."""
    added = total(found)
    for name in FIGURES:
        known = [getattr(cost, name) for cost in found if getattr(cost, name) is not None]
        assert getattr(added, name) == (pytest.approx(sum(known)) if known else None)
