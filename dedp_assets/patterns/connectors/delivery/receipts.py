"""Receipts: a Delta table of acknowledged records, by which an interrupted delivery resumes.

Receipts are noted while a delivery runs and when it stops. Only the last commit of one that is complete carries the
transaction of its step, so a delivery that was interrupted does not count as done. What was acknowledged and not noted
when a process died is sent again: a sink that knows records by their id answers that it has them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dedp_assets.patterns.connectors.delivery import sinks
from dedp_assets.patterns.connectors.delivery.sinks import Outgoing, Sink
from dedp_assets.patterns.connectors.web.parts import sentence
from dedp_assets.patterns.core.columns import COMPARED, NAMED, require_columns, require_rows
from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.parsing.json_texts import EXACT, options
from dedp_assets.patterns.core.records import Provenance, slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, require_holds
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.delta import Insert, Merge, Target, held_types, require_merge_by_key, require_partition

__all__ = ["RECEIPT", "RecordDelivery", "outgoing"]

RECEIPT = {
    "destination": Column("STRING", "who it was delivered to", required=True),
    "record_id": Column("STRING", "identity of the record", required=True),
    "entity": Column("STRING", "whose records keep their order", required=True),
    "position": Column("STRING", "where the sink put it", required=True),
    "was_present": Column("BOOLEAN", "whether the sink had it already when it was sent", required=True),
}
"""The columns of a table of receipts, beside those that it is partitioned by."""
_KEYS = ("destination", "record_id")
_NOTED = 10_000
_SHOWN = 3


def outgoing(rows: DataFrame, columns: RecordColumns, *, destination: str, entity: str, unit: str = "") -> DataFrame:
    """Turn rows into records to send; lazy.

    Args:
        rows: one for each record.
        columns: the columns of a record; of equal places the identity decides, as its type is ordered.
        destination: SQL for where a record goes.
        entity: SQL for whose record it is.
        unit: column of what is delivered as a whole before the next; empty for all at once.

    Returns:
        ``destination``, ``unit``, ``record_id``, ``entity``, ``value`` (JSON) and ``place``, which orders the records.

    Raises:
        ConfigError: without an order, or for columns that are not there or cannot be used so.
    """
    identity, order_by, payload = columns.identity, columns.order_by, columns.payload
    require_columns(require_rows("a delivery", rows), [identity], NAMED)
    require_columns(rows, [unit, *order_by], COMPARED)
    require_columns(rows, payload)
    require_distinct("order_by=", order_by)
    require_distinct("payload=", payload)
    if not order_by:
        raise ConfigError("name the columns that order the records of an entity (order_by)")
    record_id, order = f"CAST({identifier(identity)} AS STRING)", [identifier(column) for column in order_by]
    fields = ", ".join(f"'{n}', {column}" for n, column in enumerate(order))
    missing = " OR ".join(f"{column} IS NULL" for column in order)
    return rows.selectExpr(
        f"CAST({destination} AS STRING) AS destination",
        f"{identifier(unit) if unit else 0} AS unit",
        f"{record_id} AS record_id",
        f"CAST({entity} AS STRING) AS entity",
        f"to_json(struct({', '.join(map(identifier, payload or rows.columns))}), {options(EXACT)}) AS value",
        f"if({missing}, NULL, named_struct({fields}, 'id', {identifier(identity)})) AS place",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """The columns of rows that make a record to send.

    Attributes:
        identity: column by which a destination tells records apart.
        order_by: columns that order the records of an entity; equal ones are ordered by ``identity``.
        entity: column that says whose records keep their order; empty for one order of all.
        payload: columns that are sent, as JSON; all, if none is named.
    """

    identity: str
    order_by: Sequence[str]
    entity: str = ""
    payload: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(slots=True)
class RecordDelivery:
    """A delivery of a partition's records, with the outcome of each record.

    Attributes:
        sink: who takes the records.
        into: target of the receipts of what was acknowledged; a table of :data:`RECEIPT`.
        retry: the attempts to send a record.
    """

    sink: Sink
    into: Target
    retry: Backoff
    _counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("accepted", "present", "requests"), 0))
    _pending: int = 0
    _sent_again: int = 0
    _began: float = field(default_factory=time.monotonic)
    _waiting: list[tuple[Any, ...]] = field(default_factory=list)
    _stopped: dict[str, str] = field(default_factory=dict)
    _held: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        if not isinstance(self.sink.limit, int):
            raise ConfigError(f"the limit of {self.sink.name} must be a number of records, not {self.sink.limit!r}")
        if self.sink.limit < 1:
            raise ConfigError(f"the limit of {self.sink.name} must be at least 1, not {self.sink.limit}")

    def undelivered(self, records: DataFrame) -> DataFrame:
        """Leave out the records that have a receipt; lazy.

        Raises:
            ConfigError: if the table of receipts could refuse those of this delivery: nothing is sent before.
            SchemaMismatch: if it has other columns.
        """
        state = self.into.table.ensure()
        self.into = replace(self.into, partition=require_partition(self.into.name, state, self.into.partition))
        require_holds(self.into.table.spec, RECEIPT, alone_with=self.into.partition)
        if rules := sorted(name for name in state.properties if name.startswith("delta.constraints.")):
            raise ConfigError(
                f"{self.into.name} has rules ({', '.join(rules)}), and what they refuse would be sent by then: "
                "state them of the rows that are delivered"
            )
        require_merge_by_key(
            self.into.table.spec, Merge(_KEYS, (Insert(),), "", null_keys=False, owned=self.into.partition)
        )
        noted = StructType([f for f in held_types(state).fields if f.name in (*_KEYS, "entity")])
        records = as_held(records, noted, self.into.name)
        return records.join(self.into.table.read(self.into.partition).select(*_KEYS), [*_KEYS], "left_anti")

    def count(self, records: DataFrame) -> None:
        """Count the records to deliver before sending; refuse ambiguous records.

        Raises:
            AmbiguousKeys: if a record cannot be told from others, or has no place in an order.
        """
        missing = " OR ".join(f"{name} IS NULL" for name in (*_KEYS, "unit", "entity", "place"))
        found = records.agg(
            F.expr("count(1)").alias("rows"),
            F.expr(f"count_if({missing})").alias("missing"),
            F.expr(f"count(DISTINCT {', '.join(_KEYS)})").alias("ids"),
        ).collect()[0]
        if found["missing"] or found["ids"] != found["rows"]:
            raise AmbiguousKeys(
                f"{self._named}: {found['missing']} records without destination, id, entity or order, and "
                f"{found['rows'] - found['missing'] - found['ids']} ids too few for the others: nothing was sent"
            )
        self._pending = found["rows"]

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Run a block, and commit outstanding receipts if the block fails."""
        try:
            yield
        except Exception:
            self._note()
            raise

    def send(self, destination: str, rows: Sequence[Row]) -> None:
        """Send records in one request, and resend failed records until acknowledged.

        Where attempts are exhausted, the destination gets nothing more; where a record is refused, its entity does not.
        """
        due = [row for row in rows if not self.holds(destination, row.entity)]
        if not due:
            return
        answers, requests = sinks.send(
            self.sink,
            destination,
            [Outgoing(row.record_id, row.entity, row.value) for row in due],
            backoff=self.retry,
        )
        with self._lock:
            self._counts["requests"] += requests
            for row, answer in zip(due, answers, strict=True):
                if answer.acknowledged:
                    self._counts[answer.outcome] += 1
                    present = answer.outcome == "present"
                    self._waiting.append((destination, row.record_id, row.entity, answer.position, present))
                elif answer.outcome == "refused":
                    self._held[destination, row.entity] = f"{row.record_id} ({sentence(answer.reason)})"
                else:
                    self._stopped[destination] = f"{row.record_id} ({sentence(answer.reason)})"

    def holds(self, destination: str, entity: str) -> bool:
        """Return whether sending has stopped for an entity or for the destination."""
        return destination in self._stopped or (destination, entity) in self._held

    def note_many(self) -> None:
        """Commit the outstanding receipts once enough are pending."""
        if len(self._waiting) >= _NOTED:
            self._note()

    def finish(self) -> WriteResult:
        """Commit the remaining receipts, and the completion of the delivery.

        Raises:
            Conflict: if a newer upstream version was delivered meanwhile; receipts are noted all the same.
            ContractError: if records were refused; the text names them.
            NotReady: if attempts were exhausted; a rerun goes on where this delivery stopped.
        """
        if self._stopped or self._held:
            self._note()
            raise self._failure()
        try:
            result = self._merge(self.into.run)
        except Conflict:
            self._note()
            raise
        delivered, minutes = self._acknowledged, (time.monotonic() - self._began) / 60
        figures = {
            "delivered": delivered,
            "present": self._counts["present"],
            "pending": self._pending - delivered,
            "requests": self._counts["requests"],
            "delivered_per_minute": round(delivered / max(minutes, 1e-9)),
        }
        return replace(result, figures={**result.figures, **figures})

    @property
    def _named(self) -> str:
        return f"{self.into.name} {slice_name(self.into.partition)}"

    @property
    def _acknowledged(self) -> int:
        return self._counts["accepted"] + self._counts["present"]

    def _note(self) -> None:
        """Commit receipts of an incomplete delivery, without the transaction of the step."""
        if self._waiting:
            unfinished = {**self.into.run.inputs, "unfinished": self.into.run.run_id}
            self._merge(replace(self.into.run, inputs=unfinished, sequence=None))

    def _merge(self, provenance: Provenance) -> WriteResult:
        columns = ", ".join(f"{name} {column.type}" for name, column in RECEIPT.items())
        noted = self.into.table.session.createDataFrame(self._waiting, columns)
        for name, value in self.into.partition.items():
            noted = noted.withColumn(name, F.lit(value).cast(self.into.table.spec.columns[name].type))
        # What is left to deliver depends on the receipts before: the same inputs may come with others the next time.
        result = self.into.table.merge(
            noted.select(*map(identifier, self.into.table.spec.columns)),
            Merge(_KEYS, [Insert()]),
            provenance=replace(provenance, replay=True),
            partition=self.into.partition,
        )
        self._waiting.clear()
        return result

    def _failure(self) -> ContractError | NotReady:
        done = f"{self._acknowledged} of {self._pending} records were delivered to {self.sink.name}"
        reasons = []
        if self._stopped:
            shown = [f"{where}: {why}" for where, why in list(self._stopped.items())[:_SHOWN]]
            reasons.append(
                f"after {self.retry.attempts} attempts nothing more was sent to {len(self._stopped)} destinations "
                f"({'; '.join(shown)}). Run it again when the sink takes records: it goes on where it stopped"
            )
        if self._held:
            shown = [f"{where} {why}" for (where, _), why in list(self._held.items())[:_SHOWN]]
            reasons.append(
                f"{len(self._held)} records were refused for ever ({'; '.join(shown)}), and what follows them of the "
                "same entity waits. Correct them at their source, or settle it with the receiver, and run it again"
            )
        sentence = f"{self._named}: {done}. {' '.join(reasons)}"
        return NotReady(sentence) if not self._held else ContractError(sentence)
