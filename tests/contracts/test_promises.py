"""docs/promises.md names, for each promise, a test that there is."""

from __future__ import annotations

import ast
import re

import pytest

from dedp_assets.resources.environments import CHECKOUT

HELD_BY = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", (CHECKOUT / "docs" / "promises.md").read_text())))


@pytest.mark.parametrize(("file", "name"), HELD_BY, ids=[name for _, name in HELD_BY])
def test_every_promise_is_held_by_a_test(file, name):
    """A test that was renamed or removed takes its promise with it, or is named anew."""
    tree = ast.parse((CHECKOUT / "tests" / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_no_promise_stands_alone():
    """Each row of each table names a test."""
    rows = [line for line in (CHECKOUT / "docs" / "promises.md").read_text().splitlines() if line.startswith("| ")]
    promises = [line for line in rows if not line.startswith("| Promise |")]
    assert len(promises) > 20
    assert all("::test_" in line for line in promises), [line for line in promises if "::test_" not in line]
