"""``dedp about``: rows of a person in every table, as JSON and as a page.

Examples:
    dedp about --subject user=u-17 --because SAR-4 --by Ada --to answers
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dedp_assets.commands._output import say
from dedp_assets.commands._subjects import add_subject, ids_in
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.graph.erasure.knowledge import known_of, write_known
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.governance.gdpr_erase import Erasure
from dedp_assets.project import project

__all__ = ["arguments", "computes", "run"]

NEEDS = "dagster"
BESIDE = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the person, the request, who asks, and the folder."""
    add_subject(parser)
    parser.add_argument("--by", default="", metavar="NAME", help="who asks for the rows")
    parser.add_argument("--to", default=".", metavar="FOLDER", help="folder of the two files (the present one)")


def computes(_: argparse.Namespace) -> bool:
    """Return that the command computes: rows of all tables."""
    return True


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Write the rows of a person.

    Raises:
        ConfigError: without a person, a request or a name.
        ContractError: if the ids lead to too many persons.
    """
    require_home(settings)
    if not (chosen.subject and chosen.because and chosen.by):
        raise ConfigError(
            "a person, a request and who asks must be stated: dedp about --subject user=u-17 --because SAR-4 --by NAME"
        )
    tables, now = project().tables(), Clock().now()
    eraser = Eraser.of(settings, lake_of(settings), tables, Secrets())
    eraser.cases.require_name(chosen.because)
    asked = Erasure(request=chosen.because, ids=ids_in(chosen.subject), at=now, because="subject access")
    upstream = {
        spec.name: [*(each.name for each in table.reads.upstream), *(each.name for each in table.reads.sources)]
        for table in tables
        for spec in table.tables
    }
    found = known_of(eraser, asked, upstream, by=chosen.by)
    files = write_known(found, Path(chosen.to), request=chosen.because, at=now)
    for each in found:
        say(f"{each.table}: {each.count} rows")
    say(f"{sum(each.count for each in found)} rows in {len(found)} tables: {files[0]} and {files[1]}")
    return 0
