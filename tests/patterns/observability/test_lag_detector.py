"""Lag Detector."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.connectors.postgres import PostgresTable, advance, connected
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.delta import Ledger, transaction_id
from dedp_assets.patterns.observability._lags.lag_of_slots import sample_slot
from dedp_assets.patterns.observability._lags.lag_of_tables import sample_table, stream_position
from dedp_assets.patterns.observability._lags.lag_of_topics import sample_group, sample_stream
from dedp_assets.patterns.observability._lags.lag_samples import from_json, keep_samples, to_json
from dedp_assets.patterns.observability.lag_detector import LagSample, detect_lag
from tests.faults.processes import wait_until
from tests.helpers import a_record, write_log

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
HOUR = 3_600.0


def after(minutes):
    return NOON + timedelta(minutes=minutes)


def seen(minute, produced, consumed, **more):
    """A sample of the reader of a topic without partitions, some minutes after noon."""
    stated = {"consumer": "bronze/visits", "producer": "visits", "seen_at": after(minute), **more}
    return LagSample(produced=produced, consumed=consumed, **stated)


def judged(samples, now=None, **options):
    """Metric and place -> measurement; by default at the time of the newest sample."""
    found = detect_lag(samples, now or max(each.seen_at for each in samples), **options).measurements
    assert len({(each.metric, each.table, each.partition) for each in found}) == len(found)
    return {(each.metric, each.partition): each for each in found}


def lag(samples, now=None, metric="lag", **options):
    """The measurement of the only partition."""
    return judged(samples, now, **options)[metric, "visits"]


# --- acceptance -------------------------------------------------------------------------------------------------------


def log(folder, *commits):
    """The ledger of a table whose log is written by hand, after a version 0 without rows."""
    write_log(folder / "visits", {"id": "long", "day": "date"}, ["day"], list(commits))
    return Ledger(folder / "visits", name="bronze/visits")


ROWS = {"changed": [{"day": "2026-01-05"}, {"day": "2026-01-06"}]}
OPTIMIZE = {"changed": [{"day": "2026-01-05"}], "data_change": False, "operation": "OPTIMIZE"}
VACUUM = {"operation": "VACUUM END"}


def table_lag(ledger, applied, **more):
    sample = sample_table(ledger, consumer="silver/visits", applied=applied, seen_at=NOON, **more)
    return {each.metric: each for each in detect_lag([sample], NOON).measurements}


def test_a_reader_at_version_9_of_a_table_at_version_12_is_3_versions_behind(tmp_path):
    """In rows, too, and in seconds since the first unread commit; once it has caught up, nothing is behind."""
    ledger = log(tmp_path, *[ROWS] * 12)
    found = table_lag(ledger, 9)
    assert (found["lag"].figure, found["lag_rows"].figure) == ("3 versions", "6 rows")
    assert found["lag_seconds"].value == (NOON - ledger.commit(10).timestamp).total_seconds()
    found = table_lag(ledger, 12)
    assert [found[name].value for name in ("lag", "lag_rows", "lag_seconds")] == [0, 0, 0]


def test_compaction_and_vacuum_are_no_unread_versions(tmp_path):
    """Neither behind the reader's version nor between versions that changed rows."""
    ledger = log(tmp_path, *[ROWS] * 9, OPTIMIZE, ROWS, VACUUM, {"txn": {"x": 1}})
    found = table_lag(ledger, 9)
    assert (found["lag"].value, found["lag_rows"].value) == (1, 2)
    assert found["lag_seconds"].value == (NOON - ledger.commit(11).timestamp).total_seconds()
    found = table_lag(ledger, 11)
    assert (found["lag"].value, found["lag"].verdict, found["lag_seconds"].value) == (0, "ok", 0)


