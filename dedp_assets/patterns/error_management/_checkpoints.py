"""Spark's checkpoint of a streaming query, read from files and compared with the target's log.

Spark plans a micro-batch (``offsets/<number>``), hands it to the sink and confirms it (``commits/<number>``). The
sink's commit stands between the two: a sound checkpoint has confirmed the table's newest micro-batch or the one before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.columns import COMPARED, require_columns
from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import RowsRead, row_hash, tally
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Insert, Ledger, Merge, Store, Table, transaction_id
from dedp_assets.patterns.error_management._letters import LETTER, MEASURES

__all__ = [
    "MICRO_BATCH",
    "STATE",
    "Applied",
    "MicroBatchWriter",
    "appended",
    "begin_anew",
    "contradiction",
    "last_applied",
]

MICRO_BATCH = "micro_batch"
"""Note of a commit that says which micro-batch it is."""

STATE = re.compile(
    r"STATE_STORE|MISSING_STATE|Error reading (delta|snapshot) file|ChecksumException|Incomplete log file"
)
"""What Spark says where it cannot go on from the state or the plan in a checkpoint."""


_PLACE = f"{RESERVED}place"


@dataclass(frozen=True, slots=True)
class Applied:
    """The newest micro-batch in a table.

    Attributes:
        query: Spark's id of the query, as its checkpoint has it; empty if the table was emptied for a new one.
        number: the micro-batch's, from 0; -1 before the first one.
        offsets: up to where it read each source.
    """

    query: str = ""
    number: int = -1
    offsets: tuple[str, ...] = ()

    @property
    def note(self) -> dict[str, object]:
        """The micro-batch as a note of the commit record."""
        return {"query": self.query, "number": self.number, "offsets": list(self.offsets)}


@dataclass(frozen=True, slots=True)
class MicroBatchWriter:
    """A writer of micro-batches, sent to the engine's machine under Spark Connect.

    Attributes:
        spec: of the table to append to.
        store: the table's.
        checkpoint: the query's.
        applied: number of the newest micro-batch in the table.
        base: the table's transaction version before the query's first micro-batch.
        provenance: who appends.
        audits: rules over each micro-batch.
        keys: columns by which a row is left out that the table has already; without them rows are appended.
    """

    spec: TableSpec
    store: Store
    checkpoint: Store
    applied: int
    base: int
    provenance: Provenance
    audits: Sequence[Audit]
    keys: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Append a micro-batch, unless applied before."""
        if number <= self.applied:
            rows.write.format("noop").mode("overwrite").save()  # a query's state is written as its rows are computed
            return
        batch = Applied(query_of(self.checkpoint), number, offsets_of(self.checkpoint, number))
        provenance = replace(
            self.provenance,
            inputs={f"stream/{batch.query}": {"batch": number, "offsets": list(batch.offsets)}},
            sequence=self.base + number + 1,
            notes={**self.provenance.notes, MICRO_BATCH: batch.note},
        )
        table = Table(self.spec, self.store, rows.sparkSession)
        if self.keys:
            _ = _inserted(rows, table, self.keys, provenance, self.audits)
            return
        since = table.ledger.version()
        last = last_applied(table.ledger)
        if last.number != number - 1 or last.query not in ("", batch.query):
            raise Conflict(
                f"{table.name} stands at micro-batch {last.number} of query {last.query or 'none'}, this is {number} "
                f"of {batch.query}: run it again"
            )
        rows, read = _counted(rows, table)
        staged = table.stage(rows, provenance=provenance, audits=self.audits, append=True, rows_read=read)
        staged.publish(after=self.base + number, since=since, held={})


def _counted(rows: DataFrame, table: Table) -> tuple[DataFrame, RowsRead]:
    """Add a tally by status and error class to rows of a letter table."""
    if not set(LETTER) <= set(table.spec.columns):
        return rows, RowsRead()
    known, seen = tally(rows, identity=rows.columns, measures=MEASURES)
    return known, RowsRead(tally=seen)


def begin_anew(table: Table, schema: StructType, provenance: Provenance, keys: Sequence[str]) -> None:
    """Commit the start of a new query to a table, and empty the table if ``keys`` is empty."""
    notes = {**provenance.notes, MICRO_BATCH: Applied().note}
    restart_run = replace(provenance, inputs={"restart": provenance.run_id}, sequence=None, replay=True, notes=notes)
    if keys:
        _ = _inserted(table.session.createDataFrame([], schema), table, keys, restart_run)
    else:
        table.clear(partition={}, provenance=restart_run)


