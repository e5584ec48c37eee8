"""Names of tables: order from bronze on, enumeration in a sentence, and refusal of an unknown name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["by_layer", "is_table_name", "require_table", "tables_named"]

_NAME = re.compile(r"\w+(/\w+)*", re.ASCII)
_LAYERS = ("bronze", "silver", "gold", "serving")
_SHOWN = 5


def by_layer(name: str) -> tuple[int, str]:
    """Return a table's sort key: the order of layers from bronze on, then the name."""
    layer = name.partition("/")[0]
    return (_LAYERS.index(layer) if layer in _LAYERS else len(_LAYERS), name)


def is_table_name(name: str) -> bool:
    """Return whether a name is of letters, digits and ``_``, with ``/`` between parts, as asset keys are."""
    return _NAME.fullmatch(name) is not None


def tables_named(names: Iterable[str]) -> str:
    """Return tables as text: all names, or the first and the last of several layers."""
    tables = sorted(names, key=by_layer)
    layers = list(dict.fromkeys(table.partition("/")[0] for table in tables))
    return f"{layers[0]} to {layers[-1]}" if len(layers) > 1 else ", ".join(tables)


def require_table(name: str, known: Iterable[str], *, of: str = "of the project") -> None:
    """Refuse a table that is not among the known tables.

    Args:
        name: the table that was asked for.
        known: all possible tables.
        of: the common property of those tables.

    Raises:
        ConfigError: with the nearest names, or with the first.

    Example:
        >>> require_table("silver/visit", ["bronze/visits", "silver/visits"])
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: table must be one of the project, such as silver/visits, \
not silver/visit
    """
    names = sorted(known, key=by_layer)
    if name in names:
        return
    shown = get_close_matches(name, names, n=3, cutoff=0.7) or names[:_SHOWN]
    listed = f"such as {', '.join(shown)}" if shown else "which has none yet"
    raise ConfigError(f"table must be one {of}, {listed}, not {name or 'an empty text'}")