def test_a_producer_that_writes_30_percent_more_than_is_read_is_noticed_while_every_run_succeeds():
    """Below all limits, by the growth alone; of a producer that writes as much as is read, nobody is warned."""
    verdicts = []
    samples = [seen(0, 100, 0)]
    for minute in range(1, 30):
        samples.append(seen(minute, 100 + 130 * minute, 100 * minute))
        verdicts.append(lag(samples).verdict)
    values = [lag(samples[:n]).value for n in range(1, len(samples) + 1)]
    assert values == sorted(values)
    assert verdicts[:3] == ["ok"] * 3
    assert set(verdicts[3:]) == {"warn"}
    assert lag(samples).reason.endswith("the lag has grown for 28 min while the consumer moves")
    assert lag(samples, fail_above_rows=900).verdict == "fail"
    assert lag([seen(minute, 100 + 100 * minute, 100 * minute) for minute in range(30)]).verdict == "ok"


@pytest.mark.parametrize(("more", "verdict"), [(30, "warn"), (0, "ok"), (-10, "ok")])
def test_growth_is_seen_through_the_waves_of_a_consumer_that_runs_now_and_then(more, verdict):
    """Between two runs every lag rises: what counts is what each run leaves."""
    rate, samples, consumed = 100 + more, [], 0
    for minute in range(50):
        if minute and minute % 8 == 0:
            consumed += 100 * 8
        samples.append(seen(minute, 2_000 + rate * minute, consumed))
    assert lag(samples).verdict == verdict


def partitions(*lags, **more):
    return [seen(0, 1_000, 1_000 - each, partition=str(n), **more) for n, each in enumerate(lags)]


def test_the_worst_of_several_partitions_counts_and_the_average_alerts_nobody():
    """Maximum, 95th percentile and average apart; the text hints at skewed keys."""
    found = judged(partitions(1, 1, 1, 100), warn_above_rows=50)
    assert [found["lag", f"visits-{n}"].value for n in range(4)] == [1, 1, 1, 100]
    assert [found["lag", f"visits-{n}"].verdict for n in range(4)] == ["ok", "ok", "ok", "warn"]
    whole, average = found["lag", "visits"], found["lag_average", "visits"]
    assert (whole.value, whole.verdict, average.value, average.verdict) == (100, "warn", 25.75, "ok")
    assert found["lag_p95", "visits"].value == 100
    assert whole.reason == (
        "visits-3: 100 rows behind; of 4 partitions: max 100 rows, p95 100 rows, median 1 row, average 25.8 rows; the "
        "maximum is far above the median: the keys may be skewed, rather than the consumer slow"
    )
    assert judged(partitions(*[1] * 19, 100))["lag_p95", "visits"].value == 1
    assert "skewed" not in judged(partitions(90, 95, 100), warn_above_rows=50)["lag", "visits"].reason


def test_lag_is_known_between_the_runs_of_the_consumer():
    """One sample is enough for rows and for the limits on them, and the seconds grow with the clock."""
    samples = [seen(0, 100, 100), seen(10, 400, 100)]
    assert (lag(samples).value, lag(samples, warn_above_rows=200).verdict) == (300, "warn")
    seconds = [lag(samples, after(minute), "lag_seconds").value for minute in (10, 15, 20)]
    assert seconds == [600, 900, 1_200]
    assert lag(samples, after(20), "lag_seconds", fail_above_seconds=900).verdict == "fail"


def test_a_reader_that_never_ran_has_everything_to_read(tmp_path):
    """All commits are unread, from the first one on."""
    found = table_lag(log(tmp_path, *[ROWS] * 3, OPTIMIZE), None)
    assert (found["lag"].value, found["lag_rows"].value, found["lost_versions"].value) == (3, 6, 0)
    never = [seen(minute, 50, None, begin=20, from_begin=True) for minute in (0, 30, 60)]
    assert (lag(never).value, lag(never).verdict) == (30, "fail")
    assert lag(never).reason == "visits: 30 rows behind; the consumer has never read it"


def test_a_table_that_was_begun_again_is_a_finding_of_its_own_and_no_lag(tmp_path):
    """Whether its version is below that of the reader, or its id is another one than the reader noted."""
    ledger = log(tmp_path, *[ROWS] * 3)
    for found in (table_lag(ledger, 9), table_lag(ledger, 2, read_identity="of another table")):
        assert (found["restarted"].value, found["restarted"].verdict) == (1, "fail")
        assert (found["lag"].value, found["lag"].verdict) == (None, "unknown")
    assert table_lag(Ledger(tmp_path / "gone", name="bronze/visits"), 2)["restarted"].verdict == "fail"


