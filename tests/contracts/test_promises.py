"""docs/promises.md has a key for each promise, and a test is marked with each key."""

from __future__ import annotations

import ast
import re
from collections import Counter

from dedp_assets.graph.resources.environments import CHECKOUT

ROWS = [line for line in (CHECKOUT / "docs" / "promises.md").read_text().splitlines() if line.startswith("| ")]
PROMISES = [row for row in ROWS if not row.startswith("| Promise |")]
KEYS = [key[1] for row in PROMISES if (key := re.search(r"\| `([a-z0-9-]+)` \|$", row))]


def marked() -> set[str]:
    """The keys that tests are marked with."""
    found = set()
    for path in (CHECKOUT / "tests").rglob("test_*.py"):
        for node in ast.parse(path.read_text()).body:
            marks = [ast.unparse(each) for each in node.decorator_list] if isinstance(node, ast.FunctionDef) else []
            found |= {key for mark in marks for key in re.findall(r"pytest\.mark\.promise\('([^']*)'\)", mark)}
    return found


def test_every_promise_has_a_key_and_each_key_is_one_promise():
    """A row without a key would be held by nothing."""
    assert len(KEYS) == len(PROMISES) > 20
    assert [key for key, times in Counter(KEYS).items() if times > 1] == []


def test_every_promise_is_held_by_a_test_and_every_mark_holds_a_promise():
    """A test that is removed takes its promise with it; a test that is renamed or moved keeps its mark."""
    assert set(KEYS) == marked()
