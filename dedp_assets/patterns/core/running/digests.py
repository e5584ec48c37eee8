"""Digests of declarations: equal for the same declaration, on any machine and in any release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

__all__ = ["as_plain", "digest_of"]

_DIGITS = 8


def as_plain(value: Any, *, without: Collection[str] = ()) -> Any:  # noqa: ANN401 - any part of a declaration
    """Write a declaration as plain values, without options at their defaults.

    Args:
        value: a record, or a mapping or sequence of records.
        without: names of options that are left out.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> as_plain({"id": Column("BIGINT", "number", required=True)}, without=["comment"])
        {'id': {'type': 'BIGINT', 'required': True}}
    """
    if is_dataclass(value) and not isinstance(value, type):
        found = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        named = {name: each for name, each in found.items() if name not in without and not _is_default(value, name)}
        return {name: as_plain(each, without=without) for name, each in named.items()}
    if isinstance(value, Mapping):
        return {str(key): as_plain(each, without=without) for key, each in value.items()}
    return [as_plain(each, without=without) for each in value] if isinstance(value, tuple | list) else value


def digest_of(*facts: object) -> str:
    """Return eight hexadecimal digits that are equal for equal facts.

    Args:
        facts: plain values, as of :func:`as_plain`; a function or a class counts by its name, other objects by type.
    """
    text = json.dumps(facts, sort_keys=True, default=_named)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _is_default(record: Any, name: str) -> bool:  # noqa: ANN401 - a record
    (option,) = [each for each in fields(record) if each.name == name]
    default = option.default_factory() if option.default_factory is not MISSING else option.default
    return bool(getattr(record, name) == default)


def _named(value: Any) -> str:  # noqa: ANN401 - what JSON does not know
    # No text of an object is taken that may hold its address, which is another one in each process.
    named = value if hasattr(value, "__qualname__") else type(value)
    plain = str(value) if type(value).__module__ in ("datetime", "decimal") else ""
    return f"{named.__module__}.{named.__qualname__} {plain}".strip()
