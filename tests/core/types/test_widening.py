"""Widening: one table of the wider types of a scalar type, for each use."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.types.widening import Widening, is_widening

USES = get_args(Widening)
NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal(10,2)", "decimal(20,0)", "decimal(38,38)")
FLOATING = ("float", "double")
OTHERS = ("boolean", "binary", "string", "date", "timestamp", "timestamp_ntz", "variant", "void", "interval day")


@st.composite
def decimals(draw):
    precision = draw(st.integers(1, 38))
    return f"decimal({precision},{draw(st.integers(0, precision))})"


def texts(*names):
    return st.builds("{}({})".format, st.sampled_from(names), st.integers(1, 20))


SCALARS = st.sampled_from((*NUMBERS[:6], *OTHERS)) | decimals() | texts("varchar")


@given(st.sampled_from(USES), SCALARS | texts("char"))
def test_a_type_widens_to_itself(use, kind):
    """For every use."""
    assert is_widening(kind, kind, use)


@given(st.sampled_from(USES), SCALARS, SCALARS)
def test_no_type_widens_back(use, one, other):
    """But for bytes and texts, by Avro. No CHAR is drawn: queries read it as a VARCHAR, and back."""
    back = is_widening(one, other, use) and is_widening(other, one, use)
    assert not back or one == other or (use == "avro" and {one, other} == {"string", "binary"})


@given(st.sampled_from(USES), *[SCALARS | texts("char")] * 3)
def test_what_widens_twice_widens_at_once(use, one, other, third):
    """But for whole numbers as decimals, which meet a floating-point number only once they are whole numbers."""
    if is_widening(one, other, use) and is_widening(other, third, use):
        assert is_widening(one, third, use) or (use == "lossless" and one.startswith("decimal") and third in FLOATING)


@pytest.mark.parametrize("use", USES)
def test_whole_numbers_are_an_order(use):
    """All pairs and chains of the fixed types, among them those that a generator seldom meets."""
    kinds = [*NUMBERS[:6], *OTHERS]
    pairs = {pair for pair in product(kinds, kinds) if is_widening(*pair, use)}
    assert {(kind, kind) for kind in kinds} <= pairs
    assert {(a, d) for a, b in pairs for c, d in pairs if b == c} <= pairs


def test_delta_widens_what_its_readers_read():
    """Nothing back, and what widens twice at once; but no number to a decimal that holds less."""
    pairs = {(a, b) for a, b in product(NUMBERS, NUMBERS) if a != b and is_widening(a, b, "delta")}
    assert not {(other, one) for one, other in pairs} & pairs
    assert {("integer", "long"), ("integer", "double"), ("long", "decimal(20,0)"), ("float", "double")} <= pairs
    assert (
        not {("long", "double"), ("decimal(10,2)", "decimal(20,0)"), ("byte", "float"), ("short", "decimal(38,38)")}
        & pairs
    )
    assert {(a, d) for a, b in pairs for c, d in pairs if b == c} <= pairs
    assert is_widening("date", "timestamp_ntz", "delta")
    assert not is_widening("date", "timestamp", "delta")


@pytest.mark.parametrize(
    ("before", "after", "uses"),
    [
        ("integer", "long", USES),
        ("long", "integer", ()),
        ("short", "float", ("lossless",)),
        ("integer", "float", ("avro",)),
        ("long", "double", ("avro",)),
        ("long", "decimal(19,0)", ("lossless",)),
        ("long", "decimal(20,0)", ("lossless", "delta", "files")),
        ("decimal(18,0)", "long", ("lossless",)),
        ("decimal(19,0)", "long", ()),
        ("decimal(9,2)", "decimal(10,3)", ("lossless", "delta", "files", "contract")),
        ("decimal(9,2)", "decimal(9,3)", ()),
        ("varchar(5)", "varchar(6)", ("files", "contract")),
        ("varchar(5)", "varchar(4)", ()),
        ("char(5)", "varchar(5)", ("files",)),
        ("varchar(5)", "string", ("lossless", "files", "contract")),
        ("char(5)", "string", ("lossless", "files")),
        ("string", "varchar(5)", ()),
        ("string", "binary", ("avro",)),
        ({"type": "array", "elementType": "integer"}, {"type": "array", "elementType": "long"}, ()),
        ("integer", {"type": "array", "elementType": "integer"}, ()),
    ],
)
def test_each_use_has_a_rule_of_its_own(before, after, uses):
    """What holds the values need not be what Delta, a query, a consumer or a reader of Avro takes."""
    assert [use for use in USES if is_widening(before, after, use)] == list(uses)
