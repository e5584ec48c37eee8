"""YAML with places, and without what YAML 1.1 reads otherwise than people do."""

from __future__ import annotations

import pytest

from dedp_assets.components.yaml.documents import Mark, Unreadable, documents

TRAPS = {
    "no": "no",
    "Yes": "Yes",
    "off": "off",
    "010": "010",
    "0x10": "0x10",
    "12:30": "12:30",
    "1_000": "1_000",
    "1_0.5": "1_0.5",
}


def test_every_key_and_value_has_a_place():
    """Of mappings and lists in both styles, from line 1 and column 1."""
    (found,) = documents("a:\n  - {b: 1}\n  - text\nc: [2, 3]\n", "f")
    assert found.value == {"a": [{"b": 1}, "text"], "c": [2, 3]}
    assert found.mark(("a", 0, "b")) == Mark(2, 9)
    assert found.mark(("a", 0, "b"), key=True) == Mark(2, 6)
    assert found.mark(("c", 1)) == Mark(4, 8)
    assert found.mark(("a", 0, "missing")) == Mark(2, 5)


@pytest.mark.parametrize("text", TRAPS)
def test_a_value_that_reads_otherwise_is_refused(text):
    """Unless it is quoted; true, whole numbers, numbers and dates are what they look like."""
    (found,) = documents(f"a: {text}", "f")
    assert [fault.mark for fault in found.faults] == [Mark(1, 4)]
    assert f"write '{text}' in quotes" in found.faults[0].message
    (quoted,) = documents(f"a: '{text}'", "f")
    assert (quoted.value, quoted.faults) == ({"a": text}, ())


DAY = "2026-01-05"


@pytest.mark.parametrize(("text", "value"), [("true", True), ("-3", -3), ("1.5e+3", 1500.0), (DAY, DAY)])
def test_a_plain_value_is_what_it_looks_like(text, value):
    """Dates stay texts, as Dagster reads them."""
    (found,) = documents(f"a: {text}", "f")
    assert (found.value, found.faults) == ({"a": value}, ())


def test_anchors_and_merges_are_followed():
    """What is merged gives way to what is stated."""
    (found,) = documents("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: *x\n", "f")
    assert found.value == {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}, "z": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: [1", 1, "this is no YAML"),
        ("a: 1\n\tb: 2", 2, "this is no YAML"),
        ("a: *x", 1, "*x is no anchor"),
        ("a: {b: [1, *x]}", 1, "*x is no anchor"),
        ("a: !!python/object:x {}", 1, "is not known here"),
        ("? [a]\n: b", 1, "a key must be a text"),
        ("a: &a {b: *a}", 1, "alias of itself"),
        ("[" * 99 + "]" * 99, 1, "levels deep"),
        ("\0", 1, "this is no YAML"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "\n".join(
            f"{b}: &{b} [{', '.join(['*' + c] * 10)}]" for c, b in zip("abcdef", "bcdefg", strict=True)), 1, "parts"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_read_says_where_and_why(text, line, message):
    """Also where PyYAML's own composer dies, goes on for ever, or takes all memory."""
    with pytest.raises(Unreadable) as raised:
        documents(text, "f")
    assert raised.value.mark.line >= line
    assert message in raised.value.message
