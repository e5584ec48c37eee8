"""Fold over nested types: a result for a type from the results for the parts.

A type is Spark's ``DataType``, or the same in the form of the Delta log: a text, or an object of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

__all__ = ["Field", "Kind", "fold", "inside", "name_of", "outer"]

Kind: TypeAlias = Any
Field: TypeAlias = Any
"""A type, and a field of a struct."""
_Result = TypeVar("_Result")


def fold(
    kind: Kind,
    *,
    scalar: Callable[[Kind], _Result],
    struct: Callable[[Kind, Sequence[tuple[Field, _Result]]], _Result],
    array: Callable[[Kind, _Result], _Result],
    map: Callable[[Kind, _Result, _Result], _Result],  # noqa: A002 - as the type is called
) -> _Result:
    """Return the result for a type, made from the results for the parts.

    Args:
        kind: the type.
        scalar: takes a type without parts.
        struct: takes a struct, and each of its fields with the result about the field's type.
        array: takes an array, and the result about its elements' type.
        map: takes a map, and the results about the types of its keys and values.

    Example:
        >>> depth = lambda _, *parts: 1 + max(parts)
        >>> fold({"type": "array", "elementType": "long"}, scalar=lambda _: 0, struct=depth, array=depth, map=depth)
        1
    """
    of = partial(fold, scalar=scalar, struct=struct, array=array, map=map)
    nested = outer(kind)
    if nested == "struct":
        return struct(kind, [(each, of(_part(each, "type", "dataType"))) for each in _part(kind, "fields")])
    if nested == "array":
        return array(kind, of(_part(kind, "elementType")))
    if nested == "map":
        return map(kind, of(_part(kind, "keyType")), of(_part(kind, "valueType")))
    return scalar(kind)


def outer(kind: Kind) -> str:
    """Return the name of a type without the parts: ``struct``, ``array``, ``map``, or the scalar's own."""
    if isinstance(kind, str):
        return kind
    return str(kind["type"] if isinstance(kind, dict) else kind.typeName())


def inside(kind: Kind) -> list[Kind]:
    """List a type and every nested type, the outer types first."""
    return fold(
        kind,
        scalar=lambda kind: [kind],
        struct=lambda kind, fields: [kind, *(each for _, inner in fields for each in inner)],
        array=lambda kind, inner: [kind, *inner],
        map=lambda kind, keys, values: [kind, *keys, *values],
    )


def name_of(field: Field) -> str:
    """Return the name of a field."""
    return str(_part(field, "name"))


def _part(whole: Kind | Field, name: str, of_spark: str = "") -> Kind:
    return whole[name] if isinstance(whole, dict) else getattr(whole, of_spark or name)
