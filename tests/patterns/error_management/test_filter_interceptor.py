"""Filter Interceptor: which condition dropped how many rows, counted while the others are written."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from itertools import product
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from dedp_assets.graph.resources.engine import use_java
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table
from dedp_assets.patterns.error_management.filter_interceptor import (
    filter_audits,
    filter_measures,
    intercept_filters,
)
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from tests.contracts.known_calls import known_calls
from tests.helpers import a_record, a_run, read_back, write_log
from tests.renaming import STORED, any_names

CONDITIONS = {"adult": "a > 17", "consents": "b", "c": "c", "is known": "NOT e"}
PEOPLE = TableSpec(
    "silver/people",
    {
        "id": Column("BIGINT", required=True),
        "a": Column("INT"),
        "b": Column("BOOLEAN"),
        "c": Column("BOOLEAN"),
        "e": Column("BOOLEAN"),
        "day": Column("DATE", required=True),
    },
    partition_by=("day",),
)
DAY = {"day": "2026-01-05"}
VERDICTS = list(product([True, False, None], repeat=4))
"""Every way in which four conditions can be true, false or NULL, each as often as its place says."""
ROWS = [(id_, *verdicts) for id_, verdicts in enumerate(v for n, v in enumerate(VERDICTS) for _ in range(1 + n % 3))]


def names_of(conditions):
    """The names of the figures."""
    return [name for names in filter_measures(conditions) for name in names]


def model(rows):
    """What plain Python says: the ids that stay, each other id with the condition to blame, and the figures."""
    kept = [id_ for id_, *verdicts in rows if all(verdict is True for verdict in verdicts)]
    blamed, figures = {}, dict.fromkeys(names_of(CONDITIONS), 0)
    for id_, *verdicts in rows:
        for name, verdict in zip(CONDITIONS, verdicts, strict=True):
            figures[f"rejected by {name}"] += verdict is not True
            figures[f"unknown to {name}"] += verdict is None
            if verdict is not True and id_ not in blamed:
                blamed[id_] = name
                figures[f"first rejected by {name}"] += 1
    return kept, blamed, figures


def frame_of(spark, rows):
    """The rows, of which each condition has the verdict that the model was given."""
    age = {True: 18, False: 17, None: None}
    turned = {True: False, False: True, None: None}
    typed = [(id_, age[a], b, c, turned[e]) for id_, a, b, c, e in rows]
    return spark.createDataFrame(typed, "id BIGINT, a INT, b BOOLEAN, c BOOLEAN, e BOOLEAN")


def publish(rows, table, *, conditions=CONDITIONS, audits=(), partition=DAY, append=False, **fields):
    """What an asset does: split, count, stage, publish."""
    dated = rows.selectExpr("*", f"DATE '{DAY['day']}' AS day")
    split = intercept_filters(dated, conditions=conditions, identity=["id"])
    kept, seen = tally(split, identity=["id"], measures=filter_measures(conditions))
    staged = table.stage(
        kept,
        partition=None if append else partition,
        provenance=a_run(table.name, **fields),
        audits=audits,
        rows_read=RowsRead(tally=seen),
        append=append,
    )
    return staged.publish()


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """All verdicts, written once as a batch, again as a rerun, and as a stream of three files."""
    home = tmp_path_factory.mktemp("people")
    rows = frame_of(spark, ROWS)
    batch = Table(PEOPLE, home / "batch", spark)
    first, again = publish(rows, batch), publish(rows, batch, run_id="run-2", replay=True)
    streamed = Table(PEOPLE, home / "streamed", spark)
    for number in range(3):
        rows.filter(f"id % 3 = {number}").coalesce(1).write.mode("append").parquet(str(home / "source"))

    def append(micro_batch, number):
        publish(micro_batch, streamed, append=True, sequence=number + 1)

    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(home / "source"))
    options = {"checkpointLocation": str(home / "checkpoint")}
    query = stream.writeStream.foreachBatch(append).options(**options).trigger(availableNow=True).start()
    query.awaitTermination()
    return SimpleNamespace(rows=rows, batch=batch, first=first, again=again, streamed=streamed)


def counted(figures):
    return {name: figures[name] for name in names_of(CONDITIONS)}


@pytest.mark.promise("every-verdict-on-every-condition")
def test_every_verdict_on_every_condition_is_counted_as_a_plain_model_counts(world):
    """All 81 ways to be true, false or NULL: rows that stay, overlapping counts, first failures and NULLs."""
    kept, _, figures = model(ROWS)
    assert [row["id"] for row in read_back(world.batch)] == sorted(kept, key=str)
    assert counted(world.first.figures) == figures


def test_written_and_filtered_rows_are_the_rows_read_and_first_failures_are_the_filtered(world):
    """No row is lost between the conditions, whatever is NULL."""
    rows = world.first.rows
    assert (rows.read, rows.written + rows.filtered, rows.unaccounted) == (len(ROWS), len(ROWS), 0)
    assert sum(world.first.figures[f"first rejected by {name}"] for name in CONDITIONS) == rows.filtered


def test_the_rows_that_stay_are_those_of_the_plain_filter(world):
    """One WHERE with all conditions keeps the same rows."""
    plain = world.rows.filter(" AND ".join(f"({sql})" for sql in CONDITIONS.values()))
    assert sorted(row["id"] for row in plain.collect()) == sorted(row["id"] for row in read_back(world.batch))


def test_each_filtered_row_names_the_first_condition_that_is_not_true(world):
    """Rows can be looked at by the condition that dropped them, and evaluating them twice changes nothing."""
    split = intercept_filters(world.rows, conditions=CONDITIONS)
    found = split["filtered"].collect()
    assert {row["id"]: row["filtered_by"] for row in found} == model(ROWS)[1]
    assert split["valid"].columns == world.rows.columns
    assert {row["filtered_by"] for row in split.rows.filter("__dedp_outcome = 'valid'").collect()} == {None}


def test_a_rerun_counts_the_same_again(world):
    """Counts belong to a commit: nothing accumulates over runs and actions."""
    assert counted(world.again.figures) == counted(world.first.figures)
    assert world.again.rows == world.first.rows


def test_a_stream_counts_as_a_batch_does(world):
    """Three micro-batches: the same rows stay, and their counts add up to those of the batch."""
    assert [row["id"] for row in read_back(world.streamed)] == [row["id"] for row in read_back(world.batch)]
    records = [commit.record for commit in world.streamed.ledger.commits() if commit.record]
    assert len(records) == 3
    assert {n: sum(r.figures[n] for r in records) for n in model(ROWS)[2]} == model(ROWS)[2]


def test_duplicates_are_no_filtered_rows(spark, make_table):
    """Of a split, only what is still valid is judged; the rest keeps its outcome and is blamed on nobody."""
    people = frame_of(spark, [(1, True, True, True, True), (2, False, True, True, True), (2, False, None, True, True)])
    unique = deduplicate(people, keys=["id"], order_by=["b"])
    split = intercept_filters(unique, conditions=CONDITIONS)
    found = {part: [(row["id"], row["b"]) for row in split[part].collect()] for part in split.parts}
    assert found == {"valid": [(1, True)], "filtered": [(2, None)], "duplicate": [(2, True)]}


def test_a_filter_that_drops_too_much_is_refused_by_name_and_both_versions_are_known(spark, make_table):
    """Other code on the same input: nothing is published; the refusal names the filter, the commit the code before."""
    table = make_table(PEOPLE)
    rows = spark.range(100).selectExpr("id", "CAST(id AS INT) AS a", "true AS b", "true AS c", "false AS e")
    published = publish(rows, table, conditions={"adult": "a >= 15", "consents": "b"}, inputs={"bronze/people": 7})
    assert published.figures["rejected by adult"] == 15
    wrong = {"adult": "a >= 90", "consents": "b"}
    audits = filter_audits(table.ledger, DAY, conditions=wrong)
    with pytest.raises(
        AuditFailed, match=r"adult_drops_as_usual: above 0.4 \(rejected by adult=90, read=100"
    ) as refusal:
        publish(rows, table, conditions=wrong, audits=audits, inputs={"bronze/people": 7}, code_version="2")
    assert {finding.name for finding in refusal.value.findings if finding.refuses} == {"adult_drops_as_usual"}
    assert len(read_back(table)) == 85
    record = table.ledger.latest(DAY).record
    assert (record.code_version, record.inputs) == ("1", {"bronze/people": 7})


def test_a_row_that_is_lost_after_the_counting_refuses_the_write(spark, make_table):
    """One that passed every condition and does not arrive is not taken for a filtered one; that none passes is fine."""
    rows = spark.range(10).selectExpr("id", "CAST(id + 10 AS INT) AS a", "true AS b", "true AS c", "false AS e")
    table = make_table(PEOPLE)
    split = intercept_filters(rows.selectExpr("*", "DATE '2026-01-05' AS day"), conditions={"adult": "a > 17"})
    kept, seen = tally(split, identity=["id"], measures=filter_measures({"adult": "a > 17"}))
    with pytest.raises(AuditFailed, match=r"rows_are_accounted_for: .*\(read=10, written=1, .*filtered=8"):
        table.stage(kept.filter("id <> 8"), partition=DAY, provenance=a_run(), rows_read=RowsRead(tally=seen))
    kept, seen = tally(split, identity=["id"])
    changed = kept.selectExpr("id - 1 AS id", "* EXCEPT (id)")
    with pytest.raises(AuditFailed, match="other records came out than went in"):
        table.stage(changed, partition=DAY, provenance=a_run(), rows_read=RowsRead(tally=seen))
    for found in (rows.filter("id < 0"), rows.filter("id < 8")):
        written = publish(found, table, conditions={"adult": "a > 17"})
        assert (written.rows.written, written.rows.unaccounted, read_back(table)) == (0, 0, [])


def history(tmp_path, *commits, column="day"):
    """A table's log: ``(partition key, rows read, rejected by adult)`` for each commit."""
    records = [
        a_record(
            PEOPLE.name,
            {column: key} if key else {},
            rows={"read": read, "written": read - rejected, "dead": 0, "duplicates": 0, "filtered": rejected},
            figures={"rejected by adult": rejected},
        )
        for key, read, rejected in commits
    ]
    write_log(tmp_path / "people", {"id": "long", "day": "date"}, ["day"], [{"record": record} for record in records])
    for file in (tmp_path / "people" / "_delta_log").glob("*.json"):  # commits are five minutes apart
        text = re.sub(
            r"17676\d{8}",
            lambda found: str(1767600000000 + (int(found[0]) - 1767600000000) * 300_000),
            file.read_text(),
        )
        file.write_text(text)
    return Ledger(tmp_path / "people", name=PEOPLE.name)


