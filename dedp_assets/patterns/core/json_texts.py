"""JSON texts in SQL: object members with each scalar's original text, and faults of a record.

Spark's parser stops at the end of the first value and drops what follows; it keeps the last of equal keys, and it
writes numbers anew. So a record is parsed with one more member behind its last one, which holds the record's own hash
and which only a text that ends with its object can reach; into a map, which keeps equal keys; and, where it matters,
with every number, ``true`` and ``false`` written as a string before, marked so that they are told from texts: ``1.10``
becomes ``"1.10:"`` and ``"1.10"`` becomes ``":1.10"``.
"""

from __future__ import annotations

from collections.abc import Mapping

from dedp_assets.patterns.core.exact import NUMBER
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.rows import quoted

__all__ = [
    "END",
    "EXACT",
    "MICROSECONDS",
    "elements",
    "fault",
    "inner",
    "marked",
    "members",
    "options",
    "quoted_text",
    "repeated",
    "scalar_text",
    "text_of",
    "trimmed",
    "written",
]

END = f"{RESERVED}end"
"""The member behind the last one."""

MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's JSON under which no time is cut to milliseconds."""
EXACT = {**MICROSECONDS, "ignoreNullFields": "false"}
"""The same, and a NULL keeps its field."""

_OPTIONS = "map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')"
_QUOTE, _BACKSLASH = '"', "\\"
_CHARACTERS = r"""(?:[^"\\]++|\\.)*+"""
_KEY = rf'"{_CHARACTERS}"\s*+:'
_BLANK = "[ \\t\\r\\n]*"
_SCALAR = rf"(?s)\G((?:[\s,:\[\]{{}}]++|null(?=\s*+[,\]}}])|{_KEY})*+)" + (
    rf'(?:"({_CHARACTERS})"|({NUMBER}|true|false)(?=\s*+[,\]}}]))'
)
_MARKED_WORD = rf'(?s)\G((?:[,\[\]{{}}]++|null|{_KEY}|":{_CHARACTERS}")*+)"([^":\\]++):"'
_MARKED_TEXT = rf'(?s)\G((?:[,\[\]{{}}]++|null|true|false|{NUMBER}|{_KEY})*+)":({_CHARACTERS})"'
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F]"


def options(given: Mapping[str, str]) -> str:
    """Write options of Spark's JSON as an argument in SQL."""
    return f"map({', '.join(quoted(text) for option in given.items() for text in option)})"


def members(record: str, own: str, *, empty: bool = False) -> str:
    """Write SQL: key -> text of each member of ``record``, ``own`` under :data:`END`; NULL if no object.

    Args:
        record: STRING expression.
        own: SQL for a BIGINT that this record alone has.
        empty: whether an object without members is possible.
    """
    comma = f"if({record} RLIKE {quoted(rf'^[{{]{_BLANK}[}}]')}, '', ',')" if empty else "','"
    # As a string: Spark makes a writer for each number that it takes as text.
    end = f"""CAST(concat({comma}, '"{END}":"', {own}, '"}}') AS BINARY)"""
    # As bytes, whose number is known; characters would have to be counted.
    body = f"substr(CAST({record} AS BINARY), 1, octet_length({record}) - 1)"
    return inner(f"if(endswith({record}, '}}'), CAST(concat({body}, {end}) AS STRING), NULL)")


def inner(text: str) -> str:
    """Write SQL: key -> text of each member of an object."""
    return f"from_json({text}, 'MAP<STRING, STRING>', {_OPTIONS})"


def elements(text: str) -> str:
    """Write SQL: text of each element of an array."""
    return f"from_json({text}, 'ARRAY<STRING>', {_OPTIONS})"


def trimmed(record: str) -> str:
    """Write SQL: ``record`` without leading and trailing JSON white space."""
    return f"trim(BOTH ' \\t\\r\\n' FROM {record})"


def marked(record: str) -> str:
    """Write SQL: ``record`` with scalars except ``null`` as marked strings; invalid JSON stays invalid."""
    return f"regexp_replace({record}, {quoted(_SCALAR)}, {quoted('$1' + _QUOTE + '$3:$2' + _QUOTE)})"


def text_of(value: str) -> str:
    """Write SQL for the text of a marked value: a string's characters, a number as written, or JSON."""
    words = f"regexp_replace({value}, {quoted(_MARKED_WORD)}, '$1$2')"
    both = f"regexp_replace({words}, {quoted(_MARKED_TEXT)}, {quoted('$1' + _QUOTE + '$2' + _QUOTE)})"
    return f"if(left({value}, 1) IN ('{{', '['), {both}, {scalar_text(value)})"


def scalar_text(value: str) -> str:
    """Write SQL: text of a marked value other than objects and arrays, as :func:`text_of`."""
    return f"if(startswith({value}, ':'), substr({value}, 2), rtrim(':', {value}))"


def written(value: str) -> str:
    """Write SQL: JSON of a marked value, with numbers as written; ``null`` for NULL."""
    text = text_of(value)
    return (
        f"CASE WHEN {value} IS NULL THEN 'null' WHEN startswith({value}, ':') THEN {quoted_text(text)} ELSE {text} END"
    )


def quoted_text(text: str) -> str:
    """Write SQL: a text as a JSON string; ``null`` for NULL."""
    listed = f"to_json(array({text}))"
    return f"substr({listed}, 2, char_length({listed}) - 2)"


def repeated(keys: str, path: str) -> str:
    """Write SQL: a sentence for each repeated key, prefixed with the path of the object."""
    ordered = f"sort_array({keys})"
    twice = f"array_distinct(filter({ordered}, (k, i) -> i > 0 AND k = {ordered}[i - 1]))"
    named = f"transform({twice}, k -> concat({path}, k, ' is there twice'))"
    return f"if(size(array_distinct({keys})) = size({keys}), array(), {named})"


def fault(record: str, found: str) -> str:
    """Write SQL: the fault of a record as a whole, or NULL.

    Args:
        record: STRING expression.
        found: what :func:`members` gave for it, marked.
    """
    own = f"xxhash64({record})"
    both = f"""from_json(concat('[', {record}, ',{{"{END}":', {own}, '}}]'), 'ARRAY<STRING>', {_OPTIONS})"""
    single = f"regexp_replace(replace({record}, {quoted(_BACKSLASH * 2)}, ' '), {quoted(_PAIR)}, '')"
    # The last member and not the one of that key: a record may bring such a key along.
    last = f"try_element_at(map_keys({found}), -1) = '{END}' AND try_element_at(map_values({found}), -1)"
    twice = repeated(f"slice(map_keys({found}), 1, size({found}) - 1)", "''")
    return (
        f"CASE WHEN {last} = CAST({own} AS STRING) THEN CASE "
        f"WHEN NOT is_valid_utf8({record}) THEN 'not valid UTF-8' "
        f"WHEN {single} RLIKE {quoted(_HALF)} THEN 'half of a surrogate pair' "
        f"ELSE nullif(concat_ws('; ', {twice}), '') END "
        f"WHEN {record} RLIKE '^\\\\s*$' THEN 'blank line' "
        f"WHEN {both} IS NULL OR size({both}) < 2 "
        f"OR NOT coalesce(contains(element_at({both}, -1), {own}), false) THEN 'malformed JSON' "
        f"WHEN size({both}) > 2 THEN 'more than one JSON value' "
        f"WHEN startswith({trimmed(record)}, '{{') THEN 'malformed JSON' "
        f"ELSE 'not a JSON object' END"
    )
