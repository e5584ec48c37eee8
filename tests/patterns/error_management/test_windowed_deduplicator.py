"""Windowed Deduplicator: each key once within a stated window, always the same survivor."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import RowCounts
from dedp_assets.patterns.core.rows import tally
from dedp_assets.patterns.error_management import windowed_deduplicator as deduplicator
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.error_management.windowed_deduplicator import (
    deduplicate,
    deduplicate_stream,
    judge_uniqueness,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, read_back
from tests.renaming import any_names

DAY = {"event_date": "2026-01-05"}
VISITS = [
    ("a", 2, "second"),
    ("a", 1, "first"),
    ("a", 1, "first, other payload"),
    ("b", 1, "twin"),
    ("b", 1, "twin"),
    ("b", 1, "twin"),
    ("c", 5, "alone"),
]


def visits(spark, rows, schema="key STRING, line INT, payload STRING"):
    return spark.createDataFrame(rows, schema)


def values(rows):
    return sorted((tuple(row) for row in rows.collect()), key=str)


def once(rows, earlier=None, **options):
    return deduplicate(rows, earlier, **{"keys": ["key"], "order_by": ["line"], **options})


def test_the_survivor_is_the_same_however_the_input_is_ordered_and_partitioned(spark):
    """Order decides, content breaks ties: shuffling changes neither the survivors nor the duplicates."""
    arrangements = [
        visits(spark, VISITS).coalesce(1),
        visits(spark, VISITS[::-1]).coalesce(1),
        visits(spark, VISITS).repartition(5, "payload"),
        visits(spark, VISITS).orderBy(F.desc("payload")),
    ]
    outcomes = [(values(split["valid"]), values(split["duplicate"])) for split in map(once, arrangements)]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    valid, duplicate = outcomes[0]
    assert [row[0] for row in valid] == ["a", "b", "c"]
    assert valid[0][1] == 1
    assert sorted(valid + duplicate) == sorted(VISITS)


def test_an_order_by_a_constant_leaves_the_survivor_to_chance(spark):
    """The sample's ranking keeps whatever came first, where the pattern keeps the same row."""
    pair = [("a", 1, "one"), ("a", 1, "two")]
    orders = [visits(spark, pair).coalesce(1), visits(spark, pair[::-1]).coalesce(1)]
    place = F.expr("row_number() OVER (PARTITION BY key ORDER BY 1)")
    sample = [values(rows.withColumn("place", place).filter("place = 1").drop("place")) for rows in orders]
    assert sample[0] != sample[1]
    ours = [values(once(rows)["valid"]) for rows in orders]
    assert ours[0] == ours[1]


def test_content_that_differs_only_in_where_its_null_is_breaks_a_tie_too(spark):
    """Two rows of a key with the same values in different columns have one and the same survivor in any order."""
    pair = [("a", None, "x"), ("a", "x", None)]
    schema = "key STRING, left_value STRING, right_value STRING"
    survivors = [
        values(once(visits(spark, rows, schema).coalesce(1), order_by=["key"])["valid"]) for rows in (pair, pair[::-1])
    ]
    assert survivors[0] == survivors[1]


NAMES = ["place", "Outcome", "place among its key", "seen before", "n", "x", "a.b", "dash-ed", "Ümlaut", "b`tick"]


def test_every_name_of_a_column_works_and_none_is_overwritten(spark):
    """As a key, in the order and beside them, in a batch and in its look-back, once and once more."""
    columns = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in (*NAMES, "1st"))
    row = (*NAMES, "1")
    rows = spark.createDataFrame([row, (*NAMES, "2")], columns)
    past = spark.createDataFrame([("other", *row[1:])], columns)
    split = deduplicate(rows, past, keys=NAMES, order_by=["1st", *NAMES])
    again = deduplicate(split, past, keys=[name.upper() for name in NAMES], order_by=["1st"])
    assert (values(again["valid"]), again["duplicate"].count()) == ([row], 1)
    assert judge_uniqueness(rows, keys=NAMES).figures == {"repeated_keys": 1, "surplus_rows": 1}
    with pytest.raises(ConfigError, match="column __dedp_place: names like that are the library's"):
        once(visits(spark, [("a", 1, "x")], "key STRING, line INT, __dedp_place STRING"))


