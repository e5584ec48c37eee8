"""Landed records as JSON objects: one text of a common form for the records of every format.

An exact conversion reads the objects: each value of CSV is a text there, each value of JSON stays as written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.formats import Csv, Format
from dedp_assets.patterns.core import json_texts
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.rows import quoted

__all__ = ["BROKEN", "EPOCHS", "LAYOUT", "RECORD", "Naming", "as_records"]

RECORD = "record"
"""Column: the record as a JSON object, by the names of declared columns; NULL for a broken line."""
BROKEN = "broken"
"""Column: the fault of a malformed line; NULL for a well-formed line."""
LAYOUT = "layout"
"""Column: names of missing and of undeclared columns in a record, as a sentence; NULL for a declared layout."""
_LINE, _TOKENS, _NAMES, _HELD = (f"{RESERVED}{name}" for name in ("line", "tokens", "names", "held"))
EPOCHS = {"epoch_seconds": 1_000_000, "epoch_millis": 1_000}
"""Format of a time as a number since 1970-01-01 UTC -> microseconds per unit of the number."""
_MOST = {"epoch_seconds": 62_135_596_800, "epoch_millis": 62_135_596_800_000}
"""The years that readers can show."""
_SPECIAL = r"\.[]{}()*+-?^$|#&~"


@dataclass(frozen=True, slots=True)
class Naming:
    """Names and texts of the declared columns in the files.

    Attributes:
        columns: declared columns, in order.
        called: declared column -> its name in the files, where that is another.
        times: declared column -> SQL type and date pattern of its texts, where these are not as in ISO 8601.
        always: columns that every record has, with a value or without.
        strict: whether a record may have no other columns.
    """

    columns: Sequence[str]
    called: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    always: Collection[str] = ()
    strict: bool = True

    def renamed(self, name: str) -> str:
        """Write SQL for the declared column of a name in the files."""
        cases = " ".join(f"WHEN {quoted(there)} THEN {quoted(here)}" for here, there in self.called.items())
        return f"CASE {name} {cases} ELSE {name} END" if cases else name

    def timed(self, key: str, text: str, value: str, made: Callable[[str], str] = str) -> str:
        """Write SQL for a value with a time in ISO 8601.

        Args:
            key: SQL for the column.
            text: SQL for the text of the value.
            value: SQL for the value as it is.
            made: writes SQL for the value of a text, by SQL for the text.
        """
        cases = " ".join(f"WHEN {quoted(c)} THEN {made(_iso(text, *t))}" for c, t in self.times.items())
        return f"CASE {key} {cases} ELSE {value} END" if cases else value


def as_records(rows: DataFrame, made: Format, naming: Naming) -> DataFrame:
    """Add the columns :data:`RECORD`, :data:`BROKEN` and :data:`LAYOUT` to landed rows; lazy.

    Args:
        rows: landed rows with ``raw``, of CSV with ``header`` as well: the names of the columns as a JSON array.
        made: format of the records.
        naming: names of the declared columns.
    """
    found = _of_csv(rows, made, naming) if isinstance(made, Csv) else _of_json(rows, naming)
    lacking = f"array_except(array({', '.join(map(quoted, naming.always))}), {_HELD})" if naming.always else "NULL"
    known = ", ".join(map(quoted, naming.columns))
    strange = f"array_except({_HELD}, array({known}))" if naming.strict else "NULL"
    sentences = [
        f"if(size({names}) > 0, concat({quoted(what)}, array_join({names}, ', ')), NULL)"
        for what, names in (("the record lacks ", lacking), ("no declared column is called ", strange))
        if names != "NULL"
    ]
    layout = f"nullif(concat_ws('; ', {', '.join(sentences)}), '')" if sentences else "CAST(NULL AS STRING)"
    held = found.selectExpr("*", f"json_object_keys({RECORD}) AS {_HELD}")
    return held.selectExpr(*map(identifier, rows.columns), RECORD, BROKEN, f"{layout} AS {LAYOUT}")


def _of_json(rows: DataFrame, naming: Naming) -> DataFrame:
    record = "raw"
    if naming.called or naming.times:
        # With marks, so that numbers stay as written; a record with a fault stays as landed, and shows the fault later.
        line, own = json_texts.marked(json_texts.trimmed("raw")), "xxhash64(raw)"
        rows = rows.selectExpr("*", f"{json_texts.members(line, own, empty=True)} AS {_TOKENS}")
        sound = f"{json_texts.fault('raw', _TOKENS)} IS NULL AND try_parse_json(raw) IS NOT NULL"
        members = f"slice(map_entries({_TOKENS}), 1, size({_TOKENS}) - 1)"
        named = f"transform({members}, e -> struct({naming.renamed('e.key')} AS k, e.value AS v))"
        rows = rows.selectExpr("*", f"if({sound}, {named}, NULL) AS {_NAMES}")
        value = naming.timed("e.k", json_texts.text_of("e.v"), json_texts.written("e.v"), json_texts.quoted_text)
        parts = f"transform({_NAMES}, e -> concat({json_texts.quoted_text('e.k')}, ':', {value}))"
        single = f"size(array_distinct(transform({_NAMES}, e -> e.k))) = size({_NAMES})"
        record = f"coalesce(if({single}, concat('{{', array_join({parts}, ','), '}}'), NULL), raw)"
    return rows.selectExpr("*", f"{record} AS {RECORD}", f"CAST(NULL AS STRING) AS {BROKEN}")


def _of_csv(rows: DataFrame, made: Csv, naming: Naming) -> DataFrame:
    # One column for each intermediate value, in steps: Spark computes what has a column once.
    line = f"concat({quoted(made.delimiter)}, rtrim('\\r', raw))"
    names = f"transform(from_json(header, 'ARRAY<STRING>'), n -> {naming.renamed('n')})"
    read = rows.selectExpr("*", f"{line} AS {_LINE}", f"{names} AS {_NAMES}")
    pattern = quoted(f"(?s){_token(made)}")
    read = read.selectExpr("*", f"regexp_extract_all({_LINE}, {pattern}, 0) AS {_TOKENS}")
    read = read.selectExpr("*", f"{_broken(made)} AS {BROKEN}")
    values = f"transform({_TOKENS}, t -> {_value(made, 't')})"
    pairs = f"map_from_arrays({_NAMES}, {values})"
    if naming.times:
        pairs = f"transform_values({pairs}, (k, v) -> {naming.timed('k', 'v', 'v')})"
    return read.selectExpr("*", f"if({BROKEN} IS NULL, to_json({pairs}), NULL) AS {RECORD}")


def _broken(made: Csv) -> str:
    hint = "" if made.multiline or not made.quote else "; values with line feeds take the option multiline"
    counts = f"concat('the line has ', size({_TOKENS}), ' values, and the header ', size({_NAMES}))"
    return (
        f"CASE WHEN {_LINE} = {quoted(made.delimiter)} AND size({_NAMES}) > 1 THEN 'blank line' "
        f"WHEN octet_length(array_join({_TOKENS}, '')) <> octet_length({_LINE}) "
        f"THEN {quoted('a quoted value does not end before a delimiter' + hint)} "
        f"WHEN size({_NAMES}) <> size({_TOKENS}) THEN {counts} "
        f"WHEN size(array_distinct({_NAMES})) <> size({_NAMES}) THEN 'the header names a column twice' END"
    )


def _token(made: Csv) -> str:
    """Write a regular expression for a value with delimiter and quotes."""
    separator, quote = _escaped(made.delimiter), _escaped(made.quote)
    if not made.quote:
        return f"{separator}[^{separator}]*+"
    escape = quote if made.doubles else _escaped(made.escape)
    inner, pair = f"[^{quote}{escape}]*+", quote * 2 if made.doubles else f"{escape}."
    return f"{separator}(?:{quote}{inner}(?:{pair}{inner})*+{quote}|(?:[^{separator}{quote}][^{separator}]*+)?+)"


def _value(made: Csv, token: str) -> str:
    """Write SQL for the value of a token; NULL for a text that stands for none."""
    value = f"substr({token}, 2)"
    if made.quote:
        inner = f"substr({token}, 3, char_length({token}) - 3)"
        if made.doubles:
            inner = f"replace({inner}, {quoted(made.quote * 2)}, {quoted(made.quote)})"
        else:
            escape, quote = _escaped(made.escape), _escaped(made.quote)
            inner = f"regexp_replace({inner}, {quoted(f'{escape}([{escape}{quote}])')}, '$1')"
        value = f"if(substr({token}, 2, 1) = {quoted(made.quote)}, {inner}, {value})"
    return f"if({value} IN ({', '.join(map(quoted, ('', *made.nulls)))}), NULL, {value})"


def _escaped(character: str) -> str:
    """Write a character for a regular expression."""
    return f"\\{character}" if character and character in _SPECIAL else character


def _iso(text: str, kind: str, pattern: str) -> str:
    """Write SQL for a time in ISO 8601; a text of another pattern stays, and is no value of the type then."""
    moment = f"try_to_timestamp({text}, {quoted(pattern)})"
    if pattern in EPOCHS:
        whole = f"try_cast({text} AS DECIMAL(20, 6))"
        shown = f"if(abs({whole}) < {_MOST[pattern]}, {whole}, NULL)"
        moment = f"timestamp_micros(CAST({shown} * {EPOCHS[pattern]} AS BIGINT))"
    shape = "yyyy-MM-dd" if kind.upper() == "DATE" else "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    return f"coalesce(date_format({moment}, {quoted(shape)}), {text})"
