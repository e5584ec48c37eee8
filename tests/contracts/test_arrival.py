"""The result is one of the rows: their order, partitions, micro-batches and repetition change nothing."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta, timezone
from random import Random
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.delivery.receipts import RecordColumns, outgoing
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.sessionizing import cut
from dedp_assets.patterns.core.types.instants import collected
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate, deduplicate_stream
from dedp_assets.patterns.value.distributed_aggregator import aggregate
from dedp_assets.patterns.value.dynamic_joiner import JoinTimes, join_latest, join_within
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule, sessionize_partition
from dedp_assets.patterns.value.stateful_sessionizer import sessionize_stream, sessionize_with_state

pytestmark = pytest.mark.spark

MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
VISIT = "user STRING, at TIMESTAMP, id INT, page STRING, seen TIMESTAMP_NTZ"
RULE = {"entity": ["user"], "event_time": "at", "event_id": "id", "gap_seconds": 600, "keep": ["page", "seen"]}
END = "page = '/out'"
USERS = 60


def visits():
    """Visits of many users, a case each: equal times and ids, repeats, and twins that differ; in micro-batches.

    Of each user they come in the order of time, and any that came before may come again.
    """
    chosen, batches = Random(31), ([], [], [])  # noqa: S311 - no secret
    for user in range(USERS):
        known = []
        for number, batch in enumerate(batches):
            new = []
            for _ in range(chosen.randint(1, 4)):
                minute = 20 * number + chosen.choice([0, 1, 10, 11, 19])
                at = MONDAY + timedelta(minutes=minute, microseconds=chosen.choice([0, 1]))
                page = chosen.choice(["/", "/a", "/out"])
                seen = datetime(2026, 1, 5, 12, 0, 0, chosen.choice([0, 1, 999_999]))  # noqa: DTZ001 - without a zone
                new.append((f"u{user}", at, chosen.choice([9, 10, 100]), page, seen))
                if chosen.random() < 0.3:
                    new.append((*new[-1][:3], chosen.choice(["/", "/b", "/out"]), seen))
            again = [event for event in known if chosen.random() < 0.5]
            batch += [*new, *again, *(event for event in new if chosen.random() < 0.5)]
            known += new
    for batch in batches:
        chosen.shuffle(batch)
    return batches


@pytest.fixture(scope="module", autouse=True)
def _few_tasks(spark):
    """Keep few rows in few state stores; in two, as what happens in one task is no test of order."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(scope="module")
def world(spark):
    """The visits, once in any order for each arrangement."""
    batches = visits()
    rows = [row for batch in batches for row in batch]
    frames = []
    for seed in range(3):
        mixed = [*rows, *rows[: 50 * seed]]
        Random(seed).shuffle(mixed)  # noqa: S311 - no secret
        frames.append(spark.createDataFrame(mixed, VISIT).repartition(1 + 2 * seed))
    return SimpleNamespace(batches=batches, rows=rows, frames=frames)


def sessions_of(rows):
    """Sessions as they are compared."""
    return sorted(
        (
            row["session_id"],
            row["user"],
            *(collected(row[name]) for name in ("started_at", "ended_at")),
            tuple((collected(e["at"]), e["id"], e["page"], e["seen"]) for e in row["events"]),
        )
        for row in rows
    )


def completed(frame, **more):
    split = sessionize_partition(frame, None, rule=SessionRule(**RULE, **more), until=MONDAY + timedelta(days=1))
    return sessions_of(split["completed"].collect())


def test_sessions_of_a_batch_are_those_of_a_plain_model(world):
    """By user, time and id an event is there once; an end, or a pause above the gap, parts them."""
    found = completed(world.frames[0], ends=END)
    assert all(completed(frame, ends=END) == found for frame in world.frames[1:])
    known = {(user, at, id_) for user, at, id_, *_ in world.rows}
    told = [(user, at, id_) for _, user, _, _, events in found for at, id_, *_ in events]
    assert (len(told), {*told}) == (len(known), known)
    pages = {(user, at, id_): page for _, user, _, _, events in found for at, id_, page, _ in events}
    assert {(*key, page) for key, page in pages.items()} <= {row[:4] for row in world.rows}
    expected = []
    for user in {user for user, *_ in known}:
        own = sorted(each for each in known if each[0] == user)
        parts = cut(
            own, time=lambda e: (e[1] - MONDAY) // timedelta(microseconds=1), gap=600_000_000, ends=_ends(pages)
        )
        expected += [(user, part) for part in parts]
    got = [(user, [(user, at, id_) for at, id_, *_ in events]) for _, user, _, _, events in found]
    assert sorted(got) == sorted(expected)


def _ends(pages):
    return lambda event: pages[event] == "/out"


