"""FIFO Orderer."""

from __future__ import annotations

import time
from random import Random

import pytest

from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
from dedp_assets.patterns.connectors.delivery.sinks import Answer
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.value.fifo_orderer import Backoff, RecordColumns, deliver_in_order
from tests.contracts.known_calls import known_calls
from tests.faults.failpoints import dying
from tests.sinks import Inbox, failing, losing, refusing
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

RECEIPTS = TableSpec("platform/alerted", {"day": Column("DATE"), **RECEIPT}, partition_by=("day",))
DAY = {"day": "2026-01-05"}
IDS = [f"{n:02}" for n in range(20)]


@pytest.fixture
def receipts(make_table):
    """A table of receipts."""
    return make_table(RECEIPTS)


@pytest.fixture
def rows(spark):
    """Twenty records of four pages, delivered in any order."""
    made = [(one, "ABCD"[int(one) % 4], int(one)) for one in IDS]
    Random(1).shuffle(made)  # noqa: S311 - test data
    return spark.createDataFrame(made, "id STRING, page STRING, line INT")


def deliver(rows, receipts, sink, number=1, **more):
    run, partition = Provenance(asset="alerted", run_id=f"run-{number}"), more.pop("partition", DAY)
    columns = RecordColumns(identity="id", order_by=more.pop("order_by", ["line"]), entity=more.pop("entity", ""))
    retry = Backoff(attempts=more.pop("attempts", 5), first_seconds=0)
    options = {"destination": "o'alerts", "columns": columns, "retry": retry, **more}
    return deliver_in_order(rows, receipts.target(run, partition=partition), sink, **options)


def test_each_record_is_acknowledged_before_the_next_is_sent(rows, receipts):
    """A sink that fails at random: requests of one record, repeated until it is taken, and then the next."""
    sink = Inbox(fault=lambda record, n: failing(0.4, seed=int(record.id))(record, n) or losing("07")(record, n))
    done = deliver(rows, receipts, sink)
    sent = [ids for _, ids in sink.requests]
    assert all(len(ids) == 1 for ids in sent)
    assert list(dict.fromkeys(one for (one,) in sent)) == IDS
    assert [one for (one,) in sent] == sorted(one for (one,) in sent)
    assert sink.ids("o'alerts") == IDS
    assert (done.figures["delivered"], done.figures["pending"], done.figures["requests"]) == (20, 0, len(sent))


@pytest.mark.parametrize(
    ("fault", "error"),
    [(lambda record, _: Answer("failed") if record.id == "05" else None, NotReady), (refusing("05"), ContractError)],
    ids=["exhausted", "refused"],
)
def test_nothing_follows_a_record_that_cannot_be_delivered(rows, receipts, fault, error):
    """The run fails, says how many were delivered, and a rerun goes on with that record."""
    sink = Inbox(fault=fault)
    with pytest.raises(error, match=r"5 of 20 records were delivered .*05"):
        deliver(rows, receipts, sink)
    assert sink.ids("o'alerts") == IDS[:5]
    before, sink.fault = len(sink.requests), lambda *_: None
    assert deliver(rows, receipts, sink, 2, partition={"Day": DAY["day"]}).figures["delivered"] == 15
    assert [one for _, (one,) in sink.requests[before:]] == IDS[5:]


def test_a_kill_between_acknowledgment_and_receipt_sends_again_what_the_sink_knows(rows, receipts):
    """All twenty are sent twice and are there once, in order."""
    sink = Inbox()
    with dying("before"), pytest.raises(RuntimeError, match="killed"):
        deliver(rows, receipts, sink)
    assert deliver(rows, receipts, sink, 2).figures["present"] == 20
    assert (len(sink.requests), sink.ids("o'alerts")) == (40, IDS)


def test_several_in_one_request_are_for_sinks_that_take_them_whole(rows, receipts):
    """One that may take a part is refused before anything is sent; of the other one request is under way at a time."""
    partial = Inbox()
    with pytest.raises(ConfigError, match=r"the inbox may accept a request in part.*at_once=1"):
        deliver(rows, receipts, partial, at_once=8)
    assert partial.requests == []
    whole = Inbox(partial=False, fault=lambda record, n: Answer("failed") if record.id == "10" and n == 1 else None)
    deliver(rows, receipts, whole, at_once=8)
    assert [ids for _, ids in whole.requests] == [IDS[:8], IDS[8:16], IDS[10:16], IDS[16:]]
    assert whole.ids("o'alerts") == IDS


class Slow(Inbox):
    """A sink that takes its time, and notes how many requests are under way."""

    def __init__(self, **more):
        super().__init__(**more)
        self.under_way, self.entities, self.most = [], [], 0

    def send(self, destination, records):
        self.under_way.append(records[0].key)
        self.entities.append(len(self.under_way) - len(set(self.under_way)))
        self.most = max(self.most, len(self.under_way))
        time.sleep(0.005)
        try:
            return super().send(destination, records)
        finally:
            self.under_way.remove(records[0].key)


def test_entities_side_by_side_keep_their_order(rows, receipts):
    """Four workers: several requests under way and never two of one page; a refused record holds its page alone."""
    sink = Slow(fault=refusing("05"))
    with pytest.raises(ContractError, match="16 of 20"):
        deliver(rows, receipts, sink, entity="page", workers=4)
    assert sink.by_entity("o'alerts") == {
        page: [one for one in IDS[start::4] if page != "B" or one < "05"] for start, page in enumerate("ABCD")
    }
    assert sink.most > 1
    assert set(sink.entities) == {0}
    sink.fault = lambda *_: None
    assert deliver(rows, receipts, sink, 2, entity="page", workers=4).figures["delivered"] == 4
    assert sink.by_entity("o'alerts")["B"] == IDS[1::4]


@pytest.mark.parametrize("options", [{"workers": 2}, {"at_once": 0}, {"workers": 0, "entity": "page"}])
def test_options_that_could_not_keep_an_order_are_refused(rows, receipts, options):
    """Workers need entities, and both numbers are at least 1."""
    with pytest.raises(ConfigError, match="workers="):
        deliver(rows, receipts, Inbox(), **options)


@known_calls
def calls_that_work(known):
    receipts = known.table("gold/receipts", {"day": Column("STRING"), **RECEIPT}, by=("day",))
    return {
        "deliver_in_order": {
            "rows": known.visits,
            "into": receipts.target(known.run, partition={"day": "mon"}),
            "sink": Inbox(partial=False),
            "destination": "day",
            "columns": RecordColumns(identity="id", order_by=["at"], entity="user", payload=["page"]),
            "workers": 2,
            "at_once": 2,
        }
    }


@two_runs()
def delivered_at_once(world):
    table = world.table("sent", "day STRING", more=RECEIPT, by=["day"])
    sinks = {}

    def write(w, name, *ids):
        sink = sinks.setdefault(w.root, Inbox(limit=2))
        rows = w.frame("id INT, at INT", *[(n, n) for n in ids])
        columns = RecordColumns(identity="id", order_by=["at"])
        deliver_in_order(rows, w.into("sent", name, "mon"), sink, destination="x", columns=columns)
        return sorted(set(sink.ids("x")))

    write(world, "base", 1)
    assert table.ledger.exists()
    yield lambda w: write(w, "1", 1, 2)
    yield lambda w: write(w, "2", 1, 2, 3)
