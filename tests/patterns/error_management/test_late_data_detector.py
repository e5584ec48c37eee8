"""Late Data Detector: events below a watermark that never moves back are found, kept and counted."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import RowCounts
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.instants import collected
from dedp_assets.patterns.error_management.checkpointer import append_checkpointed
from dedp_assets.patterns.error_management.late_data_detector import (
    Progress,
    advance_watermark,
    detect_late_data,
    judge_lateness,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back
from tests.renaming import any_names, at

HALF_AN_HOUR, HOUR = 1800, 3600
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATE = TableSpec(
    "silver/late",
    {
        "at": Column("STRING"),
        "source": Column("STRING"),
        "event_time": Column("TIMESTAMP", required=True),
        "watermark": Column("TIMESTAMP", required=True),
        "lateness_seconds": Column("DOUBLE", required=True),
        "arrived_at": Column("TIMESTAMP", required=True),
    },
)
ON_TIME = TableSpec(
    "silver/on_time",
    {"at": Column("STRING"), "source": Column("STRING"), "event_time": Column("TIMESTAMP", required=True)},
)


def clock(text, day="2023-06-30"):
    return datetime.fromisoformat(f"{day}T{text}+00:00")


def batch(spark, *times, source="s"):
    return spark.createDataFrame([(time, source) for time in times], "at STRING, source STRING")


def detect(rows, watermark, **bounds):
    return detect_late_data(rows, event_time="try_to_timestamp(at)", watermark=watermark, **bounds)


def outcomes(split):
    return {row["at"]: row[OUTCOME] for row in split.rows.collect()}


def iso(*texts):
    return [clock(text).isoformat() for text in texts]


@pytest.mark.both
def test_two_batches_move_the_watermark_and_lose_no_late_row(spark, make_table):
    """With half an hour allowed, 09:20 and 09:31 are late after 10:06 was seen, and say how much and when they came."""
    late, on_time = make_table(LATE), make_table(ON_TIME)
    watermark = None
    for number, times in enumerate([("10:00", "10:05", "10:06"), ("09:20", "09:31", "10:07")], start=1):
        arrived = clock(f"10:0{6 + number}")
        split = detect(batch(spark, *iso(*times)), watermark, arrived=f"TIMESTAMP '{arrived.isoformat(sep=' ')}'")
        late.append(split["late"], provenance=a_run(sequence=number))
        on_time.append(split["on_time"], provenance=a_run(sequence=number))
        newest = max(row["event_time"] for row in read_back(on_time))
        watermark = advance_watermark(watermark, {"p0": newest}, allowed_lateness_seconds=HALF_AN_HOUR)
        assert watermark == clock(("09:36", "09:37")[number - 1])
    assert [row["at"] for row in read_back(on_time)] == iso("10:00", "10:05", "10:06", "10:07")
    assert read_back(late) == [
        {
            "at": clock(text).isoformat(),
            "source": "s",
            "event_time": clock(text),
            "watermark": clock("09:36"),
            "lateness_seconds": seconds,
            "arrived_at": clock("10:08"),
        }
        for text, seconds in (("09:20", 960.0), ("09:31", 300.0))
    ]


WINDOWS = TableSpec("gold/windows", {"start": Column("STRING", required=True), "events": Column("BIGINT")})
CLOSED = """
    SELECT date_format(window.start, 'HH:mm') AS start, count(*) AS events
    FROM {events} GROUP BY window(event_time, '10 minutes')
