"""The interface of the patterns: positional data and targets, and few options that data alone can state."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import date, datetime
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from tests.contracts.test_patterns import PATTERNS, public_functions

FUNCTIONS = [(pattern, name) for pattern in PATTERNS for name in public_functions(pattern)]
MOST_PARAMETERS = 8
PLAIN = (str, int, float, bool, type(None), date, datetime)
SEVERAL = (Collection, Iterable, Mapping, Sequence, tuple)
NOT_FROM_DATA = {"ingestion.transformation_replicator": {"key"}}
"""Pattern -> options of its main function that no data states: the key of pseudonyms is a secret, never in a file."""


def parameters(pattern: Any, name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(pattern.module, name)).parameters)


def can_be_stated(kind: Any) -> bool:
    """Whether texts, numbers, truths, times, lists and mappings can state a value of a type."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if kind in PLAIN or origin is Literal:
        return True
    if origin in (Union, UnionType):
        return any(can_be_stated(each) for each in inner if each is not type(None))
    if origin in SEVERAL:
        return all(can_be_stated(each) for each in inner if each is not ...)
    return is_dataclass(kind) and all(map(can_be_stated, get_type_hints(kind).values()))


def test_what_every_write_needs_is_in_its_target():
    """No run, audits or facts about the rows read are parameters, and no partition is an option."""
    for pattern, name in FUNCTIONS:
        found = parameters(pattern, name)
        named = {"audits"} if name == "require_pass" else set()  # names of audits that somebody else judged
        assert not found.keys() & {"provenance", "audits", "rows_read"} - named, name
        of_partition = found.get("partition")
        assert not of_partition or of_partition.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, name


def test_parameters_are_few():
    """What belongs together is a record."""
    counts = {f"{pattern.id}.{name}": len(parameters(pattern, name)) for pattern, name in FUNCTIONS}
    assert {name: count for name, count in counts.items() if count > MOST_PARAMETERS} == {}


def test_a_write_takes_its_target_by_one_name():
    """The first target is ``into``; where rows come before it, it is the parameter after them."""
    for pattern, name in FUNCTIONS:
        hints = get_type_hints(inspect.unwrap(getattr(pattern.module, name)))
        given = [*parameters(pattern, name)]
        targets = [each for each in given if "Target" in str(hints[each]) and "Iterable" not in str(hints[each])]
        assert targets[:1] in ([], ["into"]), name
        assert not targets or given.index("into") <= 1, name


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_data_alone_can_state_the_options_of_a_main_function(pattern):
    """So that a step of a file declares them; the exceptions have a reason each, and there are at most two."""
    hints = get_type_hints(inspect.unwrap(pattern.function))
    options = [p for p in parameters(pattern, pattern.function.__name__).values() if p.kind is p.KEYWORD_ONLY]
    assert {p.name for p in options if not can_be_stated(hints[p.name])} == NOT_FROM_DATA.get(pattern.id, set())
    assert len(NOT_FROM_DATA) <= 2
