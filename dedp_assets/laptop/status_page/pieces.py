"""Pieces of HTML that the pages share: document, header, list of troubles, links between the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files

from dedp_assets.laptop.status_page.markup import Markup, h, joined, quoted
from dedp_assets.laptop.status_page.model import ShownTrouble, TableRow, age, moment

__all__ = [
    "BADGES",
    "address",
    "badge_words",
    "count",
    "document",
    "few",
    "footer",
    "header",
    "notices",
    "render_fault",
    "table_link",
    "trouble_list",
    "with_code",
]

BADGES = {
    "critical": "✕ critical",
    "warning": "! warning",
    "info": "… under way",
    "affected": "↓ affected",
    "unknown": "? not known",
    "ok": "✓ ok",
    "empty": "no data yet",
}
"""Severity or verdict -> sign with a word."""
_DOCUMENT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
{refresh}<title>{title}</title><link rel="icon" href="{icon}"><style>{style}</style></head>
<body><main>{body}</main></body></html>
"""
_NAMED, _CONSUMERS = 8, 3
"""Most tables, and most consumers, named in a line."""


def document(title: str, body: Markup, *, refresh: int = 0, verdict: str = "ok") -> str:
    """Return a whole HTML document, reloaded by browsers after ``refresh`` seconds unless that is 0.

    The icon of the tab has the colour of the verdict.
    """
    again = h('<meta http-equiv="refresh" content="{seconds}">\n', seconds=refresh) if refresh else Markup("")
    return str(h(_DOCUMENT, title=title, refresh=again, icon=_icon(verdict), style=_style(), body=body))


def _icon(verdict: str) -> str:
    colour = {"critical": "%23c22f36", "warning": "%23d98e1f", "unknown": "%23878d96"}.get(verdict, "%232f8f5b")
    drawn = f"<circle cx='8' cy='8' r='7' fill='{colour}'/>"
    return f"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>{drawn}</svg>"


@cache
def _style() -> Markup:
    return Markup(files(__package__).joinpath("style.css").read_text(encoding="utf-8"))


def header(
    title: str, now: datetime, web: str, *, asset: str = "", persons: bool = False, plan: bool = False
) -> Markup:
    """Return title, time of the page and links to the pages beside.

    Args:
        title: title of the page.
        now: time of the page.
        web: address of Dagster's webserver; empty without one.
        asset: the asset of the page; empty for a page of all.
        persons: whether requests to erase persons have a page.
        plan: whether the plan of runs has a page.
    """
    links = [h('<a href="/">All tables</a>')] if asset else []
    links += [h('<a href="/plan">Plan</a>')] if plan else []
    links += [h('<a href="/erasures">Requests to erase persons</a>')] if persons else []
    if web and asset:
        links.append(h('<a href="{web}/assets/{asset}">In Dagster</a>', web=web, asset=quoted(asset, safe="/")))
    elif web:
        links.append(h('<a href="{web}">Dagster</a>', web=web))
    return h(
        '<header><h1>{title} <small class="soft">{made}</small></h1><nav>{links}</nav></header>',
        title=title,
        made=f"at {now:%Y-%m-%d %H:%M:%S} UTC" if asset == "" else f"at {moment(now, now)}",
        links=joined(links),
    )


def notices(notices: Iterable[str]) -> list[Markup]:
    """Return the notices, each as a paragraph."""
    return [h('<p class="notice" role="status">ⓘ {text}</p>', text=text) for text in notices]


def trouble_list(troubles: Sequence[ShownTrouble], now: datetime, *, served: bool) -> Markup:
    """Return the list of troubles; empty without one."""
    if not troubles:
        return Markup("")
    return h('<ol class="troubles">{cards}</ol>', cards=joined(_card(each, now, served=served) for each in troubles))


