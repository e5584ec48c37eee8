"""Topics: where a table stands in one is told by its log, and each record is appended once."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException

from dedp_assets.case_study.sources.visits_topic import publish
from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.connectors.kafka.schema_registry import SchemaRegistry, framed, register_schema
from dedp_assets.patterns.connectors.kafka.topics import Position, Topic, append_available, position, read_topic, resume
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, Conflict, ContractError, NotReady, SchemaMismatch
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, transaction_id
from dedp_assets.patterns.delta.log.transactions import generation_id
from dedp_assets.patterns.delta.staging import stage_commit
from tests.faults.processes import wait_until
from tests.helpers import OF_PRODUCERS, a_record, a_run, read_back, write_log
from tests.registry import schemas_in_memory

pytestmark = pytest.mark.budget(50, "streams of a broker")

LINES = TableSpec(
    "bronze/lines",
    {
        "raw": Column("STRING", required=True, classification="personal"),
        "raw_bytes": Column("BINARY", classification="personal"),
        "schema_id": Column("BIGINT"),
        "source_file": Column("STRING", required=True),
        "line_number": Column("BIGINT", required=True),
        "landed_on": Column("DATE", required=True),
    },
    partition_by=("landed_on",),
)
APP_ID = transaction_id("lines", {}, 0)
HELD = Topic("visits", "x", begin={"0": 0, "1": 0}, end={"0": 9, "1": 9})


# --- where to go on ---------------------------------------------------------------------------------------------------


def log(tmp_path, *commits):
    """The ledger of a table whose log is written by hand."""
    write_log(tmp_path / "lines", {"raw": "string", "landed_on": "date"}, ["landed_on"], list(commits))
    return Ledger(tmp_path / "lines", name="lines")


def read(*offsets, sequence, topic="visits", generation=0):
    """A commit that read a topic up to ``offsets``."""
    notes = {"topic": topic, "topic_id": "x", "offsets": {str(p): offset for p, offset in enumerate(offsets)}}
    record = a_record("lines", {}, notes=notes, sequence=sequence)
    return {"record": record, "txn": {transaction_id("lines", {}, generation): sequence}}


def other(day):
    """A commit that has nothing to do with a topic."""
    return {"record": a_record("lines", {"landed_on": day}), "txn": {transaction_id("lines", {"landed_on": day}, 0): 1}}


def test_a_topic_that_was_never_read_begins_at_its_oldest_record(tmp_path):
    """Records that were deleted before anybody was interested are no loss."""
    topic = Topic("visits", "x", begin={"0": 4}, end={"0": 9})
    expected = Position("visits", "x", {"0": 4})
    assert position(Ledger(tmp_path / "nothing", name="lines"), topic) == expected
    assert position(log(tmp_path, other("2026-01-05")), topic) == expected


def test_a_table_stands_where_its_newest_commit_of_the_topic_says(tmp_path):
    """Whatever else was committed since; another topic has a position of its own, and goes on counting."""
    ledger = log(tmp_path, read(3, 2, sequence=5), read(4, 4, sequence=8), other("2026-01-05"))
    assert position(ledger, HELD) == Position("visits", "x", {"0": 4, "1": 4}, sequence=8)
    clicks = Topic("clicks", "y", begin={"0": 1}, end={"0": 2})
    assert position(ledger, clicks) == Position("clicks", "y", {"0": 1}, sequence=8)


def test_a_partition_that_came_since_begins_at_its_first_record(tmp_path):
    """Nothing of it was read yet."""
    known = position(log(tmp_path, read(3, sequence=3)), HELD)
    assert (known.offsets, known.span(HELD.end)) == ({"0": 3, "1": 0}, 15)


def test_after_a_restore_the_table_stands_where_it_stood_then(tmp_path):
    """What the restore took out of the table is read again, under transactions of a new generation."""
    ledger = log(tmp_path, read(3, 2, sequence=5), read(4, 4, sequence=8), {"txn": {generation_id("lines"): 1}})
    restore = {"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": "1", "timestamp": None}}}
    (tmp_path / "lines/_delta_log" / f"{4:020d}.json").write_text(json.dumps(restore) + "\n")
    assert position(ledger, HELD) == Position("visits", "x", {"0": 3, "1": 2}, sequence=0, generation=1)
    write_log(tmp_path / "lines", {}, [], [read(5, 5, sequence=5, generation=1)])
    assert position(ledger, HELD) == Position("visits", "x", {"0": 5, "1": 5}, sequence=5, generation=1)


def test_a_log_that_forgot_how_far_is_an_error(tmp_path):
    """Beginning anew would double every record that is still there."""
    ledger = log(tmp_path, read(3, 2, sequence=5), *[other("2026-01-05")] * 2)
    from deltalake import DeltaTable

    DeltaTable(str(tmp_path / "lines")).create_checkpoint()
    for version in (0, 1):
        (tmp_path / "lines/_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(ContractError, match="its log begins at version 2 and no longer tells how far"):
        position(ledger, HELD)


@pytest.mark.parametrize("give_up", [False, True])
def test_a_topic_that_holds_everything_is_read_on_where_it_was_left(give_up):
    """An approval without a reason changes nothing."""
    known = Position("visits", "x", {"0": 4, "1": 9}, sequence=13)
    assert resume(known, HELD, give_up=give_up) == known


@pytest.mark.parametrize(
    ("known", "sentence", "approved"),
    [
        (
            Position("visits", "x", {"0": 2, "1": 6}, 8),
            "topic visits, partition 0: the records from offset 2 to 3 were deleted before they were read. Keep "
            r"records longer \(retention.ms\), and let a named person approve to go on at offset 4 without them",
            {"0": 4, "1": 6},
        ),
        (
            Position("visits", "x", {"0": 5, "1": 8}, 13),
            "topic visits, partition 1 ends at offset 7, but was read up to 8 already: the broker lost records. "
            "Restore them, or let a named person approve to go on at offset 7",
            {"0": 5, "1": 7},
        ),
        (
            Position("visits", "w", {"0": 5, "1": 6}, 11),
            r"topic visits was deleted and created again after it was read up to \{'0': 5, '1': 6\}: what was not "
            r"read is gone. Let its producers send that again, and let a named person approve to go on at offset "
            r"\{'0': 4, '1': 0\} of the new one",
            {"0": 4, "1": 0},
        ),
    ],
    ids=["deleted", "lost by the broker", "another topic"],
)
def test_what_a_topic_no_longer_holds_is_an_error_until_somebody_gives_it_up(known, sentence, approved):
    """The sentence names topic, partition, offsets and remedy; the approved position keeps it, and keeps counting."""
    held = Topic("visits", "x", begin={"0": 4, "1": 0}, end={"0": 9, "1": 7})
    with pytest.raises(ContractError, match=f"^{sentence}"):
        resume(known, held)
    after = resume(known, held, give_up=True)
    assert (after.offsets, after.topic_id, after.sequence) == (approved, "x", known.sequence)
    assert after.given_up
    assert after.at(held.end).given_up == ""
    assert after.at(after.offsets).sequence == known.sequence + 1


# --- reading and appending --------------------------------------------------------------------------------------------


@pytest.fixture
def lines(make_table):
    """An empty table of :data:`LINES`."""
    return make_table(LINES)


def start_of(kafka, table):
    topic = kafka.describe()
    return resume(position(table.ledger, topic), topic)


def stream(kafka, table, start=None, *, at_once=1000, audits=(), more=(), schemas=None, **fields):
    """Append what the topic holds now; the commits."""
    start = start or start_of(kafka, table)
    today = date(2026, 1, 5)
    records = read_topic(table.session, start, bootstrap=kafka.bootstrap, today=today, at_once=at_once, schemas=schemas)
    rows = records.selectExpr("*", "if(raw IS NULL, 'tombstone', 'valid') AS __dedp_outcome", *more)
    columns = tuple(c for c in rows.columns if c != "__dedp_outcome")
    split = Split(rows, {"valid": columns, "tombstone": ()}, identity=("source_file", "line_number"))
    return append_available(split, table, start, provenance=a_run("bronze/lines", **fields), audits=audits)


def raw(table):
    """Each line with how often it is there."""
    return Counter(row["raw"] for row in read_back(table)) if table.ledger.exists() else Counter()


def numbered(start, end):
    return [f"line {number}" for number in range(start, end)]


def delete_before(kafka, offset):
    admin = AdminClient(client(kafka.bootstrap))
    for future in admin.delete_records([TopicPartition(kafka.topic, 0, offset)]).values():
        future.result()


def leftovers(table):
    """Checkpoints that a stream left in the table's folder."""
    return list(Path(table.location).glob("checkpoint-*"))


