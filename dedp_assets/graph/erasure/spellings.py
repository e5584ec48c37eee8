"""Spellings of a person's ids in files, and texts without the ids."""

from __future__ import annotations

import csv
import html
import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, quote_plus

__all__ = ["GONE", "LEAST", "Spellings"]

LEAST = 5
"""Length of the shortest id for a search in texts, in characters; shorter ids stand in texts by chance."""
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_TOKEN = re.compile(rb"[^A-Za-z0-9_@.+\x80-\xff-]+")
_DELIMITERS = ",;\t|"
GONE = b"erased"
"""Text in place of an id."""


@dataclass(frozen=True)
class Spellings:
    """Spellings of ids in texts: plain, escaped for JSON, HTML and URLs, hexadecimal, Base64.

    Attributes:
        ids: the ids of all kinds.
        fields: name of a field of records -> the ids that it may hold: there an id of any length is found.
    """

    ids: Collection[str] = field(repr=False)
    fields: Mapping[str, Collection[str]] = field(default_factory=dict, repr=False)

    @property
    def searchable(self) -> list[str]:
        """The ids that are long enough for a search in texts."""
        return sorted(each for each in {*self.ids} if len(each) >= LEAST)

    @cached_property
    def texts(self) -> list[str]:
        """All spellings of the ids that are long enough for a search in texts."""
        return sorted({each.decode() for each in (*self._plain, *self._packed)})

    @cached_property
    def _plain(self) -> set[bytes]:
        return {each for one in self.searchable for each in _spelt(one)}

    @cached_property
    def _packed(self) -> set[bytes]:
        return {each for one in self.searchable for each in _encoded(one.encode())}

    @cached_property
    def _words(self) -> re.Pattern[bytes] | None:
        """Pattern of an id as a whole word: not part of a longer one."""
        word = rb"(?<![A-Za-z0-9])(?:" + _any(self._plain) + rb")(?![A-Za-z0-9])"
        return re.compile(word) if self._plain else None

    @cached_property
    def _within(self) -> re.Pattern[bytes] | None:
        """Pattern of an id within a longer text of digits: hexadecimal, or Base64 at any place."""
        return re.compile(_any(self._packed)) if self._packed else None

    def found(self, content: bytes) -> int:
        """Count the ids in a text."""
        return sum(1 for pattern in self._patterns() for _ in pattern.finditer(content))

    def may_name(self, text: bytes) -> bool:
        """Return whether an id may stand in a text of a row; short numbers are left out."""
        if self.found(text):
            return True
        short = {each.encode() for each in self.ids if 1 < len(each) < LEAST and not each.isdigit()}
        return bool(short) and not short.isdisjoint(_TOKEN.split(text))

    def without(self, content: bytes) -> bytes:
        """Return a text with a fixed word in place of each id."""
        for pattern in self._patterns():
            content = pattern.sub(GONE, content)
        return content

    def places(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each id in a text."""
        for pattern in self._patterns():
            yield from (found.span() for found in pattern.finditer(content))

    def without_lines(self, content: bytes) -> tuple[bytes, int]:
        """Return the lines of a text without an id, byte for byte, and the number of the others."""
        lines = _LINE.findall(content)
        kept = [line for line in lines if not (self.found(line) or self._is_of(line))]
        return b"".join(kept), len(lines) - len(kept)

    def without_records(self, content: bytes) -> tuple[bytes, int]:
        """Return a CSV file without records with an id, byte for byte, and the number of the others.

        A record with an id in one of the named fields goes, of any length, and one with an id anywhere.
        """
        lines = [line.decode("latin-1") for line in _LINE.findall(content)]
        header = lines[0].encode("latin-1").decode("utf-8-sig", errors="replace") if lines else ""
        names, comma = next(((r, c) for c in _DELIMITERS if {*(r := _fields(header, c))} & {*self.fields}), ([], ","))
        kept, begin, gone, reader = list[str](), 0, 0, csv.reader(iter(lines), delimiter=comma)
        for number, record in enumerate(reader):
            text = "".join(lines[begin : reader.line_num])
            begin = reader.line_num
            row = dict(zip(names, (value.encode("latin-1").decode(errors="replace") for value in record), strict=False))
            if (number == 0 and names) or not (self.found(text.encode("latin-1")) or self.names(row)):
                kept.append(text)
            else:
                gone += 1
        return "".join(kept).encode("latin-1"), gone

    def _is_of(self, line: bytes) -> bool:
        """Return whether a line is a record of JSON with an id in one of the named fields."""
        if not self.fields or not line.lstrip().startswith(b"{"):
            return False
        try:
            return self.names(json.loads(line))
        except ValueError:
            return False

    def names(self, value: object) -> bool:
        """Return whether a record has an id in one of the named fields, at any depth."""
        if isinstance(value, Mapping):
            return any(
                (name in self.fields and str(each) in self.fields[name]) or self.names(each)
                for name, each in value.items()
            )
        return isinstance(value, list) and any(map(self.names, value))

    def _patterns(self) -> Iterator[re.Pattern[bytes]]:
        yield from filter(None, (self._words, self._within))


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _any(spelt: Iterable[bytes]) -> bytes:
    return b"|".join(re.escape(each) for each in sorted(spelt, key=len, reverse=True))


def _spelt(text: str) -> Iterator[bytes]:
    once = json.dumps(text)[1:-1]
    for each in (
        text,
        once,
        json.dumps(once)[1:-1],
        html.escape(text),
        quote(text),
        quote(text, safe=""),
        quote_plus(text),
    ):
        yield each.encode()


def _encoded(value: bytes) -> Iterator[bytes]:
    yield from (value.hex().encode(), value.hex().upper().encode())
    for before, start in ((0, 0), (1, 2), (2, 3)):
        digits = b64encode(bytes(before) + value).rstrip(b"=")
        # The last digit is the value's own only if no other byte follows.
        inner = digits[start : len(digits) - (1 if len(digits) % 4 else 0)]
        yield from (inner, inner.translate(bytes.maketrans(b"+/", b"-_")))
