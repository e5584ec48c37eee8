"""Plain JSON in SQL: detection of records whose first parse is exact, from one parse of the members.

The texts of the parse are the record's own but for numbers with a fraction or an exponent, ``-0``, and what is inside
of objects and arrays, which Spark writes anew. Every predicate here may say no to a record that is fine, and never yes
to one that is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dedp_assets.patterns.core.exact import INTEGERS, exact, is_scalar
from dedp_assets.patterns.core.json_texts import END
from dedp_assets.patterns.core.rows import quoted

__all__ = ["fitting", "is_plain"]

_BACKSLASH = quoted("\\")
_TINY = ("e-", "E-", "0" * 40)
_FLAT = quoted(r"\A[^{]*+[{][^{]*+\z")
_SURROGATE = quoted(r"\\u[dD][89a-fA-F]")
_FLOATING = quoted("^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$")
_NEEDS_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def fitting(text: str, name: str, kind: str, record: str) -> str:
    """Write SQL: the value of the member ``text``; NULL if the value may not be exact.

    Args:
        text: what the parse gave for the member.
        name: its key.
        kind: SQL type.
        record: the whole record.
    """
    upper = kind.strip().upper()
    if not is_scalar(kind):
        return f"CAST(NULL AS {kind})"
    if upper in INTEGERS:
        return f"if(CAST(try_cast({text} AS {upper}) AS STRING) = {text}, try_cast({text} AS {upper}), NULL)"
    value = exact(text, kind)
    if upper in ("DOUBLE", "FLOAT", "REAL"):
        value = _not_vanished(value, text, record)
        # A text that came out of a DOUBLE may lie between two FLOATs, and what was written beside the middle.
        once = f"NOT contains({text}, '.') OR CAST({value} AS STRING) = {text}" if upper != "DOUBLE" else "true"
        return f"if({once}, {value}, NULL)"
    if upper.startswith(("DEC", "NUMERIC")):
        return f"if(contains({text}, '.'), {exact(_as_written(name, record), kind)}, {value})"
    return f"if({_rewritten(text, name, record)}, NULL, {value})" if upper.startswith(("STRING", "VARCHAR")) else value


def is_plain(record: str, own: str, members: str, columns: Sequence[tuple[str, str]]) -> str:
    """Write SQL: whether the values that :func:`fitting` gave are the record's.

    Args:
        record: the whole record.
        own: its hash, the value of the last member.
        members: the parse.
        columns: text of each member, and the column that holds its value.
    """
    there = " + ".join(f"if({text} IS NULL, 0, 1)" for text, _ in columns)
    # Only objects have keys; a brace within a text is worth a second look. Lambdas would stop Spark from compiling.
    distinct = f"size(array_distinct(map_keys({members}))) = size({members}) AND {record} RLIKE {_FLAT}"
    fit = " AND ".join(f"({text} IS NULL OR {value} IS NOT NULL)" for text, value in columns)
    half = f"contains({record}, {_BACKSLASH}) AND {record} RLIKE {_SURROGATE}"
    return (
        f"coalesce({members}['{END}'] = CAST({own} AS STRING) AND {fit} "
        f"AND (size({members}) = {there} + 1 OR {distinct}) AND NOT ({half}) AND is_valid_utf8({record}), false)"
    )


def _rewritten(text: str, name: str, record: str) -> str:
    """Write SQL: whether Spark may have rewritten a text."""
    signed = f"{text} >= '-' AND {text} < ':'"
    number = f"contains({text}, '.') AND {text} RLIKE {_FLOATING} AND NOT {_in_quotes(name, record)}"
    zero = f"{text} = '0' AND contains({record}, '-0')"
    inside = " OR ".join(f"startswith({text}, '{begin}')" for begin in '{["')
    return f"({signed} AND ({number} OR {zero})) OR {inside}"


def _in_quotes(name: str, record: str) -> str:
    """Write SQL: whether the record has the member as a string.

    Without a backslash every quotation mark begins or ends a string, so the key is a key; and there is none inside of
    other members, and no other of that name, or the record is not plain.
    """
    if _NEEDS_ESCAPE.search(name):
        return "false"
    # A regular expression: Spark's own search for a text compares at every quotation mark.
    begin = quoted(f'{re.escape(chr(34) + name + chr(34))}: ?"')
    return f"(NOT contains({record}, {_BACKSLASH}) AND {record} RLIKE {begin})"


def _as_written(name: str, record: str) -> str:
    """Write SQL: a member's number as written in the record, NULL if undecidable; see :func:`_in_quotes`."""
    if _NEEDS_ESCAPE.search(name):
        return "CAST(NULL AS STRING)"
    blank = r"[ \t\r\n]*"
    pattern = rf'"{re.escape(name)}"{blank}:{blank}("?)(-?[0-9]+[.][0-9]+)\1{blank}[,}}]'
    return f"if(contains({record}, {_BACKSLASH}), NULL, nullif(regexp_extract({record}, {quoted(pattern)}, 2), ''))"


def _not_vanished(value: str, text: str, record: str) -> str:
    """Write SQL: ``value``, or NULL for a zero whose written number may differ from zero."""
    tiny = " OR ".join(f"contains({record}, '{word}')" for word in _TINY)
    return f"if({value} = 0 AND contains({text}, '.') AND ({tiny}), NULL, {value})"
