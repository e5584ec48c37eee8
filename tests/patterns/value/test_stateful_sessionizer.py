"""Stateful Sessionizer: a stream's sessions are those of the batch, whatever interrupts it."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.checkpointer import append_checkpointed
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule, sessionize_partition
from dedp_assets.patterns.value.stateful_sessionizer import sessionize_stream, sessionize_with_state
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.patterns.error_management.test_checkpointer import failing
from tests.renaming import any_names, at

pytestmark = pytest.mark.spark

MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
VISIT = "user STRING, at TIMESTAMP, id INT, page STRING"
RULE = {"entity": ["user"], "event_time": "at", "event_id": "id", "keep": ["page"]}
SESSIONS = TableSpec(
    "gold/sessions_live",
    {
        "session_id": Column("STRING", required=True),
        "user": Column("STRING", required=True),
        "started_at": Column("TIMESTAMP", required=True),
        "ended_at": Column("TIMESTAMP", required=True),
        "events": Column("ARRAY<STRUCT<at: TIMESTAMP, id: INT, page: STRING>>", required=True),
    },
)
HALF_AN_HOUR = 1800


def source(spark, folder, files):
    """Visits, a file for each micro-batch, and the stream of them."""
    for rows in files:
        spark.createDataFrame(rows, VISIT).coalesce(1).write.mode("append").parquet(str(folder))
    return spark.readStream.schema(VISIT).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(sessions, table, place):
    return append_checkpointed(sessions, table.target(a_run(SESSIONS.name)), checkpoint=str(place))


def told(rows):
    """Sessions as they are compared: everything, times in UTC."""
    return sorted(
        (row["session_id"], row["user"], _utc(row["started_at"]), _utc(row["ended_at"]), _events(row)) for row in rows
    )


def _utc(moment):
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def _events(row):
    return [(_utc(event["at"]), event["id"], event["page"]) for event in row["events"]]


def histories():
    """Visits of an afternoon, in three deliveries: those of some visitors out of order, a pause of exactly the gap.

    Visitors with even numbers log out now and then; theirs come in order. The last delivery moves the watermark over
    all of them, and brings one visit that is hours too late.
    """
    chosen, ids, files = random.Random(4), iter(range(10_000)), [[], [], []]  # noqa: S311 - no secret
    for user in range(60):
        ticks = sorted(chosen.randrange(36) for _ in range(chosen.choice([1, 3, 9])))
        for tick in ticks:
            moment = MONDAY + timedelta(minutes=5 * tick, microseconds=tick % 2)
            page = chosen.choice(["/", "/a", "/bye"]) if user % 2 == 0 else "/"
            late = chosen.random() < 0.3 and user % 2 == 1 and tick < 18
            files[1 if tick >= 18 or late else 0].append((f"u{user}", moment, next(ids), page))
    exact = [("exact", MONDAY, 10_001, "/"), ("exact", MONDAY + timedelta(minutes=30), 10_002, "/")]
    files[0] += exact
    files[2] += [("last", MONDAY + timedelta(hours=9), 10_003, "/")]
    for rows in files:
        chosen.shuffle(rows)
    return files


LATE = [("u1", MONDAY, 10_004, "/late")]


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """The same deliveries through both queries; the second one is interrupted twice at its second micro-batch."""
    home, files = tmp_path_factory.mktemp("sessions"), histories()
    stream = source(spark, home / "source", files)
    rule = SessionRule(**RULE, gap_seconds=HALF_AN_HOUR)
    windows, states = (Table(SESSIONS, home / name, spark) for name in ("windows", "states"))
    run(sessionize_stream(stream, rule=rule, lateness="2 hours"), windows, home / "of-windows")
    ended = sessionize_with_state(stream, rule=replace(rule, ends="page = '/bye'"), lateness="2 hours")
    for when in ("before", "after"):
        with failing(1, when), pytest.raises(PySparkException):
            run(ended, states, home / "of-states")
    run(ended, states, home / "of-states")
    left = spark.read.format("statestore").load(str(home / "of-states")).selectExpr("key.user").collect()
    source(spark, home / "source", [LATE])
    late = run(ended, states, home / "of-states")
    everything = spark.createDataFrame([row for rows in files for row in rows], VISIT)
    return SimpleNamespace(
        home=home,
        windows=windows,
        states=states,
        ended=ended,
        events=everything,
        left=[row.user for row in left],
        late=late,
    )


def batch(world, **more):
    until = MONDAY + timedelta(hours=7)
    events = world.events.filter("user <> 'last'")
    return told(
        sessionize_partition(events, None, rule=SessionRule(**RULE, **more, gap_seconds=HALF_AN_HOUR), until=until)[
            "completed"
        ].collect()
    )


@pytest.mark.promise("any-cut-of-history-gives")
def test_a_session_window_gives_the_sessions_of_the_batch(world):
    """Ids, times and visits in their order are equal, though visits came out of order; exactly the gap is no end."""
    found = told(read_back(world.windows))
    assert found == batch(world)
    assert [len(events) for _, user, *_, events in found if user == "exact"] == [2]


def test_a_state_of_its_own_gives_them_too_however_often_it_is_interrupted(world):
    """Killed before and after a commit: nothing is lost, doubled or counted twice; a logout ends a session at once."""
    found = told(read_back(world.states))
    assert found == batch(world, ends="page = '/bye'")
    assert {events[-1][2] for *_, events in found} == {"/", "/a", "/bye"}


def test_state_is_forgotten_and_what_is_too_late_is_dropped_and_counted(world):
    """Only the visitor whose gap is not over is remembered; a visit below the watermark makes no session."""
    assert world.left == ["last"]
    assert (world.late.rows.written, world.late.figures["dropped_by_watermark"]) == (0, 1)


def test_a_lost_checkpoint_and_one_of_another_query_are_refused(world):
    """Sessions that were in the state would be cut otherwise."""
    for place in ("nowhere", "of-windows"):
        with pytest.raises(ContractError, match=r"is lost|is of another query"):
            run(world.ended, world.states, world.home / place)


@pytest.mark.both
@pytest.mark.parametrize(("expires", "emitted"), [("watermark", ["A"]), ("event time", [])])
def test_the_trace_of_the_book(spark, make_table, tmp_path, expires, emitted):
    """Table 5-4, a record for each micro-batch: by the watermark A is over after B's record, by event time not."""
    trace = [("A", 600), ("A", 601), ("A", 608), ("B", 615)]
    files = [[(user, MONDAY + timedelta(minutes=at), number, "/")] for number, (user, at) in enumerate(trace)]
    stream, table = source(spark, tmp_path / "source", files), make_table(SESSIONS)
    sessions = sessionize_with_state(
        stream, rule=SessionRule(**RULE, gap_seconds=600), lateness="1 minute", expires=expires
    )
    run(sessions, table, tmp_path / "checkpoint")
    found = told(read_back(table))
    assert [user for _, user, *_ in found] == emitted
    if found:
        (_, _, started, ended, events) = found[0]
        assert (started, (ended - started).total_seconds()) == (MONDAY + timedelta(hours=10), 480)
        assert [number for _, number, _ in events] == [0, 1, 2]


