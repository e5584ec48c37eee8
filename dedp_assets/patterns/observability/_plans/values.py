"""Origin of a value in a query plan: input columns, influences, and reasons for gaps.

A struct keeps the origin of each field, so that a field taken out of it has the inputs of that field alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dedp_assets.patterns.core.sql.column_lineage import Effect, Transformation

__all__ = ["CONSTANT", "Cause", "Source", "Value", "combined", "influences_of", "opaque", "positional"]

Source = tuple[str, tuple[str, ...]]
"""Table, and column with the path below."""
Cause = tuple[Source, Effect]
_STRENGTH: tuple[Transformation, ...] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")


@dataclass(frozen=True)
class Value:
    """Origin of a value.

    Attributes:
        direct: input -> what became of it.
        indirect: inputs that decide the value and are not in it.
        unknown: why ``direct`` may not be all.
        plain: whether a field of the value is the same field of the one input.
        fields: name of a field in lower case -> its origin, of a struct that is made of values.
        base: struct that has the other fields.
        choices: values of which the value is one, so that its fields are theirs.
        others: origins of the same value in further branches of a union, by position.
        blurred: why the origin of a field cannot be told, though the struct has it.
    """

    direct: Mapping[Source, Transformation] = field(default_factory=dict)
    indirect: frozenset[Cause] = frozenset()
    unknown: frozenset[str] = frozenset()
    plain: bool = False
    fields: Mapping[str, Value] | None = None
    base: Value | None = None
    choices: tuple[Value, ...] = ()
    others: tuple[Value, ...] = ()
    blurred: str = ""

    def field(self, name: str) -> Value:
        """Return the origin of a field of a struct; where that is not known, of the whole value."""
        if self.others:
            # Branches of a union meet by position: only of the first one does the name say which field it is.
            return combined([replace(self, others=()).field(name), *(each._blurred_field() for each in self.others)])
        if self.choices:
            found = combined([each.field(name).changed("TRANSFORMATION") for each in self.choices])
            return replace(found, indirect=found.indirect | self.indirect, unknown=found.unknown | self.unknown)
        if self.fields is not None:
            if made := self.fields.get(name.lower()):
                return made
            return self.base.field(name) if self.base else self.changed("TRANSFORMATION")
        if self.plain and len(self.direct) == 1:
            (((table, path), kind),) = self.direct.items()
            return replace(self, direct={(table, (*path, name)): kind})
        flat = self.changed("TRANSFORMATION")
        return replace(flat, unknown=flat.unknown | {self.blurred}) if self.blurred else flat

    def _blurred_field(self) -> Value:
        """Return the origin of some field of a value: the whole value, and that nobody knows which part."""
        flat = self.changed("TRANSFORMATION")
        is_struct = self.plain or self.fields is not None or self.choices or self.blurred
        return (
            replace(flat, unknown=flat.unknown | {"a union may have the field in another place"}) if is_struct else flat
        )

    def whole(self) -> Value:
        """Return the origin with the inputs of all branches, without the structure."""
        if not self.others:
            return self
        return replace(combined([replace(self, others=()), *self.others]), others=())

    def changed(self, kind: Transformation) -> Value:
        """Return the origin of a value that is computed from this value."""
        all_of_it = self.whole()
        return Value(
            {source: _stronger(kind, before) for source, before in all_of_it.direct.items()},
            all_of_it.indirect,
            all_of_it.unknown,
        )

    def kept(self, kind: Transformation, causes: frozenset[Cause] = frozenset()) -> Value:
        """Return the origin of a value that is this one, of some row or element: field by field."""
        flat = self.changed(kind)
        found = replace(flat, indirect=flat.indirect | causes)
        if self.others:
            return replace(found, blurred="a union may have the field in another place")
        return replace(
            found,
            plain=self.plain,
            fields=self.fields and {name: each.kept(kind, causes) for name, each in self.fields.items()},
            base=self.base and self.base.kept(kind, causes),
            choices=tuple(each.kept(kind, causes) for each in self.choices),
            blurred=self.blurred,
        )

    def renamed(self, names: Iterable[str]) -> Value:
        """Return the origin of a struct with other names of fields, by position."""
        flat, wanted = self.changed("TRANSFORMATION"), [each.lower() for each in names]
        if self.fields is None or self.base or len(self.fields) != len(wanted):
            return replace(flat, blurred="a cast may give fields other names")
        held = [each.changed("TRANSFORMATION") for each in self.fields.values()]
        return replace(flat, fields=dict(zip(wanted, held, strict=True)))


CONSTANT = Value()
"""A value without inputs."""


def opaque(reason: str) -> Value:
    """Return the origin of a value about which nothing is known."""
    return Value(unknown=frozenset([reason]))


def combined(values: Iterable[Value]) -> Value:
    """Return the origin of a value that several others are in."""
    found = [each.whole() for each in values]
    alone = [each for each in found if each.direct or each.indirect or each.unknown]
    if len(alone) == 1:
        return alone[0]
    direct: dict[Source, Transformation] = {}
    for each in alone:
        for source, kind in each.direct.items():
            direct[source] = _stronger(kind, direct.get(source, "IDENTITY"))
    return Value(
        direct,
        frozenset().union(*(each.indirect for each in alone)),
        frozenset().union(*(each.unknown for each in alone)),
    )


def positional(values: Iterable[Value]) -> Value:
    """Return the origin of a column of a union: the values of all branches, without constants."""
    found = [each for each in values if each.direct or each.indirect or each.unknown]
    if not found:
        return CONSTANT
    flat = [branch for each in found for branch in (replace(each, others=()), *each.others)]
    first, *rest = flat
    return replace(first, others=tuple(each for each in rest if each != first))


def influences_of(value: Value, effect: Effect) -> frozenset[Cause]:
    """Return the influence of a value on rows: inputs, and influences on the value."""
    whole = value.whole()
    return frozenset((source, effect) for source in (*whole.direct, *(cause[0] for cause in whole.indirect)))


def _stronger(one: Transformation, other: Transformation) -> Transformation:
    return max(one, other, key=_STRENGTH.index)
