"""Strict JSON (RFC 8259): the only parser of foreign JSON, and a writer that keeps numbers as given.

Python's own parser takes more than JSON and tells less: NaN and infinities, the last of equal members, halves of
surrogate pairs, and numbers without the digits that a float does not hold. Here all readers of a text read the same,
or the text is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

__all__ = [
    "Fraction",
    "HalfCharacter",
    "Number",
    "RepeatedMember",
    "Repeating",
    "Whole",
    "depth_of",
    "parse_json",
    "written",
]

Numbers = Literal["values", "texts", "marked"]
"""Form of numbers in a parsed value."""


class Number(str):
    """Text of a JSON number, as written."""

    __slots__ = ()


class Whole(Number):
    """Text of a JSON number without a fraction and an exponent."""

    __slots__ = ()


class Fraction(Number):
    """Text of a JSON number with a fraction or an exponent."""

    __slots__ = ()


class Repeating(dict[str, Any]):
    """JSON object with repeated members, of which the last one counts.

    Attributes:
        twice: names of the repeated members, sorted.
    """

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = sorted(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)


class RepeatedMember(ValueError):
    """Error for an object with two members of one name."""


class HalfCharacter(ValueError):
    """Error for half of a surrogate pair, which no encoding can store."""


def parse_json(text: str | bytes, *, numbers: Numbers = "values", repeated: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Parse one JSON value.

    Args:
        text: the text, or its bytes in UTF-8.
        numbers: what a number becomes: ``int`` or ``float`` (``values``), its text (``texts``), or its text as a
            :class:`Whole` or :class:`Fraction`, told from a string (``marked``).
        repeated: whether an object with repeated members is a :class:`Repeating` instead of an error.

    Raises:
        ValueError: for any other text or bytes, repeated members, half of a character, a value that is nested too
            deep, a number that is none of JSON, or among ``values`` one that no ``float`` can hold.

    Example:
        >>> parse_json('{"price": 1.50}'), parse_json('{"price": 1.50}', numbers="texts")
        ({'price': 1.5}, {'price': '1.50'})
    """
    stated = (text.decode("utf-8-sig") if isinstance(text, bytes) else text).strip(_BLANKS)
    try:
        # The scanner itself: twice as fast as the decoder around it, which looks for blanks by regular expressions.
        found, end = _SCANNERS[numbers, repeated](stated, 0)
        if "\\u" in stated or not stated.isascii():
            json.dumps([stated, found], ensure_ascii=False).encode()
    except StopIteration as error:
        raise json.JSONDecodeError("Expecting value", stated, error.value) from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except UnicodeEncodeError:
        raise HalfCharacter("half of a character") from None
    if end < len(stated):
        raise json.JSONDecodeError("Extra data", stated, end)
    if stated.count("[") + stated.count("{") > _DEEPEST < depth_of(found):
        raise ValueError("it is nested too deep")
    return found


def depth_of(value: object) -> int:
    """Return the number of levels of a JSON value, without recursion."""
    level, depth = [value], 0
    while level:
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list))]
        level, depth = [v for values in inner for v in values], depth + 1
    return depth


def written(value: Any) -> str:  # noqa: ANN401 - JSON
    """Write a value of :func:`parse_json` as JSON without blanks, and each :class:`Number` unchanged.

    Example:
        >>> written(parse_json('{"a": [1.50, "ü"]}', numbers="marked"))
        '{"a":[1.50,"ü"]}'
    """
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = zip(map(_text, value), map(written, value.values()), strict=True)
        return f"{{{','.join(map(':'.join, members))}}}"
    return f"[{','.join(map(written, value))}]" if isinstance(value, list) else _text(value)


_BLANKS = " \t\n\r"
_DEEPEST = 400
"""Greatest number of levels: what is parsed can be written by a function that calls itself."""
_text = json.JSONEncoder(ensure_ascii=False).encode


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RepeatedMember(f"a key is there twice: {Repeating(pairs).twice[0]!r}")
    return found


def _all_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeating(pairs)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value) or (not value and re.match("[-0.]*[1-9]", text)):
        raise ValueError("a number is out of range")
    return value


_READERS: Mapping[str, tuple[Callable[[str], Any], Callable[[str], Any]]] = {
    "values": (int, _float),
    "texts": (str, str),
    "marked": (Whole, Fraction),
}


def _scanner(numbers: Numbers, repeated: bool) -> Callable[[str, int], tuple[Any, int]]:  # noqa: FBT001 - a key
    whole, fraction = _READERS[numbers]
    hook = _all_members if repeated else _members
    made: Any = json.JSONDecoder(
        object_pairs_hook=hook, parse_int=whole, parse_float=fraction, parse_constant=_no_number
    )
    found: Callable[[str, int], tuple[Any, int]] = made.scan_once
    return found


_SCANNERS = {(one, other): _scanner(one, other) for one in get_args(Numbers) for other in (False, True)}