def test_ties_between_nested_rows_do_not_depend_on_the_order_of_the_input(spark):
    """Places of NULLs, borders of arrays and entries of maps are content that breaks a tie."""
    contents = [
        "array(1, NULL), map('a', 1), array(array(1, 2))",
        "array(NULL, 1), map('a', 1), array(array(1, 2))",
        "array(1, NULL), map('a', NULL), array(array(1, 2))",
        "array(1, NULL), map('a', 1), array(array(1), array(2))",
    ]
    found = set()
    for order in (contents, contents[::-1]):
        told = [f"SELECT 'a' AS key, 1 AS line, * FROM VALUES ({c}) t(x, y, z)" for c in order]
        rows = spark.sql(" UNION ALL ".join(told))
        found.add(str(values(once(rows.coalesce(1))["valid"])))
    assert len(found) == 1


def test_keys_are_equal_as_spark_compares_them(spark):
    """0.0 is -0.0, NaN is NaN, and a collation decides over letters; a column without an order is refused."""
    letters = ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE")
    for pair in (("0.0D", "-0.0D"), ("double('NaN')", "sqrt(-1D)"), letters):
        rows = spark.sql(" UNION ALL ".join(f"SELECT {value} AS key, {n} AS line" for n, value in enumerate(pair)))
        assert [row["line"] for row in once(rows)["valid"].collect()] == [0]
    with pytest.raises(ConfigError, match="column key is MAP<STRING,INT>, which cannot be compared"):
        once(spark.sql("SELECT map('a', 1) AS key, 1 AS line"))


def test_the_last_row_of_each_key_is_its_current_state(spark):
    """The same order from its other end: a NULL comes before any value, so it is the last only where it is alone."""
    rows = visits(spark, [("a", 1, "v1"), ("a", None, "v0"), ("a", 2, "v2"), ("b", None, "v0")])
    assert values(once(rows, keep="last")["valid"]) == [("a", 2, "v2"), ("b", None, "v0")]
    assert values(once(rows)["valid"]) == [("a", None, "v0"), ("b", None, "v0")]


def test_a_seeded_repeat_breaks_uniqueness(spark, created_events, event_rows):
    """Deduplicated, the table's keys are unique; one row appended once more, and the verdict counts it."""
    created_events.overwrite(event_rows(5), partition=DAY, provenance=a_run(sequence=1))
    assert judge_uniqueness(created_events.read(), keys=["id"]).passed
    created_events.append(event_rows(1, start=3), provenance=a_run(sequence=2))
    finding = judge_uniqueness(created_events.read(), keys=["id"])
    assert (finding.name, finding.refuses, finding.note) == ("every_key_is_unique", True, "id repeat")
    assert finding.figures == {"repeated_keys": 1, "surplus_rows": 1}
    unknown = visits(spark, [(None, 1, "x"), (None, 1, "x")])
    assert judge_uniqueness(unknown, keys=["key"]).passed
    with pytest.raises(ConfigError, match="keys must name a column"):
        judge_uniqueness(unknown, keys=[])


@pytest.mark.parametrize(("keys", "kept"), [(["key"], 1), (["key", "line"], 2)])
def test_the_keys_say_what_is_equal(spark, keys, kept):
    """One id at two times is one visit by its id and two by id and time."""
    split = once(visits(spark, [("a", 1, "x"), ("a", 2, "x")]), keys=keys)
    assert (split["valid"].count(), split["duplicate"].count()) == (kept, 2 - kept)


def test_a_key_of_an_earlier_batch_survives_by_default_and_not_with_a_look_back(spark):
    """The scope is the batch; naming past rows widens it, without inventing rows for keys they repeat."""
    today = visits(spark, [("a", 1, "again"), ("n", 1, "new"), ("n", 2, "new"), (None, 1, "no key")])
    past = visits(spark, [("a", 1, "then"), ("a", 2, "then"), (None, 1, "no key")])
    assert {row["key"] for row in once(today)["valid"].collect()} == {"a", "n", None}
    split = once(today, past)
    assert values(split["valid"]) == [("n", 1, "new"), (None, 1, "no key")]
    assert values(split["duplicate"]) == [("a", 1, "again"), ("n", 2, "new")]


def test_what_a_look_back_costs_can_be_seen(spark, events, event_rows):
    """Past rows are counted where they are read, in the pass that writes the new ones."""
    past, seen = tally(event_rows(7), identity=["id"])
    split = deduplicate(event_rows(3, start=6), past, keys=["id"], order_by=["amount"])
    written = events.overwrite(split, partition=DAY, provenance=a_run(sequence=1))
    assert (written.rows.written, written.rows.duplicates) == (2, 1)
    assert seen.figures()["read"] == 7


@pytest.mark.parametrize(("rule", "kept"), [("keep", [1, 2, 3]), ("drop", [3])])
def test_rows_without_a_whole_key_are_never_merged(spark, rule, kept):
    """Each of them is kept or each is dropped, as asked; none stands for another."""
    rows = visits(spark, [(None, 1, "x"), (None, 2, "x"), ("a", 3, "x")])
    split = once(rows, keys=["key", "payload"], null_keys=rule)
    assert sorted(row["line"] for row in split["valid"].collect()) == kept
    assert sorted(row["line"] for row in split["duplicate"].collect()) == sorted({1, 2, 3} - set(kept))


