"""``dedp sql``: rows of one SELECT over the tables, without Spark, with values by class or policy.

A table is ``silver.visits`` or ``"silver/visits"``. Columns that lead to persons, and secrets, are masked before the
query reads a row, so that no join, filter or aggregate meets a masked value; ``--as`` reads by the policies of an
audience.

Examples:
    dedp sql "SELECT page, count(*) AS visits FROM silver.visits GROUP BY page ORDER BY visits DESC LIMIT 10"
    dedp sql "SELECT max(event_date) FROM gold.daily_visitors" --json
    dedp sql "SELECT count(DISTINCT user_id) FROM silver.visits" --as analysts
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import answer
from dedp_assets.commands._rows import as_lines, as_records
from dedp_assets.commands._tables import require_home, require_known
from dedp_assets.commands.show import add_reader
from dedp_assets.graph.catalogue.row_views import LakeRows
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["arguments", "run", "sql"]

NEEDS = "dagster"
BESIDE = True

_LIMIT = 100


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the query, the number of rows, and the reader."""
    parser.add_argument("query", help="one SELECT, in the SQL of DataFusion")
    parser.add_argument("--limit", type=int, default=_LIMIT, metavar="N", help=f"most rows; {_LIMIT} by default")
    add_reader(parser)
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the answer."""
    return sql(settings, chosen.query, audience=chosen.audience, limit=chosen.limit, as_json=chosen.json)


def sql(settings: Settings, query: str, *, audience: str = "", limit: int = _LIMIT, as_json: bool = False) -> int:
    """Print the rows of a query.

    Args:
        settings: the home's settings.
        query: one SELECT.
        audience: whose policies hold; without one, columns are masked by class.
        limit: number of rows at most.
        as_json: whether to print for programs.

    Raises:
        ConfigError: if there is no home, for another statement than one SELECT, for names that are not there, and for
            an audience without a policy.
    """
    require_home(settings)
    if limit < 1:
        raise ConfigError(f"--limit must be 1 or more, not {limit}")
    found = LakeRows(lake_of(settings), settings, audience, require_known).queries().select(query, most=limit)
    lines = as_lines(found) if found.rows else ["no row"]
    more = ["There are further rows: --limit."] if found.more else []
    answer({"rows": as_records(found), "more": found.more}, *lines, *more, as_json=as_json)
    return 0
