"""Strict JSON: what every parser reads alike is read, numbers as written; any other text is refused in one way."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.parsing.strict_json import (
    Fraction,
    HalfCharacter,
    RepeatedMember,
    Whole,
    parse_json,
    written,
)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.decimals(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def spelled(value):
    """JSON without blanks, decimals with their own digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{spelled(name)}:{spelled(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    return str(value).replace("E", "e") if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


@given(VALUES)
def test_a_value_is_what_was_written(value):
    """As values, as texts and marked, from a text and from bytes, in whichever spelling of its characters."""
    text = spelled(value)
    marked = parse_json(text, numbers="marked")
    assert written(marked) == text
    assert parse_json(f" \t{text}\r\n".encode(), numbers="marked") == marked
    assert json.loads(written(marked)) == json.loads(text)
    assert written(parse_json(json.dumps(json.loads(text)), numbers="marked")) == spelled(json.loads(text))


def test_numbers_are_told_from_texts_and_from_each_other():
    """Where they stay texts: a number of 5,000 digits is one for JSON."""
    one, other, text, long = parse_json(f'[1, 1.0, "1", {"9" * 5000}]', numbers="marked")
    assert (type(one), type(other), type(text), type(long)) == (Whole, Fraction, str, Whole)
    assert parse_json("[1, 1.0, 1e400]", numbers="texts") == ["1", "1.0", "1e400"]
    assert parse_json("[1, 1.0]") == [1, 1.0]


REFUSED = {
    '{"a": 1, "a": 2}': "a key is there twice: 'a'",
    '[{"b": {"a": 1, "a": 1}}]': "a key is there twice: 'a'",
    '"\\ud800"': "half of a character",
    '"\ud800"': "half of a character",
    '{"\\udc00\\ud83d": 1}': "half of a character",
    "NaN": "NaN is no number of JSON",
    "[-Infinity]": "-Infinity is no number of JSON",
    "1e400": "a number is out of range",
    "1e-400": "a number is out of range",
    "[" * 100_000: "it is nested too deep",
    "": "Expecting value",
    "\ufeff1": "Expecting value",
    "1 2": "Extra data",
    "{'a': 1}": "Expecting property name",
    "[01]": "Expecting ',' delimiter",
    "[.5]": "Expecting value",
    "[1,]": "Expecting value|Illegal trailing comma",
    '"\t"': "Invalid control character",
    '{"a": 1} // c': "Extra data",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=[text[:20] for text in REFUSED])
@pytest.mark.parametrize("numbers", ["values", "texts", "marked"])
def test_what_readers_read_differently_is_refused(text, why, numbers):
    """With one kind of error, whose text has no value of the record."""
    if numbers != "values" and why == "a number is out of range":
        assert parse_json(text, numbers=numbers) == text
        return
    with pytest.raises(ValueError, match=why):
        parse_json(text, numbers=numbers)


def test_a_reader_may_ask_for_repeated_members_and_tells_the_faults_apart():
    """To name them all; the last one counts, and halves of characters are refused all the same."""
    found = parse_json('{"b": 1, "a": {"c": 1, "c": 2}, "b": 3, "a": 4}', repeated=True)
    assert (found, found.twice) == ({"b": 3, "a": 4}, ["a", "b"])
    with pytest.raises(RepeatedMember):
        parse_json('{"b": 1, "b": 1}')
    with pytest.raises(HalfCharacter):
        parse_json('{"b": 1, "b": "\\ud800"}', repeated=True)


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_what_is_parsed_can_be_written_however_deep(begin, end):
    """A value of more than 400 levels is refused, by its depth and not by its brackets."""
    levels = 399 // len(begin.replace('"a":', ""))
    text = begin * levels + "1" + end * levels
    assert written(parse_json(text)) == text
    with pytest.raises(ValueError, match="it is nested too deep"):
        parse_json(begin * 401 + "1" + end * 401)
    assert len(parse_json("[" + "[]," * 1000 + '"[{"]')) == 1001
