"""Bin Pack Orderer."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from math import isnan
from random import Random
from zlib import crc32

import pytest

from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT, outgoing
from dedp_assets.patterns.connectors.delivery.sinks import Answer
from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError, NotReady
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.value.bin_pack_orderer import Backoff, RecordColumns, deliver_in_bins, number_bins
from dedp_assets.patterns.value.fifo_orderer import deliver_in_order
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run
from tests.renaming import STORED, any_names
from tests.sinks import Inbox, failing, losing
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

RECEIPTS = TableSpec("platform/delivered", {"day": Column("DATE"), **RECEIPT}, partition_by=("day",))
DAY = {"day": "2026-01-05"}
VISITS = "id STRING, partner STRING, minute INT, page STRING, at DOUBLE"
RECORD = RecordColumns(identity="id", order_by=["at"], entity="page")


@pytest.fixture
def receipts(make_table):
    """A table of receipts."""
    return make_table(RECEIPTS)


def run(number=1, sequence=None):
    return Provenance(asset="delivered", run_id=f"run-{number}", sequence=sequence)


def noted(receipts):
    return sorted((row["destination"], row["record_id"], row["was_present"]) for row in receipts.read().collect())


def visits(spark, *pages, partner="x", start=0):
    """Visits of pages in order of time, delivered in any order: each is called after its page and its place there."""
    seen, rows = Counter(), []
    for at, page in enumerate(pages):
        rows.append((f"{partner}-{page}{seen[page] + start}", partner, at // 10, page, float(at)))
        seen[page] += 1
    Random(len(rows)).shuffle(rows)  # noqa: S311 - test data
    return spark.createDataFrame(rows, VISITS)


def in_order(ids):
    """Whether the ids of each page, as delivered, ascend."""
    found = defaultdict(list)
    for one in ids:
        found[one.rstrip("0123456789")].append(int(one.lstrip("xyz-ABCD")))
    return all(places == sorted(places) for places in found.values())


def deliver(rows, receipts, sink, number=1, *, sequence=None, attempts=5, entity="page", destination="partner", **more):
    into, record = receipts.target(run(number, sequence), partition=DAY), replace(RECORD, entity=entity)
    retry = Backoff(attempts=attempts, first_seconds=0)
    return deliver_in_bins(rows, into, sink, destination=destination, columns=record, retry=retry, **more)


def dealt(rows):
    """The rule in plain Python: the n-th record of each entity of a unit is in bin n."""
    seen, found = Counter(), {}
    for row in sorted(rows, key=lambda row: (row[4], row[0])):
        key = (row[1], row[2], row[3])
        seen[key] += 1
        found[row[0]] = seen[key]
    return found


def test_bins_are_what_the_rule_deals(spark):
    """Of 150 generated cases in one job: the n-th of each entity in bin n, whatever the order, ties by the id.

    So an entity is in a bin at most once, its order is kept, and there are no more bins than records of one entity.
    """
    random, rows = Random(5), []  # noqa: S311 - test data
    for case in range(150):
        for n in range(random.randrange(12)):
            at = random.choice([1.0, 2.0, 2.5, float("inf"), float("nan"), -0.0, 0.0])
            rows.append((f"{case}-{n}", f"case {case}", random.randrange(2), random.choice("AB"), at))
    expected = dealt([(*row[:4], (isnan(row[4]), 0.0 if isnan(row[4]) else row[4])) for row in rows])
    random.shuffle(rows)
    records = outgoing(
        spark.createDataFrame(rows, VISITS).repartition(3),
        RECORD,
        destination="partner",
        entity="page",
        unit="minute",
    )
    assert {row.record_id: row.bin for row in number_bins(records).collect()} == expected


def test_each_entity_is_in_a_request_once_and_bins_follow_each_other(spark, receipts):
    """A three times, B twice, C once: three requests for six records, of which each has a receipt."""
    sink = Inbox()
    done = deliver(visits(spark, *"ABACBA"), receipts, sink)
    assert [ids for _, ids in sink.requests] == [["x-A0", "x-B0", "x-C0"], ["x-A1", "x-B1"], ["x-A2"]]
    assert (done.figures["delivered"], done.figures["requests"], done.figures["pending"]) == (6, 3, 0)
    assert {one for _, one, _ in noted(receipts)} == set(sink.ids("x"))
    late = deliver(visits(spark, *"ABACBAA"), receipts, sink, 2)
    assert (sink.requests[3:], late.figures["delivered"]) == ([("x", ["x-A3"])], 1)


def test_a_sink_that_fails_at_random_has_each_record_once_and_in_order(spark, receipts):
    """Throttled, unanswered, over the limit of a request: still every partner's pages are in order, and minutes too."""
    rows = visits(spark, *"ABCD" * 10).union(visits(spark, *"AABB" * 4, partner="y"))
    lost, chance = losing("x-B3", "y-A5"), {}

    def fault(record, number):
        fails = chance.setdefault(record.id, failing(0.3, seed=crc32(record.id.encode())))
        return lost(record, number) or fails(record, number)

    sink = Inbox(limit=3, fault=fault)
    done = deliver(rows, receipts, sink, unit="minute")
    for partner, count in (("x", 40), ("y", 16)):
        ids = sink.ids(partner)
        assert len(ids) == len(set(ids)) == count
        assert all(one.startswith(partner) for one in ids)
        assert in_order(ids)
        minutes = [
            int('"minute":' in r.value and r.value.split('"minute":')[1].split(",")[0]) for r in sink.taken[partner]
        ]
        assert minutes == sorted(minutes)
    assert done.figures["present"] > 0
    assert done.figures["delivered"] == 56


