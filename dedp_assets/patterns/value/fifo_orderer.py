"""FIFO Orderer: records are delivered in order, each acknowledged before the next record.

Problem: events have to reach another system in the order in which they were processed, without waiting for a batch.
Solution: send a record, wait for its acknowledgment, send the next. A sink that takes a request whole or not at all may
    get several records in one, as long as one request is under way.
Consequences: a round trip for each record. Entities whose records need no order among each other are sent side by side.
    A record whose acknowledgment was lost is sent again; a sink that knows it by its id has it once.
Choose instead: Bin Pack Orderer, for many records of many entities and a sink that accepts requests in part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame, Row

from dedp_assets.patterns.connectors.delivery.receipts import RecordColumns, RecordDelivery, outgoing
from dedp_assets.patterns.connectors.delivery.sinks import Sink, in_requests
from dedp_assets.patterns.core.columns import NAMED, require_columns
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import evaluated_once
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.running.permissions import inheriting
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import Target

__all__ = ["deliver_in_order", "RecordColumns", "Backoff"]

_READ = 1_000
"""How many records are in memory; of those, the entities are sent side by side."""


@typed
def deliver_in_order(
    rows: DataFrame,
    into: Target,
    sink: Sink,
    *,
    destination: str,
    columns: RecordColumns,
    workers: int = 1,
    at_once: int = 1,
    retry: Backoff = Backoff(),  # noqa: B008 - frozen
) -> WriteResult:
    """Deliver the rows that have no receipt yet, in order, each acknowledged before the next is sent.

    Args:
        rows: everything that the partition shall have delivered.
        into: target of the receipts, with the partition that this delivery is about: a table of
            :data:`~dedp_assets.patterns.connectors.delivery.receipts.RECEIPT` that notes what was acknowledged.
        sink: who takes the records.
        destination: where they go.
        columns: the columns of a record.
        workers: how many entities are sent side by side.
        at_once: how many records one request holds.
        retry: the attempts to send a record.

    Returns:
        The write of the receipts; ``figures`` count ``delivered`` records, ``present`` ones among them that the sink
        had already, ``pending`` ones and ``requests``.

    Raises:
        AmbiguousKeys: if ids are missing or repeated; nothing is sent.
        ConfigError: for several records in one request to a sink that may accept it in part, or several workers
            without an entity.
        ContractError: if the sink refused a record for ever: nothing that follows it is sent.
        NotReady: if attempts were exhausted: nothing more is sent until the delivery is run again.

    Example:
        >>> from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> spec = TableSpec("sent", {"day": Column("STRING"), **RECEIPT}, partition_by=("day",))
        >>> sent, day = table(spec), {"day": "mon"}
        >>> failed = frame("id INT, page STRING, at INT", (1, "/a", 9), (2, "/b", 8), (3, "/a", 7))
        >>> into, record = sent.target(run, partition=day), RecordColumns(identity="id", order_by=["at"])
        >>> _ = deliver_in_order(failed, into, inbox, destination="alerts", columns=record)
        >>> inbox.ids("alerts")
        ['3', '2', '1']
    """
    _require_order(sink, rows, columns.entity, workers, at_once)
    where = quoted(destination)
    scope = identifier(columns.entity) if columns.entity else where
    records = outgoing(rows, columns, destination=where, entity=scope)
    delivery = RecordDelivery(sink, into.by("value.fifo_orderer", "partition"), retry)

    def send(of_one_entity: Sequence[Row]) -> None:
        for request in in_requests(of_one_entity, at_once):
            delivery.send(destination, request)

    with evaluated_once(delivery.undelivered(records).orderBy("place")) as ordered:
        delivery.count(ordered)
        with delivery.noting(), ThreadPoolExecutor(workers) as pool:
            for read in in_requests(ordered.toLocalIterator(), _READ):
                list(pool.map(inheriting(send), _by_entity(read)))
                delivery.note_many()
    return delivery.finish()


def _require_order(sink: Sink, rows: DataFrame, entity: str, workers: int, at_once: int) -> None:
    """Refuse sinks and options that could put records out of order."""
    require_columns(rows, [entity], NAMED)
    if at_once > 1 and sink.partial:
        raise ConfigError(
            f"{sink.name} may accept a request in part, so that a record comes before one that failed: send one at a "
            "time (at_once=1), or use value.bin_pack_orderer"
        )
    if not 1 <= at_once <= sink.limit or workers < 1:
        raise ConfigError(f"at_once={at_once} must be 1 to {sink.limit} for {sink.name}, and workers={workers} some")
    if workers > 1 and not entity:
        raise ConfigError(
            f"entity must name the column whose values keep their order among workers={workers}, not nothing"
        )


def _by_entity(records: Sequence[Row]) -> list[list[Row]]:
    found = defaultdict[str, list[Row]](list)
    for record in records:
        found[record.entity].append(record)
    return list(found.values())
