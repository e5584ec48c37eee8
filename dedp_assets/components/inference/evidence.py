"""Evidence of columns in text files and topics, and the refusal of records that are mostly malformed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dedp_assets.components.inference.inferred_columns import InferredColumn, name_for
from dedp_assets.patterns.connectors.encoding.formats import Csv
from dedp_assets.patterns.connectors.encoding.inferred import ColumnValues, is_value
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.parsing.strict_json import parse_json

__all__ = ["Evidence", "other_delimiter", "other_format"]

_NUMBER = re.compile(r"-?[0-9]*[.,][0-9]+(?:[eE][+-]?[0-9]+)?")
_DELIMITERS, _SHOWN, _NO_TEXT = ";\t|,", 40, "\ufffd"


@dataclass
class Evidence:
    """Evidence of columns in records.

    Attributes:
        what: what a sound record is.
        records: number of sound records.
        strange: number of malformed ones.
        example: beginning of the first malformed one, with the name of its file.
        lengths: number of values of CSV records -> how often, of malformed ones.
        spoilt: number of records with bytes that are no text of the encoding.
    """

    what: str = "JSON objects"
    records: int = 0
    strange: int = 0
    example: str = ""
    spoilt: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    _seen: dict[str, ColumnValues] = field(default_factory=dict)
    _within: dict[str, int] = field(default_factory=dict)

    def add_json(self, text: str, whence: str = "") -> None:
        """Add the members of a JSON object."""
        for column, value in self._columns_of(_of_json(text), text, whence):
            column.add_json(value)

    def add_values(self, values: Sequence[str], names: Sequence[str], made_of: Csv, whence: str = "") -> None:
        """Add the values of a CSV record."""
        record = _of_csv(values, names, made_of)
        self.lengths[len(values)] += record is None
        for column, value in self._columns_of(record, made_of.delimiter.join(values), whence):
            if value is not None:
                column.add_text(made_of.pointed(value) if _NUMBER.fullmatch(value) else value)

    def _columns_of(
        self, record: Mapping[str, Any] | None, text: str, whence: str
    ) -> Iterator[tuple[ColumnValues, Any]]:
        """Count a record; yield the evidence of each column with the record's value."""
        self.records += record is not None
        self.strange += record is None
        self.spoilt += _NO_TEXT in text
        if record is None and not self.example:
            self.example = f"{text.strip()[:_SHOWN]!r}{f' in {whence}' if whence else ''}"
        for name, value in (record or {}).items():
            self._within[name] = self._within.get(name, 0) + 1
            yield self._seen.setdefault(name, ColumnValues()), value

    def columns(self) -> Mapping[str, InferredColumn]:
        """Return the columns by name."""
        columns = dict[str, InferredColumn]()
        for called, seen in self._seen.items():
            lacks, kind, pattern = self._within[called] < self.records, seen.type(), seen.pattern()
            columns[name_for(called, columns)] = InferredColumn(kind, called, pattern, lacks, seen.remark())
        return columns

    def besides(self, sampled: str) -> str:
        """Return a sentence about the sample and the malformed records."""
        found = [sampled]
        found += [f"besides {self.strange} malformed lines"] if self.strange else []
        found += [f"{self.spoilt} with bytes that are no text: state encoding"] if self.spoilt else []
        return ", ".join(found)

    def require_sound(self, advice: str = "") -> None:
        """Refuse records of which most are malformed.

        Args:
            advice: what to state or to deliver instead.

        Raises:
            ContractError: names the first malformed one.
        """
        if self.spoilt > self.records / 2:
            count = f"{self.spoilt} of {self.strange + self.records} records have bytes that are no text"
            raise ContractError(f"{count}: state encoding, iso-8859-1 or windows-1252")
        if self.strange > self.records:
            count = f"{self.strange} of {self.strange + self.records} records are no {self.what}, like {self.example}"
            raise ContractError(f"{count}{f': {advice}' if advice else ''}")

    def advice_for_csv(self, header: Sequence[str]) -> str:
        """Return the option that reads most malformed records of CSV; empty without an option."""
        length = max(self.lengths, key=self.lengths.__getitem__, default=0)
        other = max(_DELIMITERS, key=header[0].count) if len(header) == 1 else ""
        if length and other and other in header[0]:
            return f"the header has one column, with {other!r} in it: state delimiter: {other!r}"
        if length > len(header):
            found = f"most have {length} values, and the header {len(header)}"
            return f"{found}: state skip_first, the number of lines before the header"
        return "state delimiter and quote of the format" if length else ""


def other_delimiter(header: Sequence[str], values: Sequence[str]) -> str:
    """Return the delimiter within the only value of a header and of a record; empty without one."""
    if len(header) != 1 or len(values) != 1:
        return ""
    return next((each for each in _DELIMITERS if 0 < header[0].count(each) == values[0].count(each)), "")


def other_format(header: Sequence[str], made_of: Csv) -> str:
    """Return the format that the first line of a file of CSV is in; empty for a header."""
    if _of_json(made_of.delimiter.join(header)) is not None:
        return "JSON objects: state format: {json_lines: {}}"
    if header and all(map(is_value, header)):
        return f"no header, but the values {', '.join(header)[:_SHOWN]}: state header: false in the format"
    return "HTML or XML, which is not read" if header and header[0].lstrip().startswith("<") else ""


def _of_csv(values: Sequence[str], names: Sequence[str], made_of: Csv) -> Mapping[str, str | None] | None:
    names = names or [f"column_{n}" for n in range(1, len(values) + 1)]
    nulls = ("", *made_of.nulls)
    found = {name: None if value in nulls else value for name, value in zip(names, values, strict=False)}
    return found if len(names) == len(values) else None


def _of_json(text: str) -> Mapping[str, Any] | None:
    try:
        found = parse_json(text, repeated=True)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