@pytest.mark.both
def test_records_arrive_as_they_are_with_their_place(lines, kafka):
    """Values that are no UTF-8 keep their bytes, a line feed stays in its record, a tombstone is only counted."""
    publish(kafka, ["a", None, b"\xff\xfe", '{"user_id": "u1"}', "two\nlines", ""])
    (commit,) = stream(kafka, lines)
    rows = read_back(lines)
    assert raw(lines) == Counter(["a", "\ufffd\ufffd", '{"user_id": "u1"}', "two\nlines", ""])
    assert {row["raw"]: row["raw_bytes"] for row in rows if row["raw_bytes"]} == {"\ufffd\ufffd": b"\xff\xfe"}
    places = {(row["source_file"], row["line_number"]) for row in rows}
    end = kafka.describe().end
    assert len(places) == 5
    assert places < {(f"{kafka.topic}-{p}", n) for p, last in end.items() for n in range(1, last + 1)}
    assert commit.record.rows == {"read": 6, "written": 5, "dead": 0, "duplicates": 0, "filtered": 1}
    assert (commit.record.sequence, commit.record.notes["offsets"]) == (6, end)
    assert commit.record.channel == f"topic {kafka.topic}"


@pytest.mark.both
def test_records_with_and_without_a_header_are_read_from_one_topic(lines, kafka, tmp_path):
    """Avro as JSON, JSON as it is, and whole what no schema reads; while the registry is silent nothing is taken."""
    schema = {"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]}
    publish(
        kafka, ['{"page": "/a"}', framed(1, b"\x04/b"), framed(2, b'{"page": "/c"}'), framed(9, b"{}"), b"\0", None]
    )
    with pytest.raises(NotReady, match=r"the schema registry at http://127.0.0.1:1 does not answer"):
        stream(kafka, lines, schemas=SchemaRegistry("http://127.0.0.1:1"))
    assert raw(lines) == Counter()
    with schemas_in_memory() as registry:
        register_schema(registry, "visits-value", json.dumps(schema))
        register_schema(registry, "json-value", "{}", dialect="JSON")
        (commit,) = stream(kafka, lines, schemas=registry)
    assert {(row["raw"], row["schema_id"]) for row in read_back(lines)} == {
        ('{"page": "/a"}', None),
        ('{"page":"/b"}', 1),
        ('{"page": "/c"}', 2),
        ("\0\0\0\0\t{}", 9),
        ("\0", None),
    }
    assert commit.record.rows["written"] == 5


@pytest.mark.both
def test_each_micro_batch_is_one_commit_and_the_next_run_goes_on_after_the_last(lines, kafka):
    """Small micro-batches end at what was there at the start; a run with nothing to read makes no commit."""
    publish(kafka, numbered(0, 10))
    commits = stream(kafka, lines, at_once=4)
    assert len(commits) > 1
    assert [c.record.sequence for c in commits] == sorted({sum(c.record.notes["offsets"].values()) for c in commits})
    assert commits[-1].record.notes["offsets"] == kafka.describe().end
    assert stream(kafka, lines) == []
    publish(kafka, numbered(10, 15))
    (last,) = stream(kafka, lines)
    assert last.record.sequence == 15
    assert raw(lines) == Counter(numbered(0, 15))
    assert leftovers(lines) == []


@pytest.mark.both
def test_a_refused_micro_batch_is_the_librarys_own_error_and_keeps_the_ones_before_it(lines, kafka):
    """What was appended stays, what was refused is read again, and nothing of it is there meanwhile."""
    kafka.create(partitions=1)
    publish(kafka, numbered(0, 3))
    audit = Audit.none_where("no_line_4", "raw = 'line 4'")
    stream(kafka, lines, audits=[audit])
    publish(kafka, numbered(3, 6))
    with pytest.raises(AuditFailed, match=r"nothing published\. no_line_4: above 0"):
        stream(kafka, lines, audits=[audit], at_once=1)
    assert raw(lines) == Counter(numbered(0, 4))
    assert len(stream(kafka, lines, code_version="2")) == 1
    assert raw(lines) == Counter(numbered(0, 6))


def test_columns_that_do_not_fit_are_refused(lines, kafka):
    """An error of the library keeps its class through Spark."""
    publish(kafka, ["a"])
    with pytest.raises(SchemaMismatch, match=r"unknown columns \['surplus'\]"):
        stream(kafka, lines, more=["1 AS surplus"])


class Busy:
    """A stream on an engine that has no time to start the process which appends."""

    @property
    def writeStream(self):  # noqa: N802 - Spark's name
        return self

    def to(self, *_, **__):
        return self

    foreachBatch = option = trigger = to  # noqa: N815 - Spark's name

    def start(self):
        raise PySparkException("Python worker failed to connect back.")


def test_an_engine_that_is_too_busy_is_waited_for(lines):
    """One sentence that may be retried, whichever of Spark's classes said it; nothing is left behind."""
    lines.ensure()
    stream = Split(Busy(), {"valid": tuple(LINES.columns)})
    with pytest.raises(NotReady, match="the engine is too busy to append what topic visits holds"):
        append_available(stream, lines, start=Position("visits", "x", {"0": 0}), provenance=a_run("bronze/lines"))
    assert [path.name for path in lines.location.iterdir()] == ["_delta_log"]


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_failure_on_either_side_of_the_commit_loses_and_doubles_nothing(lines, kafka, monkeypatch, point):
    """Spark's checkpoint says after both that the micro-batch is not done; the ledger knows whether it is."""
    publish(kafka, numbered(0, 5))
    stream(kafka, lines)
    publish(kafka, numbered(5, 10))
    commit = stage_commit.commit_files

    def failing(*words, **options):
        if point == "after":
            commit(*words, **options)
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(stage_commit, "commit_files", failing)
        with pytest.raises(Exception, match="the disk is gone"):
            stream(kafka, lines)
    assert raw(lines) == Counter(numbered(0, 5 if point == "before" else 10))
    assert len(stream(kafka, lines)) == (point == "before")
    assert raw(lines) == Counter(numbered(0, 10))


def test_a_stream_that_does_not_go_on_where_the_table_stands_is_refused(lines, kafka):
    """However it came by its position: an old one would double records, a later one would lose some."""
    kafka.create(partitions=1)
    publish(kafka, numbered(0, 4))
    behind = start_of(kafka, lines)
    stream(kafka, lines)
    publish(kafka, numbered(4, 8))
    with pytest.raises(Conflict, match="applied upstream version 4 meanwhile, this run went on from version 0"):
        stream(kafka, lines, behind, run_id="run-2")
    ahead = start_of(kafka, lines).at({"0": 6})
    with pytest.raises(Conflict, match="applied upstream version 4 meanwhile, this run went on from version 6"):
        stream(kafka, lines, ahead)
    assert raw(lines) == Counter(numbered(0, 4))
    stream(kafka, lines)
    assert raw(lines) == Counter(numbered(0, 8))


def test_records_that_a_restore_took_back_are_read_again(lines, kafka):
    """The ledger stands where the restored version stood, so nothing is missing afterwards and nothing doubled."""
    publish(kafka, numbered(0, 4))
    (first,) = stream(kafka, lines)
    publish(kafka, numbered(4, 8))
    stream(kafka, lines)
    lines.restore(first.version, provenance=a_run("bronze/lines"))
    assert raw(lines) == Counter(numbered(0, 4))
    stream(kafka, lines)
    assert raw(lines) == Counter(numbered(0, 8))


def test_records_deleted_while_the_stream_begins_are_not_skipped(lines, kafka):
    """Between the look at the topic and the reading of it, too: an error, and nothing appended."""
    kafka.create(partitions=1)
    publish(kafka, numbered(0, 8))
    start = start_of(kafka, lines)
    delete_before(kafka, 3)
    with pytest.raises(ContractError, match=f"^topic {kafka.topic} lost records while it was read: run this again"):
        stream(kafka, lines, start)
    assert raw(lines) == Counter()


def test_a_broker_restarted_in_mid_stream_loses_and_doubles_nothing(lines, kafka, broker, monkeypatch):
    """Down after the first micro-batch and up again: the stream goes on, or the next one does."""
    publish(kafka, numbered(0, 12))
    commit, restarted = stage_commit.commit_files, []

    def committing(*words, **options):
        commit(*words, **options)
        if not restarted:
            broker.stop()
            broker.start()
            restarted.append(True)

    monkeypatch.setattr(stage_commit, "commit_files", committing)
    try:
        stream(kafka, lines, at_once=4)
    except NotReady:
        stream(kafka, lines, at_once=4)
    assert restarted
    assert raw(lines) == Counter(numbered(0, 12))
    publish(kafka, numbered(12, 14))
    stream(kafka, lines)
    assert raw(lines) == Counter(numbered(0, 14))


def test_aborted_records_are_not_read_and_gaps_in_the_offsets_are_no_loss(lines, kafka):
    """Transaction markers take offsets; the position reaches the end of the topic all the same."""
    kafka.create(partitions=1)
    producer = Producer({**client(kafka.bootstrap), "transactional.id": kafka.topic})
    producer.init_transactions()
    for value, ending in (("kept", producer.commit_transaction), ("taken back", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(kafka.topic, value)
        producer.flush()
        ending()
    assert wait_until(lambda: kafka.describe().end == {"0": 4})
    audit = Audit(name="every_offset_is_read_once", of="read", per="offsets", warn_below=1, fail_above=1)
    (commit,) = stream(kafka, lines, audits=[audit])
    assert raw(lines) == Counter(["kept"])
    assert (commit.record.verdict, commit.record.notes["offsets"]) == ("warned", {"0": 4})
    assert start_of(kafka, lines).offsets == kafka.describe().end
    assert stream(kafka, lines) == []


def test_a_record_landed_on_the_day_the_broker_says_or_else_on_the_day_of_the_run(lines, kafka):
    """A producer's clock may say 1970; that is no landing day."""
    producers = NewTopic(kafka.topic, 1, config=OF_PRODUCERS)
    admin = AdminClient(client(kafka.bootstrap))
    admin.create_topics([producers])[kafka.topic].result()
    producer = Producer(client(kafka.bootstrap))
    producer.produce(kafka.topic, "a", timestamp=1)
    producer.flush()
    stream(kafka, lines)
    assert [row["landed_on"] for row in read_back(lines)] == [date(2026, 1, 5)]
