"""Date patterns of Spark that read whole dates and times, judged without Spark.

Spark fills what a pattern does not name: a date without a month is one in January, one without a year of 1970. Such a
pattern reads every text, and reads it wrongly, so it is refused as one that Spark cannot parse is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

__all__ = ["pattern_fault"]

_UNITS = {
    **dict.fromkeys("y", "year"), **dict.fromkeys("ML", "month"), "d": "day", "D": "day of the year", "a": "am or pm",
    **dict.fromkeys("Hk", "hour"), **dict.fromkeys("hK", "hour of am or pm"), "m": "minute", "s": "second",
    "S": "fraction", "G": "era", **dict.fromkeys("VzOXxZ", "zone"),
}  # fmt: skip
"""Letter -> the part of a time that it stands for, of the letters that Spark parses."""
_COUNTS = {
    "y": range(1, 11), "M": range(1, 5), "L": range(1, 5), "D": range(1, 4), "a": (1,), "S": range(1, 10),
    "G": range(1, 5), "V": (2,), "z": range(1, 5), "O": (1, 4), **dict.fromkeys("XxZ", range(1, 6)),
}  # fmt: skip
"""Letter -> how often it may stand in a row; of any other letter once or twice."""
_BEFORE = {"minute": ("hour", "hour of am or pm"), "second": ("minute",), "fraction": ("second",)}
"""Part of a time -> the parts of which one comes right before it."""
_NOT_READ = {
    **dict.fromkeys("YWwuec", "is of years by weeks, which Spark does not read"),
    **dict.fromkeys("EFqQ", "is only written by Spark and not read"),
}
_PIECE = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_MOST_SECTIONS = 6
_PYTHON = {
    "%Y": "yyyy", "%m": "MM", "%d": "dd", "%H": "HH", "%I": "hh", "%M": "mm", "%S": "ss", "%f": "SSSSSS", "%p": "a",
    "%b": "MMM", "%B": "MMMM", "%y": "yy", "%j": "DDD", "%z": "xx", "%Z": "z", "%T": "HH:mm:ss", "%F": "yyyy-MM-dd",
}  # fmt: skip
_WORDS = (("HH24", "HH"), ("MI", "mm"), ("MON", "MMM"), ("tt", "a"), ("T", "'T'"), ("Y", "y"), ("D", "d"))
"""Signs of other tools -> Spark's."""


def pattern_fault(pattern: str, kind: str) -> str:
    """Return the fault of a date pattern, with the nearest right pattern; empty for a sound pattern.

    Args:
        pattern: Spark's date pattern.
        kind: ``DATE``, ``TIMESTAMP`` or ``TIMESTAMP_NTZ``.

    Example:
        >>> pattern_fault("dd/mm/yyyy", "DATE")
        'mm are minutes, which come right after the hour: did you mean dd/MM/yyyy?'
        >>> pattern_fault("dd/MM/yyyy", "DATE")
        ''
    """
    why = _fault(pattern, kind)
    near = _respelt(pattern) if why else ""
    return f"{why}: did you mean {near}?" if near and not _fault(near, kind) else why


def _fault(pattern: str, kind: str) -> str:
    pieces = [found[0] for found in _PIECE.finditer(pattern)]
    faults = (*map(_of_piece, pieces), _of_brackets(pieces), _of_digits(pieces))
    if why := next(filter(None, faults), ""):
        return why
    ways = [_of_fields(fields, kind) for fields in _ways(pieces) if fields] or [_NONE]
    # Two dates one after another are no text that anybody writes: such a way to read is never taken.
    return next((why for why in ways if why not in ("", _TWICE)), "" if "" in ways else _TWICE)


_TWICE = "a part of the time is there twice"
_NONE = "it names no part of a date"


