"""A house that stays small: lines of a pattern with its helpers, untyped values, exceptions from the linter."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import grimp
import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.catalog import patterns

PRODUCT = CHECKOUT / "dedp_assets"
LIBRARY = "dedp_assets.patterns"
MOST_LINES = 350
RECORD = CHECKOUT / "docs/decisions/0061-patterns-above-350-lines.md"
ROW = re.compile(r"^\| `(\w+\.\w+)` \| (\d+) \| \S.+ \|$", re.MULTILINE)
MOST_PER_THOUSAND = {"noqa": 4.7, "Any": 13.0}
"""Comments and annotations for 1,000 lines of the product: numbers that may fall and never rise."""


@cache
def lines_by_pattern() -> dict[str, int]:
    """The lines of each pattern: its module, and the modules of its chapter that serve it alone."""
    graph = grimp.build_graph("dedp_assets", cache_dir=None)
    named = {pattern.id: f"{LIBRARY}.{pattern.id}" for pattern in patterns()}
    needed = {name: helpers_of(graph, module) for name, module in named.items()}
    shared = [helper for helpers in needed.values() for helper in helpers]
    return {
        name: sum(length(module) for module in (named[name], *(h for h in helpers if shared.count(h) == 1)))
        for name, helpers in needed.items()
    }


def helpers_of(graph: grimp.ImportGraph, module: str) -> set[str]:
    """The private modules of a chapter that a module needs, and those that these need."""
    seen, waiting = set[str](), [module]
    while waiting:
        found = graph.find_modules_directly_imported_by(waiting.pop())
        fresh = {name for name in found if is_private(name)} - seen
        seen |= fresh
        waiting += fresh
    return seen


def is_private(module: str) -> bool:
    return module.startswith(f"{LIBRARY}.") and any(part.startswith("_") for part in module.split("."))


def length(module: str) -> int:
    path = CHECKOUT / Path(*module.split("."))
    return len((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text().splitlines())


def test_a_pattern_with_many_lines_has_a_decision_record():
    """Above 350 lines with its helpers, the record has a row with what the lines buy, and a number that holds them."""
    recorded = {name: int(most) for name, most in ROW.findall(RECORD.read_text())}
    large = {name: lines for name, lines in lines_by_pattern().items() if lines > MOST_LINES}
    assert large.keys() == recorded.keys()
    assert {name: lines for name, lines in large.items() if lines > recorded[name]} == {}


def test_a_helper_of_two_patterns_is_counted_with_neither():
    """As the rows' expressions of both aggregators; a helper of one is."""
    assert lines_by_pattern()["observability.fine_grained_tracker"] > 1_000
    assert lines_by_pattern()["observability.dataset_tracker"] > length(f"{LIBRARY}.observability.dataset_tracker")
    graph = grimp.build_graph("dedp_assets", cache_dir=None)
    ours, theirs = (helpers_of(graph, f"{LIBRARY}.quality.{name}") for name in ("offline_observer", "online_observer"))
    assert ours & theirs


def untyped(text: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(ast.parse(text)))


@pytest.mark.parametrize(("what", "count"), [("noqa", lambda text: text.count("# noqa")), ("Any", untyped)])
def test_exceptions_from_types_and_linter_do_not_grow(what, count):
    """Each has a reason of its own, and a new one takes the place of an old one."""
    texts = [path.read_text() for path in PRODUCT.rglob("*.py")]
    share = 1_000 * sum(map(count, texts)) / sum(len(text.splitlines()) for text in texts)
    assert share <= MOST_PER_THOUSAND[what], f"{share:.2f} {what} for 1,000 lines"
    assert share > 0.8 * MOST_PER_THOUSAND[what], f"{share:.2f} {what} for 1,000 lines: lower the number"
