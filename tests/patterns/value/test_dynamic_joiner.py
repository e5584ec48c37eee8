"""Dynamic Joiner: what belongs together in time meets, whichever side comes first, and nothing is kept for ever."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime, timezone
from itertools import chain
from random import Random
from types import SimpleNamespace

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.checkpointer import append_checkpointed
from dedp_assets.patterns.value.dynamic_joiner import JoinTimes, join_latest, join_within
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run
from tests.renaming import any_names, at

pytestmark = pytest.mark.spark

TEN = int(datetime(2026, 1, 5, 10, tzinfo=timezone.utc).timestamp())
COLUMNS = {"visits": "visit BIGINT, page STRING, second BIGINT", "ads": "ad BIGINT, ad_page STRING, second BIGINT"}
TYPED = {
    "visits": ["visit", "page", "timestamp_seconds(second) AS at"],
    "ads": ["ad", "ad_page", "timestamp_seconds(second) AS shown_at"],
}
TIMES = JoinTimes(fact="at", other="shown_at")
SIDES = {"keys": {"page": "ad_page"}, "times": TIMES}
PAIRS = TableSpec(
    "silver/pairs",
    {
        "visit": Column("BIGINT"),
        "page": Column("STRING"),
        "at": Column("TIMESTAMP"),
        "ad": Column("BIGINT"),
        "shown_at": Column("TIMESTAMP"),
    },
)
MINUTES_10 = replace(TIMES, fact_lateness_seconds=600, other_lateness_seconds=600)
TWO_MINUTES = {**SIDES, "from_seconds": 0, "to_seconds": 120, "times": MINUTES_10}
LONG_AFTER = 3600


def visit(number, page, second):
    return {"visit": number, "page": page, "second": None if second is None else TEN + second}


def ad(number, page, second):
    return {"ad": number, "ad_page": page, "second": None if second is None else TEN + second}


STEPS = [
    (
        [*[visit(n, f"/{n}", 0) for n in range(1, 8)], visit(8, None, 0), visit(9, "/1", None)],
        [ad(1, "/1", 0), ad(2, "/2", 119), ad(3, "/3", 120), ad(4, "/4", -1), ad(5, "/5", 121), ad(9, None, 0)],
    ),
    ([visit(20, "/20", 540)], [ad(20, "/none", 540)]),
    ([], [ad(6, "/6", 30)]),
    ([visit(21, "/none", LONG_AFTER)], []),
    ([visit(23, "/none", LONG_AFTER)], [ad(21, "/other", LONG_AFTER)]),
    ([], []),
    ([visit(22, "/22", 10)], [ad(22, "/7", 20)]),
]
"""What each micro-batch brings: ad 6 comes nine minutes late, then the ads are silent, and 22 is too late by far."""
MET = {(1, 1), (2, 2), (3, 3), (6, 6)}
ALONE = {(4, None), (5, None), (7, None), (8, None), (20, None)}


def deliver(home, steps, start=0):
    """Write a file for each side and micro-batch, in an order that Spark sees."""
    for number, sides in enumerate(steps, start=start):
        for name, rows in zip(("visits", "ads"), sides, strict=True):
            path = home / name / f"{number:03}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            os.utime(path, (TEN + number, TEN + number))


def streams(spark, home, at_once=1):
    """Both sides, so many files of each in a micro-batch."""
    files = {name: spark.readStream.schema(COLUMNS[name]).option("maxFilesPerTrigger", at_once) for name in COLUMNS}
    return [each.json(str(home / name)).selectExpr(*TYPED[name]) for name, each in files.items()]


def batches(spark, steps):
    found = []
    for place, name in enumerate(("visits", "ads")):
        rows = [tuple(row.values()) for sides in steps for row in sides[place]]
        found.append(spark.createDataFrame(rows, COLUMNS[name]).selectExpr(*TYPED[name]))
    return found


def ran(spark, stream, name):
    """Run a query to its end; its rows, and how many rows it keeps then."""
    query = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    kept = sum(operator["numRowsTotal"] for operator in query.recentProgress[-1]["stateOperators"])
    return spark.table(name).collect(), kept


def numbers(rows):
    """Visit and ad of each row, sorted."""
    return sorted(((row[0], row[3]) for row in rows), key=str)


@pytest.fixture(scope="module", autouse=True)
def _one_task_at_a_time(spark):
    """Keep few rows in few state stores."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """A query that ends while the ads are silent, and goes on where it stood when they are back."""
    home = tmp_path_factory.mktemp("streams")
    table, asked = Table(PAIRS, home / "pairs", spark), a_run(PAIRS.name)
    deliver(home, STEPS[:4])
    stream = join_within(*streams(spark, home), **TWO_MINUTES)
    before = append_checkpointed(stream, table.target(asked), checkpoint=str(home / "checkpoint"))
    silent = numbers(table.read().collect())
    deliver(home, STEPS[4:], start=4)
    after = append_checkpointed(stream, table.target(asked), checkpoint=str(home / "checkpoint"))
    rows = numbers(table.read().collect())
    return SimpleNamespace(home=home, before=before.figures, silent=silent, after=after.figures, rows=rows)


def test_partners_lie_within_the_bound_and_both_its_ends_belong_to_it(world):
    """At 0, 119 and 120 seconds, and nine minutes late in arrival; not at -1 and 121, nor for a page of NULL.

    The query was ended and went on in between: no partner is missing, none came twice, nobody is alone and met.
    """
    assert world.rows == sorted(MET | ALONE, key=str)


def test_a_fact_without_a_partner_waits_for_the_slower_side(world):
    """An hour of visits does not close anything while the ads are silent; what met came out at once."""
    assert world.silent == sorted(MET, key=str)


def test_what_is_too_late_is_counted_and_the_batch_over_all_rows_has_it(spark, world):
    """The late ad and the late visit are dropped, as the result says; the same join over tables repairs both."""
    assert (world.before["dropped_by_watermark"], world.after["dropped_by_watermark"]) == (0, 2)
    repaired = numbers(join_within(*batches(spark, STEPS), **TWO_MINUTES).collect())
    lonely = ALONE - {(7, None)} | {(21, None), (22, None), (23, None)}
    assert repaired == sorted({*MET, (7, 22), *lonely}, key=str)


def test_the_state_falls_back_once_nobody_can_come_any_more(spark, world):
    """Only what is newer than the watermark is left; without bounds each row of both sides stays."""
    assert (world.before["state_rows"], world.after["state_rows"]) == (17, 3)
    visits, ads = streams(spark, world.home, at_once=100)
    _, unbounded = ran(spark, visits.join(ads, visits.page == ads.ad_page), "unbounded")
    assert unbounded == sum(len(rows) for sides in STEPS for rows in sides) - 2, "NULL is no key"


def test_a_wider_bound_finds_more_and_keeps_more(spark, world, tmp_path):
    """The trade-off on one fixture: ten seconds and no tolerance against two minutes and ten."""
    second = replace(TIMES, fact_lateness_seconds=1, other_lateness_seconds=1)
    narrow = {**TWO_MINUTES, "to_seconds": 10, "times": second}
    deliver(tmp_path, STEPS[:4])
    found, kept = ran(spark, join_within(*streams(spark, tmp_path), how="inner", **narrow), "narrow")
    assert numbers(found) == [(1, 1)]
    assert kept < world.before["state_rows"]


# --- the newest partner ---------------------------------------------------------------------------------------------

WITHIN = 300


def a_case(random, case):
    """Visits and ads of one case: few pages and few times, so that they tie, repeat, miss and lie on the bound."""
    pages, times = [f"{case}/a", f"{case}/b", None], [None, 0, 1, 59, 60, 300, 301, 359, 360, 600]
    visits = [visit(100 * case + n, random.choice(pages), random.choice(times)) for n in range(random.randrange(6))]
    ads = [ad(random.randrange(4), random.choice(pages), random.choice(times)) for _ in range(random.randrange(7))]
    return [*visits, *random.sample(visits, min(len(visits), 1))], ads


def model(visits, ads, chosen):
    """Visit and ads, as a person would find them: one row for each visit and ``chosen`` partner."""
    found = []
    for one in visits:
        if one["second"] is not None:
            near = [
                (each["second"], each["ad"])
                for each in ads
                if each["second"] is not None and each["ad_page"] == one["page"] is not None
                if -WITHIN <= each["second"] - one["second"] <= 0
            ]
            found += [(one["visit"], number) for _, number in (chosen(near) if near else [(0, None)])]
    return sorted(found, key=str)


def test_facts_without_an_identity_are_no_repeats_of_each_other(spark):
    """Of two with NULL and the same time both stay; of two with the same content nobody can tell one from the other."""
    at = "TIMESTAMP '2026-01-05 10:00:00' AS at"
    facts = spark.sql(f"SELECT inline(array((NULL, '/a'), (NULL, '/b'), (NULL, '/b'), (1, '/c'))) AS (id, page), {at}")
    ads = spark.sql("SELECT '/b' AS ad_page, 7 AS ad, TIMESTAMP '2026-01-05 09:59:00' AS shown_at")
    found = join_latest(
        facts, ads, identity=["id"], keys={"page": "ad_page"}, times=JoinTimes(fact="at", other="shown_at")
    )
    assert sorted((row["page"], row["ad"]) for row in found.collect()) == [("/a", None), ("/b", 7), ("/c", None)]


LATEST = {**SIDES, "identity": ["visit"], "within_seconds": WITHIN, "order_by": ["ad", "ad_page"]}


@pytest.mark.promise("batch-and-stream-find-the")
def test_batch_and_stream_find_the_newest_partner_in_any_order_of_arrival(spark, tmp_path):
    """Many small cases at once: the batch is what a plain model says, and the stream is what the batch is."""
    random = Random(5)  # noqa: S311 - test data
    visits, ads = map(list, map(chain.from_iterable, zip(*(a_case(random, n) for n in range(150)), strict=True)))
    once = list({one["visit"]: one for one in visits}.values())
    steps = [(visits, ads)]
    bound = {**SIDES, "from_seconds": -WITHIN, "to_seconds": 0}
    pairs = numbers(join_within(*batches(spark, steps), **bound).collect())
    assert pairs == model(visits, ads, chosen=list)
    newest = numbers(join_latest(*batches(spark, steps), **LATEST).collect())
    assert newest == model(once, ads, chosen=lambda near: [max(near)])
    assert len(newest) < len(pairs)
    random.shuffle(visits)
    random.shuffle(ads)
    arriving = [(visits[::2], ads[1::2]), (visits[1::2], ads[::2])]
    deliver(tmp_path, [*arriving, ([visit(-1, "/", 9000)], [ad(-1, "/", 9000)])])
    late = {**LATEST, "times": replace(TIMES, fact_lateness_seconds=601, other_lateness_seconds=601)}
    streamed, _ = ran(spark, join_latest(*streams(spark, tmp_path), **late), "latest")
    assert numbers(streamed) == newest


def test_a_visit_gets_the_ad_that_was_shown_last_before_it(spark):
    """Ads at 10:00, 10:05 and 10:10: none before the first, at an equal time the one of that time."""
    ads = [ad(minute, "/", 60 * minute) for minute in (0, 5, 10)]
    steps = [([visit(n, "/", 60 * n) for n in (-1, 5, 7, 11)], ads)]
    found = join_latest(*batches(spark, steps), **{**LATEST, "within_seconds": 3600}).collect()
    assert numbers(found) == [(-1, None), (11, 10), (5, 5), (7, 5)]
    lost = join_latest(*batches(spark, steps), **LATEST, how="inner").collect()
    assert numbers(lost) == [(11, 10), (5, 5), (7, 5)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"to_seconds": None}, "every row is kept for ever: name both ends"),
        ({"from_seconds": None}, "every row is kept for ever: name both ends"),
        ({"from_seconds": 121}, "no time lies from 121 to 120 seconds"),
        ({"times": replace(MINUTES_10, other_lateness_seconds=None)}, "without a watermark on both sides"),
        ({"times": replace(MINUTES_10, fact_lateness_seconds=-1)}, "without a watermark on both sides"),
        ({"how": "full"}, "how must be left or inner, not 'full'"),
        ({"keys": {}}, "keys must name a column of each side"),
        ({"keys": {"page": "adpage"}}, "have no column adpage"),
        ({"times": replace(MINUTES_10, fact="visit")}, "column visit is BIGINT, which is no instant"),
    ],
)
def test_a_join_that_would_keep_rows_for_ever_or_cannot_work_is_refused(spark, tmp_path, options, reason):
    """Before anything is read."""
    deliver(tmp_path, [([], [])])
    with pytest.raises(ConfigError, match=reason):
        join_within(*streams(spark, tmp_path), **{**TWO_MINUTES, **options})


def test_sides_that_do_not_fit_are_refused(spark, tmp_path):
    """A stream against a table, one name on both sides, a newest partner after the fact, and one of no fact."""
    deliver(tmp_path, [([], [])])
    visits, _ = streams(spark, tmp_path)
    still, ads = batches(spark, [([visit(1, "/", 0)], [ad(1, "/", 0)])])
    with pytest.raises(ConfigError, match="a stream meets a table by a Static Joiner"):
        join_within(visits, ads, **TWO_MINUTES)
    with pytest.raises(ConfigError, match=r"no other have one name: \['at'\]"):
        join_within(still, ads.withColumn("AT", ads.shown_at), **TWO_MINUTES)
    for options in ({"within_seconds": -1}, {"identity": []}):
        with pytest.raises(ConfigError):
            join_latest(still, ads, **{**LATEST, **options})


@any_names()
def joined(n):
    facts = n.frame("id INT, page STRING, at TIMESTAMP", (1, "/a", at(12)), (2, "/b", at(12)), (3, None, at(1)))
    ads = n.frame("ad INT, ad_page STRING, shown TIMESTAMP", (7, "/a", at(10)), (8, "/a", at(11)), (9, "/b", at(13)))
    options = {"keys": {n("page"): n("ad_page")}, "times": JoinTimes(fact=n("at"), other=n("shown"))}
    yield join_within(facts, ads, **options, from_seconds=-120, to_seconds=0)
    yield join_latest(facts, ads, **options, identity=n.all("id"), within_seconds=600, order_by=n.all("ad"))


@known_calls
def calls_that_work(known):
    late = JoinTimes(fact="at", other="shown_at", fact_lateness_seconds=60, other_lateness_seconds=60)
    both = {
        "facts": known.visits,
        "others": known.frame("ad INT, ad_page STRING, shown_at TIMESTAMP", (7, "/", NOW)),
        "keys": {"page": "ad_page"},
        "times": late,
    }
    return {
        "join_within": {**both, "from_seconds": -9, "to_seconds": 0},
        "join_latest": {**both, "identity": ["id"], "within_seconds": 9, "order_by": ["ad"]},
    }
