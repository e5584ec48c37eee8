"""Columns of landed records: types, names in the files, and formats of times."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.sql.suggestions import suggestion
from dedp_assets.patterns.core.types.date_patterns import pattern_fault
from dedp_assets.patterns.core.types.exact import EPOCHS, is_scalar

__all__ = ["LandedColumn"]

_NESTED = ("STRUCT<", "ARRAY<", "MAP<")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_SCALARS = (
    "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "TINYINT", "SMALLINT", "INT", "BIGINT",
    "FLOAT", "DOUBLE", "DECIMAL(10,2)",
)  # fmt: skip
_OF_NUMBERS, _OF_ISO = re.compile(r"epoch|unix", re.IGNORECASE), re.compile(r"iso|rfc", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LandedColumn(Column):
    """A column of the records in files.

    Attributes:
        type: Spark SQL type (``STRING``, ``TIMESTAMP``, ``STRUCT<id: BIGINT>``), which every value has exactly.
        comment: what the values mean, with their unit.
        required: whether a record without a value is a dead letter.
        classification: class of the values, as of any column: what leaves, and where to.
        purpose: what the values may be used for, by name.
        technical: says when or by whom a row was made and not what it is; left out of the content fingerprint.
        replica: what a transformed replica holds instead, as of any column.
        subject: kind of person whose id the column holds, as of any column.
        subject_by: SQL expression of the id, as of any column.
        called: name in the files, if that is another.
        may_lack: whether files or records may have no such column; the value is NULL then.
        format: Spark's date pattern of the texts of a DATE or TIMESTAMP, if they are not as in ISO 8601, or
            ``epoch_seconds`` or ``epoch_millis`` for numbers.
    """

    called: str = ""
    may_lack: bool = False
    format: str = ""

    def __post_init__(self) -> None:
        Column.__post_init__(self)
        kind = self.type.upper()
        if not is_scalar(self.type) and not kind.replace(" ", "").startswith(_NESTED):
            raise ConfigError(f"type must be an SQL type, not {self.type!r}{suggestion(kind, _SCALARS)}")
        if self.format and kind not in _TIMES:
            raise ConfigError(f"format must be left out of a {self.type}, which is none of {', '.join(_TIMES)}")
        if self.format and (why := _format_fault(self.format, kind)):
            raise ConfigError(f"format must be a date pattern of Spark's, not {self.format!r}: {why}")


def _format_fault(pattern: str, kind: str) -> str:
    """Return why a format does not say how a time is written; empty for a sound one."""
    if pattern in EPOCHS:
        return ""
    if _OF_NUMBERS.match(pattern):
        return f"numbers since 1970 are {' or '.join(EPOCHS)}"
    if _OF_ISO.match(pattern):
        return "a text in ISO 8601 is read without a format: leave it out"
    return pattern_fault(pattern, kind)