def test_a_restore_of_the_producer_and_a_late_commit_are_unread_versions(tmp_path):
    """They change rows of old partitions, and are to be read like any other."""
    restore = {"changed": [{"day": "2026-01-05"}], "operation": "RESTORE", "parameters": {"version": "1"}}
    assert table_lag(log(tmp_path, *[ROWS] * 3, restore, ROWS), 3)["lag"].value == 2


def test_rows_behind_a_cleaned_log_are_not_known(tmp_path):
    """The versions that are left are counted."""
    ledger = log(tmp_path, *[ROWS] * 5)
    DeltaTable(str(tmp_path / "visits")).create_checkpoint()
    for version in range(4):
        (tmp_path / "visits/_delta_log" / f"{version:020d}.json").unlink()
    sample = sample_table(ledger, consumer="x", applied=1, seen_at=NOON)
    assert (sample.unread, sample.unread_rows, sample.consumed) == (2, None, 4)


def test_copied_rows_of_a_merge_are_not_behind(tmp_path):
    """A rewritten file holds rows that the reader has."""
    ledger = log(tmp_path, ROWS)
    path = tmp_path / "visits/_delta_log" / f"{1:020d}.json"
    info, *files = path.read_text().splitlines()
    stated = json.loads(info)
    stated["commitInfo"]["operationMetrics"] = {"numTargetRowsCopied": "1"}
    path.write_text("\n".join([json.dumps(stated), *files]) + "\n")
    assert sample_table(ledger, consumer="x", applied=0, seen_at=NOON).unread_rows == 1


def test_lag_in_partitions_is_offered_beside(tmp_path):
    """Of a table that is computed by partition."""
    sample = sample_table(log(tmp_path, ROWS), consumer="x", applied=0, seen_at=NOON, partitions=2)
    assert judged([sample])["lag_partitions", "bronze/visits"].figure == "2 partitions"


def test_the_offset_of_a_streaming_query_names_version_and_table():
    """Of a Delta source; the offset of a topic is refused."""
    offset = {"sourceVersion": 1, "reservoirId": "id-1", "reservoirVersion": 7, "index": -1, "isStartingVersion": False}
    assert stream_position(json.dumps(offset)) == (6, "id-1")
    with pytest.raises(ContractError, match="must be the offset of a Delta table"):
        stream_position('{"visits": {"0": 7}}')


# --- known defects of other detectors ---------------------------------------------------------------------------------


def test_a_stopped_consumer_shows_no_frozen_lag():
    """Its lag grows with the producer, and after a while it is stalled; an old sample says nothing about now."""
    samples = [seen(0, 100, 100), *[seen(minute, 100 + 10 * minute, 100) for minute in range(10, 80, 10)]]
    assert [lag(samples[:n]).value for n in (2, 4, 8)] == [100, 300, 700]
    assert (lag(samples[:7]).verdict, lag(samples).verdict) == ("ok", "fail")
    assert lag(samples).reason == "visits: 700 rows behind; the consumer has not moved for 60 min"
    assert lag(samples).since == after(10)
    stale = lag(samples, after(100))
    assert (stale.value, stale.verdict) == (None, "unknown")
    assert stale.reason == "visits was seen 30 min ago: nobody knows its lag now"
    assert lag(samples, after(100), "restarted").verdict == "unknown"


def test_an_old_zero_in_the_window_does_not_hide_a_stopped_consumer():
    """The time without a move counts from the first unread record on."""
    samples = [seen(0, 100, 100), seen(30, 150, 100), seen(60, 200, 100)]
    assert lag(samples).verdict == "ok"
    assert lag(samples, window_seconds=HOUR / 2).verdict == "fail"