ADULT = {"adult": "a > 17"}


def verdict(ledger, rejected, **options):
    (audit,) = filter_audits(ledger, conditions=ADULT, **options)
    return audit.judge({"rejected by adult": rejected, "read": 100}).passed


def test_a_share_is_judged_by_what_is_usual(tmp_path):
    """15 % are usual: 39 pass and 90 fail."""
    ledger = history(tmp_path, *[(f"2026-01-{day:02}", 100, 15) for day in range(1, 5)])
    assert verdict(ledger, 39, partition=DAY)
    assert not verdict(ledger, 90, partition=DAY)


def test_a_filter_that_drops_nothing_any_more_fails_like_one_that_drops_too_much(tmp_path):
    """What a lost filter lets through may be what nobody is meant to see."""
    ledger = history(tmp_path, ("2026-01-04", 100, 60))
    assert not verdict(ledger, 34, partition=DAY)
    assert verdict(ledger, 36, partition=DAY)


def test_without_history_every_share_passes(tmp_path):
    """The first partition of a table, and one whose commits counted other conditions, are measures for the next."""
    assert verdict(Ledger(tmp_path / "none"), 100, partition=DAY)
    assert verdict(history(tmp_path, ("2026-01-04", 0, 0)), 100, partition=DAY)


def test_a_rebuild_of_old_partitions_is_no_measure_for_the_present(tmp_path):
    """Nearest partitions count, however recently others were written; a partition's own last commit comes first."""
    usual = [(f"2026-01-{day:02}", 100, 15) for day in range(1, 5)]
    rebuilt = [(f"2025-12-{day:02}", 100, 90) for day in range(1, 29)] + [("2026-01-06", 100, 90)]
    ledger = history(tmp_path, *usual, *rebuilt)
    assert not verdict(ledger, 90, partition=DAY, last=4)
    assert verdict(ledger, 90, partition={"day": "2026-01-06"})


