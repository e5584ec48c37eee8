"""Incremental Sessionizer: sessions over partitions are those of the whole history, however it is cut."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.errors import PySparkException

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import StagedWrite
from dedp_assets.patterns.idempotency.transactional_writer import TableRows, publish_group
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule, sessionize_partition, show_partial
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.renaming import any_names
from tests.renaming import at as minute

pytestmark = pytest.mark.spark

MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
VISIT = "user STRING, at TIMESTAMP, id INT, page STRING"
RULE = {"entity": ["user"], "event_time": "at", "event_id": "id", "gap_seconds": 7200, "keep": ["page"]}
_EVENTS = "ARRAY<STRUCT<at: TIMESTAMP, id: INT, page: STRING>>"
_COLUMNS = {
    "hour": Column("STRING", required=True),
    "session_id": Column("STRING", required=True),
    "user": Column("STRING", required=True),
    "started_at": Column("TIMESTAMP", required=True),
    "ended_at": Column("TIMESTAMP", required=True),
    "events": Column(_EVENTS, required=True),
}
COMPLETED = TableSpec("gold/sessions", _COLUMNS, partition_by=("hour",))
PENDING = TableSpec("silver/sessions_pending", _COLUMNS, partition_by=("hour",))


def at(text):
    """``09:50`` of the day."""
    hour, minute, *second = map(int, text.split(":"))
    return MONDAY + timedelta(hours=hour, minutes=minute, seconds=sum(second))


class World:
    """Both tables, by the hour, and the visits of each hour."""

    def __init__(self, spark, make_table) -> None:
        self.spark, self.visits, self.versions = spark, {}, {}
        self.completed, self.pending = make_table(COMPLETED), make_table(PENDING)

    def visit(self, *seen):
        """Let visits arrive: ``("Ada", "09:50")``; the page is the number of the visit."""
        for user, time in seen:
            number = sum(map(len, self.visits.values()))
            hour = at(time).hour
            self.visits.setdefault(hour, []).append((user, at(time), number, f"/{number}"))
            self.versions[hour] = self.versions.get(hour, 0) + 1

    def run(self, *hours):
        """Run hours; whether what each left open is other than before."""
        return [self._run(hour) for hour in hours]

    def _run(self, hour):
        before = {"hour": f"{hour - 1:02d}"}
        last = self.pending.ledger.changed(before) if self.pending.ledger.exists() else None
        inputs = {"visits": self.versions.get(hour, 0), "pending": last.version if last else 0}
        split = sessionize_partition(
            self.spark.createDataFrame(self.visits.get(hour, []), VISIT),
            self.pending.read(before) if self.pending.ledger.exists() else None,
            rule=SessionRule(**RULE),
            until=MONDAY + timedelta(hours=hour + 1),
        )
        run = a_run(asset=PENDING.name, inputs=inputs, sequence=sum(inputs.values()))
        sets = [
            TableRows(
                split[part].selectExpr(f"'{hour:02d}' AS hour", "*"),
                table.target(run, partition={"hour": f"{hour:02d}"}),
                allow_empty=True,
            )
            for table, part in ((self.pending, "pending"), (self.completed, "completed"))
        ]
        return publish_group(sets).changed

    def done(self):
        """Completed sessions: user, hour, start, end, pages."""
        return sorted(map(_told, read_back(self.completed)))

    def open_after(self, hour):
        return sorted(_told(row)[::4] for row in read_back(self.pending) if row["hour"] == f"{hour:02d}")


def _told(row):
    times = [f"{row[name].astimezone(timezone.utc):%H:%M}" for name in ("started_at", "ended_at")]
    return row["user"], row["hour"], *times, [event["page"] for event in row["events"]]


@pytest.fixture
def world(spark, make_table):
    return World(spark, make_table)


def test_a_session_over_hours_is_completed_once_and_a_late_visit_repairs_what_follows(world):
    """The spec's span, boundary, three cases, rerun and backfill, in one story of two tables.

    Ada's visits of 09:50, 10:40 and 11:30 are one session, open after 09 to 12, completed by 13. Bob's pause of exactly
    two hours keeps his session, Cid's longer one does not, also within an hour's reach of the next run. A late visit
    changes Ada's first hours, until what an hour leaves open is what it left before: then nothing follows.
    """
    world.visit(("Ada", "09:50"), ("Bob", "09:00"), ("Cid", "09:00"), ("Ada", "10:40"))
    world.visit(("Bob", "11:00"), ("Cid", "11:00:01"), ("Ada", "11:30"), ("Dan", "11:59"))
    assert world.run(9, 10) == [True, True]
    assert world.done() == []
    assert world.open_after(10) == [("Ada", ["/0", "/3"]), ("Bob", ["/1"]), ("Cid", ["/2"])]
    world.run(11, 12)
    assert [row for row in world.done() if row[0] == "Ada"] == []
    assert world.open_after(12) == [
        ("Ada", ["/0", "/3", "/6"]),
        ("Bob", ["/1", "/4"]),
        ("Cid", ["/5"]),
        ("Dan", ["/7"]),
    ]
    world.run(13, 14)
    done = [
        ("Ada", "13", "09:50", "11:30", ["/0", "/3", "/6"]),
        ("Bob", "13", "09:00", "11:00", ["/1", "/4"]),
        ("Cid", "11", "09:00", "09:00", ["/2"]),
        ("Cid", "13", "11:00", "11:00", ["/5"]),
        ("Dan", "13", "11:59", "11:59", ["/7"]),
    ]
    assert world.done() == done
    assert world.open_after(13) == world.open_after(14) == []
    ids = {row["session_id"] for row in read_back(world.completed)}
    assert len(ids) == 5
    assert world.run(10) == [False]
    world.visit(("Ada", "09:55"), ("Eve", "10:05"))
    assert world.run(9, 10, 11, 12, 13, 14) == [True, True, True, True, False, False]
    late = ("Ada", "13", "09:50", "11:30", ["/0", "/8", "/3", "/6"])
    assert world.done() == [late, *done[1:], ("Eve", "12", "10:05", "10:05", ["/9"])]
    assert ids < {row["session_id"] for row in read_back(world.completed)}


def test_a_crash_between_the_tables_loses_and_doubles_no_session(world, monkeypatch):
    """Completed sessions are there, what stays open is not: the hour that is run again finishes what was begun."""
    world.visit(("Ada", "09:10"), ("Bob", "10:05"))
    world.run(9, 10)

    def dies(self, **more):
        if self.table.name == PENDING.name:
            raise KeyboardInterrupt
        return publish(self, **more)

    publish = StagedWrite.publish
    with monkeypatch.context() as killed:
        killed.setattr(StagedWrite, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            world.run(11)
    assert [row[0] for row in world.done()] == ["Ada"]
    world.run(11, 12)
    assert [row[:2] for row in world.done()] == [("Ada", "11"), ("Bob", "12")]
    assert world.open_after(11) == [("Bob", ["/1"])]


def model(events, gap):
    """What a person would call the sessions of one visitor, from the whole history."""
    found = []
    for event in sorted(events):
        if found and event[0] - found[-1][-1][0] <= gap and found[-1][-1][2] != "/bye":
            found[-1].append(event)
        else:
            found.append([event])
    return found


def case(number):
    """A generated history of one visitor over six hours: some empty, times often equal or a gap apart to the moment."""
    chosen = random.Random(number)  # noqa: S311 - a test's histories, not a secret
    step = timedelta(minutes=chosen.choice([1, 5, 30]))
    edge = chosen.choice([timedelta(0), timedelta(microseconds=1)])
    ticks = [chosen.randrange(int(timedelta(hours=6) / step)) for _ in range(chosen.choice([1, 2, 5, 12, 40]))]
    times = [MONDAY + tick * step + edge * chosen.randrange(2) for tick in ticks]
    return [(moment, number, chosen.choice(["/", "/a", "/bye"])) for number, moment in enumerate(times)]


@pytest.mark.promise("any-cut-of-history-gives")
def test_any_cut_of_history_gives_the_sessions_of_the_whole_history(spark):
    """300 histories, by the hour and by two hours, in reversed delivery: completed ones and the last open ones are all.

    The ids of both cuts are equal, and no two sessions share one.
    """
    cases = {str(number): case(number) for number in range(300)}
    gap = timedelta(minutes=30)
    expected = {(user, tuple(map(tuple, s))) for user, events in cases.items() for s in model(events, gap)}
    rule = {**RULE, "gap_seconds": 1800, "ends": "page = '/bye'"}
    ids = {}
    for hours in (1, 2):
        found, pending = [], None
        for start in range(0, 6, hours):
            first, last = MONDAY + timedelta(hours=start), MONDAY + timedelta(hours=start + hours)
            mine = [(user, *e) for user, events in cases.items() for e in events if first <= e[0] < last][::-1]
            split = sessionize_partition(
                spark.createDataFrame(mine, VISIT), pending, rule=SessionRule(**rule), until=last
            )
            rows = split.rows.collect()
            completed = [row for row in rows if row[split.outcome] == "completed"]
            assert all(row.ended_at < last.replace(tzinfo=None) for row in completed)
            found += completed
            still = [row for row in rows if row[split.outcome] == "pending"]
            pending = spark.createDataFrame(still, split.rows.schema)
        sessions = [(row.user, tuple((_utc(e.at), e.id, e.page) for e in row.events)) for row in [*found, *still]]
        assert len(sessions) == len(expected)
        assert set(sessions) == expected
        ids[hours] = {row.session_id for row in [*found, *still]}
        assert len(ids[hours]) == len(expected)
    assert ids[1] == ids[2]


def _utc(moment):
    return moment.replace(tzinfo=timezone.utc)


def test_partial_sessions_are_flagged_and_superseded(world):
    """Whoever looks at completed ones only never sees a session change; a partial one is there once, then final."""
    world.visit(("Ada", "09:50"), ("Bob", "09:00"), ("Ada", "11:10"))
    world.run(9, 10, 11)
    shown = []
    for hour in (9, 10, 11):
        completed = world.completed.read().filter(f"hour <= '{hour:02d}'")
        rows = show_partial(completed, world.pending.read({"hour": f"{hour:02d}"})).collect()
        assert len({row.session_id for row in rows}) == len(rows)
        shown.append(sorted((row.user, len(row.events), row.is_completed) for row in rows))
    assert shown == [
        [("Ada", 1, False), ("Bob", 1, False)],
        [("Ada", 1, False), ("Bob", 1, False)],
        [("Ada", 2, False), ("Bob", 1, True)],
    ]


@pytest.mark.parametrize(
    ("columns", "row", "more", "said"),
    [
        (VISIT, None, {"event_id": "visit"}, "no column visit"),
        ("user STRING, at DATE, id INT, page STRING", None, {}, "at is DATE"),
        ("user STRING, at TIMESTAMP_NTZ, id INT, page STRING", None, {}, "at is TIMESTAMP_NTZ"),
        (VISIT, (None, MONDAY, 1, "/"), {}, "an event has no user"),
        (VISIT, ("Ada", None, 1, "/"), {}, "an event has no at"),
        (VISIT, ("Ada", MONDAY, None, "/"), {}, "an event has no id"),
    ],
)
def test_what_makes_no_session_is_refused(spark, columns, row, more, said):
    """Options before anything is computed; a row without an entity, a time or an identity once it is read."""
    with pytest.raises((ConfigError, PySparkException), match=said):
        sessionize_partition(
            spark.createDataFrame([row] if row else [], columns),
            None,
            rule=SessionRule(**{**RULE, **more}),
            until=at("10:00"),
        )["completed"].collect()


@pytest.mark.both
@pytest.mark.parametrize("row", [(None, MONDAY, 1, "/"), ("Ada", None, 1, "/"), ("Ada", MONDAY, None, "/")])
def test_a_write_refuses_an_event_that_is_nobodys_in_one_sentence(spark, make_table, row):
    """As the library's error, and nothing is published."""
    table, pending = make_table(COMPLETED), None
    events = spark.createDataFrame([row, ("Bob", MONDAY, 2, "/")], VISIT)
    done = sessionize_partition(events, pending, rule=SessionRule(**RULE), until=at("23:00"))["completed"].selectExpr(
        "'23' AS hour", "*"
    )
    with pytest.raises(ContractError, match=r"^no session: an event has no (user|at|id)$"):
        table.overwrite(done, partition={"hour": "23"}, provenance=a_run(COMPLETED.name))
    assert table.ledger.version() == 0


