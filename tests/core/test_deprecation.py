"""Deprecation of names: a warning, the same result, and a removal that does not come too soon."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.components.chains import operations as chain_operations
from dedp_assets.patterns.catalog import Pattern
from dedp_assets.patterns.core.deprecation import Deprecation, deprecated, deprecation_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed

RELEASES = st.tuples(*[st.integers(0, 5)] * 3)


@deprecated(since="0.3.0", use="add_all", gone_in="0.5.0")
@typed
def add(one: int, *, other: int = 1) -> int:
    """Add two numbers."""
    return one + other


@deprecated(since="0.3.0", use="Place", gone_in="1.0.0")
@dataclass(frozen=True, slots=True)
class Spot:
    """A place."""

    name: str


def test_a_deprecated_function_works_and_warns_where_it_is_called():
    """The result, signature and docstring stay; the warning names what to use, and the line of the caller."""
    with pytest.warns(
        DeprecationWarning, match="add is deprecated since 0.3.0, and gone in 0.5.0: use add_all"
    ) as seen:
        assert add(1, other=2) == 3
    assert seen[0].filename == __file__
    assert (str(inspect.signature(add)), add.__doc__) == (
        "(one: 'int', *, other: 'int' = 1) -> 'int'",
        "Add two numbers.",
    )


def test_a_deprecated_class_works_and_warns_when_it_is_made():
    """Its instances are those of the class, and asking for the class warns nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert deprecation_of(Spot) == Deprecation("0.3.0", "Place", "1.0.0")
    with pytest.warns(DeprecationWarning, match="Spot is deprecated"):
        assert isinstance(Spot("here"), Spot)


def test_what_is_not_deprecated_says_so():
    """As of any function or class."""
    assert deprecation_of(typed) is None
    assert deprecation_of(Deprecation) is None


def test_an_editor_shows_the_end_of_a_step(monkeypatch):
    """The help of a deprecated function in YAML says until when, and what to use."""
    module = SimpleNamespace(__all__=["add"], add=add)
    pattern = Pattern("value.adder", "transform", add, ("other",), "Adder: two numbers are one", module)
    monkeypatch.setattr(chain_operations, "patterns", lambda: [pattern])
    told = chain_operations.operations.__wrapped__()["value.adder"].summary
    assert told == "Adder: two numbers are one (deprecated since 0.3.0, and gone in 0.5.0: use add_all)"


@given(RELEASES, RELEASES)
def test_a_name_stays_for_two_minor_releases(since, gone_in):
    """A removal is taken if, and only if, two minor releases, or one of the first number, lie between."""
    enough = gone_in[0] > since[0] or (gone_in[0] == since[0] and gone_in[1] >= since[1] + 2)
    stated = [".".join(map(str, each)) for each in (since, gone_in)]
    if enough:
        assert Deprecation(stated[0], "x", stated[1]).is_over(stated[1])
        assert not Deprecation(stated[0], "x", stated[1]).is_over(stated[0])
    else:
        with pytest.raises(ConfigError, match="gone_in must be"):
            Deprecation(stated[0], "x", stated[1])


@pytest.mark.parametrize("release", ["", "1", "0.3", "0.3.x", "0.3.0.1", "-1.0.0"])
def test_a_release_is_three_numbers(release):
    """Otherwise nobody could tell which one is later."""
    with pytest.raises(ConfigError, match=r"since must be a release like 0\.3\.0, not "):
        Deprecation(release, "x", "1.0.0")