def _inserted(
    rows: DataFrame, table: Table, keys: Sequence[str], provenance: Provenance, audits: Sequence[Audit] = ()
) -> WriteResult:
    return table.merge(
        _once(rows, keys),
        Merge(keys, [Insert()], unusable={f"no {key}": f"{identifier(key)} IS NULL" for key in keys}),
        provenance=replace(provenance, sequence=None),
        audits=audits,
    )


def _once(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Keep a single row for each key, chosen by content; rows with a NULL key are all kept.

    The next micro-batch leaves out a repeat in the same way.
    """
    require_columns(rows, keys, COMPARED)
    known = " AND ".join(f"{identifier(key)} IS NOT NULL" for key in keys)
    order = f"PARTITION BY {', '.join(map(identifier, keys))} ORDER BY {row_hash(rows.schema.fields)}"
    placed = rows.selectExpr("*", f"row_number() OVER ({order}) AS {_PLACE}")
    return placed.filter(f"{_PLACE} = 1 OR NOT ({known})").drop(_PLACE)


def last_applied(ledger: Ledger) -> Applied:
    """Return the newest micro-batch whose rows are in the table, with restores taken into account."""
    last = ledger.last(lambda commit: commit.record and MICRO_BATCH in commit.record.notes, past_restores=True)
    if last is None or last.record is None:
        return Applied()
    note = last.record.notes[MICRO_BATCH]
    return Applied(note["query"], note["number"], tuple(note["offsets"]))


def appended(ledger: Ledger) -> int:
    """Return the transaction version of the last append to a table; 0 before the first append."""
    cursors = ledger.transactions()
    return cursors.transaction(transaction_id(ledger.name, {}, cursors.generation(ledger.name), "appends")) or 0


def query_of(checkpoint: Store) -> str:
    """Read the id of a checkpoint's streaming query.

    Raises:
        ValueError: if the file is damaged.
    """
    return str(json.loads(checkpoint.read("metadata"))["id"])


def offsets_of(checkpoint: Store, number: int) -> tuple[str, ...]:
    """Read the end offsets of a planned micro-batch, for each source.

    Raises:
        ValueError: if the file is damaged.
    """
    _, _, *sources = _lines(checkpoint, f"offsets/{number}")
    return tuple(sources)


def contradiction(applied: Applied, checkpoint: Store) -> str:
    """Return the reason why a query must not resume from a checkpoint; empty if allowed to."""
    try:
        if not checkpoint.exists("metadata"):
            lost = checkpoint.files() or applied.query
            return _LOST.format(number=applied.number) if lost else ""
        query, planned, confirmed = query_of(checkpoint), _newest(checkpoint, "offsets"), _newest(checkpoint, "commits")
        for folder, number in {"offsets": planned, "commits": confirmed}.items():
            _ = _lines(checkpoint, f"{folder}/{number}") if number >= 0 else []
        if query != applied.query:
            return _FOREIGN.format(query=query) if applied.query or confirmed >= 0 else ""
        if confirmed > applied.number:
            return _AHEAD.format(confirmed=confirmed, number=applied.number)
        behind = confirmed < applied.number - 1 or planned < applied.number
        if behind or (planned >= applied.number >= 0 and offsets_of(checkpoint, applied.number) != applied.offsets):
            return _BEHIND.format(confirmed=confirmed, number=applied.number)
    except (ValueError, KeyError, TypeError) as error:
        return _DAMAGED.format(error=error)
    return ""


_LOST = "is lost, while the table holds all up to micro-batch {number}: what comes next can no longer be told"
_FOREIGN = "is of another query ({query}): its positions say nothing about this table"
_AHEAD = (
    "is ahead: it confirmed micro-batch {confirmed}, and the table holds all up to {number}. Rows between them would "
    "be left out; the table was restored, or made anew"
)
_BEHIND = (
    "is behind: it confirmed micro-batch {confirmed}, and the table holds all up to {number}. Rows between them would "
    "come twice; it was put back from an old backup"
)
_DAMAGED = "is damaged: {error}"


def _newest(checkpoint: Store, folder: str) -> int:
    """Return the highest file number in a folder of the checkpoint; -1 without files."""
    return max((int(name) for name in checkpoint.list(folder) if name.isdigit()), default=-1)


def _lines(checkpoint: Store, path: str) -> list[str]:
    lines = checkpoint.read(path).decode().splitlines()
    if not lines or not lines[0].startswith("v"):
        raise ValueError(f"{path} is no file of a checkpoint")
    for line in lines[1:]:
        if line != "-" and not isinstance(json.loads(line), Mapping | int | list):
            raise ValueError(f"{path} holds {line[:40]!r}")
    return lines
