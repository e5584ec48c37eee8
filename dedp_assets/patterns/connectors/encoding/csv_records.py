r"""Records of CSV: a reader that knows where a record ends, and why a line is no record.

Python's ``csv`` reads other records than the formats here declare: its escape counts outside of quotes, too, so that
``C:\temp`` loses a character; a carriage return within a value is an error, and so is a value of 128 KiB. A quote that
does not begin a value is text for both.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from dedp_assets.patterns.connectors.landing.files import LONGEST_LINE
from dedp_assets.patterns.core.errors import ContractError

if TYPE_CHECKING:
    from dedp_assets.patterns.connectors.encoding.formats import Csv

__all__ = ["OPEN", "CsvRecord", "records_of", "values_of"]

OPEN = "a quoted value does not end before a delimiter"
"""Fault of a record in which something follows a quoted value, or nothing ends it."""
_More = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """A record of a file.

    Attributes:
        number: number of its first line, from 1.
        lines: the lines, without line feeds.
        values: the values; empty for a faulty record.
        fault: why the lines are no record, or empty.
    """

    number: int
    lines: Sequence[str]
    values: Sequence[str]
    fault: str = ""

    @property
    def is_blank(self) -> bool:
        """``True`` for a line without a character."""
        return len(self.values) == 1 and not self.lines[0].strip("\r")


class _Misread(Exception):
    """Error for a quoted value without an end."""


def records_of(lines: Iterable[str], made: Csv, *, name: str = "the file") -> Iterator[CsvRecord]:
    """Yield the records of a file; a faulty record ends with the line that shows the fault.

    Args:
        lines: the lines, without line feeds.
        made: the format.
        name: name of the file, for the sentence of a refusal.

    Raises:
        ContractError: for a record of more than 64 MiB, which a single quote can begin.
    """
    rest, number = _between(lines, made.skip_first, made.skip_last), 1 + made.skip_first
    for line in rest:
        held = _Held([line], rest if made.multiline else iter(()), f"{name} has a record in line {number}")
        try:
            yield CsvRecord(number, held.lines, _values(line, held.more, made))
        except _Misread:
            yield CsvRecord(number, held.lines, (), OPEN)
        number += len(held.lines)


@dataclass(slots=True)
class _Held:
    """The lines of the record that is read.

    Attributes:
        lines: the lines.
        rest: lines that may belong to the record.
        where: beginning of the sentence about a record that is too long.
        size: characters of the lines.
    """

    lines: list[str]
    rest: Iterator[str]
    where: str
    size: int = 0

    def more(self) -> str | None:
        """Take a further line."""
        following = next(self.rest, None)
        if following is not None:
            self.lines.append(following)
            self.size += len(following)
        if self.size > LONGEST_LINE:
            raise ContractError(f"{self.where} of more than {LONGEST_LINE >> 20} MiB: {OPEN}")
        return following


def _between(lines: Iterable[str], first: int, last: int) -> Iterator[str]:
    """Yield lines without some at the begin and at the end."""
    rest = islice(lines, first, None)
    held = deque(islice(rest, last))
    for line in rest:
        held.append(line)
        yield held.popleft()


def values_of(record: str, made: Csv) -> tuple[Sequence[str], str]:
    """Return the values of one record, and the fault of a text that is no record.

    Example:
        >>> from dedp_assets.patterns.connectors.encoding.formats import Csv
        >>> values_of('1,5" pipe,"a ""b"",c"', Csv())
        (['1', '5" pipe', 'a "b",c'], '')
    """
    first, *rest = record.split("\n")
    lines = iter(rest)
    try:
        values = _values(first, lambda: next(lines, None), made)
    except _Misread:
        return (), OPEN
    return (values, "") if next(lines, None) is None else ((), "a record ends before its last line")


def _values(line: str, more: _More, made: Csv) -> list[str]:
    """Read the values of a record, from the first line on."""
    if not made.quote or made.quote not in line:
        return line.rstrip("\r").split(made.delimiter)
    values, text, at = list[str](), line, 0
    while True:
        if text.startswith(made.quote, at):
            value, text, at = _quoted(text, at + 1, more, made)
            at = at if text[at:].strip("\r") else len(text)
            if at < len(text) and not text.startswith(made.delimiter, at):
                raise _Misread
        else:
            stop = text.find(made.delimiter, at)
            value, at = (text[at:stop], stop) if stop >= 0 else (text[at:].rstrip("\r"), len(text))
        values.append(value)
        if at >= len(text):
            return values
        at += 1


def _quoted(text: str, at: int, more: _More, made: Csv) -> tuple[str, str, int]:
    """Read a quoted value: the value, the line that the value ends in, and the place behind the quote."""
    inside, pair = _patterns(made.quote, made.quote if made.doubles else made.escape)
    parts = []
    while True:
        found = inside.match(text, at)
        end = found.end() if found else at
        if text.startswith(made.quote, end):
            parts.append(text[at:end])
            return pair.sub(r"\1", "\n".join(parts)), text, end + 1
        parts.append(text[at:])
        if (following := more()) is None:
            raise _Misread
        text, at = following, 0


@lru_cache
def _patterns(quote: str, escape: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return regular expressions: the inside of a quoted value up to a quote, and an escaped character."""
    mark, own = re.escape(quote), re.escape(escape)
    if escape == quote:
        return re.compile(f"[^{mark}]*(?:{mark}{mark}[^{mark}]*)*"), re.compile(f"{mark}({mark})")
    return re.compile(f"(?s)[^{mark}{own}]*(?:{own}.[^{mark}{own}]*)*"), re.compile(f"{own}([{own}{mark}])")
