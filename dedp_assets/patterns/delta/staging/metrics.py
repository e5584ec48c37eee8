"""Metrics of a stage: aggregates observed in the pass over the rows, and the account of the rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.measuring.observing import Watch
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.results import Finding, RowCounts
from dedp_assets.patterns.core.rows import Tally

__all__ = ["OTHERS", "Account", "Balance", "Measuring", "RowMetrics"]

OTHERS = f"{RESERVED}others"
"""Figure: the number of rows that were written and only counted."""

_COUNT = {OTHERS: "count(1)"}


@dataclass(frozen=True)
class Measuring:
    """Measures of one pass over rows, and the selection of the rows to write.

    Attributes:
        measures: name -> SQL aggregate that cannot fail, observed in the pass.
        asked: name -> SQL aggregate of audits and of a tally, observed in the pass unless it has failed there.
        landed: part of a split, ``None`` for plain rows -> the measures that add up to the rows of its files.
        hashes: column -> SQL over the rows, computed once a row however many measures name it; not written.
        aside: further columns of plain rows, for the measures and ``where``; they are not written.
        where: SQL predicate of the plain rows that are written; all of them, if empty.
        others: further rows of the table, which are written and nothing but counted, under :data:`OTHERS`: to measure
            more of a row costs as much as to read it.
        in_one_task: whether one task writes everything, into one file.
        apart: whether nothing that is asked is in the pass, because the job has failed on it, or lost figures.
    """

    measures: Mapping[str, str]
    asked: Mapping[str, str] = field(default_factory=dict)
    landed: Mapping[str | None, Collection[str]] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    where: str = ""
    others: DataFrame | None = None
    in_one_task: bool = False
    apart: bool = False

    @cached_property
    def watch(self) -> Watch:
        """The observation of the rows."""
        return Watch(self.measures, self.asked, self.apart)

    @cached_property
    def counted(self) -> Watch:
        """The observation that counts the other rows."""
        return Watch(_COUNT)

    def along(self, tally: Tally | None) -> Measuring:
        """Add the measures of ``tally`` to the pass, if the tally is taken in the same pass."""
        if tally is None or not tally.along:
            return self
        return replace(
            self,
            measures={**self.measures, **tally.own},
            asked={**self.asked, **tally.asked},
            aside=tuple(tally.rows.columns),
            where=tally.kept,
        )

    def again(self) -> Measuring:
        """Return a copy that computes the aggregates of audits and tally in separate passes."""
        return replace(self, apart=True)

    def written(self, measured: DataFrame) -> DataFrame:
        """Select the plain rows to write; lazy."""
        rows = measured.filter(self.where) if self.where else measured
        if self.others is not None:
            rows = rows.unionByName(self.counted.on(self.others), allowMissingColumns=True)
        return rows.coalesce(1) if self.in_one_task else rows

    def figures(self, rows: DataFrame, held: Mapping[str | None, int]) -> dict[str, Any] | None:
        """Wait for the job that writes the rows, and return the observed figures.

        Args:
            rows: what was observed.
            held: staged part -> number of rows in its files.

        Returns:
            The figures, of exactly as many rows as the files hold; ``None`` if figures of some of the rows are lost.

        Raises:
            ContractError: if what was asked can neither be observed nor computed of the same rows.
        """
        others = {OTHERS: 0} if self.others is None else self.counted.figures(self.others)
        observed = self.watch.observed()
        if not observed and sum(held.values()) != others[OTHERS]:
            return None
        found = {**self.watch.completed(rows, observed), **others}
        if any(sum(found[name] for name in self.landed[part]) != count for part, count in held.items()):
            return None
        return found


@dataclass(frozen=True, slots=True)
class RowMetrics:
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
        """Mapping of split parts to the row outcomes in each part's files.

        The key of unsplit rows is ``None``; an empty mapping stands for files with the kept rows alone.
        """

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

    def account(self, measured: RowMetrics) -> Account:
        """Add up the measured outcomes into an account."""