def test_a_column_that_is_kept_since_today_is_null_in_what_was_open(spark):
    """And one that is named twice, in whatever case, is kept once; a table of other events is refused."""
    older = spark.createDataFrame([("Ada", at("09:50"), 1, "/a")], VISIT)
    newer = spark.createDataFrame([("Ada", at("10:10"), 2, "/b")], VISIT)
    rule = {**RULE, "keep": []}
    left = sessionize_partition(older, None, rule=SessionRule(**rule), until=at("10:00"))["pending"]
    rule["keep"] = ["ID", "page", "Page", "AT"]
    went_on = sessionize_partition(newer, left, rule=SessionRule(**rule), until=at("23:00"))["completed"]
    (row,) = went_on.collect()
    assert [(event["id"], event["page"]) for event in row["events"]] == [(1, None), (2, "/b")]
    assert row["events"][0].__fields__ == ["at", "id", "page"]
    strange = left.selectExpr("session_id", "user", "started_at", "ended_at", "array(struct(1 AS one)) AS events")
    with pytest.raises(ConfigError, match="have no at, id: they are of another rule"):
        sessionize_partition(newer, strange, rule=SessionRule(**rule), until=at("23:00"))


@pytest.mark.parametrize("until", [datetime(2026, 1, 5), MONDAY.date(), "2026-01-05", None])  # noqa: DTZ001
def test_an_end_that_is_no_instant_is_refused(spark, until):
    """By its name, whatever it is instead."""
    with pytest.raises(ConfigError, match=r"^until must be a datetime with a time zone, not "):
        sessionize_partition(spark.createDataFrame([], VISIT), None, rule=SessionRule(**RULE), until=until)


