"""Row accounting of a stage: the measured figures, the account, and the rule of a balance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from dedp_assets.patterns.core.results import Finding, RowCounts

__all__ = ["Account", "Balance", "Measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """The numbers of one pass over rows, in rows where nothing else is said.

    Attributes:
        rows: all that it saw.
        kept: those that rules and audits are about.
        parts: outcome -> those that have it.
        content: order-free digest of the content of the kept ones.
        identity: order-free digest of what identifies each of the rows; ``None`` if nothing does.
        outside: kept ones outside of the partition that the write owns.
        repeated: kept ones without the key that the table declares, or with that of another one.
        broken: constraint -> kept ones that break it, if there are any.
        audited: figure of an audit -> what was measured for it, ``None`` if it could not be.
        observed: everything that was measured, by the names it was measured under.
        staged: those in the files that the pass wrote, by the files.
        replaced: those in the files that the written ones take the place of, by the log; ``None`` if it does not say.
    """

    rows: int = 0
    kept: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)
    content: str = ""
    identity: str | None = None
    outside: int = 0
    repeated: int = 0
    broken: Mapping[str, int] = field(default_factory=dict)
    audited: Mapping[str, Any] = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)
    staged: int = 0
    replaced: int | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The outcomes of a write's rows, added up.

    Attributes:
        counts: the row accounting.
        finding: whether every row is accounted for.
        figures: numbers for the ledger, by name.
        aside: further numbers for audits, which the ledger does not keep.
        content: tells the rows from others.
        metrics: what the table's history says of the rows, under Delta's names.
        inputs: verdicts on the input, which count in the verdict on the write.
    """

    counts: RowCounts
    finding: Finding
    figures: Mapping[str, Any]
    aside: Mapping[str, Any] = field(default_factory=dict)
    content: str = ""
    metrics: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[Finding, ...] = ()


class Balance(Protocol):
    """A way to account for the rows of a write."""

    @property
    def kept(self) -> str:
        """SQL predicate of the rows that rules and audits are about."""

    @property
    def outcomes(self) -> Collection[str]:
        """The outcomes that rows can have; none, if they all have the same."""

    @property
    def landed(self) -> Mapping[str | None, Collection[str]]:
        """Part of a split, ``None`` for plain rows -> the outcomes of the rows in its files; none: the kept rows."""

    @property
    def others(self) -> str:
        """Names the rows that an aggregate over the pass measures beside the kept ones; may be empty."""

    @property
    def known(self) -> Collection[str]:
        """Figures that are known without an audit that measures them."""

    @property
    def content(self) -> str:
        """SQL of a hash of a row's content; empty if nobody asks for a digest."""

    @property
    def identity(self) -> str:
        """SQL of a hash of what identifies a row; empty if nothing does."""

    def account(self, measured: Measured) -> Account:
        """Add up what was measured."""
