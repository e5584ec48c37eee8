"""Metrics of a stage: aggregates observed in the single pass over the rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.observing import Watch
from dedp_assets.patterns.core.rows import Tally

__all__ = ["OTHERS", "Measuring"]

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

    @property
    def hashed(self) -> list[Column]:
        """The columns of the hashes."""
        return [F.expr(sql).alias(name) for name, sql in self.hashes.items()]

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
