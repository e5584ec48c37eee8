"""Refusals: notes in the lake on refused partitions, to suppress repeated requests.

A note says what was refused by which code and declaration: a request with other data, other code, other columns or
gates is another one, and so is one after a change of the stored table's columns or properties, or of a reference.
Losing a note costs one more run, which is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from urllib.parse import quote, unquote

from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.results import LetterReason
from dedp_assets.patterns.core.running.digests import digest_of
from dedp_assets.patterns.delta import Ledger, Store

__all__ = ["Refusal", "Refusals", "judged_by"]

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
        letters: the most frequent reasons of dead letters among the refused rows.
        stage: folder with the refused rows; empty if none were written.
        judged_by: digest of what refused it besides the code (:func:`judged_by`); empty if unknown.
    """

    goals: tuple[str, ...]
    code_version: str
    run_id: str
    reason: str
    letters: tuple[LetterReason, ...] = ()
    stage: str = ""
    judged_by: str = ""

    def holds(self, code_version: str | None, judges: str) -> bool:
        """Return whether the partition was refused by the present code, columns and gates.

        Args:
            code_version: version of the present code.
            judges: digest of the present columns and gates.
        """
        return self.code_version == code_version and self.judged_by in ("", judges)

    @classmethod
    def from_json(cls, text: bytes) -> Refusal:
        """Read a note.

        Raises:
            ValueError, TypeError, KeyError: for a text that is no note of this release.
        """
        stated = {"letters": (), **dict(json.loads(text))}
        letters = tuple(LetterReason(**each) for each in stated["letters"])
        return cls(**{**stated, "goals": tuple(stated["goals"]), "letters": letters})


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
                    found[_key(name)] = Refusal.from_json(self.store.read(name))
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


def judged_by(declaration: str, written: Iterable[Ledger], references: Iterable[Ledger] = ()) -> str:
    """Return the digest of a declaration, of stored columns and properties, and of versions of references.

    Args:
        declaration: digest of the declared columns and gates.
        written: logs of the tables that a run writes; one that cannot be read counts as no table.
        references: logs of the tables that rows are looked up in.
    """
    stored = [
        _of_log(ledger, lambda log: [dict(log.state().columns), dict(log.state().properties)]) for ledger in written
    ]
    return digest_of(declaration, stored, [_of_log(ledger, lambda log: log.version()) for ledger in references])


def _of_log(ledger: Ledger, fact: Callable[[Ledger], object]) -> object:
    with suppress(PatternError):
        return fact(ledger) if ledger.exists() else None
    return None


def _path(key: str) -> str:
    # A name that begins with a dot is a draft of the store.
    return (quote(key, safe="").replace(".", "%2E") or _WHOLE) + _SUFFIX


def _key(name: str) -> str:
    stem = name.removesuffix(_SUFFIX)
    return "" if stem == _WHOLE else unquote(stem)
