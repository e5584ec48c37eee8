"""The status page as one HTML document: no script, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from dedp_assets.laptop.status_page.drawing import bars, legend, strip
from dedp_assets.laptop.status_page.markup import Markup, h, joined, quoted
from dedp_assets.laptop.status_page.model import Cell, Page, TableRow, moment, summary
from dedp_assets.laptop.status_page.pieces import (
    BADGES,
    address,
    badge_words,
    count,
    document,
    footer,
    header,
    notices,
    table_link,
    trouble_list,
)

__all__ = ["render"]

_REFRESH_SECONDS = 60


def render(page: Page, *, served: bool = True) -> str:
    """Return the status page as an HTML document.

    Args:
        page: the page.
        served: whether a server answers for the pages of single tables; a file has no links to them.
    """
    body = joined(
        [
            header("Status", page.made_at, page.web, persons=served and bool(page.kinds), plan=served),
            _summary(page),
            *notices(page.notices),
            trouble_list(page.open, page.made_at, served=served),
            _under_way(page, served=served),
            _tables(page, served=served),
            footer(served=served),
        ]
    )
    return document(_title(page), body, refresh=_REFRESH_SECONDS if served else 0, verdict=page.verdict)


def _title(page: Page) -> str:
    words = {"ok": "No trouble", "unknown": "Not everything is known"}
    return f"{count(len(page.open), 'trouble') if page.open else words[page.verdict]} - status"


def _summary(page: Page) -> Markup:
    tables = {each.table for each in page.open}
    reached = {name for each in page.open for name in each.affected.tables} - tables
    kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(each.kind for each in page.open).items())
    further = f" {count(len(reached), 'further table')} downstream may be wrong or late." if reached else ""
    return h(
        '<p class="summary v-{verdict}">{sign} {text}<small>{more}</small></p>',
        verdict=page.verdict,
        sign=BADGES[page.verdict].partition(" ")[0],
        text=summary(page),
        more=f"{kinds}.{further}" if kinds else "",
    )


def _under_way(page: Page, *, served: bool) -> Markup:
    if not page.under_way:
        return Markup("")
    return h(
        "<details><summary>{text} under way, nobody needed yet</summary>{cards}</details>",
        text=count(len(page.under_way), "update"),
        cards=trouble_list(page.under_way, page.made_at, served=served),
    )


def _tables(page: Page, *, served: bool) -> Markup:
    if not page.tables:
        return h('<h2>Tables</h2><p class="soft">There are no tables yet.</p>')
    layers = [_layer(layer, list(tables), page, served=served) for layer, tables in groupby(page.tables, key=_layer_of)]
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("Table", "State", "Last partitions", "Newest", "Rows over time", "Seconds by day")
    )
    return h(
        '<h2 id="tables">Tables</h2><p class="legend">{legend}</p><div class="scroll"><table class="tables">'
        "<thead><tr>{head}</tr></thead><tbody>{layers}</tbody></table></div>",
        legend=legend(),
        head=Markup(head),
        layers=joined(layers),
    )


def _layer_of(table: TableRow) -> str:
    return table.layer


def _layer(layer: str, tables: Sequence[TableRow], page: Page, *, served: bool) -> Markup:
    """Return the HTML rows of a layer; tables without commits share one row."""
    blank = [each for each in tables if each.verdict == "empty" and not each.strip]
    rows = joined(_row(each, page.made_at, served=served) for each in tables if each not in blank)
    names = joined((table_link(each.name, served=served) for each in blank), ", ")
    none = h('<tr><td class="none" colspan="6">No data yet: {names}</td></tr>', names=names) if blank else Markup("")
    head = h('<tr class="layer"><th colspan="6" scope="rowgroup">{layer}</th></tr>', layer=layer)
    return joined([head, rows, none])


def _row(table: TableRow, now: datetime, *, served: bool) -> Markup:
    newest = h('<span class="nowrap">{key}</span>', key=table.newest) if table.newest else Markup("")
    if not newest and table.written_at:
        newest = h('<span class="nowrap">{at}</span>', at=moment(table.written_at, now))
    owner = h("<small>{owner}</small>", owner=table.owner) if table.owner else Markup("")
    return h(
        '<tr class="row"><td class="name">{name}{owner}</td><td><span class="badge v-{verdict}">{badge}</span></td>'
        '<td>{strip}</td><td data-is="newest">{newest}</td><td data-is="rows">{rows}</td>'
        '<td data-is="seconds">{seconds}</td></tr>',
        name=table_link(table.name, served=served),
        owner=owner,
        verdict=table.verdict,
        badge=badge_words(table),
        strip=strip_box(table, served=served),
        newest=newest,
        rows=bars(table.rows, what="rows", unit="rows"),
        seconds=bars(table.seconds, what="cost", unit="s"),
    )


def strip_box(table: TableRow, *, served: bool) -> Markup:
    cells = table.strip
    if not cells:
        return Markup("")

    def link(cell: Cell) -> str:
        return f"{address(table.name)}#{quoted(cell.key)}" if served else ""

    return h(
        '<span class="stripbox">{strip}<span class="ends"><span>{first}</span><span>{last}</span></span></span>',
        strip=strip(cells, link),
        first=cells[0].key,
        last=cells[-1].key if len(cells) > 1 else "",
    )
