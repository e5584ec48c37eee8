"""What an annotation says of an option is what is refused, by its name, before the function begins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Literal, Protocol

import pytest
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.options import LONGEST_SECONDS, require_types, typed

NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)


class Sending(Protocol):
    """Whatever sends."""

    def send(self, text: str) -> None: ...


@typed
def take(
    rows: DataFrame | None = None,
    *others: Mapping[str, str | None],
    keys: Sequence[str] = (),
    name: str = "x",
    column: str = "",
    most: int = 1,
    pause_seconds: float = 0,
    share: float = 0,
    anew: bool = False,
    now: datetime | None = None,
    before: date | None = None,
    how: Literal["left", "inner"] = "left",
    pairs: Mapping[str, str | int] | None = None,
    days: Collection[str] = (),
    sets: Iterable[Sequence[str]] = (),
    valid: tuple[str, str] = ("a", "b"),
    ask: Callable[[str], str] = str,
    sink: Sending | None = None,
    key: MaskingKey | None = None,
    any_value: object = None,
) -> list[str]:
    """Take an option of each type."""
    return list(keys)


@pytest.mark.parametrize(
    "fits",
    [
        {"keys": ("a",)},
        {"keys": []},
        {"column": ""},
        {"most": -(2**63) + 1},
        {"pause_seconds": 1},
        {"pause_seconds": LONGEST_SECONDS},
        {"share": 0.5},
        {"now": NOW},
        {"before": date(2026, 1, 5)},
        {"how": "inner"},
        {"pairs": {"": 1, "b": "x"}},
        {"days": {"", "mon"}},
        {"days": {"mon": 1}},
        {"sets": [["a"], []]},
        {"sets": iter([])},
        {"valid": ["a", "b"]},
        {"ask": print},
        {"sink": type("Sink", (), {"send": print})()},
        {"any_value": object()},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_an_annotation_allows_is_taken(fits):
    """A list or a tuple for a sequence, an int for a float, an empty text where that is the default, and as a key."""
    assert take(**fits) == list(fits.get("keys", ()))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rows": [1]}, "rows must be a Spark DataFrame (session.createDataFrame makes one), not a list"),
        ({"keys": "id"}, "keys must be a list of texts, not 'id'"),
        ({"keys": {"id"}}, "keys must be a list of texts, not {'id'}"),
        ({"keys": ["id", None]}, "keys must be a list of which each is a text, not ['id', None]"),
        ({"keys": [""]}, "keys must be a list of which each is a text that is not empty, not ['']"),
        ({"keys": None}, "keys must be a list of texts, not None"),
        ({"name": ""}, "name must be a text"),
        ({"column": 1}, "column must be a text, not 1"),
        ({"column": "a\ud800"}, "column must be a text of whole characters, not "),
        ({"most": True}, "most must be a whole number, not True"),
        ({"most": 1.0}, "most must be a whole number, not 1.0"),
        ({"most": 2**63}, "most must be a whole number of at most 9.22337e+18, not 9223372036854775808"),
        ({"share": "0.5"}, "share must be a number, not '0.5'"),
        ({"share": True}, "share must be a number, not True"),
        ({"share": float("nan")}, "share must be a finite number, not nan"),
        ({"share": float("-inf")}, "share must be a finite number, not -inf"),
        ({"share": 10**400}, "share must be a number of at most 9.22337e+18, not 1"),
        ({"pause_seconds": 1e13}, "pause_seconds must be a number of at most 1e+12, not 1"),
        ({"anew": 1}, "anew must be True or False, not 1"),
        ({"now": datetime(2026, 1, 5)}, "now must be a datetime with a time zone, not datetime.datetime"),  # noqa: DTZ001
        ({"now": date(2026, 1, 5)}, "now must be a datetime with a time zone, not datetime.date"),
        ({"before": NOW}, "before must be a date, not datetime.datetime"),
        ({"how": "LEFT"}, "how must be left or inner, not 'LEFT'"),
        ({"pairs": [("a", "b")]}, "pairs must be a mapping, not [('a', 'b')]"),
        ({"pairs": {1: "a"}}, "pairs must be a mapping whose keys are each a text, not {1: 'a'}"),
        ({"pairs": {"a": None}}, "pairs must be a mapping whose values are each a text or a whole number, not "),
        ({"days": "mon"}, "days must be a list of texts, not 'mon'"),
        ({"sets": ["ab"]}, "sets must be a list of which each is a list of texts, not ['ab']"),
        ({"valid": ("a",)}, "valid must be 2 values, not ('a',)"),
        ({"valid": ("a", 1)}, "valid must be 2 values, each a text, not ('a', 1)"),
        ({"ask": "str"}, "ask must be a function, not 'str'"),
        ({"sink": object()}, "sink must be a Sending, which has send, not an object"),
        ({"key": "secret"}, "key must be a MaskingKey, not a str"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_what_it_does_not_allow_is_refused_by_name(wrong, words):
    """And what a secret could be is not shown."""
    with pytest.raises(ConfigError) as refused:
        take(**wrong)
    assert str(refused.value).startswith(words)


def test_each_of_several_arguments_is_looked_at():
    """Those that a signature takes any number of."""
    take(None, {"a": None}, {})
    with pytest.raises(ConfigError, match="others must be a mapping whose values are each a text, not "):
        take(None, {"a": None}, {"a": 1})


def test_a_call_that_python_refuses_is_refused_as_ever():
    """An argument that is missing or unknown; and the function is documented as it was."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'colum'"):
        take(colum="x")
    assert str(inspect.signature(take)).startswith("(rows: 'DataFrame | None' = None, *others")
    assert inspect.getdoc(take) == "Take an option of each type."


@dataclass(frozen=True)
class Rule:
    """A record with options."""

    keys: Sequence[str]
    gap_seconds: int = 1
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_types(self)


def test_a_record_is_refused_by_the_name_of_its_field():
    """As it is made."""
    assert Rule(["a"]).keys == ["a"]
    with pytest.raises(ConfigError, match=r"Rule\.keys must be a list of texts, not 'a'"):
        Rule("a")
    assert Rule(["a"], more=("b",)).more == ("b",)
    with pytest.raises(ConfigError, match=r"Rule\.more must be a list of texts, not 'b'"):
        Rule(["a"], more="b")
    with pytest.raises(ConfigError, match=r"Rule\.gap_seconds must be a whole number, not 0.5"):
        Rule(["a"], gap_seconds=0.5)
