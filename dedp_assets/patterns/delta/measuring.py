"""Measuring: what the one pass that stages rows measures of them, and which of the rows it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.rows import Tally, observed

__all__ = ["OTHERS", "Measuring"]

OTHERS = f"{RESERVED}others"
"""Figure: the number of rows that were written and only counted."""

_COUNT = "count(1)"


@dataclass(frozen=True, slots=True)
class Measuring:
    """The measures of one pass over rows, and the choice of the rows that it writes.

    Attributes:
        measures: name -> SQL aggregate, observed in the pass.
        hashes: column -> SQL over the rows, computed once a row however many measures name it; not written.
        aside: further columns of plain rows, for the measures and ``where``; they are not written.
        where: SQL predicate of the plain rows that are written; all of them, if empty.
        others: further rows of the table, which are written and nothing but counted, under :data:`OTHERS`: to measure
            more of a row costs as much as to read it.
        in_one_task: whether one task writes everything, into one file.
        seen: the observation.
        counted: the number of the others.
    """

    measures: Mapping[str, str]
    hashes: Mapping[str, str] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    where: str = ""
    others: DataFrame | None = None
    in_one_task: bool = False
    seen: Observation = field(default_factory=Observation, repr=False)
    counted: Observation = field(default_factory=Observation, repr=False)

    @classmethod
    def along(cls, tally: Tally | None, measures: Mapping[str, str], hashes: Mapping[str, str]) -> Measuring:
        """Take a tally in the same pass, if there is one for it."""
        if tally is None or not tally.along:
            return cls(measures, hashes)
        return cls({**measures, **tally.aggregates}, hashes, tuple(tally.rows.columns), tally.kept, seen=tally.seen)

    @property
    def hashed(self) -> list[Column]:
        """The columns of the hashes."""
        return [F.expr(sql).alias(name) for name, sql in self.hashes.items()]

    def observe(self, rows: DataFrame) -> DataFrame:
        """Observe the measures in the pass over the rows."""
        return rows.observe(self.seen, *[F.expr(sql).alias(name) for name, sql in self.measures.items()])

    def written(self, measured: DataFrame) -> DataFrame:
        """Select the plain rows to write; lazy."""
        rows = measured.filter(self.where) if self.where else measured
        if self.others is not None:
            others = self.others.observe(self.counted, F.expr(_COUNT).alias(OTHERS))
            rows = rows.unionByName(others, allowMissingColumns=True)
        return rows.coalesce(1) if self.in_one_task else rows

    def figures(self, rows: DataFrame) -> dict[str, Any]:
        """Read what was observed of the rows; waits for the job that writes them."""
        others = {} if self.others is None else observed(self.counted, self.others, {OTHERS: _COUNT})
        return {**observed(self.seen, rows, self.measures), **others}
