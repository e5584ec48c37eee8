"""Row accounting of a stage: the measured figures, the account, and the rule of a balance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from dedp_assets.patterns.core.results import Finding, RowCounts

__all__ = ["Account", "Balance", "Measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Numbers from one pass over rows; counts of rows unless stated otherwise.

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
    """Row accounting of a write: outcomes, digests, and the check of the sums."""

    @property
    def kept(self) -> str:
        """SQL predicate of the rows that rules and audits are about."""

    @property
    def outcomes(self) -> Collection[str]:
        """Possible outcomes of rows; empty if all rows have the same outcome."""

    @property
    def landed(self) -> Mapping[str | None, Collection[str]]:
        """Part of a split, ``None`` for plain rows -> outcomes in the part's files; empty: the kept rows."""

    @property
    def others(self) -> str:
        """Name of the rows that an aggregate measures in addition to the kept rows; may be empty."""

    @property
    def known(self) -> Collection[str]:
        """Figures known without a measuring audit."""

    @property
    def content(self) -> str:
        """SQL of the hash of a row's content; empty without a digest."""

    @property
    def identity(self) -> str:
        """SQL of the hash of a row's identity; empty without an identity."""

    def account(self, measured: Measured) -> Account:
        """Add up the measured outcomes into an account."""
