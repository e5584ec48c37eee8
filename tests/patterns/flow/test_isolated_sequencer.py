"""Isolated Sequencer."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.flow.isolated_sequencer import ProducerMarker, judge_contract, plan_by_markers
from tests.contracts.known_calls import known_calls
from tests.helpers import write_log

DAY, NEXT = "2026-01-05", "2026-01-06"


def hours(*numbers, day=DAY, identity="1", **more):
    """Markers of hours of a day."""
    return [ProducerMarker(f"{day}-{number:02}", identity, **more) for number in numbers]


class Consumer:
    """A consumer with a log of what it was started for: a line for each partition and its identity."""

    def __init__(self, log=(), **options):
        self.options, self.log = options, [*log]
        self.processed = dict(map(json.loads, self.log))

    def look(self, markers):
        plan = plan_by_markers(markers, processed=self.processed, **self.options)
        self.log += map(json.dumps, plan.cursor.items())
        self.processed |= plan.cursor
        return plan.partitions

    def restarted(self):
        """The consumer in a new process, which knows what the log says and nothing else."""
        return Consumer("\n".join(self.log).splitlines(), **self.options)

    @property
    def started(self):
        """How often it was started for each partition and identity."""
        return Counter(tuple(json.loads(line)) for line in self.log)


@pytest.mark.parametrize("missing", range(24))
def test_a_day_starts_by_its_24th_marker_and_once(missing):
    """Whichever hour comes last: with 23 markers nothing starts, with 24 one run of that day."""
    consumer = Consumer(period="day")
    present = hours(*(hour for hour in range(24) if hour != missing))
    assert consumer.look(present) == ()
    assert plan_by_markers(present, processed={}, period="day").held == {
        DAY: f"1 of 24 hours have no marker: {missing:02}"
    }
    assert consumer.look(hours(*range(24))) == (DAY,)
    assert consumer.look(hours(*range(24))) == ()


def test_24_runs_of_the_producer_are_one_trigger_at_hour_23():
    """The rule of the producer's side: the last hour fires, and a rerun of an hour after it fires that day again."""
    consumer = Consumer(period="day", start="last_marker")
    looks = [consumer.look(hours(*range(hour + 1))) for hour in range(24)]
    assert looks == [()] * 23 + [(DAY,)]
    changed = [*hours(*range(5)), *hours(5, identity="2"), *hours(*range(6, 24))]
    assert [consumer.look([*changed, *hours(*range(4), day=NEXT)]) for _ in range(2)] == [(DAY,), ()]


def test_a_backfill_starts_the_rewritten_partition_alone():
    """By the identity of its marker; the markers of other partitions are as they were."""
    consumer = Consumer()
    markers = [ProducerMarker(f"2026-01-0{n}", "1") for n in range(1, 8)]
    assert len(consumer.look(markers)) == 7
    assert consumer.look([*markers[:2], ProducerMarker("2026-01-03", "9"), *markers[3:]]) == ("2026-01-03",)
    assert plan_by_markers(markers[:1], processed={"2026-01-01": "0"}).causes == {"2026-01-01": "marker changed"}


def test_a_marker_without_complete_data_starts_nothing():
    """Neither by itself, nor within a day, nor by its last hour; the reason says why."""
    torn = hours(7, refusal="a file of its manifest is missing")
    assert plan_by_markers(torn, processed={}).held == {
        f"{DAY}-07": f"{DAY}-07 is incomplete: a file of its manifest is missing"
    }
    others = hours(*(hour for hour in range(24) if hour != 7))
    for start in ("all_markers", "last_marker"):
        plan = plan_by_markers([*torn, *others], processed={}, period="day", start=start)
        assert (plan.partitions, list(plan.held)) == ((), [DAY])
        assert "is incomplete" in plan.held[DAY]


