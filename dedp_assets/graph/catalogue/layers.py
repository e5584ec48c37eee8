"""Order of tables by layer, from bronze on, and their names in a sentence."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["by_layer", "tables_named"]

_LAYERS = ("bronze", "silver", "gold", "serving")


def by_layer(name: str) -> tuple[int, str]:
    """Return a table's sort key: the order of layers from bronze on, then the name."""
    layer = name.partition("/")[0]
    return (_LAYERS.index(layer) if layer in _LAYERS else len(_LAYERS), name)


def tables_named(names: Iterable[str]) -> str:
    """Return tables as text: all names, or the first and the last of several layers."""
    tables = sorted(names, key=by_layer)
    layers = list(dict.fromkeys(table.partition("/")[0] for table in tables))
    return f"{layers[0]} to {layers[-1]}" if len(layers) > 1 else ", ".join(tables)
