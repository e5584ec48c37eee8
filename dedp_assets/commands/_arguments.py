"""Arguments of several commands: tables, days, JSON."""

from __future__ import annotations

import argparse
import re
from datetime import date, timedelta
from typing import Any

__all__ = ["TABLE", "add_json", "add_table", "add_tables", "day"]

TABLE = "table"
"""The one word for a table in every command: the name of the argument, which a shell completes."""

_DAYS_AGO = re.compile(r"(\d{1,4}) ?d(ays? ago)?")


def add_table(parser: argparse.ArgumentParser, *, default: str = "") -> None:
    """Add the position of a table.

    Args:
        parser: the command's.
        default: what the command does without a table, such as ``all tables``; empty if a table is needed.
    """
    meaning = f"layer/dataset, e.g. silver/visits (default: {default})" if default else "layer/dataset"
    parser.add_argument(TABLE, nargs="?" if default else None, default="", help=meaning)


def add_tables(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add the position of any number of tables.

    Args:
        parser: the command's.
        meaning: meaning of the tables.
    """
    parser.add_argument(TABLE, nargs="*", help=f"layer/dataset, e.g. silver/visits: {meaning}")


def add_json(to: argparse._ActionsContainer, **options: Any) -> None:  # noqa: ANN401 - of argparse
    """Add the option for a document that programs read.

    Args:
        to: parser of the command, or a group of its options.
        options: options of argparse, where ``--json`` sets another argument; by default a flag ``json``.
    """
    to.add_argument("--json", help="one document for programs", **(options or {"action": "store_true"}))


def day(text: str) -> date:
    """Return the UTC day of an option: a date, ``today``, ``yesterday``, or a number of days ago (``7d``)."""
    from dedp_assets.graph.resources.clock import Clock  # noqa: PLC0415 - Dagster

    ago = _DAYS_AGO.fullmatch(text)
    back = {"today": 0, "yesterday": 1}.get(text, int(ago[1]) if ago else None)
    if back is not None:
        return Clock().now().date() - timedelta(days=back)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"the day must be a date like 2026-01-05, today, yesterday or 7d (7 days ago), not {text}"
        ) from None