@pytest.mark.parametrize("hours", [1, 24, 24 * 7])
def test_a_caught_up_reader_of_a_quiet_topic_is_no_stopped_one(hours):
    """Nothing is written and nothing committed for as long as one likes: 0 rows, 0 seconds."""
    samples = [seen(minute, 100, 100) for minute in range(0, 60 * hours + 1, 10)]
    assert (lag(samples).value, lag(samples).verdict) == (0, "ok")
    assert lag(samples, after(60 * hours + 5), "lag_seconds").value == 0
    assert detect_lag(samples, samples[-1].seen_at, fail_above_rows=0, fail_above_seconds=0.0).verdict == "ok"


def test_a_consumer_that_moves_slowly_but_whose_lag_falls_is_neither_stalled_nor_growing():
    """It works off what it has to read."""
    samples = [seen(10 * n, 1_000, 100 * n) for n in range(9)]
    assert lag(samples).verdict == "ok"


def test_a_consumer_without_a_commit_is_unknown_and_not_the_whole_log():
    """Nobody knows where it would begin; a commit that is gone is said."""
    found = judged([seen(0, 1_000_000, None)])
    assert {each.verdict for (metric, _), each in found.items() if metric.startswith("lag")} == {"unknown"}
    assert found["lag", "visits"].reason == "visits: bronze/visits has committed no position"
    assert {found[metric, "visits"].value for metric in ("lost_rows", "restarted")} == {0}
    gone = lag([seen(0, 10, 7), seen(5, 12, None)])
    assert "the commit of bronze/visits is gone, its last position was 7 at 2026-01-05T12:00:00+00:00" in gone.reason
    assert gone.value is None


def test_a_commit_below_the_start_of_the_log_is_loss_and_the_lag_counts_from_the_start():
    """No huge lag: what was deleted unread cannot be read any more."""
    found = judged([seen(0, 1_000, 100, begin=900)], fail_above_rows=500)
    assert (found["lag", "visits"].value, found["lag", "visits"].verdict) == (100, "ok")
    lost = found["lost_rows", "visits"]
    assert (lost.value, lost.verdict) == (800, "fail")
    assert lost.reason == (
        "visits: 800 rows from 100 to 899 were deleted before they were read; the lag counts from there"
    )
    assert lag([seen(5, 1_000, 900, begin=900)], metric="lost_rows").verdict == "ok"


def test_an_end_that_was_read_before_the_commit_is_no_negative_lag():
    """Clamped at 0, which is said; a sampler that reads the commit first means another producer by it."""
    raced = seen(0, 90, 100, consumed_first=False)
    found = lag([raced])
    assert (found.value, found.verdict) == (0, "ok")
    assert found.reason == "visits: the end was read before the commit, 100 is ahead of it"
    assert lag([raced], metric="lag_seconds").value == 0
    assert lag([replace(raced, consumed_first=True)], metric="restarted").verdict == "fail"


@pytest.mark.parametrize(
    "samples",
    [
        [seen(0, 500, 400, identity="a"), seen(5, 20, 400, identity="b")],
        [seen(0, 500, 400, identity="a"), seen(5, 600, 400, identity="b")],
        [seen(0, 500, 400), seen(5, 300, 400)],
        [seen(0, 500, 400, consumed_first=False), seen(5, 300, 400, consumed_first=False)],
        [seen(0, 20, 10, identity="b", read_identity="a")],
    ],
    ids=["smaller", "grown past the commit", "without identity", "end read first", "commit names its topic"],
)
def test_a_producer_that_was_made_again_is_a_finding_and_no_lag(samples):
    """Its end says nothing about a position in the former one."""
    found = judged(samples, fail_above_rows=1)
    assert (found["restarted", "visits"].value, found["restarted", "visits"].verdict) == (1, "fail")
    assert "was deleted and created again, or restored" in found["restarted", "visits"].reason
    for metric in ("lag", "lag_seconds", "lost_rows"):
        assert (found[metric, "visits"].value, found[metric, "visits"].verdict) == (None, "unknown"), metric