"""


def test_what_a_stream_drops_silently_is_what_the_detector_keeps(spark, make_table, tmp_path):
    """An hour of tolerance, event by event: two windows close, and each row the stream drops is a late row kept."""
    late, watermark, after = [], EPOCH, []
    for number, text in enumerate(("03:15", "03:00", "01:50", "03:11", "04:31")):
        split = detect(batch(spark, *iso(text)), watermark)
        late += [row["event_time"].strftime("%H:%M") for row in split["late"].collect()]
        watermark = advance_watermark(watermark, {"p0": clock(text)}, allowed_lateness_seconds=HOUR)
        after.append(f"{watermark:%H:%M}")
        landed = tmp_path / "landed" / f"{number}.json"
        landed.parent.mkdir(exist_ok=True)
        landed.write_text(json.dumps({"event_time": clock(text).isoformat()}))
        os.utime(landed, (number, number))
    assert after == ["02:15", "02:15", "02:15", "02:15", "03:31"]
    assert late == ["01:50"]
    files = spark.readStream.schema("event_time TIMESTAMP").option("maxFilesPerTrigger", 1)
    events = files.json(str(tmp_path / "landed")).withWatermark("event_time", "1 hour")
    windows = make_table(WINDOWS)
    checkpoint = str(tmp_path / "checkpoint")
    written = append_checkpointed(
        spark.sql(CLOSED, events=events), windows.target(a_run(WINDOWS.name)), checkpoint=checkpoint
    )
    assert read_back(windows) == [{"start": "03:00", "events": 1}, {"start": "03:10", "events": 2}]
    assert written.figures["dropped_by_watermark"] == len(late)


def test_an_event_at_the_watermark_is_on_time_and_a_microsecond_before_it_is_late(spark):
    """Late means strictly below, in whatever zone the watermark is written."""
    rows = batch(spark, "2023-06-30 09:36:00Z", "2023-06-30 09:35:59.999999Z", "2023-06-30 09:36:00.000001Z")
    east = clock("09:36").astimezone(timezone(timedelta(hours=5, minutes=30)))
    split = detect(rows, east)
    assert list(outcomes(split).values()) == ["on_time", "late", "on_time"]
    assert [row["lateness_seconds"] for row in split["late"].collect()] == [1e-6]


def test_ten_minutes_of_tolerance_tell_a_delayed_event_from_a_late_one(spark):
    """After 10:30 was seen, 10:25 is on time and 10:15 is five minutes below the watermark."""
    watermark = advance_watermark(None, {"p0": clock("10:30")}, allowed_lateness_seconds=600)
    split = detect(batch(spark, *iso("10:25", "10:15")), watermark)
    assert [row["at"] for row in split["on_time"].collect()] == iso("10:25")
    [row] = split["late"].collect()
    assert (row["at"], row["lateness_seconds"]) == (clock("10:15").isoformat(), 300.0)
    assert row["watermark"].isoformat() == "2023-06-30T10:20:00"


def test_every_event_is_in_exactly_one_part(spark, make_table):
    """On time, late and undated add up to the input, record by record and in the write's own account."""
    texts = [*iso("09:00", "09:30", "10:00", "10:30"), "HELLO", None, "2099-01-01", "1970-01-01"]
    split = detect(
        batch(spark, *texts), clock("10:00"), earliest=clock("00:00"), latest=clock("00:00", day="2023-07-02")
    )
    parts = {part: [row["at"] for row in split[part].collect()] for part in split.parts}
    assert {part: len(rows) for part, rows in parts.items()} == {"on_time": 2, "late": 2, "undated": 4}
    assert Counter(at for rows in parts.values() for at in rows) == Counter(texts)
    staged = make_table(ON_TIME).stage(split, keep="on_time", provenance=a_run())
    assert RowCounts(**staged.record.rows) == RowCounts(read=8, written=2, filtered=6)


def test_a_clock_that_cannot_be_right_does_not_move_the_watermark(spark):
    """No time, an unreadable one, the year 2099 and 1970 are undated, and the newest plausible event decides."""
    texts = [None, "HELLO", "2099-01-01", "1970-01-01", clock("10:06").isoformat()]
    split = detect(batch(spark, *texts), None, earliest=clock("00:00"), latest=clock("23:59"))
    assert {row["event_time"] for row in split["undated"].collect()} == {None}
    newest = split.rows.selectExpr("CAST(max(event_time) AS STRING)").collect()[0][0]
    assert newest == "2023-06-30 10:06:00"
    seen = {"p0": clock("10:06")}
    assert advance_watermark(None, seen, allowed_lateness_seconds=HALF_AN_HOUR) == clock("09:36")
    assert advance_watermark(clock("09:00"), {"p0": None}, allowed_lateness_seconds=0) == clock("09:00")


def test_events_come_back_with_their_own_columns(spark):
    """The pattern adds columns; it changes none, whatever the input's are called."""
    rows = spark.createDataFrame([("10:00 or so",)], "happened STRING")
    split = detect_late_data(rows, event_time="try_to_timestamp(happened)", watermark=None)
    assert [row["happened"] for row in split["undated"].collect()] == ["10:00 or so"]


