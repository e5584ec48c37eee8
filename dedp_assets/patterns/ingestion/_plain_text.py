"""Plain text: values of any type as lines of text in a canonical form.

Everything here is SQL over a row's own columns, so that it runs in the pass that writes the row.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from dedp_assets.patterns.core.names import RESERVED, identifier

__all__ = ["BETWEEN_WORDS", "SILENT", "decoded", "folded", "numbers", "silent", "values"]

SILENT: Mapping[str, str] = {
    "boolean": "truth values coincide by nature",
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz", "time"), "dates and times coincide by nature"),
    **dict.fromkeys(("void", "geometry", "geography"), "it has no text to compare"),
}
"""Name of a type whose values have no text here -> why."""

BETWEEN_WORDS = r"[^\\p{L}\\p{N}\\n]+"
_WITHIN_A_NUMBER = (
    r"(?<=[0-9])(?:[., \u00a0\u202f]|[ \u00a0]?(?:[(]0[)]|[-/()\u2010-\u2015]){1,2}[ \u00a0]?)(?=[0-9])".replace(
        "\\", "\\\\"
    )
)
_STRING_OR_NUMBER = r'"(?:[^"\\\\]|\\\\.)*" *:?|-?[0-9][-+.0-9eE]*'
_ESCAPED = r"\\\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"  # no halves of a pair: they have no text of their own
_NOTHING = "CAST(array() AS ARRAY<STRING>)"
_LIGATURES = {"ß": "ss", "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "\u0131": "i"}


def values(given: Sequence[tuple[str, DataType]], depth: int = 0) -> str:
    """Return an SQL array with the text of every value in the expressions, nested values included.

    Args:
        given: SQL expressions and their types.
        depth: how many lambdas are around them.
    """
    single = [_text(value, kind) for value, kind in given if not _nests(kind) and kind.typeName() not in SILENT]
    nested = [_nested(value, kind, depth) for value, kind in given if _nests(kind)]
    flat = f"array({', '.join(single)})" if single else _NOTHING
    return f"concat({', '.join([_NOTHING, flat, *nested])})"


def silent(path: str, kind: DataType) -> Iterator[tuple[str, str]]:
    """List the nested fields of a column without a text in :func:`values`, by path, with the reason."""
    if kind.typeName() in SILENT:
        yield path, SILENT[kind.typeName()]
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from silent(f"{path}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        yield from silent(f"{path}.element", kind.elementType)
    elif isinstance(kind, MapType):
        yield from silent(f"{path}.key", kind.keyType)
        yield from silent(f"{path}.value", kind.valueType)


def decoded(text: str) -> str:
    """Return SQL for a text, followed by lines with percent-encoding and JSON escapes decoded."""
    unquoted = f"try_url_decode(regexp_replace({text}, '%(?![0-9a-fA-F]{{2}})', '%25'))"
    character = f"if(x RLIKE '^{_ESCAPED}', concat(decode(unhex(substr(x, 3, 4)), 'UTF-16BE'), substr(x, 7)), x)"
    # JSON within JSON has its backslashes twice, and so on.
    blank = rf"regexp_replace(regexp_replace({text}, '\\\\{{2,}}', '\\\\'), '\\\\[bfnrt]', ' ')"
    unescaped = f"array_join(transform(split({blank}, '(?={_ESCAPED})'), x -> {character}), '')"
    return (
        f"concat_ws(chr(10), {text}, if(contains({text}, '%'), {unquoted}, NULL), "
        rf"if(contains({text}, '\\'), {unescaped}, NULL))"
    )


def folded(text: str) -> str:
    """Return SQL for a text in lower case without accents, with ASCII for equivalent characters."""
    wide, plain = _letters()
    bare = (
        f"java_method('org.apache.commons.lang3.StringUtils', 'stripAccents', translate({text}, '{wide}', '{plain}'))"
    )
    bare = rf"regexp_replace(lower({bare}), '[\\p{{M}}\\p{{Cf}}]', '')"
    for ligature, letters in _LIGATURES.items():
        bare = f"replace({bare}, '{ligature}', '{letters}')"
    return f"if(octet_length({text}) = char_length({text}), lower({text}), {bare})"


def numbers(text: str) -> str:
    """Return SQL for folded text with each number as a digit run, separators and idle zeros removed."""
    short = rf"regexp_replace({text}, '(?<![.0-9])([0-9]+)[.]([0-9]*?)0+(?![.0-9])', '$1.$2')"
    joined = f"regexp_replace({short}, '{_WITHIN_A_NUMBER}', '')"
    apart = f"regexp_replace({joined}, '{BETWEEN_WORDS}', ' ')"
    return rf"regexp_replace({apart}, '(?<![\\p{{L}}\\p{{N}}])0+(?=[0-9])', '')"


def _nests(kind: DataType) -> bool:
    return isinstance(kind, (ArrayType, MapType, StructType, VariantType))


def _nested(value: str, kind: DataType, depth: int) -> str:
    if isinstance(kind, StructType):
        return values([(f"{value}.{identifier(f.name)}", f.dataType) for f in kind.fields], depth)
    if isinstance(kind, MapType):
        keys, held = ArrayType(kind.keyType), ArrayType(kind.valueType)
        return values([(f"map_keys({value})", keys), (f"map_values({value})", held)], depth)
    if isinstance(kind, ArrayType):
        each = f"{RESERVED}{depth}"
        inner = f"transform({value}, {each} -> {values([(each, kind.elementType)], depth + 1)})"
        return f"coalesce(flatten({inner}), {_NOTHING})"
    found = f"regexp_extract_all(to_json({value}), '{_STRING_OR_NUMBER}', 0)"
    unquoted = f"transform(filter({found}, x -> NOT endswith(x, ':')), x -> trim(BOTH '\"' FROM x))"
    return f"coalesce({unquoted}, {_NOTHING})"


def _text(value: str, kind: DataType) -> str:
    """Return SQL for a value as a single line of text; floats without an exponent."""
    if isinstance(kind, (DoubleType, FloatType)):
        # As text first: only there a FLOAT has no more digits than it was given.
        number = f"nullif(CAST(CAST({value} AS STRING) AS DOUBLE), DOUBLE('NaN'))"
        return f"format_number({number}, '0.{'#' * 30}')"
    plain = f"CAST({value} AS STRING)"
    if isinstance(kind, StringType) and kind.collation != "UTF8_BINARY":
        plain = f"collate({plain}, 'UTF8_BINARY')"
    return f"replace({plain}, chr(10), ' ')"


@cache
def _letters() -> tuple[str, str]:
    """Return a translation of non-ASCII letters and digits to ASCII equivalents."""
    found = {}
    for character in map(chr, range(0x80, 0x10000)):
        digit = unicodedata.decimal(character, None)
        other = unicodedata.normalize("NFKC", character) if digit is None else str(digit)
        if len(other) == 1 and other.isascii() and other.isalnum():
            found[character] = other
    return "".join(found), "".join(found.values())
