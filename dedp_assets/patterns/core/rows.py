"""Small questions about rows that several patterns ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Finding, Split

__all__ = [
    "Reading",
    "Tally",
    "digest",
    "evaluated_once",
    "observed",
    "quoted",
    "require_columns",
    "require_rows",
    "row_hash",
    "tally",
]


def row_hash(columns: Sequence[str]) -> str:
    """SQL for a 64-bit hash of the named columns, the same in whatever order they are named.

    The hash function passes over NULLs, so where they are is hashed too.
    """
    return f"xxhash64({', '.join(f'`{c}`, `{c}` IS NULL' for c in sorted(columns))})"


def digest(row: str, *, where: str = "true") -> str:
    """SQL aggregate: an order-free digest of the hashes ``row`` of the rows where the predicate holds.

    XOR alone would not see a row that is there twice; the sum of the lower halves does.
    """
    counted = row if where == "true" else f"if({where}, {row}, 0L)"
    return f"concat_ws('.', bit_xor({counted}), sum({counted} & 4294967295L))"


def quoted(text: str) -> str:
    """``text`` as an SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def require_rows(what: str, rows: object) -> DataFrame:
    """Give the frame of ``rows``, or refuse what is no batch of Spark, before anything is done for it.

    Raises:
        ConfigError: for a stream, a pandas frame, or whatever else is given instead of rows.
    """
    frame = rows.rows if isinstance(rows, Split) else rows
    if not isinstance(frame, DataFrame):
        kind = f"{type(rows).__module__.partition('.')[0]} {type(rows).__name__}"
        raise ConfigError(f"{what} takes a Spark DataFrame, not a {kind}: session.createDataFrame makes one of it")
    if frame.isStreaming:
        raise ConfigError(f"{what} takes a batch, and was given a stream: hand its batches over by foreachBatch")
    return frame


def require_columns(rows: DataFrame, columns: Iterable[str | None]) -> None:
    """Refuse options that name columns the rows do not have.

    Raises:
        ConfigError: names the missing columns and the ones there are.
    """
    if not isinstance(rows, DataFrame):
        require_rows("this pattern", rows)
    missing = [c for c in columns if c and c not in rows.columns]
    if missing:
        raise ConfigError(f"the rows have no column {', '.join(missing)}; they have {', '.join(rows.columns)}")


@contextmanager
def evaluated_once(rows: DataFrame) -> Iterator[DataFrame]:
    """``rows``, computed the first time they are asked for and kept until the block ends."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def observed(seen: Observation, rows: DataFrame, measures: Mapping[str, str]) -> dict[str, Any]:
    """The figures that ``seen`` observed of ``rows``; waits for the job that it is part of.

    Where Spark finds that nothing can come of a part of a query, by its text or while it runs, it leaves that part out,
    and what was to be observed there is missing. Then the rows are counted in a pass of their own.
    """
    try:
        found = dict(seen.get)
    except Py4JError:
        # An embedded session cannot hand over that nothing was observed.
        found = {}
    if found.keys() >= measures.keys():
        return found
    return rows.agg(*_aggregates(measures)).collect()[0].asDict()


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows a step read, and which: observed where they are read, mostly without a pass of its own.

    Attributes:
        identity: columns that identify one row.
    """

    identity: tuple[str, ...]
    rows: DataFrame = field(repr=False)
    measures: Mapping[str, str] = field(repr=False)
    seen: Observation = field(default_factory=Observation, repr=False)

    def figures(self) -> dict[str, Any]:
        """``read`` in rows, ``read_identity`` (an order-free digest of the identities) and the further measures.

        Waits for the job that reads the rows; ask only after a write of theirs.
        """
        return observed(self.seen, self.rows, self.measures)


def tally(
    rows: DataFrame, *, identity: Sequence[str], measures: Mapping[str, str] | None = None
) -> tuple[DataFrame, Tally]:
    """The same rows, counted and fingerprinted where they are read.

    The caller writes the returned rows and hands the tally to the write, which compares it with what it accounted for.

    Args:
        rows: what a step reads.
        identity: columns that identify one row.
        measures: further figures to observe here, name -> SQL aggregate.
    """
    found = {"read": "count(1)", "read_identity": digest(row_hash(identity)), **(measures or {})}
    counter = Tally(tuple(identity), rows, found)
    return rows.observe(counter.seen, *_aggregates(found)), counter


def _aggregates(measures: Mapping[str, str]) -> list[Column]:
    return [F.expr(sql).alias(name) for name, sql in measures.items()]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a step knows about the rows it read.

    Attributes:
        tally: counts them where they are read; without one, the rows given to a write are the rows read.
        figures: numbers known from elsewhere, for audits to judge or to divide by (``read`` among them).
        represented: figure that says how many of the rows read the written ones stand for (aggregates).
        findings: verdicts on the input, reached before anything was computed.
    """

    tally: Tally | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    represented: str = ""
    findings: tuple[Finding, ...] = ()