def test_a_consumer_that_goes_on_in_the_new_producer_is_warned_of_for_a_while():
    """Its lag is that in the new one; what was unread of the former one may be lost."""
    samples = [seen(0, 500, 400, identity="a"), seen(5, 20, 400, identity="b"), seen(10, 30, 25, identity="b")]
    assert lag(samples).value == 5
    assert lag(samples, metric="restarted").verdict == "warn"
    later = [*samples, seen(80, 40, 40, identity="b")]
    assert (lag(later, metric="restarted").verdict, lag(later).value) == ("ok", 0)
    known = [seen(0, 500, 400, identity="a"), seen(5, 420, 400, identity="b", read_identity="b")]
    assert lag(known).value == 20


def test_a_few_rows_for_others_are_no_lag_of_the_reader_of_a_slot():
    """A quiet table's slot moves on now and then only, while other tables fill the log."""
    samples = [seen(minute, 1_000 + minute, 1_000, unit="bytes", idle=500) for minute in range(0, 400, 10)]
    assert (lag(samples).figure, lag(samples).verdict) == ("390 bytes", "ok")
    assert lag(samples, metric="lag_seconds").value == 0
    assert lag([*samples, seen(400, 2_000, 1_000, unit="bytes", idle=500)]).verdict == "ok"
    assert lag([*samples, *[seen(m, 1_500 + m, 1_000, unit="bytes", idle=500) for m in (400, 470)]]).verdict == "fail"


# --- seconds ----------------------------------------------------------------------------------------------------------


def test_seconds_come_from_the_first_unread_record_if_its_time_is_known():
    """A clock of the producer that is ahead gives no negative age, and no judgement."""
    known = [seen(0, 10, 5), seen(10, 20, 8, unread_since=after(-5))]
    assert lag(known, metric="lag_seconds").value == 15 * 60
    future = lag([seen(10, 20, 8, unread_since=after(20))], metric="lag_seconds", fail_above_seconds=60.0)
    assert (future.value, future.verdict) == (0, "unknown")
    assert future.reason.endswith("10 min after now: its clock is ahead")


def test_seconds_of_a_young_history_are_a_bound():
    """Unknown as long as the bound is within the limits."""
    found = lag([seen(0, 100, 5), seen(10, 100, 6)], metric="lag_seconds", warn_above_seconds=900.0)
    assert (found.value, found.verdict) == (600, "unknown")
    assert (
        found.reason == "visits: the first unread record is 10 min old or older: the samples do not go back far enough"
    )
    found = lag([seen(0, 100, 5), seen(20, 100, 6)], metric="lag_seconds", warn_above_seconds=900.0)
    assert found.verdict == "warn"


STEPS = st.lists(
    st.tuples(st.sampled_from(["produce", "consume", "sample", "wait"]), st.integers(1, 50)), min_size=1, max_size=60
)


@given(STEPS, st.integers(1, 600))
def test_lag_is_that_of_a_plain_model_in_rows_and_within_the_samples_spacing_in_seconds(steps, spacing):
    """Whatever is produced, consumed and sampled in between."""
    now, times, consumed, samples = NOON, [], 0, []

    def sample():
        samples.append(LagSample(consumer="c", producer="p", seen_at=now, produced=len(times), consumed=consumed))

    sample()
    for step, count in steps:
        now += timedelta(seconds=spacing)
        if step == "produce":
            times += [now] * count
        elif step == "consume":
            consumed = min(consumed + count, len(times))
        elif step == "sample":
            sample()
    now += timedelta(seconds=spacing)
    sample()
    found = {each.metric: each for each in detect_lag(samples, now).measurements}
    assert found["lag"].value == len(times) - consumed
    unread = (now - times[consumed]).total_seconds() if consumed < len(times) else 0
    moments = [each.seen_at for each in samples]
    widest = max((b - a).total_seconds() for a, b in pairwise(moments))
    assert found["lag_seconds"].value >= 0
    assert abs(found["lag_seconds"].value - unread) <= widest
    assert (found["lag_seconds"].value == 0) or consumed < len(times)


# --- several, limits, history -----------------------------------------------------------------------------------------


