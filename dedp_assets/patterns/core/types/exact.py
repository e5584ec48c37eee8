"""Exact conversion of texts in SQL: the denoted value, or NULL without an exact value of the type.

What a text has to look like is the same for a JSON field, a string column and a database's text (``exact_values`` is
the same in Python, for values inside of others):

=====================  ==============================================================================================
type                   texts
=====================  ==============================================================================================
integers               a JSON number without fraction and exponent, within the type's range
``DECIMAL(p, s)``      a number whose value has at most ``s`` decimals and fits (``1.50`` and ``15e-1`` alike)
``DOUBLE``, ``FLOAT``  a number; the nearest value of the type, unless that is infinite, or zero for what is not
``BOOLEAN``            ``true``, ``false``
``DATE``               ``2026-01-05``, from year 1 to 9999
``TIMESTAMP``          a date, ``T`` or a blank, a time with seconds and at most six decimals of them (further zeros
                       are none), and perhaps ``Z`` or an offset; without one it is of the session's time zone,
                       where the clock shows it
``TIMESTAMP_NTZ``      the same without an offset
``BINARY``             base64 with its padding
``VARCHAR(n)``         at most ``n`` characters
=====================  ==============================================================================================

A number is one of JSON, or as databases write it: ``.5``, ``5.``, ``+5``. No blanks around it, no leading zeros, no
partial dates; ``NaN`` and infinities only where the source's type is a floating one. A text of a time with a pattern is
of that pattern or nothing: a text that both readings fit would be two days.
"""

from __future__ import annotations

import re

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.rows import quoted

__all__ = [
    "DAY",
    "EPOCHS",
    "INTEGERS",
    "LONGEST_NUMBER",
    "NUMBER",
    "OFFSET",
    "PARTS_OF_NUMBERS",
    "SPECIAL",
    "TIME",
    "exact",
    "is_scalar",
    "safe_cast",
]

NUMBER = "[+-]?(?:(?:0|[1-9][0-9]*+)(?:[.][0-9]*+)?|[.][0-9]++)(?:[eE][+-]?[0-9]++)?"
"""Grammar of numbers with a fraction or an exponent, as a regular expression: JSON's, and that of databases."""
SPECIAL = ("NaN", "Infinity", "-Infinity")
"""Values of floating point that are no numbers, as Spark and PostgreSQL write them."""
EPOCHS = {"epoch_seconds": 1_000_000, "epoch_millis": 1_000}
"""Format of a time as a number since 1970-01-01 UTC -> microseconds per unit of the number."""
DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = "[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]{1,6}0*+)?"
OFFSET = "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
"""Grammar of dates, times and offsets in ISO 8601, as regular expressions."""

INTEGERS = ("TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG")
"""Integer types, with Spark's other names for them."""

_FLOATS = ("DOUBLE", "FLOAT", "REAL")
_MOMENTS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_DECIMAL = re.compile(r"(?:DECIMAL|DEC|NUMERIC)(?: *\( *(\d+) *(?:, *(\d+) *)?\))?")
_VARCHAR = re.compile(r"VARCHAR *\( *(\d+) *\)")
_MOST = {"epoch_seconds": 62_135_596_800, "epoch_millis": 62_135_596_800_000}
"""The years that readers can show."""
_DIGIT, _NOTHING, _HUGE = "^[-+0.]*[1-9]", "^[-+0.]+(?:[eE]|$)", "[eE][+-]?0*[0-9]{4}"
_FRACTION, _ZEROS, _EXPONENT = "[.]([0-9]+)", "^[+-]?[0-9]*?(0*)(?:[.]|[eE]|$)", "[eE](.*)"
PARTS_OF_NUMBERS = (_DIGIT, _NOTHING, _HUGE, _FRACTION, _ZEROS, _EXPONENT)
"""Regular expressions of parts of a number; an expression of a whole text stands between ``\\A(?:`` and ``)\\z``."""
_BASE64 = "(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
LONGEST_NUMBER = 400
"""Longer texts are no DECIMAL: Spark would compute with all their digits, or with those their exponent stands for."""


def is_scalar(kind: str) -> bool:
    """Return whether ``kind`` is a scalar type of this module, STRING included."""
    name = kind.strip().upper()
    known = {"STRING", "BOOLEAN", "DATE", "BINARY", *INTEGERS, *_FLOATS, *_MOMENTS}
    return name in known or bool(_DECIMAL.fullmatch(name) or _VARCHAR.fullmatch(name))


def exact(text: str, kind: str, *, pattern: str = "", special: bool = False) -> str:
    """Write SQL that converts the STRING expression ``text`` to ``kind``, or gives NULL.

    Args:
        text: the expression.
        kind: SQL type.
        pattern: of a DATE or a time, Spark's date pattern of the texts or one of :data:`EPOCHS`; ISO 8601 if empty.
        special: whether :data:`SPECIAL` are values of a DOUBLE or FLOAT.

    Raises:
        ConfigError: if no text can be such a value.
    """
    name = kind.strip().upper()
    if pattern:
        return _moment_of(text, name, pattern)
    if name == "STRING":
        return text
    if name in INTEGERS:
        return f"if({_is(text, '-?(?:0|[1-9][0-9]{0,18})')}, try_cast({text} AS {name}), NULL)"
    if decimal := _DECIMAL.fullmatch(name):
        return _decimal(text, int(decimal[1] or 10), int(decimal[2] or 0))
    if name in _FLOATS:
        return _floating(text, name, special=special)
    return _other(text, name)


