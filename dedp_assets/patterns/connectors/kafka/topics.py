"""A Kafka topic as the upstream of a table, with offsets kept only in the table's own log.

Each micro-batch is one commit, which carries the offsets it read up to. A stream begins where the ledger ends, with a
checkpoint of its own that lives as long as the run: no checkpoint can be lost, be ahead of the table or behind it, and
a commit that does not go on exactly where the table stands is refused, whoever else reads the topic meanwhile.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.connectors.kafka.framed_values import SCHEMA_ID, unframed
from dedp_assets.patterns.connectors.kafka.schema_registry import SchemaRegistry
from dedp_assets.patterns.connectors.kafka.streaming import run_available
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ContractError, NotReady, PatternError
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Commit, Ledger, Store, Table

__all__ = ["Position", "Topic", "append_available", "position", "read_topic", "resume"]

Offsets = Mapping[str, int]
"""Partition -> offset. Partitions are text, as everywhere in JSON."""

_GONE = re.compile(r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|UnknownTopicOrPartitionException")
_SILENT = re.compile(r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network)Exception")


@dataclass(frozen=True, slots=True)
class Topic:
    """The partitions of a topic, with the present range of offsets.

    Attributes:
        name: its name.
        id: identity given by the broker: a topic that is deleted and created again has another one.
        begin: oldest offset still held, by partition.
        end: offset after the newest readable record, by partition.

    Raises:
        NotReady: if these are no offsets of the same partitions: the brokers were asked at a bad moment.
    """

    name: str
    id: str
    begin: Offsets
    end: Offsets

    def __post_init__(self) -> None:
        if self.begin.keys() != self.end.keys():
            raise NotReady(
                f"topic {self.name}: the brokers say where the partitions {[*self.begin]} begin, and where "
                f"{[*self.end]} end: look at it again"
            )
        for partition, begin in self.begin.items():
            end = self.end[partition]
            if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end):
                raise NotReady(
                    f"topic {self.name}, partition {partition}: the brokers say that it begins at {begin!r} and ends "
                    f"at {end!r}: look at it again"
                )


@dataclass(frozen=True, slots=True)
class Position:
    """The offsets up to which a table has read a topic.

    Attributes:
        topic: the topic's name.
        topic_id: the topic's identity.
        offsets: next offset to read, by partition.
        sequence: the table's transaction version at these offsets: every offset read raises it by one.
        generation: how often the table was restored.
        given_up: what a named person decided to go on without, in one sentence.
    """

    topic: str
    topic_id: str
    offsets: Offsets
    sequence: int = 0
    generation: int = 0
    given_up: str = ""

    @property
    def cursor(self) -> str:
        """Text that identifies the position among all positions of the table."""
        return f"{self.topic}@{self.generation}.{self.sequence}"

    def span(self, end: Offsets) -> int:
        """Count the offsets between the position and ``end``, over equal partitions."""
        return sum(end[partition] - at for partition, at in self.offsets.items())

    def at(self, end: Offsets) -> Position:
        """Return the position after everything up to ``end`` was read, always a new position."""
        return replace(self, offsets=end, sequence=self.sequence + max(self.span(end), 1), given_up="")


def position(ledger: Ledger, topic: Topic) -> Position:
    """Return the offsets up to which a table has read ``topic``, from the table's log alone.

    The topic's oldest offsets if the table has read nothing.

    After a restore that is where the restored version stood.

    Raises:
        ContractError: if the log was cleaned up past the commits that could tell, or they do not.
        NotReady: if the brokers leave out a partition that was read: its records would be read again later.
    """
    cursors = ledger.transactions()
    generation, sequence = cursors.generation(ledger.name), cursors.applied(ledger.name, {}) or 0
    begin = Position(topic.name, topic.id, topic.begin, sequence, generation)
    if not sequence and not generation:
        return begin
    record = _last_read(ledger, topic.name)
    if record is None:
        return begin
    known, topic_id = record.notes.get("offsets"), record.notes.get("topic_id")
    if not isinstance(known, dict) or not all(isinstance(at, int) for at in known.values()) or topic_id is None:
        raise ContractError(
            f"{ledger.name}: its last commit of topic {topic.name} does not say how far it was read: restore the "
            "version before it"
        )
    if (gone := sorted({*known} - {*topic.begin})) and topic_id == topic.id:
        raise NotReady(
            f"topic {topic.name}: the brokers leave out the partitions {', '.join(gone)}, which were read: look again"
        )
    return replace(begin, topic_id=topic_id, offsets={partition: known.get(partition, 0) for partition in topic.begin})


def resume(known: Position, topic: Topic, *, give_up: bool = False) -> Position:
    """Return the position to resume from: ``known``, if the topic still holds all later records.

    Args:
        known: how far the table has read.
        topic: the topic as it is now.
        give_up: whether a named person decided to go on without what the topic lost.

    Raises:
        ContractError: if records that were not read are gone, or the topic is another one than the one that was read.

    Example:
        >>> held = Topic("visits", "x", begin={"0": 9}, end={"0": 12})
        >>> resume(Position("visits", "x", {"0": 5}), held, give_up=True).offsets
        {'0': 9}
    """
    reason = _loss(known, topic)
    if not reason:
        return known
    if not give_up:
        raise ContractError(reason)
    held = {p: min(max(at, topic.begin[p]), topic.end[p]) for p, at in known.offsets.items()}
    offsets = held if known.topic_id == topic.id else topic.begin
    return replace(known, topic_id=topic.id, offsets=offsets, given_up=reason)


def read_topic(
    session: SparkSession,
    start: Position,
    *,
    bootstrap: str,
    today: date,
    at_once: int,
    schemas: SchemaRegistry | None = None,
    proof: Mapping[str, str] | None = None,
) -> DataFrame:
    """Stream the topic's committed records from ``start`` on; lazy.

    Args:
        session: Spark.
        start: first offsets to read.
        bootstrap: ``host:port`` of a broker.
        today: when records arrived of which the topic keeps only the producer's time.
        at_once: most offsets in one micro-batch.
        schemas: registry of the schemas that values name in a header of 5 bytes: Avro becomes JSON, and a value that no
            schema reads stays whole. Without one the header alone is taken off.
        proof: options ``kafka.*`` by which brokers know who reads.

    Returns:
        ``raw`` STRING (NULL for a tombstone), ``raw_bytes`` BINARY (only where the value is not valid UTF-8),
        ``schema_id`` BIGINT (of the value's header, NULL without one),
        ``source_file`` STRING (``<topic>-<partition>``), ``line_number`` BIGINT (offset + 1) and ``landed_on`` DATE
        (UTC day the broker received the record).
    """
    options = {
        **(proof or {}),
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({start.topic: [int(partition) for partition in start.offsets]}),
        "startingOffsets": json.dumps({start.topic: dict(start.offsets)}),
        "maxOffsetsPerTrigger": str(at_once),
        "failOnDataLoss": "true",
    }
    records = unframed(session.readStream.format("kafka").options(**options).load(), schemas)
    return records.selectExpr(
        "make_valid_utf8(CAST(value AS STRING)) AS raw",
        "if(is_valid_utf8(CAST(value AS STRING)), NULL, value) AS raw_bytes",
        SCHEMA_ID,
        "concat(topic, '-', partition) AS source_file",
        "offset + 1 AS line_number",
        f"if(timestampType = 1, to_date(timestamp), DATE '{today}') AS landed_on",
    )


def append_available(
    stream: Split,
    table: Table,
    start: Position,
    *,
    provenance: Provenance,
    audits: Sequence[Audit] = (),
    measures: Mapping[str, str] | None = None,
) -> list[Commit]:
    """Append the topic's available records exactly once, one commit per micro-batch, then stop.

    Over Spark Connect the micro-batches are appended by a Python process beside the engine, which needs this package
    and the table's folder there.

    Args:
        stream: records of :func:`read_topic`, split; its ``valid`` part is appended.
        table: where to.
        start: where the stream begins.
        provenance: who reads; inputs, sequence, channel and offsets are filled in for each micro-batch.
        audits: rules over each micro-batch.
        measures: further figures to observe where the records are read, name -> SQL aggregate.

    Returns:
        The commits, oldest first; none if there was nothing to read.

    Raises:
        NotReady: if Kafka or the registry of the schemas stops answering, or the engine has no time for the process
            that appends.
        PatternError: what refused a micro-batch; the ones before it are in the table.
    """
    before = table.ensure().version
    checkpoint = table.store.within(f"checkpoint-{uuid.uuid4().hex[:16]}")
    sink = _Sink(
        table.spec, table.store, checkpoint, start, provenance, audits, measures or {}, stream.parts, stream.identity
    )
    try:
        run_available(stream.rows, sink, checkpoint)
    except SPARK_ERRORS as error:
        if known := _library_error(error, start.topic):
            raise known from error
        raise
    finally:
        checkpoint.delete_folder("")
    mine = (provenance.run_id, _channel(start))
    commits = table.ledger.commits(since=before)
    return [c for c in commits if c.record and (c.record.run_id, c.record.channel) == mine]


@dataclass(frozen=True, slots=True)
class _Sink:
    """A writer of micro-batches, sent to the engine's machine under Spark Connect."""

    spec: TableSpec
    store: Store
    checkpoint: Store
    start: Position
    provenance: Provenance
    audits: Sequence[Audit]
    measures: Mapping[str, str]
    parts: Mapping[str, tuple[str, ...]]
    identity: tuple[str, ...]

    def __call__(self, batch: DataFrame, number: int) -> None:
        begin = self.start.at(self._planned(number - 1)) if number else self.start
        end = begin.at(self._planned(number))
        if begin.offsets == end.offsets and not begin.given_up:
            return
        read = {p: [begin.offsets[p], last] for p, last in end.offsets.items()}
        notes = {"topic": end.topic, "topic_id": end.topic_id, "offsets": end.offsets, "given_up": begin.given_up}
        provenance = replace(
            self.provenance,
            inputs={f"topic/{end.topic}": {"id": end.topic_id, "offsets": read}},
            sequence=end.sequence,
            channel=_channel(end),
            notes={**self.provenance.notes, **notes},
        )
        rows, seen = tally(batch, identity=self.identity, measures=self.measures)
        staged = Table(self.spec, self.store, batch.sparkSession).stage(
            Split(rows, self.parts, identity=self.identity),
            provenance=provenance,
            audits=self.audits,
            rows_read=RowsRead(tally=seen, figures={"offsets": begin.span(end.offsets)}),
            append=True,
        )
        staged.publish(after=begin.sequence)

    def _planned(self, number: int) -> Offsets:
        """Read the planned end offsets of a micro-batch from Spark's checkpoint."""
        *_, line = self.checkpoint.read(f"offsets/{number}").decode().splitlines()
        offsets: Offsets = json.loads(line)[self.start.topic]
        return offsets


def _channel(start: Position) -> str:
    return f"topic {start.topic}"


def _last_read(ledger: Ledger, topic: str) -> CommitRecord | None:
    """Return the newest commit record of ``topic`` that no restore took back."""
    last = ledger.last(lambda commit: commit.record and commit.record.notes.get("topic") == topic, past_restores=True)
    if last is None and (begin := ledger.files.tells_from()) > 0:
        raise ContractError(
            f"{ledger.name} has read a topic, but its log begins at version {begin} and no longer tells how far: read "
            f"what {topic} holds into a table of its own, and take over from there what is missing"
        )
    return last.record if last else None


def _loss(known: Position, topic: Topic) -> str:
    """Return a description of the records lost from ``known`` on; empty for no loss."""
    go_on = "let a named person approve to go on at offset"
    if known.topic_id != topic.id:
        return (
            f"topic {topic.name} was deleted and created again after it was read up to {dict(known.offsets)}: what was "
            f"not read is gone. Let its producers send that again, and {go_on} {dict(topic.begin)} of the new one"
        )
    for partition, at in known.offsets.items():
        oldest, newest = topic.begin[partition], topic.end[partition]
        if at < oldest:
            return (
                f"topic {topic.name}, partition {partition}: the records from offset {at} to {oldest - 1} were deleted "
                f"before they were read. Keep records longer (retention.ms), and {go_on} {oldest} without them"
            )
        if at > newest:
            return (
                f"topic {topic.name}, partition {partition} ends at offset {newest}, but was read up to {at} already: "
                f"the broker lost records. Restore them, or {go_on} {newest}"
            )
    return ""


def _library_error(error: Exception, topic: str) -> PatternError | None:
    """Translate a failed micro-batch's error into an error of the library; ``None`` if unknown."""
    text = str(error)
    if _GONE.search(text):
        return ContractError(f"topic {topic} lost records while it was read: run this again, and it says which")
    if _SILENT.search(text):
        return NotReady(f"Kafka stopped answering while topic {topic} was read: run this again when it is back")
    if "failed to connect back" in text:
        return NotReady(f"the engine is too busy to append what topic {topic} holds: run this again")
    return None
