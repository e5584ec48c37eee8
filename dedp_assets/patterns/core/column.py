"""Column of a table's declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dedp_assets.patterns.core.classes import Classification, Place, Shown, shown
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types

__all__ = ["STORED", "TAGS", "Column", "withheld"]

TAGS = ("classification", "purpose", "technical", "replica", "subject", "subject_by")
"""Options of a column that Delta has no place for."""
STORED = (*TAGS, "personal")
"""Names of these options in tables of any release: ``personal`` was a truth before the classes."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table's declaration.

    Attributes:
        type: Spark SQL type (``STRING``, ``TIMESTAMP``, ``ARRAY<STRING>``).
        comment: what the values mean, with their unit.
        required: NOT NULL; violations are counted and refused.
        classification: class of the values: ``public``, ``quasi`` (singles somebody out together with others, such as
            a postcode), ``personal``, ``sensitive`` (health, income), ``free text``, ``secret``, or ``""`` as long as
            nobody classified the column. The class decides what leaves, as the table of ``core.classes`` says.
        purpose: what the values may be used for, by name; an export states one for what leads to a person.
        technical: says when or by whom a row was made and not what it is; left out of the content fingerprint.
        replica: what a transformed replica holds instead: ``""`` (the values; nothing, if the class keeps them),
            ``"pseudonym"`` (a keyed hash), or an SQL expression of the column's type over the columns of its row.
        subject: kind of person whose id the column holds, such as ``user``; an erasure finds a person's rows by the id,
            and rows of an erased person are not written again. Ids of a kind are one name space for all tables.
        subject_by: SQL expression of the id over the columns of the row, where the column holds more than the id, such
            as ``get_json_object(raw, '$.user_id')``.

    Raises:
        ConfigError: for a rule of a replica for a secret, which no replica holds, or an expression without a kind.
    """

    type: str
    comment: str = ""
    required: bool = False
    classification: Classification = ""
    purpose: tuple[str, ...] = ()
    technical: bool = False
    replica: str = ""
    subject: str = ""
    subject_by: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        if self.replica and self.classification == "secret":
            raise ConfigError(f"replica must be left out of a secret, not {self.replica!r}: no replica holds one")
        if self.subject_by and not self.subject:
            raise ConfigError(
                f'subject must be the kind of person, such as "user", not empty: {self.subject_by!r} names one'
            )

    def shown(self, place: Place) -> Shown:
        """Return the part of the column that comes to a place, by class."""
        return shown(self.classification, place)

    def shows(self, place: Place) -> bool:
        """Return whether values of the column may come to a place."""
        return self.shown(place) == "values"


def withheld(columns: Mapping[str, Column], place: Place) -> tuple[str, ...]:
    """List the columns whose values may not come to a place.

    Args:
        columns: column name -> declaration.
        place: where values would come to.

    Example:
        >>> declared = {"id": Column("INT"), "mail": Column("STRING", classification="personal")}
        >>> withheld(declared, "sample"), withheld(declared, "export")
        (('mail',), ('id', 'mail'))
    """
    return tuple(name for name, column in columns.items() if not column.shows(place))
