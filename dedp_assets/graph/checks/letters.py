"""Counts of the dead letters of all tables by status and error class, from the tables' logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.graph.declare.validation import LETTER_STATUSES
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.error_management._letters import LETTER, open_by_class

__all__ = ["LetterCount", "count_letters", "refused_letters", "taken"]

_UNTOLD = "unknown"


@dataclass(frozen=True, slots=True)
class LetterCount:
    """The number of a table's dead letters with the same status and, if open, the same error class.

    Attributes:
        table: the table of letters.
        status: ``open``, ``replayed``, ``given_up``, or ``unknown`` where the log was cleaned up.
        error_class: what is wrong with open ones; empty for the others.
        letters: how many.
        partitions: over how many partitions.
        oldest: when the oldest open letter of these partitions was refused first.
    """

    table: str
    status: str
    error_class: str
    letters: int
    partitions: int
    oldest: datetime | None = None


def count_letters(lake: Lake, errors: TableErrors) -> Iterator[LetterCount]:
    """Count the dead letters of all tables from the newest commit of each partition, without a scan.

    Args:
        lake: the tables.
        errors: takes the error of each table whose log cannot be read.
    """
    for name in lake.names():
        with errors.at(name):
            ledger = lake.ledger(name)
            if set(LETTER) <= set(ledger.state().columns):
                yield from list(_of_table(ledger))


def refused_letters(lake: Lake) -> Iterator[tuple[str, str, Refusal]]:
    """Yield table, partition key and note of each refused partition with dead letters, by table and key."""
    for name in lake.refusing():
        for key, note in sorted(Refusals(lake.refused(name)).by_key().items()):
            if note.letters:
                yield name, key, note


def _of_table(ledger: Ledger) -> Iterator[LetterCount]:
    found: dict[tuple[str, str], list[tuple[int, float | None]]] = {}
    for figures in _newest(ledger):
        oldest = figures.get("oldest")
        for error_class, count in open_by_class(figures).items():
            found.setdefault(("open", error_class), []).append((count, oldest))
        for status in (*LETTER_STATUSES[1:], _UNTOLD):
            if count := int(figures.get(status) or 0):
                found.setdefault((status, ""), []).append((count, None))
    for (status, error_class), counts in sorted(found.items()):
        times = [at for _, at in counts if at is not None]
        oldest = datetime.fromtimestamp(min(times), timezone.utc) if times else None
        yield LetterCount(ledger.name, status, error_class, sum(n for n, _ in counts), len(counts), oldest)


def _newest(ledger: Ledger) -> Iterator[Mapping[str, Any]]:
    """Read the figures of the newest commit of each partition whose letter count equals the rows held now.

    After a restore that is an older one. Of letters that a stream appended it takes all commits.
    """
    held = {partition: stats.rows for partition, stats in ledger.state().statistics().items() if stats.rows}
    appended: list[Mapping[str, Any]] = []
    for commit in ledger.newest_first():
        record = commit.record
        key = tuple(sorted(record.partition.items())) if record else ()
        if record and held.get(key) == _letters_in(record.figures):
            del held[key]
            yield record.figures
        elif record and not record.partition:
            appended.append(record.figures)
        if sum(map(_letters_in, appended)) == sum(held.values()):
            yield from appended
            return
    yield from ({_UNTOLD: rows} for rows in held.values())


def _letters_in(figures: Mapping[str, Any]) -> int:
    return sum(int(figures.get(status) or 0) for status in LETTER_STATUSES)


def taken(records: DataFrame | Split, *, rest: TableSpec, where: str = "") -> DataFrame:
    """Return the usable records, where the table ``rest`` holds all other records; lazy.

    No table of the graph leaves out records in another way, unless it counts them.

    Args:
        records: a split, of which the valid part is taken, or rows.
        rest: table that holds the records which are not taken, letters or rows.
        where: SQL predicate of the rows to take.

    Raises:
        ConfigError: if ``rest`` is no declaration.
    """
    if not isinstance(rest, TableSpec):
        raise ConfigError(f"rest must be the declaration of a table, not {rest!r}")
    rows = records["valid"] if isinstance(records, Split) else records
    return rows.filter(where) if where else rows