def test_every_name_of_a_column_works_and_none_is_overwritten(spark):
    """Columns with odd names come back; one that the pattern adds is refused, in any case."""
    rows = spark.sql("SELECT '2026-01-05' AS `a.b`, 'x' AS `stated event time`, 'y' AS outcome, 1 AS `b``tick`")
    split = detect_late_data(rows, event_time="try_to_timestamp(`a.b`)", watermark=clock("10:00"))
    assert [tuple(row)[:4] for row in split["on_time"].collect()] == [("2026-01-05", "x", "y", 1)]
    for name in ("Event_Time", "watermark", "lateness_seconds", "arrived_at"):
        with pytest.raises(ConfigError, match=f"column {name}, which this step adds"):
            detect_late_data(spark.sql(f"SELECT 'x' AS {name}"), event_time="NULL", watermark=None, arrived="now()")


def test_by_partition_an_event_is_late_that_belongs_to_an_earlier_one(spark):
    """With the start of the day that a batch is of as its watermark, what happened on days before it is late."""
    texts = ["2023-06-29T23:59:59.999999Z", "2023-06-30T00:00:00Z", "2023-06-28T12:00:00Z", "2023-07-01T00:00:00Z", "x"]
    split = detect(batch(spark, *texts), clock("00:00"))
    assert outcomes(split) == dict(zip(texts, ["late", "on_time", "late", "on_time", "undated"], strict=True))
    dates = split["late"].selectExpr("CAST(to_date(event_time) AS STRING) AS day").collect()
    assert Counter(row["day"] for row in dates) == {"2023-06-29": 1, "2023-06-28": 1}


def test_bounds_that_no_event_can_meet_are_refused(spark):
    """An earliest after the latest would make every event undated."""
    with pytest.raises(ConfigError, match="no event lies between"):
        detect(batch(spark, "x"), None, earliest=clock("10:00"), latest=clock("09:00"))


@pytest.mark.parametrize(
    ("across", "late", "severity"), [("max", {"s1": 2, "s2": 2, "s3": 2, "s4": 2}, "fail"), ("min", {}, "warn")]
)
def test_four_slow_sources_of_five_are_late_by_the_fastest_and_on_time_by_the_slowest(spark, across, late, severity):
    """Following the fastest calls whole sources late, and the finding names them; following the slowest loses none."""
    newest = {"s0": clock("12:00"), **{f"s{n}": clock("11:20") for n in range(1, 5)}}
    watermark = advance_watermark(None, newest, allowed_lateness_seconds=HALF_AN_HOUR, across=across)
    events = [(time, source) for source, last in newest.items() for time in (last, last + timedelta(minutes=1))]
    rows = spark.createDataFrame([(time.isoformat(), source) for time, source in events], "at STRING, source STRING")
    found = Counter(row["source"] for row in detect(rows, watermark)["late"].collect())
    assert found == late
    finding = judge_lateness(found, Counter(source for _, source in events))
    assert (finding.passed, finding.severity) == (not late, severity)
    assert finding.note == ("behind the watermark: s1, s2, s3, s4" if late else "")


