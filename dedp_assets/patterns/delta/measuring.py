"""Measuring: what the one pass that stages rows measures of them, and which of the rows it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from dedp_assets.patterns.core.rows import Tally

__all__ = ["Measuring"]


@dataclass(frozen=True, slots=True)
class Measuring:
    """The measures of one pass over rows.

    Attributes:
        measures: name -> SQL aggregate, observed in the pass.
        hashes: column -> SQL over the rows, computed once a row however many measures name it; not written.
        aside: further columns of plain rows, for the measures and ``where``; they are not written.
        where: SQL predicate of the plain rows that are written; all of them, if empty.
        seen: the observation.
    """

    measures: Mapping[str, str]
    hashes: Mapping[str, str] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    where: str = ""
    seen: Observation = field(default_factory=Observation)

    @classmethod
    def along(cls, tally: Tally | None, measures: Mapping[str, str], hashes: Mapping[str, str]) -> Measuring:
        """Take a tally in the same pass, if there is one for it."""
        if tally is None or not tally.along:
            return cls(measures, hashes)
        return cls({**measures, **tally.aggregates}, hashes, tuple(tally.rows.columns), tally.kept, tally.seen)

    @property
    def hashed(self) -> list[Column]:
        """The columns of the hashes."""
        return [F.expr(sql).alias(name) for name, sql in self.hashes.items()]

    def observe(self, rows: DataFrame) -> DataFrame:
        """Observe the measures in the pass over the rows."""
        return rows.observe(self.seen, *[F.expr(sql).alias(name) for name, sql in self.measures.items()])
