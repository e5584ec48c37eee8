"""Pictures of the site as inline SVG: the neighbours of tables in a graph, and ratios of benchmarks as bars."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["bars", "neighbours"]

_BOX, _HIGH, _GAP, _BETWEEN = 250, 30, 12, 90
_STYLE = (
    ".d-box{fill:none;stroke:currentColor;stroke-opacity:.5}.d-own{stroke-width:3;stroke-opacity:1}"
    ".d-text{fill:currentColor;font:13px sans-serif}.d-edge{stroke:currentColor;stroke-opacity:.5;fill:none}"
)


def neighbours(before: Sequence[str], own: Sequence[str], after: Sequence[str], edges: set[tuple[str, str]]) -> str:
    """Draw three columns of datasets, read from left to right, with the edges between the columns."""
    columns = (before, own, after)
    tall = max(map(len, columns)) * (_HIGH + _GAP) + _GAP
    places, parts = {}, []
    for number, names in enumerate(columns):
        free = tall - len(names) * (_HIGH + _GAP) + _GAP
        for row, name in enumerate(names):
            x, y = number * (_BOX + _BETWEEN) + 2, free / 2 + row * (_HIGH + _GAP)
            places[number, name] = x, y + _HIGH / 2
            mark = " d-own" if number == 1 else ""
            parts.append(f'<rect class="d-box{mark}" x="{x}" y="{y}" width="{_BOX}" height="{_HIGH}" rx="4"/>')
            parts.append(f'<text class="d-text" x="{x + 8}" y="{y + 20}">{escape(_short(name))}</text>')
    for (source, target), left in ((edge, left) for edge in sorted(edges) for left in (0, 1)):
        if (left, source) in places and (left + 1, target) in places:
            (x, y), (to, down) = places[left, source], places[left + 1, target]
            parts.append(_edge(x + _BOX, y, to, down))
    return _svg(3 * _BOX + 2 * _BETWEEN + 4, tall, "".join(parts), "Place in the graph")


def bars(rows: Sequence[tuple[str, float, float | None, bool | None]], title: str) -> str:
    """Draw a bar for each ratio: label, ratio, goal, and whether the goal is reached; 1 is a line over all bars."""
    most = max([2.0, *(min(ratio, 4.0) for _, ratio, _, _ in rows)])
    label, wide, high = 380, 380, 24
    parts = []
    for number, (name, ratio, goal, reached) in enumerate(rows):
        y = number * high + 4
        length = min(ratio, most) / most * wide
        colour = {True: "#2e7d32", False: "#c62828", None: "#607d8b"}[reached]
        parts.append(f'<text class="d-text" x="0" y="{y + 14}">{escape(_short(name, 54))}</text>')
        parts.append(f'<rect x="{label}" y="{y}" width="{length:.1f}" height="16" fill="{colour}"/>')
        parts.append(f'<text class="d-text" x="{label + length + 6:.1f}" y="{y + 13}">{ratio:g}</text>')
        if goal is not None and goal <= most:
            x = label + goal / most * wide
            parts.append(f'<path class="d-edge" stroke-width="3" d="M{x:.1f} {y - 2}v20"/>')
    tall = len(rows) * high + 8
    one = label + wide / most
    parts.append(f'<path class="d-edge" stroke-dasharray="4 3" d="M{one:.1f} 0v{tall}"/>')
    return _svg(label + wide + 70, tall, "".join(parts), title)


def _edge(x: float, y: float, to: float, down: float) -> str:
    middle = (x + to) / 2
    return f'<path class="d-edge" d="M{x} {y}C{middle} {y} {middle} {down} {to} {down}"/>'


def _short(name: str, most: int = 34) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _svg(wide: float, tall: float, inside: str, title: str) -> str:
    """Write a picture in one line, which Markdown takes as HTML."""
    return (
        f'<div class="picture"><svg role="img" viewBox="0 0 {wide:g} {tall:g}" style="width:100%;max-width:{wide:g}px">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>{inside}</svg></div>\n"
    )
