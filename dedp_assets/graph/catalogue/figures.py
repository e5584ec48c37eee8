"""Display of figures: a readable name and a unit in place of the audit's figure name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg

__all__ = ["Figure", "labelled", "shown"]

_UNITS = {"_seconds": "s", "_bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class Figure:
    """Display settings of a table's figure.

    Attributes:
        label: what it is called, unit included where it is not a count, like ``latency p95 [s]``.
        kind: ``number`` is plotted as it is; ``time`` are seconds since 1970, shown as a date; ``hidden`` is a checksum
            or the like that nobody reads.
    """

    label: str = ""
    kind: Literal["number", "time", "hidden"] = "number"


def labelled(figures: Mapping[str, Any], known: Mapping[str, Figure | str]) -> dict[str, Any]:
    """Turn figures into Dagster metadata under their labels, without hidden and unmeasured figures."""
    found = {}
    for name, value in figures.items():
        stated = known.get(name, "")
        figure = Figure(stated) if isinstance(stated, str) else stated
        if figure.kind != "hidden" and value is not None:
            at = figure.kind == "time" and isinstance(value, (int, float))
            found[figure.label or _words(name)] = dg.MetadataValue.timestamp(float(value)) if at else shown(value)
    return found


def _words(name: str) -> str:
    """Return a figure's name as words, with the unit in brackets."""
    for suffix, unit in _UNITS.items():
        name = f"{name.removesuffix(suffix)} [{unit}]" if name.endswith(suffix) else name
    return name.replace("_", " ")


def shown(value: object) -> Any:  # noqa: ANN401 - metadata takes plain values of any kind
    """Return a figure as a value of Dagster metadata."""
    return value if isinstance(value, (int, float, str)) else str(value)
