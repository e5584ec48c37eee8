"""Crossing: detection of personal values of an original row in the transformed row.

Both sides are compared as plain text, so it does not matter how a value is written: as a number or as text, in any
case, with accents composed, decomposed or left out, in wide letters, with other punctuation, percent-encoded, escaped
as JSON, in hexadecimal or in Base64.

* A whole value counts at any length, and so does one that stands in other text as a word or a run of words; a number
  counts as a number (``7.5``, ``7.50``, ``007,5``).
* Inside of longer words a value counts from six letters on (two in scripts without blanks), a number from six digits
  on, inside of other digits from nine. What is encoded counts from eight bytes on.
* A number of one or two digits and a single character stand elsewhere by chance. They count once they show in more than
  half of the rows that have one, as a column that was copied would; until then the finding names them as not provable.
* Truth values, dates and times coincide by nature: the finding names their columns as not provable.

A part of a value, a value reversed, translated, rounded, hashed or encrypted is beyond this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.rows import count_where
from dedp_assets.patterns.ingestion._plain_text import BETWEEN_WORDS, SILENT, decoded, folded, numbers, silent, values

__all__ = ["MEASURES", "NothingCrossed", "compared", "unprovable"]

_CROSSED, _CHANCE = f"{RESERVED}crossed", f"{RESERVED}by_chance"
MEASURES: Mapping[str, str] = {
    "crossed": count_where(_CROSSED),
    "chance_rows": count_where(f"{_CHANCE} IS NOT NULL"),
    "chance_shown": count_where(_CHANCE),
}
"""Figures over compared rows: how many show a value, how many have one that may stand elsewhere by chance, and in how
many of these it does."""

_O, _S = f"{RESERVED}original_", f"{RESERVED}shown_"
_WORDS, _NUMBER = f"trim(x.{_O}words)", f"trim(x.{_O}numbers)"
_VALUES = (
    f"transform(transform(arrays_zip({_O}folded, {_O}words, {_O}numbers), x -> named_struct('line', x.{_O}folded, "
    f"'words', {_WORDS}, 'letters', replace({_WORDS}, ' ', ''), 'number', if({_NUMBER} RLIKE '^[0-9]+$', {_NUMBER}, "
    "''))), x -> named_struct('v', x, 'little', char_length(x.letters) = 1 OR char_length(x.number) IN (1, 2)))"
)
"""Each original: its line, its words, its letters without blanks, its number if it is one; and whether it is little."""

_NUMERIC = f"{RESERVED}numeric"
_A_NUMBER = r"(?m)^[^\\p{L}\\n]*[0-9][^\\p{L}\\n]*$"
_UNSPACED = r"[\\p{IsHan}\\p{IsHiragana}\\p{IsKatakana}\\p{IsThai}]"
_WHOLE = (
    f"(contains({_S}words, concat(' ', x.v.words, ' ')) OR "
    f"x.v.number <> '' AND contains({_S}numbers, concat(' ', x.v.number, ' ')))"
)
_WITHIN = " OR ".join(
    [
        f"contains({_S}words, concat(' ', x.v.letters, ' '))",
        f"x.v.number = '' AND (char_length(x.v.letters) >= 6 OR char_length(x.v.letters) >= 2 AND x.v.letters RLIKE "
        f"'{_UNSPACED}') AND contains({_S}letters, x.v.letters)",
        f"char_length(x.v.number) >= 6 AND contains({_S}digits, concat(' ', x.v.number, ' '))",
        f"char_length(x.v.number) >= 9 AND contains({_S}digits, x.v.number)",
        # A phone number without the code of its country, which has up to three digits.
        f"char_length(x.v.number) >= 10 AND x.v.line RLIKE '^ *([+]|00)' AND "
        f"contains({_S}digits, concat(substr(x.v.number, 4), ' '))",
    ]
)
_SHOWS = f"exists({_O}values, x -> x.v.letters <> '' AND NOT x.little AND ({_WHOLE} OR {_WITHIN}))"
_BY_CHANCE = f"if(exists({_O}values, x -> x.little), exists({_O}values, x -> x.little AND {_WHOLE}), NULL)"
_DIGITS = rf"regexp_replace({_S}numbers, '[^0-9\\n]+', ' ')"


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingCrossed(Audit):
    """Audit of :data:`MEASURES`, with a finding that also lists the unprovable columns.

    Attributes:
        unproven: what :func:`unprovable` says of the source.
    """

    unproven: tuple[str, ...] = ()

    def judge(self, figures: Mapping[str, Any], why: str = "") -> Finding:
        """Judge the measured ``figures``, with ``why`` as the reason for a missing figure."""
        found, unproven, often = Audit.judge(self, figures, why), [*self.unproven], ""
        rows, shown = int(figures.get("chance_rows") or 0), int(figures.get("chance_shown") or 0)
        if 2 * shown > rows:
            often = (
                f"a number of at most two digits or a single character shows in {shown} of {rows} rows that have one"
            )
        elif rows:
            unproven.append(f"{rows} rows with a number of at most two digits or a single character: {shown} show it")
        notes = (found.note, often, f"not provable: {', '.join(unproven)}" if unproven else "")
        note, passed = "; ".join(text for text in notes if text), found.passed and not often
        return Finding(self.name, passed, found.severity, found.figures, note, self.approvable)


def unprovable(rows: DataFrame, originals: Iterable[str]) -> tuple[str, ...]:
    """List the columns that no comparison can prove, each with the reason.

    For example ``born_on (dates and times coincide by nature)``.
    """
    found = [(path, why) for c in originals for path, why in silent(c, rows.schema[c].dataType)]
    return tuple(f"{path} ({why})" for path, why in found)


def compared(
    rows: DataFrame, *, originals: Sequence[str], shown: Sequence[str], instead: Mapping[str, str]
) -> DataFrame:
    """Add the columns that :data:`MEASURES` aggregates, from original and shown columns; lazy.

    Args:
        rows: rows that hold both the originals and what is shown.
        originals: columns of the values that must not show.
        shown: columns that are shown.
        instead: original column -> the column that is shown instead and may not equal it.
    """
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    sides = {_O: originals, _S: shown}
    steps = [
        {f"{side}raw": values([(identifier(c), kinds[c]) for c in columns]) for side, columns in sides.items()},
        {f"{side}text": f"array_join({side}raw, chr(10))" for side in sides},
        {f"{side}decoded": decoded(f"{side}text") for side in sides},
        {f"{side}folded": folded(f"{side}decoded") for side in sides},
        {f"{side}words": f"regexp_replace({side}folded, '{BETWEEN_WORDS}', ' ')" for side in sides}
        | {_NUMERIC: f"{_O}folded RLIKE '{_A_NUMBER}'"},
        # Writing numbers alike is most of the work, and most rows have no original that is a number.
        {f"{side}numbers": f"if({_NUMERIC}, {numbers(f'{side}folded')}, '')" for side in sides},
        {f"{_O}{name}": f"split({_O}{name}, chr(10))" for name in ("folded", "words", "numbers")}
        | {f"{_S}letters": f"replace({_S}words, ' ', '')"}
        | {f"{_S}{name}": _apart(text) for name, text in _searched().items()},
        {f"{_O}values": _VALUES},
        {_CROSSED: _any(_SHOWS, _encoded(), *_unreplaced(kinds, instead)), _CHANCE: _BY_CHANCE},
    ]
    for step in steps:
        rows = rows.withColumns({name: F.expr(sql) for name, sql in step.items()})
    return rows


def _searched() -> dict[str, str]:
    return {"words": f"{_S}words", "numbers": f"{_S}numbers", "digits": _DIGITS}


def _apart(lines: str) -> str:
    """Return SQL for text padded with blanks around each word, line ends included."""
    return rf"concat(' ', replace({lines}, chr(10), ' \n '), ' ')"


def _encoded() -> str:
    """Return an SQL predicate for originals shown in hexadecimal or Base64, at any offset."""
    skipped = [
        f"substr(base64(substr(CAST(x AS BINARY), {skip + 1})), 1, 4 * ((octet_length(x) - {skip}) div 3))"
        for skip in range(3)
    ]
    ways = [f"contains({_S}letters, lower(hex(x)))", *[f"contains({_S}text, {text})" for text in skipped]]
    return f"exists({_O}raw, x -> octet_length(x) >= 8 AND ({' OR '.join(ways)}))"


def _unreplaced(kinds: Mapping[str, DataType], instead: Mapping[str, str]) -> list[str]:
    """Return SQL predicates for originals equal to the replacement, except truth values and times."""
    comparable = [(c, other) for c, other in instead.items() if kinds[c].typeName() not in SILENT]
    pairs = [tuple(f"CAST({identifier(c)} AS STRING)" for c in pair) for pair in comparable]
    return [f"{value} <> '' AND {value} = {other}" for value, other in pairs]


def _any(*predicates: str) -> str:
    """Join SQL predicates by OR, with NULL as false."""
    return " OR ".join(f"coalesce({predicate}, false)" for predicate in predicates)