def test_each_consumer_and_each_producer_is_measured_apart():
    """Samples come in any order."""
    samples = [seen(m, 10 * m, 5 * m, producer=p, consumer=c) for c in "ab" for p in ("x", "y") for m in (2, 1)]
    found = detect_lag(samples[::-1], after(2)).measurements
    lags = {(each.table, each.partition): each.value for each in found if each.metric == "lag"}
    assert lags == {(c, p): 10 for c in "ab" for p in ("x", "y")}
    assert detect_lag([], NOON).measurements == ()


def test_a_partition_that_nobody_knows_makes_the_whole_unknown_and_not_better():
    """The maximum of the others is shown."""
    whole = judged([*partitions(3, 5), seen(0, 9, None, partition="2")])["lag", "visits"]
    assert (whole.value, whole.verdict) == (5, "unknown")
    assert whole.reason.startswith("visits-2: bronze/visits has committed no position; of 3 partitions: max 5")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"warn_above_rows": -1}, "warn_above_rows must be 0 or more, not -1"),
        ({"fail_above_seconds": -0.5}, "fail_above_seconds must be 0 or more, not -0.5"),
        ({"warn_above_rows": 9, "fail_above_rows": 5}, "fail_above_rows must be at least warn_above_rows .9., not 5"),
        ({"window_seconds": 0.0}, "window_seconds must be above 0, not 0"),
        ({"stale_after_seconds": 0.0}, "stale_after_seconds must be above 0, not 0"),
    ],
)
def test_limits_that_cannot_be_are_refused(options, sentence):
    """By the name of the option."""
    with pytest.raises(ConfigError, match=sentence):
        detect_lag([], NOON, **options)


@pytest.mark.parametrize("value", [{"consumer": ""}, {"produced": -1}, {"seen_at": NOON.replace(tzinfo=None)}])
def test_a_sample_that_cannot_be_is_refused(value):
    """By the name of the field."""
    with pytest.raises(ConfigError, match=next(iter(value))):
        LagSample(**{"consumer": "c", "producer": "p", "seen_at": NOON, "produced": 1, **value})


def test_a_history_is_bounded_by_time_and_number_and_keeps_the_newest():
    """However close together samples come; a partition that is seen no more leaves with the window."""
    known = [seen(0, 1, 1, partition="gone")]
    for second in range(2_000):
        sample = replace(seen(0, second, second), seen_at=NOON + timedelta(seconds=10 * second))
        known = keep_samples(known, [sample], window_seconds=3 * HOUR, most=50)
        assert known[-1] == sample
        assert len([each for each in known if not each.partition]) <= 50
    spans = (known[-1].seen_at - known[0].seen_at).total_seconds()
    assert 2.8 * HOUR < spans <= 3 * HOUR
    assert {each.partition for each in known} == {""}
    assert keep_samples([], []) == []


@pytest.mark.parametrize("hours", [7, 80, 120])
def test_a_limit_of_days_stays_known_for_as_long_as_the_lag_lasts(hours):
    """A reader that lags an hour more, or stands still, is beyond the limit in every round from then on."""
    limit, known, beyond = hours * HOUR, [], {}
    for minute in range(0, 150 * hours, 5):
        moving = seen(minute, minute, max(minute - 60 * (hours + 1), 0), partition="moving")
        known = keep_samples(
            known, [moving, seen(minute, minute, 5, partition="still")], window_seconds=6 * HOUR + 1.25 * limit
        )
        if minute > 60 * (hours + 2):
            for part in ("moving", "still"):
                found = judged([each for each in known if each.partition == part], fail_above_seconds=limit)
                beyond.setdefault(part, set()).add(found["lag_seconds", "visits"].verdict)
    assert beyond == {"moving": {"fail"}, "still": {"fail"}}


def test_a_repeated_sample_counts_once():
    """A detector that is started again samples the same second again."""
    assert keep_samples([seen(0, 5, 1)], [seen(0, 6, 1)]) == [seen(0, 6, 1)]
    with pytest.raises(ConfigError, match="most=3"):
        keep_samples([], [], most=3)