def usual_share(ledger, **options):
    (audit,) = filter_audits(ledger, conditions=ADULT, window_seconds=600, tolerance=0.05, **options)
    return audit.fail_below + 0.05


def test_shares_of_a_stream_are_told_by_window_and_not_since_its_beginning(tmp_path):
    """Commits of the same window add up; those of another one are another figure."""
    ledger = history(tmp_path, ("", 100, 10), ("", 100, 10), ("", 300, 150), ("", 100, 90), column="")
    assert usual_share(ledger, last=1) == pytest.approx(0.9)
    assert usual_share(ledger, last=2) == pytest.approx((0.9 + 0.4) / 2)
    assert usual_share(ledger, last=3) == usual_share(ledger, last=0) == pytest.approx(0.4)


def test_appends_are_judged_by_the_windows_before_them(tmp_path):
    """The median of the last windows is what is usual."""
    ledger = history(tmp_path, *[("", 100, 15)] * 4, column="")
    assert not verdict(ledger, 90, window_seconds=0)
    assert verdict(ledger, 20, window_seconds=600, last=2)


@pytest.mark.parametrize("conditions", [{}, {"": "true"}, {"__dedp_x": "true"}, {f"c{n}": "true" for n in range(32)}])
def test_conditions_without_a_name_of_their_own_are_refused(conditions):
    """And so is what no verdict has room for."""
    with pytest.raises(ConfigError, match="1 to 31 conditions"):
        filter_measures(conditions)


