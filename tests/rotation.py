"""Ways of a contract in rotation: a run tries one for each case, and another one once the library is changed.

What differs between the ways seldom depends on the case, and all ways of all cases would take twice as long.
`make fuzz` tries all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from hypothesis import settings

import dedp_assets.patterns

Way = TypeVar("Way")


def rotated(number: int, ways: Sequence[Way]) -> Sequence[Way]:
    """The way whose turn it is for the case of a number, or all ways in `make fuzz`."""
    if settings.get_current_profile_name() == "fuzz":
        return ways
    return [ways[(number + _changes()) % len(ways)]]


@lru_cache(maxsize=1)
def _changes() -> int:
    """A number of the library's text, which every change of it gives another one."""
    sources = sorted(Path(dedp_assets.patterns.__file__).parent.rglob("*.py"))
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))
