"""Census of the fields of JSON records: values by JSON type, in bounded figures that add up.

A path names a field at its depth: ``device.type``, ``items[].sku`` for the elements of a list, ``prices.*`` for the
values of a map; a name that is no plain word stands in backticks. Below an undeclared field nothing is counted apart.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

__all__ = ["CENSUS", "MOST_FIELDS", "NEW_FIELDS", "DeclaredField", "FieldCensus", "FieldFigures", "joined"]

CENSUS, NEW_FIELDS = "fields", "records_with_new_fields"
"""Figures of a write: the census as plain values, and the records with an undeclared field."""
MOST_FIELDS = 100
"""Greatest number of listed undeclared fields; further fields are counted together."""
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """A declared field: JSON types, and declared fields inside.

    Attributes:
        types: JSON types of a value that has the declared type.
        fields: name -> field, of an object; ``None`` where any object is as declared.
        items: field of the elements of a list.
        values: field of the values of a map.
    """

    types: frozenset[str]
    fields: Mapping[str, DeclaredField] | None = None
    items: DeclaredField | None = None
    values: DeclaredField | None = None

    def inside(self, path: str = "") -> Iterator[tuple[str, str | None, DeclaredField]]:
        """Yield path, path of the object around (``None`` for elements), and field, at every depth."""
        for name, each in (self.fields or {}).items():
            here = joined(path, name)
            yield here, path, each
            yield from each.inside(here)
        for suffix, inner in (("[]", self.items), (".*", self.values)):
            if inner:
                yield path + suffix, None, inner
                yield from inner.inside(path + suffix)


@dataclass(frozen=True, slots=True)
class FieldFigures:
    """Figures of one field.

    Attributes:
        types: JSON type -> number of values; ``null`` is one. Of a declared field without an integer type, an integer
            is a ``number``.
        absent: objects without the field, of a declared field.
        mistyped: values of another JSON type than the declared one's own.
        sample: shape of a value, of an undeclared field: letters as ``a``, digits as ``9``, at most 40 characters.
            The field may be personal data, and a log keeps what it is told.
    """

    types: Mapping[str, int] = field(default_factory=dict)
    absent: int = 0
    mistyped: int = 0
    sample: str = ""

    def __add__(self, other: FieldFigures) -> FieldFigures:
        return FieldFigures(
            dict(sorted((Counter(self.types) + Counter(other.types)).items())),
            self.absent + other.absent,
            self.mistyped + other.mistyped,
            min(filter(None, (self.sample, other.sample)), default=""),
        )

    @property
    def values(self) -> int:
        """Number of values, nulls included."""
        return sum(self.types.values())

    @property
    def places(self) -> int:
        """Number of objects that could have the field."""
        return self.values + self.absent

    def share(self, kind: str) -> float:
        """Return the share of a JSON type, or of ``absent``, in the objects that could have the field."""
        return (self.absent if kind == "absent" else self.types.get(kind, 0)) / self.places if self.places else 0.0


@dataclass(frozen=True, slots=True)
class FieldCensus:
    """Figures of all fields of a batch of records; figures of two batches add up.

    Attributes:
        records: JSON objects.
        unreadable: texts that are no JSON object.
        strange: records with an undeclared field, at any depth.
        declared: path -> figures, of declared fields.
        undeclared: path -> figures, of the most frequent undeclared fields. Up to 100 in all, the counts are exact;
            of more, the counts of rare ones are lower bounds.
        others: values of undeclared fields that are not listed.
    """

    records: int = 0
    unreadable: int = 0
    strange: int = 0
    declared: Mapping[str, FieldFigures] = field(default_factory=dict)
    undeclared: Mapping[str, FieldFigures] = field(default_factory=dict)
    others: int = 0

    def __add__(self, other: FieldCensus) -> FieldCensus:
        found = _added(self.undeclared, other.undeclared)
        kept = _most_frequent(found, MOST_FIELDS)
        return FieldCensus(
            self.records + other.records,
            self.unreadable + other.unreadable,
            self.strange + other.strange,
            _added(self.declared, other.declared),
            kept,
            self.others + other.others + sum(found[path].values for path in found.keys() - kept.keys()),
        )

    def as_dict(self) -> dict[str, Any]:
        """Write the census as plain values, for the ledger."""
        fields = {
            name: {path: [dict(f.types), f.absent, f.mistyped, f.sample] for path, f in getattr(self, name).items()}
            for name in ("declared", "undeclared")
        }
        counts = {name: getattr(self, name) for name in ("records", "unreadable", "strange", "others")}
        return {**counts, **fields}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FieldCensus:
        """Read the plain values of :meth:`as_dict`."""
        fields = {
            name: {path: FieldFigures(*of) for path, of in plain[name].items()} for name in ("declared", "undeclared")
        }
        return cls(**{**plain, **fields})

    def to_json(self) -> str:
        """Return the census as one line of ASCII."""
        return json.dumps(self.as_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> FieldCensus:
        """Read the text of :meth:`to_json`."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def sum(cls, parts: Iterable[FieldCensus]) -> FieldCensus:
        """Add the censuses of the parts of a batch."""
        return reduce(cls.__add__, parts, cls())


def joined(path: str, name: str) -> str:
    """Return the path of a field inside an object; a name that is no plain word stands in backticks.

    Example:
        >>> joined("device", "type"), joined("", "a.b")
        ('device.type', '`a.b`')
    """
    if not _WORD.fullmatch(name):
        name = f"`{name.replace('`', '``')}`"
    return f"{path}.{name}" if path else name


def _added(one: Mapping[str, FieldFigures], other: Mapping[str, FieldFigures]) -> dict[str, FieldFigures]:
    nothing = FieldFigures()
    return {path: one.get(path, nothing) + other.get(path, nothing) for path in {**one, **other}}


def _most_frequent(fields: Mapping[str, FieldFigures], most: int) -> dict[str, FieldFigures]:
    kept = sorted(fields, key=lambda path: (-fields[path].values, path))[:most]
    return {path: fields[path] for path in kept}
