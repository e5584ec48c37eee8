"""Classes of columns, and the table of each class's values, shapes or nothing at each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

__all__ = ["CLASSES", "PLACES", "SHOWN", "Classification", "Place", "Shown", "loosened", "shown"]

Classification = Literal["", "public", "quasi", "personal", "sensitive", "free text", "secret"]
"""Class of a column; ``""`` before a classification."""
Place = Literal[
    "replica", "export", "contract", "sample", "letter", "alert", "status page", "lineage facet", "profile", "log"
]
"""Place outside of a table that values may leave for."""
Shown = Literal["values", "shape", "pseudonym", "nothing"]
"""Form in which values leave: as they are; as kind, count or shape; by a stated rule; or not at all."""

CLASSES: Sequence[Classification] = get_args(Classification)
PLACES: Sequence[Place] = get_args(Place)

_HIDDEN: Mapping[Place, Shown] = MappingProxyType(
    {
        "replica": "pseudonym",
        "export": "pseudonym",
        "contract": "shape",
        "sample": "nothing",
        "letter": "shape",
        "alert": "nothing",
        "status page": "nothing",
        "lineage facet": "nothing",
        "profile": "shape",
        "log": "nothing",
    }
)
"""Place -> form in which a value leaves that leads to a person, or may."""
# A contract promises columns with their kinds and allowed values, and never states a row's.
_VALUES: Mapping[Place, Shown] = MappingProxyType({**dict.fromkeys(PLACES, "values"), "contract": "shape"})
SHOWN: Mapping[Classification, Mapping[Place, Shown]] = MappingProxyType(
    {
        # Nobody is asked for classes before something leaves its table for others: then for that of each column.
        "": {**_VALUES, "replica": "nothing", "export": "nothing", "contract": "nothing"},
        "public": _VALUES,
        # One of many columns that single somebody out together: bounds and counts of one column do not.
        "quasi": {**_HIDDEN, "profile": "values", "log": "values"},
        "personal": _HIDDEN,
        "sensitive": _HIDDEN,
        "free text": _HIDDEN,
        "secret": MappingProxyType(dict.fromkeys(PLACES, "nothing")),
    }
)
"""Class -> place -> form of the values that leave, for every place."""


def shown(classification: Classification, place: Place) -> Shown:
    """Return the part of a column that comes to a place: values, shape, pseudonym or nothing.

    Args:
        classification: class of the column; ``""`` if nobody classified it.
        place: where values would come to.

    Example:
        >>> shown("personal", "export"), shown("public", "export"), shown("", "export")
        ('pseudonym', 'values', 'nothing')
    """
    return SHOWN[classification][place]


def loosened(former: Classification, now: Classification) -> bool:
    """Return whether a column of class ``now`` shows values at a place where ``former`` shows none.

    Args:
        former: class of the column that values come from.
        now: class of the column that they are copied to.
    """
    return any(shown(now, place) == "values" != shown(former, place) for place in PLACES) and former != ""