def safe_cast(value: str, kind: str) -> str:
    """Write SQL that casts the expression ``value`` to ``kind`` as Spark does, or gives NULL.

    That is lenient: it rounds, trims, completes dates. But a time of day is no timestamp: Spark would take it as one of
    the day on which it runs. What a record is filed under needs :func:`exact`: ``2026`` and ``2026-01`` would get a day
    that nobody wrote, and one that the exact conversion of the same record then contradicts.
    """
    if kind.upper() not in _MOMENTS:
        return f"try_cast({value} AS {kind})"
    return f"if(locate(':', ltrim(CAST({value} AS STRING))) BETWEEN 1 AND 4, NULL, try_cast({value} AS {kind}))"


def _moment_of(text: str, name: str, pattern: str) -> str:
    """Write SQL for a time of a pattern; NULL for any other text, one in ISO 8601 included."""
    moment = f"try_to_timestamp({text}, {quoted(pattern)})"
    if pattern in EPOCHS:
        whole = f"try_cast({text} AS DECIMAL(20, 6))"
        shown = f"if({_is(text, NUMBER)} AND abs({whole}) < {_MOST[pattern]}, {whole}, NULL)"
        moment = f"timestamp_micros(CAST({shown} * {EPOCHS[pattern]} AS BIGINT))"
    return f"if(year({moment}) BETWEEN 1 AND 9999, CAST({moment} AS {name}), NULL)"


def _other(text: str, name: str) -> str:
    if name == "BOOLEAN":
        return f"CASE {text} WHEN 'true' THEN true WHEN 'false' THEN false END"
    if name == "DATE":
        return f"if({_is(text, DAY)}, try_cast({text} AS DATE), NULL)"
    if name in _MOMENTS:
        zone = "" if name == "TIMESTAMP_NTZ" else OFFSET
        value = f"try_cast({text} AS {name})"
        # A time that the session's zone skips would become another one.
        local = f"try_cast({text} AS TIMESTAMP_NTZ) = CAST({value} AS TIMESTAMP_NTZ)"
        unskipped = f"(current_timezone() = 'UTC' OR NOT {_is(text, f'{DAY}[T ]{TIME}')} OR {local})"
        known = _is(text, f"{DAY}[T ]{TIME}{zone}") + (f" AND {unskipped}" if zone else "")
        moment = f"if({known}, {value}, NULL)"
        years = f"year({moment}) BETWEEN 1 AND 9999"
        # An offset may lead out of the years that readers can show; only the first and the last day are near.
        return f"if({text} < '0002' OR {text} >= '9999', if({years}, {moment}, NULL), {moment})"
    if name == "BINARY":
        # What is left of the last character's bits has to be zero, or two texts would be the same bytes.
        same = f"replace(base64(unbase64({text})), '\\r\\n', '') = {text}"
        return f"if({_is(text, _BASE64)}, if({same}, unbase64({text}), NULL), NULL)"
    if varchar := _VARCHAR.fullmatch(name):
        return f"if(char_length({text}) <= {varchar[1]}, {text}, NULL)"
    raise ConfigError(
        f"a text cannot become a {name}: declare STRING and convert it further on, or one of BIGINT, INT, SMALLINT, "
        "TINYINT, DECIMAL(p, s), DOUBLE, FLOAT, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, BINARY, VARCHAR(n)"
    )


def _floating(text: str, name: str, *, special: bool) -> str:
    value = f"try_cast({text} AS {name})"
    finite = f"abs({value}) < CAST('Infinity' AS {name})"
    vanished = f"{value} = 0 AND {text} RLIKE {quoted(_DIGIT)}"
    number = f"if({_is(text, NUMBER)}, if({finite} AND NOT ({vanished}), {value}, NULL), NULL)"
    return f"if({text} IN ({', '.join(map(quoted, SPECIAL))}), {value}, {number})" if special else number


def _decimal(text: str, precision: int, scale: int) -> str:
    value = f"try_cast({text} AS DECIMAL({precision}, {scale}))"
    fraction = f"[.](?:[0-9]{{1,{scale}}}0*+)" if scale else "[.]0++"
    plain = _is(text, f"[+-]?(?:(?:0|[1-9][0-9]{{0,37}})(?:{fraction}|[.])?|{fraction})")
    huge = f"{text} RLIKE {quoted(_HUGE)}"
    small = f"octet_length({text}) <= {LONGEST_NUMBER} AND {_is(text, NUMBER)} AND NOT {huge}"
    decimals = f"rtrim('0', regexp_extract({text}, {quoted(_FRACTION)}, 1))"
    zeros = f"octet_length(regexp_extract({text}, {quoted(_ZEROS)}, 1))"
    exponent = f"coalesce(try_cast(nullif(regexp_extract({text}, {quoted(_EXPONENT)}, 1), '') AS INT), 0)"
    needed = f"if({decimals} = '', -{zeros}, octet_length({decimals})) - {exponent}"
    zero = f"CAST(0 AS DECIMAL({precision}, {scale}))"
    nothing = f"{text} RLIKE {quoted(_NOTHING)}"
    return (
        f"if(octet_length({text}) <= {LONGEST_NUMBER} AND {plain}, {value}, "
        f"if({small}, if({nothing}, {zero}, if({needed} <= {scale}, {value}, NULL)), NULL))"
    )


def _is(text: str, pattern: str) -> str:
    """Write SQL that tells whether a whole text matches; ``$`` would let a line end pass."""
    whole = rf"\A(?:{pattern})\z"
    return f"{text} RLIKE {quoted(whole)}"