def test_a_history_survives_as_json():
    """All fields; another text is refused with what to do."""
    samples = [
        seen(0, 5, None, from_begin=True),
        seen(1, 5, 0, unread=2, unread_rows=3, unread_since=NOON, unit="versions", partition="0", consumed_first=False),
    ]
    assert from_json(to_json(samples)) == samples
    for text in ("", "{}", "[]", '{"samples of lag, version 1": [{"consumer": 1}]}', "{"):
        with pytest.raises(ContractError, match="remove it"):
            from_json(text)


# --- real servers -----------------------------------------------------------------------------------------------------


def test_a_consumer_group_is_sampled_by_its_commits(kafka):
    """Without one, nobody knows where the group would begin."""
    kafka.create()
    settings, group = client(kafka.bootstrap), f"group-{kafka.topic}"
    produce(settings, kafka.topic)
    before = group_samples(kafka, group)
    assert [(each.partition, each.produced, each.consumed) for each in before] == [("0", 3, None), ("1", 2, None)]
    consumer = Consumer({**settings, "group.id": group})
    consumer.commit(offsets=[TopicPartition(kafka.topic, 0, 1)], asynchronous=False)
    consumer.close()
    now, known = group_samples(kafka, group), kafka.describe().id
    assert [(each.lag, each.identity) for each in now] == [(2, known), (None, known)]


def group_samples(kafka, group):
    """Sample a group; a broker that has just started is not ready for the first one."""
    found = []

    def sampled():
        with suppress(NotReady):
            found[:] = sample_group(client(kafka.bootstrap), kafka.describe, group=group, seen_at=NOON)
        return bool(found)

    assert wait_until(sampled)
    return found


def test_a_table_that_keeps_the_offsets_of_its_topic_is_sampled_by_its_log(kafka, tmp_path):
    """Never read, it has everything to read; of another topic with this name it knows no lag."""
    kafka.create()
    produce(client(kafka.bootstrap), kafka.topic)
    ledger = Ledger(tmp_path / "lines", name="lines")
    assert [each.lag for each in sample_stream(ledger, kafka.describe, seen_at=NOON)] == [3, 2]
    notes = {"topic": kafka.topic, "topic_id": kafka.describe().id, "offsets": {"0": 3, "1": 1}}
    read = {"record": a_record("lines", {}, notes=notes, sequence=4), "txn": {transaction_id("lines", {}, 0): 4}}
    write_log(tmp_path / "lines", {"raw": "string"}, [], [read])
    samples = sample_stream(ledger, kafka.describe, seen_at=NOON)
    assert [(each.input, each.lag) for each in samples] == [(f"{kafka.topic}-0", 0), (f"{kafka.topic}-1", 1)]
    assert detect_lag(samples, NOON).verdict == "unknown"  # of the first unread record only a bound is known
    other = [replace(each, read_identity="another") for each in samples]
    assert detect_lag(other, NOON).verdict == "fail"


def produce(settings, topic):
    """Send three records to the first partition and two to the second."""
    producer = Producer(settings)
    for number in range(5):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(30) == 0


def test_the_reader_of_a_slot_is_sampled_in_bytes(database):
    """The log behind the slot grows with what is written, and a slot that is gone has no position."""
    source = PostgresTable("public.users", "dedp_lag", connect=database.connect)

    def run(*statements):
        with database.connect(autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def sample():
        return sample_slot(source, consumer="bronze/users", seen_at=NOON, idle_bytes=0)

    assert (sample().consumed, detect_lag([sample()], NOON).verdict) == (None, "unknown")
    run("CREATE TABLE users (id INT)", "SELECT pg_create_logical_replication_slot('dedp_lag', 'pgoutput')")
    try:
        run("INSERT INTO users SELECT generate_series(1, 1000)")
        behind = sample()
        assert behind.lag > 10_000
        with connected(source) as connection:
            advance(connection, source, behind.produced)
        assert sample().lag < behind.lag
        assert sample().consumed >= behind.consumed
    finally:
        run("SELECT pg_drop_replication_slot('dedp_lag')")
