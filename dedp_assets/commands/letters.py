"""``dedp letters``: dead letters by table, status and class, and of refused partitions, without Spark.

Examples:
    dedp letters
    dedp letters --json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import Grid, answer, note
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.checks.letters import LetterCount, count_letters, refused_letters
from dedp_assets.graph.outcomes.refusals import Refusal
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of

__all__ = ["arguments", "letters", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the form for programs."""
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the dead letters."""
    return letters(settings, as_json=chosen.json)


def letters(settings: Settings, *, as_json: bool = False) -> int:
    """Print the dead letters of every table, with counts from the tables' logs, and of refused partitions.

    Args:
        settings: where everything is.
        as_json: whether to print for programs.

    Raises:
        ConfigError: if there is no home.
    """
    require_home(settings)
    lake, errors = lake_of(settings), TableErrors()
    counts, refused = [*count_letters(lake, errors)], [*refused_letters(lake)]
    shown = [_counts(counts)] if counts else [] if refused or errors else ["There are no dead letters."]
    named = [{"table": table, "partition": key, "refusal": refusal} for table, key, refusal in refused]
    content = {"letters": counts, "refused": named, "not_read": [*map(str, errors.values())]}
    answer(content, *shown, *([_refused(refused)] if refused else []), as_json=as_json)
    for error in errors.values():
        note(f"dedp letters: {error}")
    return 3 if errors else 0


def _counts(found: Iterable[LetterCount]) -> Grid:
    grid = Grid("table", "status", "error class", title="Dead letters")
    for heading in ("letters", "partitions"):
        grid.add_column(heading, justify="right")
    grid.add_column("oldest, UTC")
    for each in found:
        oldest = f"{each.oldest:%Y-%m-%d %H:%M}" if each.oldest else ""
        grid.add_row(each.table, each.status, each.error_class, str(each.letters), str(each.partitions), oldest)
    return grid


def _refused(found: Iterable[tuple[str, str, Refusal]]) -> Grid:
    """Return the reasons of dead letters in refused partitions, each with a masked record."""
    title = "Dead letters of refused partitions, the most frequent reasons"
    grid = Grid("table", "partition", "letters", "reason", "example", title=title)
    for table, key, refusal in found:
        for number, each in enumerate(refusal.letters):
            of = (table, key) if number == 0 else ("", "")
            grid.add_row(*of, str(each.letters), each.reason, each.example)
        if refusal.stage:
            grid.add_row("", "", "", "", f"all of them as Parquet: {refusal.stage}")
    return grid
