"""Reasons of the dead letters among refused rows, each with a masked record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from dedp_assets.patterns.core.column import Column
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.parsing.json_fields import json_object, shape
from dedp_assets.patterns.core.results import LetterReason, Split
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.secret import masked
from dedp_assets.patterns.delta.staging.stages import Stage

__all__ = ["DEAD", "letter_reasons", "masked_record", "masked_value", "summed_up"]

DEAD = "dead"
"""Part of a split, and figure, of the dead letters."""
_REASON = "reason"
_MOST, _TOLD, _LONGEST_VALUE, _LONGEST_RECORD = 10, 3, 40, 160
_WHY, _COUNT, _EXAMPLE = (f"{RESERVED}{name}" for name in ("why", "count", "example"))
_HINTS = {
    re.compile(r".* is not a (DATE|TIMESTAMP|TIMESTAMP_NTZ), .*"): " (does the column's format fit?)",
    re.compile(r".* is not a (DOUBLE|FLOAT|DECIMAL\S*), [^']*'[+-]?[\d.]*,\d+'.*"): " (has the format decimal: ','?)",
}
"""Reason and example of a letter -> question that leads to the remedy."""


def letter_reasons(spec: TableSpec, stage: Stage, split: Split) -> tuple[LetterReason, ...]:
    """List the most frequent reasons of the dead letters in a refused stage.

    Args:
        spec: table of the kept rows, which says what class columns are of.
        stage: the refused rows.
        split: the rows with their outcomes; computed again if the letters were not staged.

    Returns:
        At most ten reasons, by count; none for a split without reasons, and where they cannot be read.
    """
    columns = split.parts.get(DEAD, ())
    if _REASON not in columns:
        return ()
    # Whoever explains a refusal must not hide it.
    with suppress(PatternError, *SPARK_ERRORS):
        dead = stage.read(DEAD) if DEAD in stage.held else split[DEAD]
        return tuple(_reasons(dead, columns, split.identity, spec))
    return ()


def summed_up(letters: Sequence[LetterReason], *, of: int) -> str:
    """Write the first reasons of dead letters as a sentence.

    Args:
        letters: the reasons.
        of: number of the dead letters.
    """
    shown = [f"{each.letters} of {of} dead letters: {each.reason}{_hint(each)}, {each.example}" for each in letters]
    more = [f"and {len(shown) - _TOLD} more reasons"] if len(shown) > _TOLD else []
    return "; ".join([*shown[:_TOLD], *more])


def _reasons(
    dead: DataFrame, columns: Sequence[str], identity: Sequence[str], spec: TableSpec
) -> Iterable[LetterReason]:
    texts = [c for c in columns if dict(dead.dtypes)[c] == "string" and c not in identity][:2]
    shown = F.struct(*[identifier(c) for c in dict.fromkeys([*texts, *identity])])
    place = F.struct(*map(identifier, identity))
    each = dead.select(F.explode(F.split(_REASON, "; ")).alias(_WHY), shown.alias(_EXAMPLE), place.alias(_COUNT))
    found = each.groupBy(_WHY).agg(F.count("*").alias("n"), F.min_by(_EXAMPLE, _COUNT).alias(_EXAMPLE))
    for why, count, example in found.orderBy(F.desc("n"), _WHY).limit(_MOST).collect():
        yield LetterReason(why, count, _masked(example, why, texts, identity, spec))


def _masked(row: Row, why: str, texts: Sequence[str], identity: Sequence[str], spec: TableSpec) -> str:
    """Write a record with masked values, and the place of the record."""
    text = next((row[name] for name in texts if row[name] is not None), "")
    columns = {name.lower(): column for name, column in spec.columns.items()}
    shown = masked_record(text, columns, why)
    hidden = {name for name, column in columns.items() if not column.shows("letter")}
    place = ", ".join(f"{name} {row[name]}" for name in identity if name.lower() not in hidden)
    return f"such as {shown}{f' at {place}' if place else ''}"


def masked_record(text: str, columns: Mapping[str, Column], why: str = "") -> str:
    """Write a JSON record with the values that the classes of columns show; any other text as a shape.

    Args:
        text: the record as it landed.
        columns: column, in lower case -> declaration, of the table that the record is for.
        why: reason of a dead letter, whose fields come first.
    """
    record = json_object(text)
    if record is None:
        return repr(shape(text))
    named = [name for name in record if why.startswith(tuple(f"{name}{end}" for end in " .["))]
    order = dict.fromkeys([*sorted(named, key=len, reverse=True), *record])
    return _cut({name: masked_value(name, record[name], columns.get(name.lower())) for name in order})


def masked_value(name: str, value: Any, column: Column | None) -> str:  # noqa: ANN401 - any JSON
    """Write a value, or the shape of a value, by class and type of the column.

    A text in a column of numbers or times is not what the column was declared for, and may be somebody's address.
    """
    kept = column.shown("letter") if column else "shape"
    if kept == "nothing":
        return "***"
    is_of_kind = column is not None and (column.type.upper() == "STRING" or not isinstance(value, str | list | dict))
    if value is not None and (kept != "values" or not is_of_kind):
        return repr(shape(value))
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    # Masked with its name and before it is cut: half a secret is one that no mask knows.
    text = masked(f"{name}: {text}").removeprefix(f"{name}: ")
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _cut(values: Mapping[str, str]) -> str:
    shown, length = list[str](), 0
    for name, value in values.items():
        length += len(name) + len(value)
        if shown and length > _LONGEST_RECORD:
            return f"{{{', '.join(shown)}, ...}}"
        shown.append(f"{name}: {value}")
    return f"{{{', '.join(shown)}}}"


def _hint(letter: LetterReason) -> str:
    sentence = f"{letter.reason}, {letter.example}"
    return next((hint for form, hint in _HINTS.items() if form.fullmatch(sentence)), "")