def test_other_outcomes_of_a_split_pass_through(spark):
    """A dead letter is neither a duplicate nor the reason for one."""
    texts = {1: '{"key": "a", "n": "HELLO"}', 2: '{"key": "a", "n": 1}', 3: '{"key": "a", "n": 2}', 4: "", 5: ""}
    lines = spark.createDataFrame(list(texts.items()), "line INT, raw STRING")
    converted = divert_unprocessable(
        lines, payload="raw", schema={"key": "STRING", "n": "INT"}, identity=["line"], rules={}
    )
    split = once(converted, null_keys="drop")
    found = {part: sorted(row["line"] for row in split[part].collect()) for part in split.parts}
    assert found == {"valid": [2], "dead": [1, 4, 5], "duplicate": [3]}
    assert {row["line"]: row["raw"] for row in split["dead"].collect()} == {n: texts[n] for n in (1, 4, 5)}
    assert split.identity == ("line",)


@pytest.mark.both
def test_duplicates_are_counted_and_a_rerun_writes_the_same_rows(events, event_rows):
    """The write accounts for every repeat, and running it twice adds nothing on top."""
    rows = event_rows(20).union(event_rows(5)).union(event_rows(5, amount="id * 2.5D"))

    def run(run_id, sequence=1):
        split = deduplicate(rows.repartition(sequence + 2), keys=["id"], order_by=["amount"])
        return events.overwrite(split, partition=DAY, provenance=a_run(run_id=run_id, sequence=sequence))

    assert run("run-1").rows == RowCounts(read=30, written=20, duplicates=10)
    before = read_back(events)
    assert [(row["id"], row["amount"]) for row in sorted(before, key=lambda row: row["id"])] == [
        (n, n * 1.5) for n in range(20)
    ]
    assert run("run-2").applied is False
    computed = run("run-3", sequence=2)
    assert (computed.applied, computed.changed, computed.rows) == (
        True,
        False,
        RowCounts(read=30, written=20, duplicates=10),
    )
    assert read_back(events) == before


def test_a_run_that_dies_before_its_commit_leaves_no_duplicates(events, event_rows):
    """Rows that were written and not committed belong to nobody, so the rerun's are the only ones."""
    split = deduplicate(event_rows(5).union(event_rows(5)), keys=["id"], order_by=["amount"])
    events.stage(split, partition=DAY, provenance=a_run(sequence=1))
    assert active_files(events) == set()
    events.overwrite(split, partition=DAY, provenance=a_run(sequence=1))
    assert [row["id"] for row in read_back(events)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keys": []}, "keys must name a column"),
        ({"null_keys": "merge"}, "keep or drop"),
        ({"keep": "newest"}, "first or last"),
        ({"keys": ["id"]}, "no column id"),
        ({"order_by": ["when"]}, "no column when"),
    ],
)
def test_options_that_can_never_work_are_refused(spark, options, words):
    """No key, an unknown rule for NULL keys, or a column that is not there is a mistake in the call."""
    with pytest.raises(ConfigError, match=words):
        once(visits(spark, VISITS), **options)