@pytest.mark.parametrize("tolerance", [0, -1, 1.1, 25])
def test_a_tolerance_that_is_no_share_is_refused(tmp_path, tolerance):
    """25 would be meant as percent, and would never fail."""
    with pytest.raises(ConfigError, match="must be a share"):
        filter_audits(Ledger(tmp_path), conditions=ADULT, tolerance=tolerance)


def test_a_column_that_the_rows_have_is_not_overwritten(spark):
    """`filtered_by` is this step's word."""
    with pytest.raises(ConfigError, match="filtered_by"):
        intercept_filters(spark.range(1).selectExpr("id", "'x' AS filtered_by"), conditions={"a": "id > 0"})


def test_what_is_no_predicate_is_refused(spark):
    """A number is neither true nor false, and would be taken for bits."""
    with pytest.raises(ConfigError, match=r"^condition a cannot be evaluated: .*BOOLEAN"):
        intercept_filters(spark.range(1), conditions={"a": "id"})


def test_thirty_one_conditions_have_room(spark):
    """The last one is counted like the first."""
    conditions = {f"above {n}": f"id > {n}" for n in range(31)}
    split = intercept_filters(spark.range(40), conditions=conditions)
    kept, seen = tally(split, identity=["id"], measures=filter_measures(conditions))
    assert [row["id"] for row in kept.sort("id").collect()] == list(range(31, 40))
    figures = seen.figures()
    assert [figures[f"rejected by above {n}"] for n in range(31)] == list(range(1, 32))
    assert [figures[f"first rejected by above {n}"] for n in range(31)] == [1] * 31