@pytest.mark.parametrize(
    ("query", "more", "said"),
    [
        (sessionize_stream, {"gap_seconds": 0}, "gap_seconds a whole number above 0"),
        (sessionize_stream, {"event_id": "visit"}, "no column visit"),
        (sessionize_with_state, {"expires": "soon"}, "expires must be event time or watermark"),
        (sessionize_with_state, {"event_id": "at"}, "event_id must be another column than event_time"),
        (sessionize_with_state, {"event_id": "AT"}, "event_id must be another column than event_time"),
        (sessionize_with_state, {"event_id": "flag"}, "flag is BOOLEAN: the state needs text or whole numbers"),
    ],
)
def test_a_query_that_means_nothing_is_refused(spark, tmp_path, query, more, said):
    """Before it starts."""
    stream = spark.readStream.schema(f"{VISIT}, flag BOOLEAN").parquet(str(tmp_path))
    given = {**RULE, "gap_seconds": 60, **more}
    options = {name: given.pop(name) for name in ("expires",) if name in given}
    with pytest.raises(ConfigError, match=said):
        query(stream, rule=SessionRule(**given), lateness="1 minute", **options)


def test_a_batch_is_refused(spark):
    """There is another pattern for it."""
    with pytest.raises(ConfigError, match="use sessionize_partition"):
        sessionize_stream(
            spark.createDataFrame([], VISIT), rule=SessionRule(**RULE, gap_seconds=60), lateness="1 minute"
        )


EVENT = "user STRING, at TIMESTAMP, id INT, page STRING"


def rule(n):
    return SessionRule(n.all("user"), event_time=n("at"), event_id=n("id"), gap_seconds=600, keep=n.all("page"))


@any_names()
def streamed_sessions(n):
    found = sessionize_stream(n.stream(EVENT), rule=rule(n), lateness="1 minute")
    yield [dict.fromkeys([*found.columns, *found.schema["events"].dataType.elementType.names])]


EVENTS = [("Ada", at(1), 1, "/a"), ("Ada", at(2), 2, "/out"), ("Ada", at(3), 3, "/b"), ("Bob", at(59), 4, "/a")]


@any_names()
def sessions_by_state(n):
    ends = f"{n.q('page')} = '/out'"
    yield n.taken(sessionize_with_state(n.stream(EVENT, EVENTS), rule=replace(rule(n), ends=ends), lateness="1 day"))


@known_calls
def calls_that_work(known):
    rule = SessionRule(["user"], event_time="at", event_id="id", gap_seconds=60, ends="id = 1")
    return {"sessionize_with_state": {"stream": known.stream, "rule": rule, "lateness": "1 minute"}}