def _card(trouble: ShownTrouble, now: datetime, *, served: bool) -> Markup:
    since = Markup("")
    if trouble.since:
        text = f"since {moment(trouble.since, now)}, {age(trouble.since, now)}"
        since = h('<time datetime="{iso}">{text}</time>', iso=trouble.since.isoformat(), text=text)
    measured = [
        h('<span class="figure">{figure}</span>', figure=trouble.figure) if trouble.figure else Markup(""),
        h('<span class="soft">{limit}</span>', limit=trouble.limit) if trouble.limit else Markup(""),
    ]
    head = h(
        '<div class="head"><span class="badge v-{severity}">{badge}</span>'
        '<span class="what">{kind}: {table} {partition}</span> {measured}{since}</div>',
        severity=trouble.severity,
        badge=BADGES[trouble.severity],
        kind=trouble.kind.replace("_", " "),
        table=table_link(trouble.table, served=served),
        partition=trouble.partition,
        measured=joined((each for each in measured if each), " "),
        since=since,
    )
    reason = h("<p>{reason}</p>", reason=with_code(trouble.reason)) if trouble.reason else Markup("")
    return h(
        '<li class="trouble {severity}">{head}{reason}{fields}</li>',
        severity=trouble.severity,
        head=head,
        reason=reason,
        fields=_fields(trouble, served=served),
    )


def with_code(text: str) -> Markup:
    """Return a text with the parts between backticks as code."""
    parts = text.split("`")
    whole = len(parts) if len(parts) % 2 else len(parts) - 1  # a backtick without an end is a character
    pieces = [
        h("<code>{part}</code>" if place % 2 else "{part}", part=part) for place, part in enumerate(parts[:whole])
    ]
    return joined([*pieces, *(h("`{part}", part=part) for part in parts[whole:])])


def _fields(trouble: ShownTrouble, *, served: bool) -> Markup:
    affected, found = trouble.affected, []
    # Whom a trouble upstream affects stands there.
    of_its_own = trouble.needs_somebody and not trouble.explained_by
    if trouble.explained_by:
        found.append(("Because of", table_link(trouble.explained_by, served=served)))
    if trouble.command:
        found.append(("Helps", h("<code>{command}</code>", command=trouble.command)))
    if affected.direct and of_its_own:
        named = few([table_link(name, served=served) for name in affected.direct])
        indirect = few([table_link(name, served=served) for name in affected.indirect])
        more = h("; then {indirect}", indirect=indirect) if affected.indirect else Markup("")
        found.append(("Affects", h("{named}{more}", named=named, more=more)))
    if affected.consumers and of_its_own:
        consumers = [h("{name}", name=each) for each in affected.consumers]
        found.append(("Used by", few(consumers, "; ", most=_CONSUMERS)))
    rows = joined(h("<dt>{name}</dt><dd>{value}</dd>", name=name, value=value) for name, value in found)
    return h('<dl class="fields">{rows}</dl>', rows=rows) if rows else rows


def badge_words(table: TableRow) -> str:
    """Return the verdict of a table in words, with the number of troubles."""
    more = f" ({table.troubles})" if table.troubles > 1 else ""
    return f"{BADGES[table.verdict]}{more}"


def footer(*, served: bool) -> Markup:
    """Return the end of a page."""
    programs = h(' For programs: <a href="/status.json">/status.json</a>.') if served else Markup("")
    return h(
        "<footer>Made from the tables' logs, open alerts and Dagster's run history. The same in a terminal: "
        "<code>dedp status</code>.{programs}</footer>",
        programs=programs,
    )


def few(names: Sequence[Markup], between: str = ", ", *, most: int = _NAMED) -> Markup:
    """Return the first pieces, and the number of further pieces."""
    more = f"{between}and {len(names) - most} more" if len(names) > most else ""
    return h("{names}{more}", names=joined(names[:most], between), more=more)


def table_link(name: str, *, served: bool) -> Markup:
    """Return the name of a table, with a link to the table's page if a server runs."""
    return h('<a href="{address}">{name}</a>', address=address(name), name=name) if served else h("{name}", name=name)


def address(name: str) -> str:
    """Return the path of a table's page."""
    return f"/table/{quoted(name, safe='/')}"


def count(number_: int, word: str) -> str:
    """Return a number with a word, in the plural where needed."""
    return f"{number_} {word}" if number_ == 1 else f"{number_} {word}s"


def render_fault(title: str, sentence: str) -> str:
    """Return an HTML document with one sentence, for a page that cannot be shown."""
    words = h('<header><h1>{title}</h1><nav><a href="/">Status</a></nav></header>', title=title)
    return document(title, joined([words, h('<p class="notice">{sentence}</p>', sentence=with_code(sentence))]))
