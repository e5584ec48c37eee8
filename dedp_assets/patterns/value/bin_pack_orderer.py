"""Bin Pack Orderer: ordered delivery in bulk requests to a sink that may accept requests in part.

Problem: a bulk request is accepted in part; what failed is sent again, behind later records of the same entity.
Solution: number the records of each entity; the n-th ones of all entities are bin n. Bins are sent one after the other,
    each until all of it is acknowledged: whatever is sent again, no other record of its entity was under way.
Consequences: an entity with many records makes as many small bins. Order holds within a run; a late record of an entity
    comes after what was delivered. Receipts let a rerun go on, and the sink's own keys settle what was not noted.
Choose instead: FIFO Orderer, if records have to leave one by one, or the sink takes a request whole or not at all.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.delivery.receipts import RecordColumns, RecordDelivery, outgoing
from dedp_assets.patterns.connectors.delivery.sinks import Sink, in_requests
from dedp_assets.patterns.core.columns import NAMED, require_columns
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import evaluated_once
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.delta import Target

__all__ = ["deliver_in_bins", "number_bins", "RecordColumns", "Backoff"]

_BIN = ("destination", "unit", "bin")


@typed
def deliver_in_bins(
    rows: DataFrame,
    into: Target,
    sink: Sink,
    *,
    destination: str,
    columns: RecordColumns,
    unit: str = "",
    retry: Backoff = Backoff(),  # noqa: B008 - frozen
) -> WriteResult:
    """Deliver the rows without a receipt in few bulk requests, each entity's rows in order.

    The rows come to this process request by request, so that their number is no matter to its memory.

    Args:
        rows: everything that the partition shall have delivered.
        into: target of the receipts, with the partition that this delivery is about: a table of
            :data:`~dedp_assets.patterns.connectors.delivery.receipts.RECEIPT` that notes what was acknowledged.
        sink: who takes the records.
        destination: column that says where a record goes; a destination that fails stops no other.
        columns: the columns of a record; one says whose records keep their order (``entity``).
        unit: column of what is delivered as a whole before the next, such as the minute; empty for all at once.
        retry: the attempts to send a record.

    Returns:
        The write of the receipts; ``figures`` count ``delivered`` records, ``present`` ones among them that the sink
        had already, ``pending`` ones and ``requests``.

    Raises:
        AmbiguousKeys: if ids are missing or repeated; nothing is sent.
        ConfigError: for columns that are not there or cannot be used so.
        ContractError: if the sink refused records for ever: what follows them of the same entities is not sent.
        NotReady: if attempts were exhausted: the destination gets nothing more until the delivery is run again.

    Example:
        >>> from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> spec = TableSpec("delivered", {"day": Column("STRING"), **RECEIPT}, partition_by=("day",))
        >>> delivered, day = table(spec), {"day": "mon"}
        >>> visits = frame("id INT, blog STRING, page STRING, at INT", (1, "x", "/a", 9), (2, "x", "/a", 8))
        >>> record = RecordColumns(identity="id", order_by=["at"], entity="page")
        >>> into = delivered.target(run, partition=day)
        >>> _ = deliver_in_bins(visits, into, inbox, destination="blog", columns=record)
        >>> inbox.ids("x")
        ['2', '1']
    """
    if not columns.entity:
        raise ConfigError("columns.entity must name the column whose records keep their order, not nothing")
    require_columns(rows, [destination, columns.entity], NAMED)
    entity = identifier(columns.entity)
    records = outgoing(rows, columns, destination=identifier(destination), entity=entity, unit=unit)
    delivery = RecordDelivery(sink, into.by("value.bin_pack_orderer", "partition"), retry)
    with evaluated_once(number_bins(delivery.undelivered(records)).orderBy(*_BIN, "place")) as numbered:
        delivery.count(numbered)
        with delivery.noting():
            for (where, *_), one_bin in groupby(numbered.toLocalIterator(), key=itemgetter(*_BIN)):
                for request in in_requests(one_bin, sink.limit):
                    delivery.send(where, request)
                delivery.note_many()
    return delivery.finish()


@typed
def number_bins(records: DataFrame) -> DataFrame:
    """Number the bins of records: record n of an entity is in bin n of the unit; lazy.

    The numbers are Spark's: all records of an entity meet, wherever they lay before. A sort within partitions would
    number them once for each partition, and put two records of an entity into one bin.
    """
    return records.selectExpr("*", "row_number() OVER (PARTITION BY destination, unit, entity ORDER BY place) AS bin")
