"""Date patterns of texts: every way to read dates and times that people and programs write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

__all__ = ["Reading", "readings", "readings_of"]

_DAYS = (
    "yyyy-MM-dd", "yyyy/MM/dd", "yyyy.MM.dd", "yyyy-M-d", "yyyy/M/d", "M/d/yyyy", "d/M/yyyy", "d.M.yyyy", "M-d-yyyy",
    "d-M-yyyy", "MMM d yyyy", "MMM d, yyyy", "MMMM d yyyy", "MMMM d, yyyy", "d MMM yyyy", "d MMMM yyyy", "d-MMM-yyyy",
    "d. MMM yyyy", "d. MMMM yyyy", "yyyy MMM d", "ddMMMyyyy", "d/MMM/yyyy", "M/d/yy", "d/M/yy", "d.M.yy", "d-MMM-yy",
)  # fmt: skip
_TIMES = (
    "", " HH:mm", " H:mm", "'T'HH:mm", " HH:mm:ss", " H:mm:ss", "'T'HH:mm:ss", " HH:mm:ss.SSS", " h:mm a", " h:mm:ss a",
    " hh:mma", " HH.mm", " HH.mm.ss", ", HH:mm", ", h:mm a", ", HH:mm:ss", ", h:mm:ss a", " HHmm",
    " HH:mm:ss.SSSSSS", " HH:mm:ss 'UTC'", " HH:mm:ss.SSSSSS 'UTC'", " HH:mm:ss 'GMT'",
)  # fmt: skip
_PIECES: Mapping[str, tuple[str, str]] = {
    "yyyy": ("%Y", "[0-9]{4}"), "yy": ("%y", "[0-9]{2}"), "MMMM": ("%B", "[A-Za-z]{3,9}"), "MMM": ("%b", "[A-Za-z]{3}"),
    "MM": ("%m", "[0-9]{2}"), "M": ("%m", "[0-9]{1,2}"), "dd": ("%d", "[0-9]{2}"), "d": ("%d", "[0-9]{1,2}"),
    "HH": ("%H", "[0-9]{2}"), "H": ("%H", "[0-9]{1,2}"), "hh": ("%I", "[0-9]{2}"), "h": ("%I", "[0-9]{1,2}"),
    "mm": ("%M", "[0-9]{2}"), "ss": ("%S", "[0-9]{2}"), "SSS": ("%f", "[0-9]{3}"),
    "SSSSSS": ("%f", "[0-9]{6}"), "a": ("%p", "[AaPp][Mm]"),
}  # fmt: skip
"""Piece of a pattern -> Python's directive, and the texts that Spark reads by the piece."""
_PIECE = re.compile(r"'([^']*)'|(y+|M+|d+|H+|h+|m+|s+|S+|a)|(.)")
_FIRST_CENTURY = 2000


@dataclass(frozen=True)
class Reading:
    """A date pattern and the texts of the pattern.

    Attributes:
        pattern: Spark's date pattern.
        has_time: whether the pattern reads a time of the day.
    """

    pattern: str
    has_time: bool
    _texts: re.Pattern[str]
    _directives: str

    def moment(self, text: str) -> datetime | None:
        """Return the time that a text denotes; ``None`` for a text of another pattern."""
        if not self._texts.fullmatch(text):
            return None
        try:
            found = datetime.strptime(text, self._directives)  # noqa: DTZ007 - to compare readings of one text
        except ValueError:
            return None
        # Spark takes a year of two digits for one from 2000 to 2099, where Python knows 1969 as well.
        return found if "yyyy" in self.pattern or found.year >= _FIRST_CENTURY else None


@cache
def readings() -> tuple[Reading, ...]:
    """Return every reading except ISO 8601; patterns of fixed digits come first."""
    whole = (
        "yyyy-MM-dd",
        "yyyy-MM-dd HH:mm:ss",
        "yyyy-MM-dd'T'HH:mm:ss",
        "yyyy-MM-dd HH:mm:ss.SSS",
        "yyyy-MM-dd HH:mm:ss.SSSSSS",
    )
    found = [_reading(f"{day}{time}") for time in _TIMES for day in _DAYS]
    return tuple(each for each in found if each.pattern not in whole)


def readings_of(texts: Counter[str], share: float) -> list[Reading]:
    """Return the readings of a share of texts; one reading if all read each text as the same time.

    Args:
        texts: texts, and how often each is there.
        share: least share of the texts that a reading has to read.
    """
    total, some = texts.total(), list(texts)[:20]
    least = share * len(some) / 2
    likely = [each for each in readings() if sum(each.moment(text) is not None for text in some) >= least]
    found = [each for each in likely if _share(texts, each) >= share * total]
    if len(found) > 1 and all(len({each.moment(text) for each in found}) == 1 for text in texts):
        return found[:1]
    return found


def _share(texts: Counter[str], reading: Reading) -> int:
    return sum(count for text, count in texts.items() if reading.moment(text) is not None)


def _reading(pattern: str) -> Reading:
    directives, texts = "", ""
    for literal, piece, sign in _PIECE.findall(pattern):
        directive, read = _PIECES.get(piece, (literal or sign, re.escape(literal or sign)))
        directives, texts = directives + directive, texts + read
    return Reading(pattern, "mm" in pattern, re.compile(texts), directives)
