"""Tables that commands know: stored tables, and declared tables of the project."""

from __future__ import annotations

from collections.abc import Collection

from dedp_assets.commands._output import answer
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import Table
from dedp_assets.project import project

__all__ = ["declared_names", "opened", "opened_if_stored", "require_home", "require_known"]


def declared_names() -> list[str]:
    """List the names of the project's declared tables.

    The list is empty without a project, and for a project that does not load.
    """
    try:
        return [spec.name for table in project().tables() for spec in table.tables]
    except Exception:  # the code of a project may fail in any way, which other commands report
        return []


def opened(lake: Lake, name: str) -> Table:
    """Open a table by the declaration of the project, or of the log.

    Args:
        lake: the lake.
        name: the table.
    """
    declared = {spec.name: spec for each in project().tables() for spec in each.tables}
    return lake.table(declared[name]) if name in declared else lake.stored(name)


def opened_if_stored(settings: Settings, lake: Lake, name: str, *, as_json: bool = False) -> Table | None:
    """Open a table of a command; ``None``, and a sentence for the reader, if nothing is stored yet.

    Args:
        settings: the home's settings.
        lake: the lake.
        name: the table that was asked for.
        as_json: whether ``null`` is printed for programs in place of the sentence.

    Raises:
        ConfigError: if there is no such table, or no home.
    """
    require_known(name, lake.names())
    require_home(settings)
    table = opened(lake, name)
    if table.ledger.exists():
        return table
    answer(None, f"{name}: nothing is stored yet: `dedp plan {name}`", as_json=as_json)
    return None


def require_home(settings: Settings) -> None:
    """Refuse a missing home, whose empty list of tables would look as if all were well.

    Raises:
        ConfigError: in one sentence with the commands that make one.
    """
    if missing := settings.missing_home:
        raise ConfigError(missing)


def require_known(name: str, stored: Collection[str]) -> None:
    """Refuse a table that is neither stored nor declared.

    Args:
        name: the table that was asked for.
        stored: the stored tables.

    Raises:
        ConfigError: in one sentence.
    """
    if name not in stored:  # loading the project takes seconds
        require_table(name, {*stored, *declared_names()})