def _of_piece(piece: str) -> str:
    """Return why Spark does not parse a piece of a pattern."""
    letter, count = piece[0], len(piece)
    if letter == "'":
        return "" if count > 1 else "a quotation mark is not closed"
    if letter in "{}#%":
        return f"{letter} is no sign of a pattern" + (", as it is of Python's" if letter == "%" else "")
    if not letter.isascii() or not letter.isalpha():
        return ""
    if letter not in _UNITS:
        plain = "is no letter of a pattern: text stands in quotes"
        return f"{piece} {_NOT_READ.get(letter, plain)}"
    return "" if count in _COUNTS.get(letter, (1, 2)) else f"{piece} has {count} letters, which Spark does not read"


def _of_brackets(pieces: Sequence[str]) -> str:
    depth = 0
    for piece in pieces:
        depth += (piece == "[") - (piece == "]")
        if depth < 0:
            return "] closes no ["
    return ""


def _of_digits(pieces: Sequence[str]) -> str:
    """Return the numbers without a sign between of which nothing says where the first one ends."""
    run: list[str] = []
    for piece in (*pieces, " "):
        if _is_number(piece):
            run.append(piece)
            continue
        if len(some := [each for each in run if _is_open(each)]) > 1:
            return f"{' and '.join(some)} are numbers of any length without a sign between"
        run = []
    return ""


def _is_number(piece: str) -> bool:
    return piece[0] in "yDdHhkKmsS" or (piece[0] in "ML" and len(piece) < len("MMM"))


def _is_open(piece: str) -> bool:
    """Return whether a piece is a number of any length."""
    return len(piece) != 2 if piece[0] == "y" else len(piece) == 1 and piece in "MLdDHhkKms"


def _ways(pieces: Sequence[str]) -> Iterator[list[str]]:
    """Yield the fields of a text for each choice of the optional sections, which stand in brackets."""
    count = min(pieces.count("["), _MOST_SECTIONS)
    for chosen in product((True, False), repeat=count):
        fields, open_sections, number = list[str](), list[bool](), 0
        for piece in pieces:
            if piece == "[":
                open_sections.append(number >= count or chosen[number])
                number += 1
            elif piece == "]":
                open_sections.pop()
            elif piece[0] in _UNITS and all(open_sections):
                fields.append(piece)
        yield fields


def _of_fields(fields: Sequence[str], kind: str) -> str:
    """Return the fault of the fields of a text; empty for fields of a whole date."""
    units = [_UNITS[field[0]] for field in fields]
    for before, field, unit in zip(["", *units], fields, units, strict=False):
        if unit in _BEFORE and before not in _BEFORE[unit]:
            return f"{field} are {unit}s, which come right after the {_BEFORE[unit][0]}"
    if len({*units}) < len(units):
        return _TWICE
    if "hour of am or pm" in units and "am or pm" not in units:
        return f"{next(f for f in fields if f[0] in 'hK')} is an hour of am or pm, and there is no a for these"
    by_year = "day of the year" in units
    if by_year and {"month", "day"} & {*units}:
        return f"{next(f for f in fields if f[0] == 'D')} is a day of the year, and not one of the month"
    missing = [unit for unit in ("year", *(() if by_year else ("month", "day"))) if unit not in units]
    return f"a {kind} has a {' and a '.join(missing)}, and the pattern has none" if missing else ""


def _respelt(pattern: str) -> str:
    """Return the pattern in Spark's letters, with minutes right after the hour."""
    if "%" in pattern:
        return re.sub(r"%[-_#]?([A-Za-z])", lambda found: _PYTHON.get(f"%{found[1]}", found[0]), pattern)
    for theirs, ours in _WORDS:
        pattern = pattern.replace(theirs, ours)
    found, before = "", ""
    for piece in (each[0] for each in _PIECE.finditer(pattern)):
        letter = piece[0]
        if letter in "mM":
            letter = "m" if before in "Hh" and before else "M"
        elif letter in "sS" and before == "m":
            letter = "s"
        elif letter == "h" and "a" not in pattern:
            letter = "H"
        found += letter * len(piece) if piece[0].isalpha() else piece
        before = letter if letter.isalpha() else before
    return found