@pytest.mark.promise("a-partner-that-fails-gets")
def test_a_partner_that_fails_gets_nothing_more_and_the_others_everything(spark, receipts):
    """Exhausted attempts end a partner's delivery before the next bin; a rerun sends exactly what is missing."""
    rows = visits(spark, *"AABC").union(visits(spark, *"AAB", partner="y"))
    down = Inbox(fault=lambda record, _: Answer("failed", reason="throttled") if record.id == "x-A0" else None)
    with pytest.raises(NotReady, match=r"5 of 7 records were delivered .* after 2 attempts .*x: x-A0 \(throttled\)"):
        deliver(rows, receipts, down, sequence=7, attempts=2)
    assert (sorted(down.ids("x")), down.ids("y")) == (["x-B0", "x-C0"], ["y-A0", "y-B0", "y-A1"])
    assert len(noted(receipts)) == 5
    assert receipts.ledger.transactions().applied(receipts.name, DAY) is None, "the step does not count as done"
    down.fault = lambda *_: None
    deliver(rows, receipts, down, 2, sequence=7)
    assert down.requests[-2:] == [("x", ["x-A0"]), ("x", ["x-A1"])]
    assert receipts.ledger.transactions().applied(receipts.name, DAY) == 7
    assert len(noted(receipts)) == 7


def test_nothing_is_sent_of_rows_without_identity_or_order(spark, receipts):
    """Missing and repeated ids, and times that are not there, are refused before the first request."""
    sink, one = Inbox(), ("1", "x", 1, "A", 1.0)
    for other in ((None, "x", 1, "A", 2.0), one, ("2", "x", 1, "A", None), ("2", "x", 1, None, 1.0)):
        with pytest.raises(AmbiguousKeys, match="nothing was sent"):
            deliver(spark.createDataFrame([one, other], VISITS), receipts, sink)
    with pytest.raises(ConfigError, match="no column absent"):
        deliver(visits(spark, "A"), receipts, sink, entity="absent")
    assert sink.requests == []


@any_names(STORED)
def delivered(n):
    columns = "id INT, blog STRING, page STRING, at INT, minute INT"
    rows = n.frame(columns, (1, "x", "/a", 9, 1), (2, "x", "/a", 8, 1), (3, "y", "/b", 7, 0))
    record = RecordColumns(identity=n("id"), order_by=n.all("at"), entity=n("page"), payload=n.all("page", "at"))
    in_bins = partial(deliver_in_bins, destination=n("blog"), unit=n("minute"))
    for deliver in (in_bins, partial(deliver_in_order, destination="x")):
        table, inbox, day = n.table("day STRING", more=RECEIPT, by=["day"]), Inbox(), {n("day"): "a/b"}
        deliver(rows, table.target(a_run(), partition=day), inbox, columns=record)
        yield [{"to": to, "ids": inbox.ids(to)} for to in inbox.taken]
        yield table


@known_calls
def calls_that_work(known):
    receipts = known.table("gold/bins", {"day": Column("STRING"), **RECEIPT}, by=("day",))
    columns = RecordColumns(identity="id", order_by=["at"], entity="user", payload=["page"])
    records = known.frame("destination STRING, unit STRING, entity STRING, place INT", ("x", "", "Ada", 1))
    return {
        "deliver_in_bins": {
            "rows": known.visits,
            "into": receipts.target(known.run, partition={"day": "mon"}),
            "sink": Inbox(partial=False),
            "destination": "day",
            "columns": columns,
            "unit": "day",
        },
        "number_bins": {"records": records},
    }


@two_runs()
def packed_at_once(world):
    table = world.table("sent", "day STRING", more=RECEIPT, by=["day"])
    sinks = {}

    def write(w, name, *ids):
        sink = sinks.setdefault(w.root, Inbox(limit=2))
        rows = w.frame("id INT, blog STRING, page STRING, at INT", *[(n, "x", "/a", n) for n in ids])
        columns = RecordColumns(identity="id", order_by=["at"], entity="page")
        deliver_in_bins(rows, w.into("sent", name, "mon"), sink, destination="blog", columns=columns)
        return sorted(set(sink.ids("x")))

    write(world, "base", 1)
    assert table.ledger.exists()
    yield lambda w: write(w, "1", 1, 2)
    yield lambda w: write(w, "2", 1, 2, 3)