def test_a_clock_that_is_wrong_by_years_does_not_move_the_watermark(spark):
    """Without a bound, an event of tomorrow passes, one of the year 2999 is undated, and one of 0001 is old."""
    today = collected(spark.sql("SELECT current_timestamp()").collect()[0][0])
    times = [clock("10:00", day) for day in ("2999-01-01", "9999-12-31", "0001-01-01")]
    rows = batch(spark, *[time.isoformat() for time in (*times, today, today + timedelta(hours=20))])
    found = detect(rows, None)
    assert sorted(row["at"][:4] for row in found["undated"].collect()) == ["2999", "9999"]
    newest = collected(found["on_time"].agg({"event_time": "max"}).collect()[0][0])
    moved = advance_watermark(None, {"s": newest}, allowed_lateness_seconds=HOUR)
    assert moved == today + timedelta(hours=19)
    late = "2023-07-01T10:00:01+00:00"
    came = detect(batch(spark, *iso("10:00"), late), None, arrived="TIMESTAMP '2023-06-30 10:00:00Z'")
    assert [row["at"] for row in came["undated"].collect()] == [late]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_an_event_at_the_watermark_is_on_time_and_a_microsecond_before_it_late(spark, zone):
    """To the microsecond, from the year 1 on, in whatever zone the session is; bounds belong to what is plausible."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for year in ("0001", "1582", "2026"):
            mark, tick = datetime.fromisoformat(f"{year}-03-08T07:30:00.000001+00:00"), timedelta(microseconds=1)
            times = [(mark + n * tick).isoformat() for n in (-2, -1, 0, 1, 2)]
            split = detect(batch(spark, *times), mark, earliest=mark - tick, latest=mark + tick)
            by_time = outcomes(split)
            assert [by_time[time] for time in times] == ["undated", "late", "on_time", "on_time", "undated"]
            assert [row["lateness_seconds"] for row in split["late"].collect()] == [1e-6]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("wrong", [datetime(2026, 1, 5), date(2026, 1, 5), "2026-01-05"])  # noqa: DTZ001
def test_a_time_that_each_zone_reads_differently_is_refused(spark, wrong):
    """By its name, as a bound and as what a batch brought."""
    rows = batch(spark, *iso("10:00"))
    for name in ("earliest", "latest"):
        with pytest.raises(ConfigError, match=f"^{name} must be a datetime with a time zone, not "):
            detect(rows, None, **{name: wrong})
    with pytest.raises(ConfigError, match=r"^watermark must be a datetime with a time zone"):
        detect(rows, wrong)
    with pytest.raises(ConfigError, match=r"^newest must be a datetime with a time zone"):
        advance(Progress(T0, {"p0": T0}), T0, p0=wrong)
    with pytest.raises(ConfigError, match=r"^at must be a datetime with a time zone"):
        advance(Progress(), wrong, p0=T0)
    for known, newest, said in (
        (wrong, T0, "watermark must be"),
        (None, wrong, "newest must be a mapping whose values are each"),
    ):
        with pytest.raises(ConfigError, match=f"^{said} a datetime with a time zone"):
            advance_watermark(known, {"p0": newest}, allowed_lateness_seconds=0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1, -0.5, "60", None, True, 1e300])
def test_a_lateness_that_is_no_length_of_time_is_refused(wrong):
    """Of the first year there is, what lies before cannot be told, and nothing is late."""
    said = "=.* must be a number of seconds from 0" if wrong in (-1, -0.5) else " must be a (finite )?number"
    with pytest.raises(ConfigError, match=f"^allowed_lateness_seconds{said}"):
        advance_watermark(None, {"p0": T0}, allowed_lateness_seconds=wrong)
    first = clock("00:00", "0001-01-01")
    assert advance_watermark(None, {"p0": first}, allowed_lateness_seconds=3e9) == first


T0, T1, T2 = clock("10:00"), clock("10:10"), clock("10:20")


@pytest.mark.parametrize(
    ("newest", "policy", "expected"),
    [
        ({"p0": T0, "p1": T1}, {}, T1),
        ({"p0": T0, "p1": T1}, {"across": "max"}, T1),
        ({"p0": T0, "p1": T1}, {"across": "min"}, T0),
        ({"p0": None, "p1": T1}, {"across": "max"}, T1),
        ({"p0": None, "p1": T1}, {"across": "min"}, None),
        ({"p0": None, "p1": T1}, {"across": "min", "idle": ["p0"]}, T1),
        ({"p0": T0, "p1": T1}, {"across": "max", "idle": ["p1"]}, T0),
        ({"p0": T0}, {"across": "min", "idle": ["p0"]}, None),
        ({}, {}, None),
        ({"web": {"0": T0, "1": T2}, "app": {"0": T1}}, {"within": "min", "across": "max"}, T1),
        ({"web": {"0": T0, "1": T2}, "app": {"0": T1}}, {"within": "max", "across": "min"}, T1),
        ({"web": {"0": T0, "1": T2}, "app": {"0": T1}}, {"within": "min", "across": "min"}, T0),
        ({"web": {"0": T0, "1": T2}, "app": {"0": T1}}, {"within": "max", "across": "max"}, T2),
        ({"web": {"0": T0, "1": None}, "app": {"0": T1}}, {"within": "min", "across": "min"}, None),
        ({"web": {"0": None}, "app": {"0": T1}}, {"across": "min", "idle": ["web"]}, T1),
        ({"web": {"0": T0, "1": None}}, {"within": "min", "idle": ["1"]}, T0),
    ],
)
def test_the_policy_says_whom_the_watermark_follows(newest, policy, expected):
    """The slowest or the fastest, among partitions and among sources, without those that timed out."""
    assert advance_watermark(None, newest, allowed_lateness_seconds=0, **policy) == expected


def test_a_silent_input_holds_the_slowest_back_until_it_times_out():
    """The watermark stays where it was, and goes on once the silent input is declared idle."""
    seen = {"busy": T2, "silent": T0}
    held = advance_watermark(T0, seen, allowed_lateness_seconds=0, across="min")
    assert held == T0
    assert advance_watermark(held, seen, allowed_lateness_seconds=0, across="min", idle=["silent"]) == T2


def advance(progress, at, *, across="min", idle=600, **newest):
    return progress.advance(newest, at=at, allowed_lateness_seconds=60, across=across, idle_after_seconds=idle)


def test_an_idle_input_times_out_by_the_clock_and_counts_again_when_it_delivers():
    """Ten minutes of silence hold the slowest back; then the others go on, and what it brings later is below them."""
    minute = timedelta(minutes=1)
    progress = advance(Progress(), T0, busy=T0, slow=T0 - 2 * minute)
    assert progress.watermark == T0 - 3 * minute
    waiting = advance(progress, T0 + 10 * minute, busy=T0 + 10 * minute, slow=None)
    assert waiting.watermark == progress.watermark
    assert not waiting.judge(at=T0 + 10 * minute, stalled_after_seconds=300).passed
    onward = advance(waiting, T0 + 11 * minute, busy=T0 + 11 * minute)
    assert onward.watermark == T0 + 10 * minute
    back = advance(onward, T0 + 12 * minute, slow=T0 - minute)
    assert back.watermark == onward.watermark
    held = advance(back, T0 + 13 * minute, busy=T0 + 13 * minute)
    assert held.watermark == onward.watermark, "the slow input delivers, so that it is waited for again"
    assert advance(back, T0 + 13 * minute, idle=None, across="max", busy=T0 + 13 * minute).watermark == T0 + 12 * minute


def test_a_stalled_input_is_named_and_a_skewed_one_is_measured():
    """Silent is who delivered nothing for too long, or nothing ever; how far each is behind is a figure."""
    hour = timedelta(hours=1)
    progress = advance(Progress(), T0, web=T0, app=T0 - hour, tv=None)
    progress = advance(progress, T0 + hour, web=T0 + hour, app=T0, tv=None)
    finding = progress.judge(at=T0 + hour, stalled_after_seconds=1800)
    assert (finding.name, finding.passed, finding.refuses) == ("no_input_is_stalled", False, False)
    assert finding.note == f"stalled input tv: nothing since {T0.isoformat()}"
    assert finding.figures == {"stalled": 1, "web behind [s]": 0, "app behind [s]": 3600}
    assert progress.judge(at=T0 + hour, stalled_after_seconds=3600).passed


@pytest.mark.parametrize(
    "wrong",
    [{"allowed_lateness_seconds": -1}, {"across": "mean"}, {"within": "median"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_policy_that_does_not_exist_is_refused(wrong):
    """A negative tolerance or an unknown policy is a mistake in the call."""
    with pytest.raises(ConfigError, match="min or max"):
        advance_watermark(None, {"p0": T0}, **{"allowed_lateness_seconds": 0, **wrong})


times = st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001
partitions = st.dictionaries(st.sampled_from(["p0", "p1", "p2"]), times)
newest_times = partitions | st.dictionaries(st.sampled_from(["web", "app"]), partitions)
policies = st.sampled_from(["min", "max"])


@settings(deadline=None)
@given(
    batches=st.lists(newest_times),
    lateness=st.floats(0, 1e6),
    across=policies,
    within=policies,
    idle=st.sets(st.sampled_from(["p0", "p1", "web"])),
)
def test_the_watermark_never_moves_back(batches, lateness, across, within, idle):
    """Whatever comes in whatever order, under any policy, and through any number of restarts."""

    def advance(stored, newest):
        known = datetime.fromisoformat(stored) if stored else None
        moved = advance_watermark(
            known, newest, allowed_lateness_seconds=lateness, across=across, within=within, idle=idle
        )
        return moved.isoformat() if moved else None

    history = [datetime.fromisoformat(stored) for stored in accumulate(batches, advance, initial="") if stored]
    assert history == sorted(history)


inputs = st.sampled_from(["web", "app", "tv"])
steps = st.tuples(st.dictionaries(inputs, times), st.integers(0, 900))


@settings(deadline=None)
@given(st.lists(steps), policies, st.none() | st.integers(0, 1200))
def test_progress_through_restarts_is_what_a_plain_model_says(batches, across, idle):
    """Whatever was delivered when, and stored and read back after each batch: newest, last heard of, watermark."""
    progress, newest, heard, watermark, now = Progress(), {}, {}, None, T0
    for batch_times, seconds in batches:
        now += timedelta(seconds=seconds)
        noted = json.loads(json.dumps(progress.note))
        progress = advance(Progress.of_note(noted), now, across=across, idle=idle, **batch_times)
        for name, time in batch_times.items():
            heard[name] = now if time else heard.get(name, now)
            newest[name] = max((t for t in (newest.get(name), time) if t), default=None)
        followed = [newest[n] for n in newest if idle is None or (now - heard[n]).total_seconds() <= idle]
        known = [time for time in followed if time]
        if known and (across == "max" or len(known) == len(followed)):
            candidate = (max if across == "max" else min)(known) - timedelta(seconds=60)
            watermark = candidate if watermark is None else max(watermark, candidate)
        assert (progress.newest, progress.heard, progress.watermark) == (newest, heard, watermark)


@settings(deadline=None)
@given(st.data(), st.lists(times, min_size=1))
def test_the_order_of_batches_does_not_matter_to_where_the_watermark_ends(data, seen):
    """Running an old day again, or days in another order, ends at the same watermark."""
    orders = [seen, [*data.draw(st.permutations(seen)), data.draw(st.sampled_from(seen))]]
    ends = set()
    for order in orders:
        watermark = None
        for newest in order:
            watermark = advance_watermark(watermark, {"p0": newest}, allowed_lateness_seconds=60)
        ends.add(watermark)
    assert len(ends) == 1


@pytest.mark.parametrize(
    ("late", "passed", "refuses"),
    [(0, True, False), (10, True, False), (11, False, False), (50, False, False), (51, False, True)],
)
def test_the_share_of_late_events_warns_and_then_fails(late, passed, refuses):
    """A bound is a bound: at it the share still passes, above it it does not."""
    finding = judge_lateness({"web": late}, {"web": 100, "silent": 0})
    assert (finding.passed, finding.refuses) == (passed, refuses)
    assert finding.figures == {"late share of web": late / 100}
    assert finding.approvable


def test_one_slow_source_is_not_hidden_by_many_fast_ones():
    """Each source is judged by its own share, with bounds of the caller's choice."""
    finding = judge_lateness({"slow": 3}, {"slow": 10, "fast": 10_000}, warn_above=0.2, fail_above=0.4)
    assert (finding.passed, finding.severity, finding.note) == (False, "warn", "behind the watermark: slow")