def test_columns_may_be_called_anything(spark):
    """Dots and blanks in names, and a column of the events that is called like one of a session."""
    seen = spark.createDataFrame(
        [("Ada", MONDAY, 1, "/")], "`a user` STRING, `event.time` TIMESTAMP, id INT, events STRING"
    )
    rule = SessionRule(["a user"], event_time="event.time", event_id="id", gap_seconds=60, keep=["events"])
    first = sessionize_partition(seen, None, rule=rule, until=MONDAY + timedelta(seconds=1))["pending"]
    then = sessionize_partition(seen.limit(0), first, rule=rule, until=MONDAY + timedelta(days=1))[
        "completed"
    ].collect()
    assert [(row["a user"], row.events[0].events) for row in then] == [("Ada", "/")]


EVENT = "user STRING, at TIMESTAMP, id INT, page STRING"


EVENTS = [
    ("Ada", minute(1), 1, "/a"),
    ("Ada", minute(2), 2, "/out"),
    ("Ada", minute(3), 3, "/b"),
    ("Bob", minute(59), 4, "/a"),
]


def rule(n):
    return SessionRule(n.all("user"), event_time=n("at"), event_id=n("id"), gap_seconds=600, keep=n.all("page"))


@any_names()
def sessions(n):
    rows, ends = n.frame(EVENT, *EVENTS), f"{n.q('page')} = '/out'"
    first = sessionize_partition(rows, None, rule=replace(rule(n), ends=ends), until=minute(4))
    second = sessionize_partition(rows.limit(0), first["pending"], rule=replace(rule(n), ends=ends), until=minute(59))
    yield first["completed"]
    yield show_partial(second["completed"], second["pending"])


def test_a_column_that_is_called_as_one_that_is_added_is_refused(spark):
    """What a step adds would take the place of the user's own column: the refusal names it, and no row is wrong."""
    rows = spark.createDataFrame([], "__dedp_ends STRING, a INT, b TIMESTAMP")
    own = SessionRule(entity=["__dedp_ends"], event_time="b", event_id="a", gap_seconds=1)
    with pytest.raises(ConfigError, match="__dedp_"):
        sessionize_partition(rows, None, rule=own, until=minute(1))


@known_calls
def calls_that_work(known):
    sessions = known.frame("session_id STRING", ("a",))
    return {"show_partial": {"completed": sessions, "pending": sessions}}
