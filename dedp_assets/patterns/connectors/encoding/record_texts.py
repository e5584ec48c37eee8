"""Landed records as JSON objects: one text of a common form for the records of every format.

An exact conversion reads the objects: each value of CSV is a text there, each value of JSON stays as written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from dedp_assets.patterns.connectors.encoding.csv_records import OPEN, values_of
from dedp_assets.patterns.connectors.encoding.formats import Csv, Format
from dedp_assets.patterns.core.errors import printable
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.parsing.json_records import members_of, text_of
from dedp_assets.patterns.core.parsing.strict_json import parse_json, written

__all__ = ["BROKEN", "LAYOUT", "RECORD", "STATED", "Naming", "as_records"]

RECORD = "record"
"""Column: the record as a JSON object, by the names of declared columns; NULL for a broken line."""
BROKEN = "broken"
"""Column: the fault of a malformed line; NULL for a well-formed line."""
LAYOUT = "layout"
"""Column: names of missing and of undeclared columns in a record, as a sentence; NULL for a declared layout."""
STATED = "stated_time"
"""Column: the text of a record's event time; NULL without one."""
_FOUND = f"{RESERVED}found"
_json_of = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Naming:
    """Names of the declared columns in the files.

    Attributes:
        columns: declared columns, in order.
        called: declared column -> its name in the files, where that is another.
        always: columns that every record has, with a value or without.
        strict: whether a record may have no other columns.
        time: column with the time of a record, if any.
        numbers: columns with numbers, whose decimals may be behind another character than a point.
    """

    columns: Sequence[str]
    called: Mapping[str, str] = field(default_factory=dict)
    always: Collection[str] = ()
    strict: bool = True
    time: str = ""
    numbers: Collection[str] = ()

    def renamed(self, names: Sequence[str]) -> list[str]:
        """Return the declared columns of names in the files."""
        here = {there: name for name, there in self.called.items()}
        return [here.get(name, name) for name in names]

    def layout(self, held: Collection[str]) -> str:
        """Return the sentence about missing and undeclared columns; empty for a declared layout."""
        lacking = [name for name in self.always if name not in held]
        strange = [name for name in held if name not in self.columns] if self.strict else []
        found = (("the record lacks ", lacking), ("no declared column is called ", strange))
        return printable("; ".join(what + ", ".join(names) for what, names in found if names))


class _LandedRecord(NamedTuple):
    """A landed record in the common form."""

    record: str | None = None
    broken: str | None = None
    layout: str | None = None
    stated: str | None = None


def as_records(rows: DataFrame, made: Format, naming: Naming) -> DataFrame:
    """Add :data:`RECORD`, :data:`BROKEN`, :data:`LAYOUT` and :data:`STATED` to landed rows, lazily.

    Args:
        rows: landed rows with ``raw``, of CSV with ``header`` as well: the names of the columns as a JSON array.
        made: format of the records.
        naming: names of the declared columns.
    """
    parts = _LandedRecord._fields

    def found(raw: pa.Array, header: pa.Array) -> pa.Array:
        if isinstance(made, Csv):
            names = {text: naming.renamed(parse_json(text)) for text in header.unique().to_pylist()}
            pairs = zip(raw.to_pylist(), header.to_pylist(), strict=True)
            each = [_of_csv(record, names[text], made, naming) for record, text in pairs]
        else:
            each = [_of_json(record, naming) for record in raw.to_pylist()]
        arrays = [pa.array([getattr(one, part) for one in each], pa.string()) for part in parts]
        return pa.StructArray.from_arrays(arrays, parts)

    header = F.col("header") if isinstance(made, Csv) else F.lit(None).cast("string")
    kind = f"STRUCT<{', '.join(f'{part}: STRING' for part in parts)}>"
    # Spark infers the kind of function from the hints and warns if it is named, which its own stubs ask for.
    column: Column = arrow_udf(found, kind)(F.col("raw"), header)  # type: ignore[call-overload]
    shown = [f"{_FOUND}.{part} AS {name}" for name, part in zip((RECORD, BROKEN, LAYOUT, STATED), parts, strict=True)]
    return rows.withColumn(_FOUND, column).selectExpr(*map(identifier, rows.columns), *shown)


def _of_json(record: str, naming: Naming) -> _LandedRecord:
    """Return a record of JSON; a record with a fault stays as landed, and shows the fault later."""
    members, fault, repeats = members_of(record, "marked" if naming.called else "texts")
    if fault:
        return _LandedRecord(record)
    names = naming.renamed(list(members))
    if naming.called and not repeats and len(set(names)) == len(names):
        members = dict(zip(names, members.values(), strict=True))
        record = written(members)
    return _LandedRecord(record, None, naming.layout(members) or None, text_of(members.get(naming.time)))


def _of_csv(record: str, names: Sequence[str], made: Csv, naming: Naming) -> _LandedRecord:
    values, fault = values_of(record, made)
    if broken := _broken(values, names, fault, made, is_blank=not record.strip("\r")):
        return _LandedRecord(broken=broken)
    nulls = ("", *made.nulls)
    members = {name: None if value in nulls else value for name, value in zip(names, values, strict=True)}
    members |= {name: made.pointed(members[name] or "") or None for name in naming.numbers if name in members}
    return _LandedRecord(_json_of(members), None, naming.layout(members) or None, members.get(naming.time))


def _broken(values: Sequence[str], names: Sequence[str], fault: str, made: Csv, *, is_blank: bool) -> str:
    """Return the fault of a line, or empty text."""
    if is_blank and len(names) > 1:
        return "blank line"
    if fault:
        hint = "; values with line feeds take the option multiline" if fault == OPEN and not made.multiline else ""
        return fault + hint
    if len(values) != len(names):
        return f"the line has {len(values)} values, and the header {len(names)}"
    return "the header names a column twice" if len(set(names)) < len(names) else ""