def test_sessions_over_partitions_windows_and_states_are_those_of_the_batch(spark, world, tmp_path):
    """What comes again in the next partition or micro-batch, an end among it, is in no second session."""
    pending, over = None, []
    for number, batch in enumerate(world.batches):
        until = MONDAY + timedelta(days=number == 2, minutes=20 * number + 20)
        fresh = [row for row in batch if row[1] >= MONDAY + timedelta(minutes=20 * number)]
        split = sessionize_partition(
            spark.createDataFrame(fresh, VISIT), pending, rule=SessionRule(**RULE, ends=END), until=until
        )
        over += sessions_of(split["completed"].collect())
        pending = spark.createDataFrame(split["pending"].collect(), split["pending"].schema)
    assert sorted(over) == completed(world.frames[0], ends=END)
    last = [("last", MONDAY + timedelta(days=day), 1, "/", None) for day in (2, 3)]
    for batch in (*world.batches, *([row] for row in last)):
        spark.createDataFrame(batch, VISIT).coalesce(1).write.mode("append").parquet(str(tmp_path / "visits"))
    stream = spark.readStream.schema(VISIT).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "visits"))
    for made, more in (
        (sessionize_stream(stream, rule=SessionRule(**RULE), lateness="1 day"), {}),
        (sessionize_with_state(stream, rule=SessionRule(**RULE, ends=END), lateness="1 day"), {"ends": END}),
    ):
        name = f"sessions_{len(more)}"
        writer = made.writeStream.format("memory").queryName(name).outputMode("append")
        query = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
        query.awaitTermination()
        there = [row for row in spark.table(name).collect() if row["user"] != "last"]
        assert sessions_of(there) == completed(world.frames[0], **more)


HOUR = timedelta(hours=1)
TEN = MONDAY + timedelta(hours=10)
STREAMS = {
    "windows": lambda rows: sessionize_stream(rows, rule=SessionRule(**RULE), lateness="1 hour"),
    "states": lambda rows: sessionize_with_state(rows, rule=SessionRule(**RULE), lateness="1 hour"),
    "repeats": lambda rows: deduplicate_stream(rows, keys=["user"], event_time="at", window="1 hour"),
    "pairs": lambda rows: join_within(
        rows,
        rows.selectExpr("user AS of", "at AS shown"),
        times=JoinTimes(fact="at", other="shown", fact_lateness_seconds=3600, other_lateness_seconds=3600),
        keys={"user": "of"},
        from_seconds=0,
        to_seconds=0,
    ),
}


def test_what_is_exactly_as_late_as_allowed_is_kept_after_a_restart_too(spark, tmp_path):
    """By a microsecond less as well; what is later is not, once the gap after it is over as well."""
    late = {"exact": HOUR, "less": HOUR - timedelta(microseconds=1), "more": HOUR + timedelta(seconds=601)}
    deliveries = [[("first", TEN)], [(who, TEN - by) for who, by in late.items()], [("last", TEN + 48 * HOUR)]]
    (tmp_path / "visits").mkdir()
    stream = spark.readStream.schema(VISIT).parquet(str(tmp_path / "visits"))
    for rows in deliveries:
        frame = spark.createDataFrame([(*row, 1, "/", None) for row in rows], VISIT)
        frame.coalesce(1).write.mode("append").parquet(str(tmp_path / "visits"))
        queries = []
        for name, made in STREAMS.items():
            writer = made(stream).select("user").writeStream.option("path", str(tmp_path / name))
            checkpointed = writer.option("checkpointLocation", str(tmp_path / f"at {name}"))
            queries.append(checkpointed.trigger(availableNow=True).start(format="parquet"))
        for query in queries:
            query.awaitTermination()
    kept = {name: {row["user"] for row in spark.read.parquet(str(tmp_path / name)).collect()} for name in STREAMS}
    assert [users - {"last"} for users in kept.values()] == [{"first", "exact", "less"}] * len(STREAMS)


def test_every_tie_is_broken_by_content(world):
    """Survivors, newest partners, groups and the order of delivery are the same of every arrangement."""
    first = None
    for frame in world.frames:
        once = frame.distinct()
        flagged = Split(
            once.withColumn(OUTCOME, F.lit("valid")), {"valid": tuple(once.columns)}, identity=("user", "id")
        )
        kept = deduplicate(flagged, keys=["user"], order_by=["user", "id"])["valid"]
        last = deduplicate(frame, keys=["user"], order_by=["id"], keep="last")["valid"]
        partners = frame.selectExpr("user AS of", "at AS shown", "page AS ad", "seen AS told")
        latest = join_latest(
            kept, partners, times=JoinTimes(fact="at", other="shown"), identity=["user"], keys={"user": "of"}
        )
        groups = aggregate(once, keys=["page"], measures={"n": "COUNT(*)", "users": "distinct(user)", "id": "SUM(id)"})
        found = [sorted(map(tuple, rows.collect()), key=str) for rows in (kept, last, latest, groups)]
        first = first or found
        assert found == first
    assert len(first[0]) == len(first[1]) == len(first[2]) == USERS


def test_records_of_one_time_leave_in_the_order_of_their_ids(world):
    """Numbers in the order of numbers, in whatever order they come."""
    for frame in world.frames:
        columns = RecordColumns(identity="id", order_by=["user"], entity="user", payload=["user"])
        sent = defaultdict(list)
        for row in outgoing(frame, columns, destination="'x'", entity="user").orderBy("place").collect():
            sent[row["entity"]].append(int(row["record_id"]))
        assert all(ids == sorted(ids) for ids in sent.values())
        assert {9, 10, 100} <= {id_ for ids in sent.values() for id_ in ids}