def test_markers_that_no_day_has_are_refused():
    """As are two of a partition: nobody knows which one is the newer."""
    for strange in ("2026-01-05", "2026-01-05-24", "x"):
        with pytest.raises(ConfigError, match="hours like"):
            plan_by_markers([ProducerMarker(strange, "1")], processed={}, period="day")
    with pytest.raises(ContractError, match=f"two of {DAY}-01"):
        plan_by_markers([*hours(1), *hours(1, identity="2")], processed={})


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("mark"), st.sampled_from([DAY, NEXT]), st.integers(0, 23)),
        st.tuples(st.just("fill"), st.sampled_from([DAY, NEXT]), st.permutations(range(24))),
        st.tuples(st.just("tear"), st.sampled_from([DAY, NEXT]), st.integers(0, 23)),
        st.just(("restart", "", 0)),
    ),
    max_size=20,
)


@pytest.mark.parametrize("period", ["same", "day"])
@given(events=EVENTS)
def test_any_order_of_markers_restarts_and_backfills_starts_each_content_once(period, events):
    """Against a plain model: a content is due when all of its hours are complete, and was not started before."""
    consumer, expected = Consumer(period=period), Counter()
    versions, torn, before = Counter(), set(), {}
    for kind, day, about in events:
        for hour in about if kind == "fill" else [about]:
            key = f"{day}-{hour:02}"
            if kind == "restart":
                consumer = consumer.restarted()
            else:
                versions[key] += kind != "tear"
                versions[key] = max(versions[key], 1)
                (torn.add if kind == "tear" else torn.discard)(key)
            markers = [ProducerMarker(k, str(v), "torn" if k in torn else "") for k, v in versions.items()]
            consumer.look(reversed(markers))
            for group in {k if period == "same" else k[:10] for k in versions}:
                parts = {k: v for k, v in versions.items() if k.startswith(group)}
                content, complete = tuple(sorted(parts.items())), period == "same" or len(parts) == 24
                if complete and not torn & parts.keys() and before.get(group) != content:
                    before[group] = content
                    expected[group] += 1
    assert Counter(key for key, _ in consumer.started.elements()) == expected
    assert set(consumer.started.values()) <= {1}


COLUMNS = {"page": "string", "views": "long", "hour": "string"}
CONTRACT = {"columns": {"page": "STRING", "views": "BIGINT"}, "partition_by": ["hour"]}


def produced(folder, columns=COLUMNS, partition_by=("hour",)):
    """A producer's table by its log alone, and whoever asks it for rows fails."""

    def no_session():
        raise AssertionError("rows are read")

    write_log(folder, columns, list(partition_by), [])
    return Table(TableSpec("gold/produced", {}), folder, no_session)


def test_a_contract_is_kept_by_a_table_with_further_columns(tmp_path):
    """No row is read for that."""
    found = judge_contract(produced(tmp_path, {**COLUMNS, "extra": "double"}), **CONTRACT)
    assert (found.passed, found.note, found.figures) == (True, "", {"breaches": 0})


@pytest.mark.parametrize(
    ("columns", "partition_by", "said"),
    [
        (
            {"page": "string", "hour": "string"},
            ["hour"],
            "expected views BIGINT, found no such column among",
        ),
        ({**COLUMNS, "views": "string"}, ["hour"], "expected views BIGINT, found STRING"),
        (COLUMNS, ["page"], "expected partition_by hour, found page"),
    ],
)
def test_a_break_of_the_schema_is_told_by_expected_and_found(tmp_path, columns, partition_by, said):
    """Before anything is processed."""
    found = judge_contract(produced(tmp_path, columns, partition_by), **CONTRACT)
    assert found.refuses
    assert said in found.note


def test_a_break_of_the_location_is_told_by_the_path(tmp_path):
    """A table that moved is no table without rows."""
    table = Table(TableSpec("gold/produced", {}), tmp_path / "moved", lambda: None)
    found = judge_contract(table, **CONTRACT)
    assert found.refuses
    assert f"expected a table at {tmp_path / 'moved'}, found none" in found.note
    with pytest.raises(ConfigError, match="not none"):
        judge_contract(table, columns={})


@known_calls
def calls_that_work(known):
    return {"judge_contract": {"upstream": known.daily, "columns": {"id": "INT"}, "partition_by": ["day"]}}
