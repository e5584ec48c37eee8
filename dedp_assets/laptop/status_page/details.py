"""The page of one table as HTML: partitions, lineage, cost by day, last commits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dedp_assets.laptop.status_page.drawing import STATES, legend, number, strip
from dedp_assets.laptop.status_page.markup import Markup, h, joined, quoted
from dedp_assets.laptop.status_page.model import Cell, CommitRow, Details, TableRow, age, moment
from dedp_assets.laptop.status_page.pieces import (
    badge_words,
    document,
    footer,
    header,
    notices,
    table_link,
    trouble_list,
)

__all__ = ["render_details"]

_COMMITS = 20
_MEGABYTE = 1e6


def render_details(details: Details) -> str:
    """Return the page of one table as an HTML document."""
    table, now = details.table, details.made_at
    own = [each for each in details.troubles if each.table == table.name]
    above = [each for each in details.troubles if each.table != table.name and each.needs_somebody]
    body = joined(
        [
            header(table.name, now, details.web, asset=table.name),
            *notices(details.notices),
            h(
                '<p class="summary v-{verdict}">{badge}{facts}</p>',
                verdict=table.verdict,
                badge=badge_words(table),
                facts=_facts(table, now),
            ),
            trouble_list(own, now, served=True),
            _section("Troubles upstream", trouble_list(above, now, served=True)) if above else Markup(""),
            _section("Lineage", _lineage(table)),
            _section("Partitions", _partitions(details)) if details.cells else Markup(""),
            _section("Cost by day", _spending(details)) if details.spending else Markup(""),
            _section("Last commits", _commits(details.commits[:_COMMITS], details)) if details.commits else Markup(""),
            footer(served=True),
        ]
    )
    return document(f"{table.name}: {table.verdict}", body, verdict=table.verdict)


def _facts(table: TableRow, now: datetime) -> Markup:
    written = (
        f"last written {moment(table.written_at, now)}, {age(table.written_at, now)} ago" if table.written_at else ""
    )
    facts = [
        written,
        f"owner {table.owner}" if table.owner else "",
        f"used by {table.used_by}" if table.used_by else "",
    ]
    return h("<small>{facts}</small>", facts="; ".join(filter(None, facts)))


def _lineage(table: TableRow) -> Markup:
    sides = (("Reads", table.upstream), ("Read by", table.downstream))
    rows = joined(
        h(
            "<dt>{side}</dt><dd>{names}</dd>",
            side=side,
            names=joined((table_link(name, served=True) for name in names), ", ") or "no table",
        )
        for side, names in sides
    )
    return h('<dl class="fields">{rows}</dl>', rows=rows)


def _partitions(details: Details) -> Markup:
    cells = details.cells
    drawn = strip(tuple(reversed(cells)), lambda cell: f"#{quoted(cell.key)}")
    rows = joined(_partition(cell, details.written.get(cell.key), details) for cell in cells)
    head = _head("Partition", "State", "Rows", "Version", "Written", "Because of", "Why")
    return h(
        '<p class="legend">{legend}</p><p class="scroll">{drawn}</p><div class="scroll"><table><thead>{head}</thead>'
        "<tbody>{rows}</tbody></table></div>",
        legend=legend(),
        drawn=drawn,
        head=head,
        rows=rows,
    )


def _partition(cell: Cell, commit: CommitRow | None, details: Details) -> Markup:
    key = h("{key}", key=cell.key)
    if details.web:
        asset, partition = quoted(details.table.name, safe="/"), quoted(cell.key)
        place = f"{details.web}/assets/{asset}?view=partitions&partition={partition}"
        key = h('<a href="{place}">{key}</a>', place=place, key=cell.key)
    return h(
        '<tr id="{id}"><td class="nowrap">{key}</td><td>{state}</td><td class="n">{rows}</td>'
        '<td class="n">{version}</td><td class="nowrap">{at}</td><td>{cause}</td><td>{note}</td></tr>',
        id=cell.key,
        key=key,
        state=STATES[cell.state],
        rows="" if cell.rows is None else f"{cell.rows:,}",
        version=commit.version if commit else "",
        at=f"{commit.at:%Y-%m-%d %H:%M} UTC" if commit else "",
        cause=commit.cause if commit else "",
        note=cell.note,
    )


def _spending(details: Details) -> Markup:
    rows = joined(
        h(
            '<tr><td>{day}</td><td class="n">{commits}</td><td class="n">{seconds}</td>'
            '<td class="n">{written}</td></tr>',
            day=each.day,
            commits=each.commits,
            seconds="" if each.seconds is None else f"{each.seconds:,.1f}",
            written="" if each.bytes_written is None else f"{each.bytes_written / _MEGABYTE:,.2f}",
        )
        for each in details.spending
    )
    head = h(
        '<tr><th scope="col">UTC day</th><th scope="col" class="n">Commits</th><th scope="col" class="n">Seconds</th>'
        '<th scope="col" class="n">MB written</th></tr>'
    )
    return h(
        '<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>', head=head, rows=rows
    )


def _commits(commits: Sequence[CommitRow], details: Details) -> Markup:
    rows = joined(
        h(
            '<tr><td class="n">{version}</td><td class="nowrap">{at}</td><td>{partition}</td><td>{verdict}</td>'
            '<td>{cause}</td><td class="n">{rows}</td><td class="n">{seconds}</td><td>{run}</td></tr>',
            version=each.version,
            at=f"{each.at:%Y-%m-%d %H:%M:%S} UTC",
            partition=each.partition,
            verdict=each.verdict or each.operation,
            cause=each.cause,
            rows="" if each.rows is None else f"{each.rows:,}",
            seconds="" if each.seconds is None else number(each.seconds),
            run=_run(each.run_id, details.web),
        )
        for each in commits
    )
    head = _head("Version", "Time", "Partition", "Verdict", "Because of", "Rows", "Seconds", "Run")
    return h(
        '<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>', head=head, rows=rows
    )


def _run(run_id: str, web: str) -> Markup:
    short = run_id[:8]
    if not (web and run_id):
        return h("{run}", run=short)
    return h('<a href="{web}/runs/{id}">{run}</a>', web=web, id=quoted(run_id), run=short)


def _head(*names: str) -> Markup:
    numeric = ("Rows", "Version", "Seconds")
    cells = (
        h('<th scope="col"{kind}>{name}</th>', kind=Markup(' class="n"' if name in numeric else ""), name=name)
        for name in names
    )
    return h("<tr>{cells}</tr>", cells=joined(cells))


def _section(title: str, body: Markup) -> Markup:
    return h("<h2>{title}</h2>{body}", title=title, body=body)