@pytest.fixture
def stream(spark, tmp_path):
    """A folder of files as a stream, a Delta table as its sink, and runs that take what is there and stop."""
    landing, sink = tmp_path / "landing", tmp_path / "sink"
    landing.mkdir()

    def drop(*events):
        number = len(list(landing.iterdir()))
        file = landing / f"{number}.json"
        file.write_text("".join(json.dumps({"id": i, "at": f"2026-01-05 {at}"}) + "\n" for i, at in events))
        moment = datetime(2026, 1, 5, tzinfo=timezone.utc).timestamp() + number
        os.utime(file, (moment, moment))

    def run(checkpoint="checkpoint", keys=("id",)):
        files = spark.readStream.schema("id STRING, at TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(landing))
        query = (
            deduplicate_stream(files, keys=keys, event_time="at", window="10 minutes")
            .writeStream.format("delta")
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start(str(sink))
        )
        query.awaitTermination()
        return query.recentProgress

    def taken():
        rows = spark.read.format("delta").load(str(sink)).selectExpr("id", "date_format(at, 'HH:mm') AS at")
        return values(rows)

    return SimpleNamespace(drop=drop, run=run, taken=taken, folder=tmp_path)


def test_a_stream_drops_repeats_within_the_window_and_forgets_them_after(stream):
    """Nine minutes later is a repeat, older than the watermark is late, after the window is new; state shrinks."""
    stream.drop(("a", "10:00"), ("b", "10:00"), ("c", "10:01"), ("a", "10:00"))
    stream.drop(("a", "10:09"))
    stream.drop(("d", "10:20:30"))
    remembered = [progress["stateOperators"][0]["numRowsTotal"] for progress in stream.run()]
    assert max(remembered) == 4
    assert remembered[-1] == 2
    stream.drop(("a", "10:11"), ("e", "10:05"), ("d", "10:09"))
    late = sum(progress["stateOperators"][0]["numRowsDroppedByWatermark"] for progress in stream.run())
    assert stream.taken() == [("a", "10:00"), ("a", "10:11"), ("b", "10:00"), ("c", "10:01"), ("d", "10:20")]
    assert late == 2


def test_a_stream_with_the_time_among_its_keys_keeps_a_repeat_at_another_time(stream):
    """The sample's pair of id and time calls two deliveries equal only if their times are."""
    stream.drop(("a", "10:00"), ("a", "10:00"), ("a", "10:09"))
    stream.run(keys=("id", "at"))
    assert stream.taken() == [("a", "10:00"), ("a", "10:09")]


@pytest.mark.parametrize(("checkpoint", "deliveries"), [("checkpoint", 1), ("a new one", 2)])
def test_a_restart_knows_the_keys_its_checkpoint_holds(stream, checkpoint, deliveries):
    """With the checkpoint a repeat after the restart is dropped; without it nothing is remembered."""
    stream.drop(("a", "10:00"))
    stream.run()
    stream.drop(("a", "10:05"), ("b", "10:05"))
    stream.run(checkpoint)
    assert [key for key, _ in stream.taken()] == ["a"] * deliveries + ["b"]


def test_a_stream_killed_between_its_write_and_its_checkpoint_leaves_no_duplicates(stream):
    """The batch comes again after the restart, and the sink recognises it."""
    stream.drop(("a", "10:00"), ("b", "10:01"))
    stream.run()
    log = stream.folder / "checkpoint"
    for file in [*log.glob("commits/*"), *log.glob("offsets/*")]:
        if file.parent.name == "commits" or file.name.strip(".")[0] != "0":
            file.unlink()
    assert stream.run()[0]["batchId"] == 0
    assert stream.taken() == [("a", "10:00"), ("b", "10:01")]


def test_a_batch_is_no_stream(spark):
    """Forgetting keys makes sense only over time, so a batch is refused."""
    with pytest.raises(ConfigError, match="for a batch use deduplicate"):
        deduplicate_stream(visits(spark, VISITS), keys=["key"], event_time="line", window="10 minutes")


def test_a_stream_without_the_named_columns_is_refused(spark, tmp_path):
    """A wrong column name is a mistake in the call and not one of the running query."""
    stream = spark.readStream.schema("id STRING, at TIMESTAMP").json(str(tmp_path))
    with pytest.raises(ConfigError, match="no column visit_time"):
        deduplicate_stream(stream, keys=["id"], event_time="visit_time", window="10 minutes")


@any_names(handed_on=("page",))
def deduplicated(n):
    seen = [("a", 1, "x"), ("a", 2, "y"), ("b", 1, "x"), (None, 1, "x"), ("c", 1, "z")]
    rows, keys = n.frame("id STRING, at INT, page STRING", *seen), n.all("id")
    split = deduplicator.deduplicate(rows, n.frame("id STRING", ("c",)), keys=keys, order_by=n.all("at"), keep="last")
    yield from (split[part] for part in split.parts)
    yield [deduplicator.judge_uniqueness(rows, keys=keys).figures]


EVENT = "user STRING, at TIMESTAMP, id INT, page STRING"


@any_names(handed_on=("id", "page"))
def deduplicated_stream(n):
    found = deduplicator.deduplicate_stream(n.stream(EVENT), keys=n.all("user"), event_time=n("at"), window="1 hour")
    yield [dict.fromkeys(found.columns)]


def test_a_column_that_is_called_as_one_that_is_added_is_refused(spark):
    """What a step adds would take the place of the user's own column: the refusal names it, and no row is wrong."""
    with pytest.raises(ConfigError, match="__dedp_"):
        deduplicator.judge_uniqueness(spark.createDataFrame([], "__dedp_rows INT"), keys=["__dedp_rows"])


@known_calls
def calls_that_work(known):
    return {
        "deduplicate_stream": {"stream": known.stream, "keys": ["id"], "event_time": "at", "window": "1 hour"},
        "judge_uniqueness": {"rows": known.visits, "keys": ["id"]},
    }
