"""Tree of the nodes of a query plan, from the lines of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dedp_assets.patterns.observability._plans.texts import UnreadablePlan

__all__ = ["PlanNode", "parsed"]

_LINE = re.compile(r"((?:   |:  )*)(\+- |:- )(.*)", re.DOTALL)
_MARKS = str.maketrans("\ue000\ue001\ue002\ue003", "????")


@dataclass
class PlanNode:
    """A node of a plan.

    Attributes:
        text: its line, without the lines that draw the tree.
        depth: its place below the top.
        children: the nodes that it reads.
        subqueries: the plans of the subqueries in its expressions, in the order of the text.
    """

    text: str
    depth: int
    children: list[PlanNode] = field(default_factory=list)
    subqueries: list[PlanNode] = field(default_factory=list)


def parsed(text: str) -> PlanNode:
    """Parse the lines of a plan into a tree.

    Raises:
        UnreadablePlan: for a text that is no tree.
    """
    lines = text.translate(_MARKS).split("\n")
    root = PlanNode(lines[0], 0)
    opened, last = [root], root
    for line in lines[1:]:
        found = _LINE.match(line)
        if found is None:  # a text of an expression goes on in the next line
            last.text += f"\n{line}"
            continue
        last = PlanNode(found[3], len(found[1]) // 3 + 1)
        while opened and opened[-1].depth >= last.depth:
            opened.pop()
        above = last.depth - opened[-1].depth if opened else 0
        if above not in (1, 2):
            raise UnreadablePlan(f"the plan is no tree at {found[3][:40]}")
        (opened[-1].children if above == 1 else opened[-1].subqueries).append(last)
        opened.append(last)
    while root.text.endswith("\n"):
        root.text = root.text[:-1]
    return root
