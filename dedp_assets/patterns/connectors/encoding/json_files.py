"""Files of one JSON value: the records are the elements of an array, with every value as written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dedp_assets.patterns.connectors.landing.files import kind_named, unpacked
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import FilePath

if TYPE_CHECKING:
    from dedp_assets.patterns.connectors.encoding.formats import Json

__all__ = ["json_texts_of", "member_with_records"]

_MOST_BYTES = 256 << 20
_BLANK = re.compile(r"[ \t\n\r]*")
_FEEDS = str.maketrans("\r\n", "  ")
"""Between the parts of a value; within a text, JSON has none."""
_DECODER = json.JSONDecoder()


def json_texts_of(path: FilePath, made: Json) -> Iterator[str]:
    """Yield the text of each record of a file in one line.

    Args:
        path: the file, whose name tells how it is compressed.
        made: the format.

    Raises:
        ContractError: for a file of more than 256 MiB, that is no JSON to its end, or without the array.
    """
    text = _text_of(path, made)
    try:
        yield from _Scanner(path.name, text).records(made.records)
    except json.JSONDecodeError as error:
        sentence = f"{error.msg} in line {error.lineno}, column {error.colno}"
        raise ContractError(f"{path.name} is no JSON to its end: {sentence}") from None
    except RecursionError:
        raise ContractError(f"{path.name} is no JSON that is read: it is nested too deep") from None


def _text_of(path: FilePath, made: Json) -> str:
    pieces, size = list[bytes](), 0
    with path.open("rb") as file:
        for piece in unpacked(file, path.name, kind=kind_named(path.name)):
            size += len(piece)
            if size > _MOST_BYTES:
                limit = f"{_MOST_BYTES >> 20} MiB of JSON"
                raise ContractError(f"{path.name} has more than {limit}: deliver one object a line, as json_lines")
            pieces.append(piece)
    try:
        return b"".join(pieces).decode({"windows-1252": "cp1252"}.get(made.encoding, made.encoding))
    except UnicodeDecodeError as error:
        raise ContractError(f"{path.name} is no {made.encoding} to its end: {error.reason} at {error.start}") from None


def member_with_records(text: str) -> str:
    """Return the name of the first member with an array of objects in the object that a text begins with.

    The name is empty without such a member, and for a text that does not begin with a whole object.
    """
    try:
        found, _ = _DECODER.raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return ""
    members = found.items() if isinstance(found, dict) else ()
    return next((name for name, each in members if isinstance(each, list) and each and isinstance(each[0], dict)), "")


class _Scanner:
    """A scanner that finds the elements of an array in a text."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text, self._at = name, text, 0

    def _is_lines(self) -> bool:
        """Return whether the first line is a whole value, with further lines behind."""
        first, _, more = self._text.strip().partition("\n")
        try:
            return bool(more and isinstance(json.loads(first), dict))
        except ValueError:
            return False

    def records(self, members: str) -> Iterator[str]:
        """Yield the texts of the elements of the array in a member, or of the array that the text is."""
        if members:
            _DECODER.decode(self._text)  # what follows the array is read as well
        for member in filter(None, members.split(".")):
            self._enter(member)
        if not self._takes("["):
            where = f"in its member {members}" if members else "where it begins"
            member = "" if members else member_with_records(self._text)
            advice = f"state records: {member}" if member else "state records, the member with it, if there is one"
            advice = "state json_lines" if self._is_lines() else f"{advice}, or make one line of each object: jq -c"
            raise ContractError(f"{self._name} has no array of records {where}: {advice}")
        ends = self._takes("]")
        while not ends:
            yield self._value().translate(_FEEDS)
            ends = self._takes("]")
            if not ends and not self._takes(","):
                raise json.JSONDecodeError("Expecting ',' or ']'", self._text, self._at)
        if not members and self._next():
            raise json.JSONDecodeError("Extra data", self._text, self._at)

    def _enter(self, member: str) -> None:
        """Go to the value of a member of an object."""
        if self._takes("{"):
            while self._next() == '"':
                named = json.loads(self._value())
                if not self._takes(":"):
                    raise json.JSONDecodeError("Expecting ':'", self._text, self._at)
                if named == member:
                    return
                self._value()
                self._takes(",")
        raise ContractError(f"{self._name} has no member {member} where records names one")

    def _next(self) -> str:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _takes(self, sign: str) -> bool:
        """Go on behind a sign, if the sign comes next."""
        taken = self._next() == sign
        self._at += taken
        return taken

    def _value(self) -> str:
        """Return the text of the next value, and go on behind the value."""
        self._next()
        begin = self._at
        _, self._at = _DECODER.raw_decode(self._text, begin)
        return self._text[begin : self._at]
