"""Deliveries without Spark: whatever a sink does, no entity's records are out of order."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from dedp_assets.patterns.connectors.delivery import receipts
from dedp_assets.patterns.connectors.delivery.receipts import RecordDelivery
from dedp_assets.patterns.connectors.delivery.sinks import Answer, in_requests
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady, PatternError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Target
from dedp_assets.patterns.value.fifo_orderer import Backoff
from tests.sinks import Inbox

RUN = Provenance(asset="delivered", run_id="run-1")
FAULTS = {
    "taken": None,
    "failed": Answer("failed", reason="throttled"),
    "refused": Answer("refused", reason="too large"),
    "lost": TimeoutError("no answer"),
}


class Receipts:
    """A table of receipts in memory."""

    name = "delivered"


def delivery(sink, attempts=3):
    return RecordDelivery(sink, Target(Receipts(), RUN, {"day": "mon"}), Backoff(attempts=attempts, first_seconds=0))


def records(entities):
    """One record for each entity named, in order: its id says its place among those of the entity."""
    seen, found = Counter(), []
    for entity in entities:
        found.append(Row(record_id=f"{entity}{seen[entity]:03}", entity=entity, value="{}"))
        seen[entity] += 1
    return found


def bins(rows):
    """The rule in plain Python: the n-th record of each entity is in bin n."""
    dealt, seen = defaultdict(list), Counter()
    for row in rows:
        seen[row.entity] += 1
        dealt[seen[row.entity]].append(row)
    return [dealt[n] for n in sorted(dealt)]


def is_ordered(sink):
    """Whether each entity's records were taken in their order, each once and none left out before another."""
    return all(ids == [f"{e}{n:03}" for n in range(len(ids))] for e, ids in sink.by_entity("blog").items())


sequences = st.lists(st.sampled_from("ABCD"), max_size=30)
faults = st.dictionaries(st.tuples(st.integers(0, 9), st.sampled_from("ABCD")), st.lists(st.sampled_from([*FAULTS])))


def told(faults):
    """A fault for each record, by its place and entity, for each time that it is sent; at the end it is taken."""

    def fault(record, number):
        known = faults.get((int(record.id[1:]), record.key), [])
        return FAULTS[known[number - 1]] if number <= len(known) else None

    return fault


@pytest.mark.promise("bins-keep-each-entitys-order")
@given(sequences, faults, st.integers(1, 4))
def test_bins_keep_each_entitys_order_whatever_the_sink_does(entities, faults, limit):
    """Records that fail, are refused for ever, or are taken without an answer: no later one of their entity is there.

    A rerun that knows no receipt, as after a kill, adds nothing out of order either.
    """
    sink = Inbox(limit=limit, fault=told(faults))
    for _ in range(2):
        going = delivery(sink)
        for one_bin in bins(records(entities)):
            for request in in_requests(one_bin, limit):
                going.send("blog", request)
        assert is_ordered(sink)


@given(sequences, faults, st.integers(1, 4))
def test_requests_taken_in_order_keep_it_too(entities, faults, limit):
    """Of a sink that takes nothing behind what failed, requests may hold several records of an entity."""
    sink, going = Inbox(partial=False, limit=limit, fault=told(faults)), None
    for _ in range(2):
        going = delivery(sink)
        for _, of_one in groupby(sorted(records(entities), key=lambda row: row.entity), key=lambda row: row.entity):
            for request in in_requests(of_one, limit):
                going.send("blog", request)
        assert is_ordered(sink)


def test_a_plain_bulk_sender_puts_records_out_of_order():
    """The same sink, the same records, in requests as they come: what failed comes behind what was after it."""
    sink = Inbox(fault=lambda record, n: FAULTS["failed"] if record.id == "A000" and n == 1 else None)
    delivery(sink).send("blog", records("AAB"))
    assert sink.by_entity("blog")["A"] == ["A001", "A000"]


def test_two_requests_under_way_put_records_out_of_order():
    """Not to wait for an answer is enough: the first is sent again when the second is there."""
    sink = Inbox(fault=lambda record, n: FAULTS["failed"] if record.id == "A000" and n == 1 else None)
    first, second = records("AA")
    going = [delivery(sink, attempts=1), delivery(sink)]
    going[0].send("blog", [first])
    going[1].send("blog", [second])
    delivery(sink).send("blog", [first])
    assert sink.ids("blog") == ["A001", "A000"]


