"""Docstrings' first lines, read in a row by somebody who has never seen the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from resources.environments import CHECKOUT

ROOMS = ("dedp_assets/patterns", "dedp_assets/local", "dedp_assets/sources", "resources")
VERBS = {
    *re.findall(
        r"\w+",
        """
    Account Add Advance Alter Announce Append Apply Approve Ask Assemble Bring Build Capture Choose Claim Clone Close
    Commit Compare Compute Configure Confirm Convert Copy Count Create Cut Decide Declare Decode Delete Deliver Describe
    Discard Do Drop Empty Encode End Escape Estimate Exchange Fetch Fill Find Generate Give Group Hold Identify Join
    Judge Keep Land Lease Lengthen Let List Load Lock Look Lower Maintain Make Map Mark Mask Measure Merge Move Name
    Note Number Observe Open Order Pair Parse Pin Plan Point Prepare Print Publish Push Raise Read Record Refuse Remove
    Rename Replace Replicate Report Resolve Return Rewrite Run Say Scan Select Send Set Settle Show Spell Split Start
    Stop Store Stream Sum Swap Take Tell Tick Transform Translate Turn Type Validate Verify Wait Withdraw Write Yield
    """,
    )
}
"""Verbs that a function's first line may begin with; a new one is added here."""

VAGUE = re.compile(r"^(What|Whether|Who|How|Why|And|It|Its|Small questions)\b|\bours\b|\b(are|stays|keeps) none\b")


def described(room: str) -> Iterator[tuple[ast.AST, str, str]]:
    """Every definition of a room that has a docstring, with where it stands and its first line."""
    for path in sorted((CHECKOUT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
                place = f"{path.relative_to(CHECKOUT)}:{getattr(node, 'lineno', 1)}"
                yield node, place, text.splitlines()[0]


def is_property(node: ast.AST) -> bool:
    """Whether a definition is read like an attribute."""
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in decorators)


each = pytest.mark.parametrize("room", ROOMS)


@each
def test_a_functions_first_line_begins_with_what_it_does(room):
    """A verb in the imperative: "List the files ...", "Tell whether ..."; a property may be the thing it stands for."""
    functions = [(n, place, line) for n, place, line in described(room) if isinstance(n, ast.FunctionDef)]
    assert functions
    wrong = {p: line for n, p, line in functions if not is_property(n) and line.split()[0].rstrip(",:") not in VERBS}
    assert not wrong


@each
def test_a_first_line_says_what_it_means(room):
    """No question without its answer, and no word that stands for something nobody has named."""
    vague = [(node, place, line) for node, place, line in described(room) if VAGUE.search(line)]
    # Of a module a question may be the subject: "What a table declares about itself: columns, partitions".
    wrong = {place: line for node, place, line in vague if not isinstance(node, ast.Module)}
    assert not wrong
