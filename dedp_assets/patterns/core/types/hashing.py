"""XXH64 of column values, equal to Spark's ``xxhash64`` and computed without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta, timezone

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.types.partitions import text

__all__ = ["xxhash64"]

_SEED = 42
_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WIDTHS = {**dict.fromkeys(("boolean", "byte", "short", "integer", "date"), 4), "long": 8, "timestamp": 8}
"""Type in the log -> number of bytes."""


def xxhash64(values: Iterable[tuple[object, str]]) -> int:
    """Return the hash of a row of values, a whole number of 64 bits with a sign.

    Args:
        values: each value with its type as the log stores it (``string``, ``long``).

    Raises:
        ConfigError: for a value that is none of its type, or of a type that has no bytes here.

    Example:
        >>> xxhash64([("Ada", "string")]), xxhash64([(None, "string")])
        (699459151357491900, 42)
        >>> xxhash64([(1, "integer")]), xxhash64([(1, "long")])
        (-6698625589789238999, -7001672635703045582)
    """
    found = _SEED
    for value, kind in values:
        found = found if value is None else _xxh64(_bytes(value, kind), found)
    return found - (1 << 64) if found >> 63 else found


def _bytes(value: object, kind: str) -> bytes:
    if kind == "string" and isinstance(value, str):
        return value.encode()
    if kind not in _WIDTHS:
        raise ConfigError(
            f"a key must be a text, a whole number, a BOOLEAN, a date or a time, not {value!r} of type {kind}"
        )
    try:
        written = text(value, kind) or ""
    except ValueError as error:
        raise ConfigError(f"a key must be of type {kind}, not {value!r}: {error}") from None
    return _number(written, kind).to_bytes(_WIDTHS[kind], "little", signed=True)


def _number(written: str, kind: str) -> int:
    if kind == "boolean":
        return int(written == "true")
    if kind == "date":
        return (date.fromisoformat(written) - _EPOCH.date()).days
    if kind == "timestamp":
        return (datetime.fromisoformat(written.replace("Z", "+00:00")) - _EPOCH) // timedelta(microseconds=1)
    return int(written)


def _xxh64(data: bytes, seed: int) -> int:
    """Return XXH64 of some bytes, as the specification defines the hash."""
    place, length = 0, len(data)
    if length >= 32:
        lanes = [(seed + step) & _MASK for step in (_P1 + _P2, _P2, 0, -_P1)]
        while place <= length - 32:
            lanes = [_round(lane, _word(data, place + 8 * n)) for n, lane in enumerate(lanes)]
            place += 32
        found = sum(_left(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        found = (seed + _P5) & _MASK
    found = (found + length) & _MASK
    while place <= length - 8:
        found = (_left(found ^ _round(0, _word(data, place)), 27) * _P1 + _P4) & _MASK
        place += 8
    if place <= length - 4:
        found = (_left(found ^ (_word(data, place, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        place += 4
    for byte in data[place:]:
        found = _left(found ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    return found ^ found >> 32


def _round(lane: int, word: int) -> int:
    return _left((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _word(data: bytes, place: int, width: int = 8) -> int:
    return int.from_bytes(data[place : place + width], "little")


def _left(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK
