"""Refusals: notes in the lake on refused partitions, to suppress repeated requests.

A note says what was refused by which code: a request with other data or other code is another one. Losing a note costs
one more run, which is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from urllib.parse import quote, unquote

from dedp_assets.patterns.delta import Store

__all__ = ["Refusal", "Refusals"]

_SUFFIX = ".json"
_NANOSECONDS = 1e9
_WHOLE = "%"
"""Stands for the whole table: no escaped key consists of this sign."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused partition.

    Attributes:
        goals: what was refused: the upstream version, or the identity of the delivery.
        code_version: version of the code that refused it.
        run_id: the run that refused it.
        reason: a sentence, with what a person can do.
    """

    goals: tuple[str, ...]
    code_version: str
    run_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refusals:
    """The refusal notes of one table."""

    store: Store

    def note(self, key: str, refusal: Refusal) -> None:
        """Write the refusal of the partition with this key (the whole table, if empty)."""
        self.store.put(_path(key), json.dumps(asdict(refusal)).encode())

    def clear(self, key: str) -> None:
        """Remove a partition's refusal, if any."""
        self.store.delete(_path(key))

    def by_key(self) -> Mapping[str, Refusal]:
        """Read the refusals by partition key, without unreadable notes."""
        found = {}
        for name in self.store.list():
            if name.endswith(_SUFFIX) and not name.startswith("."):
                with suppress(OSError, ValueError, TypeError, KeyError):
                    fields = json.loads(self.store.read(name))
                    found[_key(name)] = Refusal(**{**fields, "goals": tuple(fields["goals"])})
        return found

    def times(self) -> Mapping[str, datetime]:
        """Return the time of each note by partition key: the time of the partition's last refusal."""
        found = {}
        for name in self.store.list():
            if name.endswith(_SUFFIX) and not name.startswith("."):
                with suppress(OSError):
                    written = self.store.entry(name).modified_ns / _NANOSECONDS
                    found[_key(name)] = datetime.fromtimestamp(written, timezone.utc)
        return found


def _path(key: str) -> str:
    # A name that begins with a dot is a draft of the store.
    return (quote(key, safe="").replace(".", "%2E") or _WHOLE) + _SUFFIX


def _key(name: str) -> str:
    stem = name.removesuffix(_SUFFIX)
    return "" if stem == _WHOLE else unquote(stem)
