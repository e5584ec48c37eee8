"""Page of the home: the collected state that `dedp status` and `dedp alerts` print."""

from __future__ import annotations

from contextlib import suppress

import dagster as dg
from rich.console import Console

from dedp_assets.commands._output import Grid, coloured
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.home import running
from dedp_assets.laptop.orchestration.instance import close_abandoned
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.laptop.status_page.model import Page, ShownTrouble, age, moment, summary
from dedp_assets.patterns.core.measuring.quantities import with_limit

__all__ = ["collect", "print_troubles"]


def collect(settings: Settings) -> tuple[Maker, Page]:
    """Return the maker of pages, and the page of now."""
    if running(settings) is None and (settings.dagster_home / "dagster.yaml").is_file():
        # A run whose process died would be under way for ever; an instance that does not open is a notice of the page.
        with suppress(Exception), dg.DagsterInstance.from_config(str(settings.dagster_home)) as instance:
            close_abandoned(instance)
    maker = Maker(settings, thorough=True)
    return maker, maker.page(Clock().now())


def print_troubles(terminal: Console, page: Page, table: str = "") -> None:
    """Print the summary, the notices of failed reads, the troubles, and the partitions under way.

    Args:
        terminal: where.
        page: the page.
        table: the only table whose troubles, and troubles upstream, are printed; empty for all tables.
    """
    terminal.print(summary(page), soft_wrap=True)
    for notice in page.notices:
        terminal.print(coloured(("Not read:", "yellow"), f" {notice}"), soft_wrap=True)
    for title, troubles in (("Troubles", page.open), ("Under way, nobody is needed yet", page.under_way)):
        shown = [each for each in troubles if table in ("", each.table) or table in each.affected.tables]
        if shown:
            terminal.print(_grid(title, shown, page))


def _grid(title: str, troubles: list[ShownTrouble], page: Page) -> Grid:
    headings = ("severity", "trouble", "table", "partition", "since", "figure, reason, and what helps")
    grid = Grid(*headings, title=title)
    for each in troubles:
        since = f"{moment(each.since, page.made_at)}, {age(each.since, page.made_at)}" if each.since else ""
        because = f"because of {each.explained_by}" if each.explained_by else ""
        helps = each.command if each.command not in each.reason else ""
        more = "; ".join(filter(None, [with_limit(each.figure, each.limit), each.reason, because, helps]))
        place = (each.kind.replace("_", " "), each.table, each.partition, since, more)
        grid.add_row(each.severity, *place)
    return grid