@pytest.mark.parametrize(("late", "total"), [({"web": 1}, {}), ({"web": 1}, {"web": 0}), ({"web": -1}, {"web": 3})])
def test_late_events_are_some_of_all(late, total):
    """A source that is missing among all of them would be passed over, however late it is."""
    with pytest.raises(ConfigError, match=r"late must be some of the events in total, .*web"):
        judge_lateness(late, total)


@any_names()
def late(n):
    rows = n.frame("id INT, at STRING", (1, "2026-01-05 09:59"), (2, "2026-01-05 10:10"), (3, "noon"))
    times = {"event_time": f"try_to_timestamp({n.q('at')})", "arrived": f"timestamp({n.q('id')} + 1767700000)"}
    yield detect_late_data(rows, watermark=at(0), **times)["late"]


@known_calls
def calls_that_work(known):
    return {
        "advance_watermark": {
            "watermark": NOW,
            "newest": {"p0": NOW},
            "allowed_lateness_seconds": 60,
            "idle": ["p0"],
        },
        "detect_late_data": {
            "events": known.visits,
            "event_time": "at",
            "watermark": NOW,
            "earliest": NOW - timedelta(days=9),
            "latest": NOW,
            "arrived": "at",
        },
        "judge_lateness": {"late": {"shop": 1}, "total": {"shop": 2}},
    }
