"""Values of Avro and Parquet files as JSON, character by character as Spark's ``to_json`` writes."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

__all__ = [
    "Text",
    "of_bytes",
    "of_clock",
    "of_date",
    "of_double",
    "of_float",
    "of_null",
    "of_string",
    "of_times",
    "of_truth",
]

Text = Callable[[Any], str]
"""Writer of a value as JSON."""
_DAY = 86_400_000_000
_EPOCH, _FIRST, _LAST = date(1970, 1, 1), date.min.toordinal(), date.max.toordinal()
_EPOCH_DAY = _EPOCH.toordinal()


def of_null(value: object) -> str:  # noqa: ARG001 - nothing
    """Write a missing value."""
    return "null"


def of_truth(value: object) -> str:
    """Write a BOOLEAN."""
    return "true" if value else "false"


def of_string(value: str) -> str:
    """Write a text."""
    return json.dumps(value, ensure_ascii=False)


def of_bytes(value: bytes) -> str:
    """Write bytes as Base64."""
    return f'"{base64.b64encode(value).decode()}"'


def of_double(value: float) -> str:
    """Write a DOUBLE as Java does; NaN and infinities are texts."""
    # In this range Python writes as Java does, and ten times as fast.
    return repr(value) if 1e-3 <= abs(value) < 1e7 else _number(value, repr(value))


def of_float(value: float) -> str:
    """Write a FLOAT as Java does; NaN and infinities are texts."""
    return _number(value, np.format_float_scientific(np.float32(value)))


def _number(value: float, shortest: str) -> str:
    """Write a number as Java does, by the shortest digits; NaN and infinities are texts."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    most = len(digits) + int(exponent) - 1
    minus, text = "-" * sign, "".join(map(str, digits))
    if not -3 <= most < 7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{most}"
    if most < 0:
        return f"{minus}0.{'0' * (-most - 1)}{text}"
    text = text.ljust(most + 1, "0")
    return f"{minus}{text[: most + 1]}.{text[most + 1 :] or '0'}"


def of_date(days: int) -> str:
    """Write a date, given in days since 1970, as a JSON text.

    Outside of the years 1 to 9999 the number of days is written, which is no value of a DATE.
    """
    ordinal = days + _EPOCH_DAY
    return f'"{date.fromordinal(ordinal).isoformat()}"' if _FIRST <= ordinal <= _LAST else str(days)


def of_times(per_second: int, zone: str) -> Text:
    """Return a writer of times by units since 1970; parts below a microsecond are cut, towards the past.

    Args:
        per_second: units of a second.
        zone: ``Z``, or nothing for times without a zone.
    """

    def text(value: int) -> str:
        return _moment(value * 1_000_000 // per_second, zone) or str(value)

    return text


def of_clock(per_second: int) -> Text:
    """Return a writer of times of a day; a number beyond the day stays a number.

    Args:
        per_second: units of a second.
    """

    def text(value: int) -> str:
        is_of_a_day = 0 <= value < 86_400 * per_second
        written = _moment(value * 1_000_000 // per_second, "") if is_of_a_day else None
        return f'"{written[12:-1]}"' if written else str(value)

    return text


def _moment(micros: int, zone: str) -> str | None:
    if not (_FIRST - _EPOCH_DAY) * _DAY <= micros < (_LAST + 1 - _EPOCH_DAY) * _DAY:
        return None
    moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)  # noqa: DTZ001 - of UTC, or of no zone
    return f'"{moment.isoformat(timespec="microseconds")}{zone}"'
