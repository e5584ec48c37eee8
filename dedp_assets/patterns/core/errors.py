"""The errors a pattern may raise.

::

    PatternError
    ├── ConfigError      these arguments can never work: fix the call
    ├── Denied           a policy gives this identity no access: ask for it
    ├── ContractError    the data breaks a stated contract: publish nothing, do not retry
    │   ├── SchemaMismatch
    │   ├── AmbiguousKeys
    │   ├── TransactionReused
    │   └── AuditFailed
    ├── NotReady         upstream is not there yet: retry later, or skip
    └── Conflict         another writer was first: run the whole step again

``retryable`` says which of them a second attempt can mend without a human. Of the errors of others, :data:`TRANSIENT`
may pass by themselves. What becomes of a failure:

==============================  ================================  ====================================================
What fails                      How it is known                   What is done
==============================  ================================  ====================================================
something outside, for a while  an error of :data:`TRANSIENT`     the write fails whole; its step is tried again
something is not there yet      :class:`NotReady`                 the write fails whole; asked again when it is there
a record, for ever              by its value, never by an error   the record is a dead letter, the others go on
too many records                an audit (:class:`AuditFailed`)   nothing is published, and no retry helps
the call, or code               :class:`ConfigError`, any other   the write fails whole: fix it
==============================  ================================  ====================================================

No error is ever caught to make a dead letter of the record at hand: it may pass, or is not the record's fault.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dedp_assets.patterns.core.results import Finding, LetterReason

__all__ = [
    "AmbiguousKeys",
    "AuditFailed",
    "ConfigError",
    "Conflict",
    "ContractError",
    "Denied",
    "NotReady",
    "PatternError",
    "SchemaMismatch",
    "TransactionReused",
    "chained_text",
    "error_line",
    "printable",
]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Escape control, reordering and unprintable characters of a text for a terminal or a log.

    A name in a file or the answer of a server may hold any of them.

    Example:
        >>> printable("a\x1b[31mb\x00")
        'a\\x1b[31mb\\x00'
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PatternError(Exception):
    """The base of all library errors; the text states the fault, the place and the remedy."""

    retryable = False

    def __str__(self) -> str:
        return printable(super().__str__())


class ConfigError(PatternError, ValueError):
    """Invalid arguments."""


class Denied(PatternError):
    """Access that no policy or grant allows; nothing was read."""


class ContractError(PatternError):
    """Data that breaks a stated contract; nothing is published."""


class SchemaMismatch(ContractError):
    """Columns that are missing, unknown, or of another type than the table declares."""


class AmbiguousKeys(ContractError):
    """Keys with NULL or repetitions that must identify a single row."""


class TransactionReused(ContractError):
    """An already applied transaction id that came back with other rows."""


class AuditFailed(ContractError):
    """Rows refused by an audit before the publish.

    Attributes:
        findings: every audit of the attempt, passed or not, with its figures.
        stage: folder with the refused rows, readable as a Delta table, or ``None`` if none were written.
        letters: the most frequent reasons of the dead letters among the refused rows.
    """

    def __init__(
        self,
        message: str,
        *,
        findings: Sequence[Finding],
        stage: str | None = None,
        letters: Sequence[LetterReason] = (),
    ) -> None:
        super().__init__(message)
        self.findings = tuple(findings)
        self.stage = stage
        self.letters = tuple(letters)


class NotReady(PatternError):
    """A missing prerequisite of a step; retryable."""

    retryable = True


class Conflict(PatternError):
    """A commit by another writer in the meantime; retryable by running the whole step again."""

    retryable = True


def error_line(error: BaseException) -> str:
    """Return an error as one line: the text of a library error, type and first line of another.

    Example:
        >>> error_line(NotReady("silver/x does not exist yet")), error_line(KeyError("day"))
        ('silver/x does not exist yet', "KeyError: 'day'")
    """
    first = printable(str(error)).strip().partition("\n")[0]
    return first if first and isinstance(error, PatternError) else f"{type(error).__name__}: {first}".removesuffix(": ")


def chained_text(error: BaseException) -> str:
    """Return kinds and texts of an error and of the causes, which may hold secrets.

    Example:
        >>> try:
        ...     raise KeyError("day") from OSError("no disk")
        ... except KeyError as error:
        ...     chained_text(error)
        "KeyError: 'day'; caused by OSError: no disk"
    """
    texts, seen = [], set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        texts.append(f"{type(each).__name__}: {each}")
        each = each.__cause__ or each.__context__
    return "; caused by ".join(texts)


TRANSIENT = (Conflict, TimeoutError, ConnectionError)
"""Errors that may pass by themselves: the step that raises one is tried again, with a pause that doubles."""
