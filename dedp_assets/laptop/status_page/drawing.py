"""Drawings of the status page in SVG: strips of partitions, and figures over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from dedp_assets.laptop.status_page.markup import Markup, h, joined
from dedp_assets.laptop.status_page.model import Cell, Point

__all__ = ["STATES", "bars", "legend", "number", "strip"]

STATES = {
    "ok": "ok",
    "partial": "warned or approved",
    "late": "behind its upstream",
    "refused": "refused",
    "missing": "missing",
    "empty": "no rows",
}
"""State of a partition -> words on the page."""
_WIDTH, _HEIGHT, _STEP = 8, 22, 10
_MARKS = {
    # Each state has a form of its own: colours are not the only sign.
    "ok": '<rect class="s-ok" x="{x}" y="1" width="8" height="20" rx="1.5"/>',
    "partial": '<rect class="s-partial" x="{x}" y="1" width="8" height="20" rx="1.5"/>'
    '<rect class="s-hole" x="{x2}" y="4" width="4" height="7"/>',
    "late": '<rect class="s-frame-late" x="{x05}" y="1.5" width="7" height="19" rx="1.5"/>'
    '<rect class="s-late" x="{x}" y="11" width="8" height="10" rx="1.5"/>',
    "refused": '<rect class="s-refused" x="{x}" y="1" width="8" height="20" rx="1.5"/>'
    '<path class="s-cross" d="M{x2} 8.5l4 5m0 -5l-4 5"/>',
    "missing": '<rect class="s-missing" x="{x05}" y="1.5" width="7" height="19" rx="1.5"/>',
    "empty": '<rect class="s-empty" x="{x}" y="18" width="8" height="3" rx="1"/>',
}
_MILLION, _THOUSAND = 1e6, 1e4


def strip(cells: Sequence[Cell], link: Callable[[Cell], str]) -> Markup:
    """Draw the last partitions of a table, each with a title, and with a form by state.

    Args:
        cells: the partitions, the oldest first.
        link: address of a partition; empty without one.
    """
    if not cells:
        return Markup("")
    drawn = joined(_cell(cell, number_ * _STEP, link(cell)) for number_, cell in enumerate(cells))
    counts = Counter[str](cell.state for cell in cells)
    summary = ", ".join(f"{counts[state]} {words}" for state, words in STATES.items() if counts[state])
    label = f"{len(cells)} partitions from {cells[0].key} to {cells[-1].key}: {summary}"
    width = len(cells) * _STEP
    return h(
        '<svg class="strip" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="{label}">{drawn}</svg>',
        width=width,
        height=_HEIGHT,
        label=label,
        drawn=drawn,
    )


def _cell(cell: Cell, x: int, address: str) -> Markup:
    rows = "" if cell.rows is None else f", {cell.rows:,} rows"
    title = f"{cell.key}: {STATES[cell.state]}{rows}" + (f". {cell.note}" if cell.note else "")
    mark = h(_MARKS[cell.state], x=x, x2=x + 2, x05=x + 0.5)
    body = h(
        '<title>{title}</title><rect class="s-hit" x="{x}" y="0" width="10" height="22"/>{mark}',
        title=title,
        x=x - 1,
        mark=mark,
    )
    # The same links stand in the list of partitions: one stop of the keyboard for each cell would be too many.
    return (
        h('<a href="{address}" tabindex="-1">{body}</a>', address=address, body=body)
        if address
        else h("<g>{body}</g>", body=body)
    )


def legend() -> Markup:
    """Draw the forms of all states, with words."""
    return joined(
        h(
            '<span><svg width="8" height="22" viewBox="0 0 8 22" aria-hidden="true">{mark}</svg> {words}</span>',
            mark=h(_MARKS[state], x=0, x2=2, x05=0.5),
            words=words,
        )
        for state, words in STATES.items()
    )


def bars(points: Sequence[Point], *, what: str, unit: str) -> Markup:
    """Return an SVG bar chart of a figure over time, with the newest value as text.

    Args:
        points: the figure, the oldest first.
        what: name of the figure.
        unit: unit of the figure.
    """
    if not points:
        return Markup("")
    top, height = max(point.value for point in points) or 1, 20
    drawn = joined(
        h(
            '<g><title>{label}: {value} {unit}</title><rect x="{x}" y="{y}" width="3" height="{tall}"/></g>',
            label=point.label,
            value=number(point.value),
            unit=unit,
            x=place * 4,
            y=f"{21 - tall:.1f}",
            tall=f"{tall:.1f}",
        )
        for place, point in enumerate(points)
        for tall in [max(height * point.value / top, 0.8)]
    )
    last, width = points[-1], len(points) * 4
    unit = "row" if unit == "rows" and last.value == 1 else unit
    label = (
        f"{what}, {len(points)} values from {points[0].label} to {last.label}: the last is {number(last.value)} {unit}"
    )
    return h(
        '<span class="chart"><svg class="bars" viewBox="0 0 {width} 22" width="{width}" height="22" role="img" '
        'aria-label="{label}">{drawn}</svg> <span class="last">{value}&nbsp;{unit}</span></span>',
        width=width,
        label=label,
        drawn=drawn,
        value=number(last.value),
        unit=unit,
    )


def number(value: float) -> str:
    """Return a number for people: few digits, and ``k`` or ``M`` for large numbers."""
    if value >= _MILLION:
        return f"{value / _MILLION:,.1f} M"
    if value >= _THOUSAND:
        return f"{value / 1_000:,.0f} k"
    return f"{value:,.0f}" if float(value).is_integer() or value >= 100 else f"{value:.1f}"