def test_the_samples_numbers_within_partitions_put_an_entity_into_a_bin_twice():
    """Sorted and numbered partition by partition, as the sample does, an entity's records in two are both first."""
    rows = records("AB") + records("AAB")[1:]
    partitions = [rows[:2], rows[2:]]
    of_sample = [row for part in partitions for row in bins(part)[0]]
    assert max(Counter(row.entity for row in of_sample).values()) == 2
    assert all(max(Counter(row.entity for row in one).values()) == 1 for one in bins(rows))


@pytest.mark.parametrize(("knows_ids", "copies"), [(True, 1), (False, 2)])
def test_records_without_a_receipt_are_sent_again(knows_ids, copies):
    """A sink that knows ids has each once; of one that does not, a delivery that was killed makes doubles."""
    sink = Inbox(knows_ids=knows_ids)
    for _ in range(2):
        delivery(sink).send("blog", records("ABC"))
    assert sink.ids("blog") == ["A000", "B000", "C000"] * copies


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("failed", NotReady, r"after 3 attempts nothing more was sent to 1 destinations \(blog: A000 \(throttled\)\)"),
        ("refused", ContractError, r"1 records were refused for ever \(blog A000 \(too large\)\)"),
    ],
)
def test_the_error_says_what_is_missing_and_what_to_do(monkeypatch, fault, error, said):
    """Who got nothing more and why, how many were delivered, and that a rerun goes on."""
    monkeypatch.setattr(RecordDelivery, "_note", lambda _: None)
    going = delivery(Inbox(fault=lambda record, _: FAULTS[fault] if record.id == "A000" else None))
    going.send("blog", records("ABC"))
    going.send("blog", records("AAB")[1:])
    with pytest.raises(error, match=said) as raised:
        going.finish()
    assert "un it" in str(raised.value)
    assert isinstance(raised.value, PatternError)


@pytest.fixture
def notes(monkeypatch):
    """What a delivery notes: the ids, and the transaction and inputs that the commit carries."""
    noted = []

    def merge(going, provenance):
        noted.append(([row[1] for row in going._waiting], provenance.sequence, dict(provenance.inputs)))
        going._waiting.clear()
        return WriteResult("delivered", 1, applied=True, changed=True, reason="")

    monkeypatch.setattr(RecordDelivery, "_merge", merge)
    return noted


def test_receipts_are_noted_while_a_delivery_runs_and_when_it_ends(monkeypatch, notes):
    """Not all of them wait in memory; only the last commit of a complete delivery carries the step's transaction."""
    monkeypatch.setattr(receipts, "_NOTED", 2)
    into = Target(Receipts(), replace(RUN, sequence=7, inputs={"silver/visits": 7}), {"day": "mon"})
    going = replace(delivery(Inbox()), into=into)
    for record in records("ABC"):
        going.send("blog", [record])
        going.note_many()
    going.finish()
    unfinished = {"silver/visits": 7, "unfinished": "run-1"}
    assert notes == [(["A000", "B000"], None, unfinished), (["C000"], 7, {"silver/visits": 7})]


def test_what_was_acknowledged_is_noted_whatever_ends_a_delivery(monkeypatch, notes):
    """A service that goes away, or a commit that another run was in the way of."""
    going = delivery(Inbox(fault=lambda record, _: NotReady("away") if record.key == "B" else None))
    going.send("blog", records("A"))
    with pytest.raises(NotReady, match="away"), going.noting():
        going.send("blog", records("B"))
    assert [ids for ids, *_ in notes] == [["A000"]]
    going.send("blog", records("C"))
    merge = RecordDelivery._merge

    def met(self, provenance):
        if "unfinished" not in provenance.inputs:
            raise Conflict("a newer version was applied")
        return merge(self, provenance)

    monkeypatch.setattr(RecordDelivery, "_merge", met)
    with pytest.raises(Conflict):
        going.finish()
    assert [ids for ids, *_ in notes] == [["A000"], ["C000"]]


@pytest.mark.parametrize(("attempts", "limit"), [(0, 1), (1, 0)])
def test_nothing_can_be_delivered_without_attempts_or_room(attempts, limit):
    """It would end at once, and look as if all were delivered."""
    with pytest.raises(ConfigError, match="must be at least 1"):
        delivery(Inbox(limit=limit), attempts)