@pytest.mark.both
def test_many_conditions_on_rows_of_many_tasks_are_counted_as_a_plain_model_counts(spark):
    """Twelve conditions, more than one histogram: verdicts are false or NULL at random."""
    names, chance = [f"c{n}" for n in range(12)], random.Random(12)  # noqa: S311 - no secret
    verdicts = [chance.choices([True, False, None], [29, 7, 6], k=12) for _ in range(900)]
    typed = ", ".join(f"{name} BOOLEAN" for name in names)
    rows = spark.createDataFrame([(n, *each) for n, each in enumerate(verdicts)], f"id INT, {typed}").repartition(7)
    conditions = {name: name for name in names}
    split = intercept_filters(rows, conditions=conditions)
    kept, seen = tally(split, identity=["id"], measures=filter_measures(conditions))
    assert kept.count() == sum(all(each) for each in verdicts)
    figures = seen.figures()
    firsts = [next((n for n, verdict in enumerate(each) if not verdict), None) for each in verdicts]
    for place, name in enumerate(names):
        assert figures[f"rejected by {name}"] == sum(not each[place] for each in verdicts)
        assert figures[f"first rejected by {name}"] == firsts.count(place)
        assert figures[f"unknown to {name}"] == sum(each[place] is None for each in verdicts)


RETRIED = """
import json, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as F
from dedp_assets.patterns.core.rows import tally
from dedp_assets.patterns.error_management.filter_interceptor import filter_measures, intercept_filters

def fail_once(number):
    if number == 499 and TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("the first attempt ends here")
    return number

options = {"spark.ui.enabled": "false", "spark.sql.execution.arrow.pyspark.enabled": "false"}
builder = SparkSession.builder.master("local[1,2]")
for name, value in options.items():
    builder = builder.config(name, value)
conditions = {"odd": "id % 2 = 1", "small": "id < 500"}
split = intercept_filters(builder.getOrCreate().range(0, 1000, 1, 2), conditions=conditions)
kept, seen = tally(split, identity=["id"], measures=filter_measures(conditions))
kept.select(F.udf(fail_once, "long")("id").alias("id")).write.parquet(sys.argv[1])
print(json.dumps(seen.figures()))
"""


@pytest.mark.slow
def test_a_task_that_is_tried_again_counts_its_rows_once(tmp_path, test_settings):
    """The first half of the rows is counted twice, by an attempt that fails and one that does not."""
    use_java(test_settings)
    command = [sys.executable, "-c", RETRIED, str(tmp_path / "rows")]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert "the first attempt ends here" in done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert [figures[f"rejected by {name}"] for name in ("odd", "small")] == [500, 500]
    assert figures["first rejected by small"] == 250


@any_names(STORED)
def filtered(n):
    rows, table = n.frame("id INT, age INT", (1, 20), (2, 17), (3, None)), n.table("id INT, age INT")
    conditions = {STORED: f"{n.q('age')} > 17", "a b": f"{n.q('id')} % 2 = 1"}
    split = intercept_filters(rows, conditions=conditions, identity=n.all("id"))
    kept, seen = tally(split, identity=n.all("id"), measures=filter_measures(conditions))
    yield split["filtered"]
    yield [{**table.stage(kept, provenance=a_run(), rows_read=RowsRead(tally=seen)).publish().figures}]
    yield table


def test_a_column_that_is_called_as_one_that_is_added_is_refused(spark):
    """What a step adds would take the place of the user's own column: the refusal names it, and no row is wrong."""
    rows = spark.createDataFrame([], "a INT, filtered_by STRING").withColumn("part", F.lit("valid"))
    split = Split(rows, {"valid": ("a", "filtered_by", "part")}, outcome="part")
    with pytest.raises(ConfigError, match="filtered_by"):
        intercept_filters(split, conditions={"c": "true"})


def test_what_an_earlier_filter_dropped_keeps_its_reason(spark):
    """A second filter passes the rows through that the first one dropped, as it says of every other part."""
    ages = spark.createDataFrame([(1, 20), (2, 1), (3, 30)], "id INT, age INT")
    split = intercept_filters(intercept_filters(ages, conditions={"a": "age > 3"}), conditions={"b": "age > 25"})
    assert sorted(map(tuple, split["filtered"].collect())) == [(1, 20, "b"), (2, 1, "a")]


@known_calls
def calls_that_work(known):
    conditions = {"known": "id > 0"}
    return {
        "filter_audits": {"ledger": known.daily.ledger, "conditions": conditions, "partition": {"day": "mon"}},
        "filter_measures": {"conditions": conditions},
        "intercept_filters": {"rows": known.visits, "conditions": conditions, "identity": ["id"]},
    }
