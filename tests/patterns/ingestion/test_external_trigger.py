"""Which events start which pipelines: each once, in any order, and none lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.web.events import Arrival, Event, Inbox
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.ingestion.external_trigger import plan_triggers, send_event, starts_of
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW

HOUR_AGO = NOW - timedelta(hours=1)
PIPELINES = {
    "refresh_devices": [{"type": "devices.published"}, {"type": "dataset.published", "subject": "devices"}],
    "rebuild_catalogue": [{"type": "devices.published", "source": "provider"}],
}
ONE = {"refresh_devices": [{"type": "devices.published"}]}


def event(id_="1", *objects, **changes):
    named = {"source": "provider", "type": "devices.published", "time": HOUR_AGO}
    return Event(**{"id": id_, "data": {"objects": list(objects or ["v1.jsonl"])}, **named, **changes})


def arrival(sent, name="a.json", *, minutes=0):
    """A delivery that came ``minutes`` before now."""
    body = sent if isinstance(sent, bytes) else sent.to_json().encode()
    return Arrival.of(name, body, received=NOW - timedelta(minutes=minutes))


def planned(*arrivals, pipelines=ONE, known=(), **options):
    return plan_triggers(arrivals, pipelines=pipelines, known=dict(known), **{"now": NOW, **options})


def named(plan):
    """Pipeline and object of each start of the plan."""
    return [(key.split("/")[0], key.split("/", 3)[3].partition("@")[0]) for key in plan.partitions]


def test_without_an_event_nothing_starts():
    """A day on which nothing was announced costs no run."""
    assert planned().partitions == ()


def test_an_event_starts_its_pipeline_and_says_why():
    """One announcement, one start, by the type of the event."""
    plan = planned(arrival(event()))
    assert named(plan) == [("refresh_devices", "v1.jsonl")]
    assert list(plan.causes.values()) == ["devices.published"]
    assert plan.held == {}
    assert plan.reason == "1 runs to start, 0 started, 0 deliveries set aside"


def test_deliveries_of_the_same_event_give_one_start():
    """The first delivery starts, the others are set aside as repeats, whatever they are called."""
    plan = planned(*[arrival(event(), f"{n}.json", minutes=n) for n in range(5)])
    assert len(plan.partitions) == 1
    assert plan.held == {f"{n}.json": "repeat: the same event came before" for n in range(4)}


def test_an_event_that_was_settled_before_starts_nothing():
    """A delivery after the run, however late, is a repeat."""
    plan = planned(arrival(event()), known={event().key: event().digest})
    assert plan.partitions == ()
    assert plan.held == {"a.json": "repeat: the same event came before"}


def test_a_start_that_has_its_run_is_not_planned_again():
    """While the run is under way, and after a crash that forgot the tick, the same key is recognised."""
    before = planned(arrival(event()))
    again = planned(arrival(event(), "b.json"), started=before.partitions)
    assert (again.partitions, again.held) == ((), {})
    assert again.reason == "0 runs to start, 1 started, 0 deliveries set aside"


@pytest.mark.parametrize("settled", [False, True])
def test_a_repeated_id_with_other_content_is_a_contradiction(settled):
    """The one that came first holds; the other is set aside and names source and id."""
    first, other = event("1", "v1.jsonl"), event("1", "v2.jsonl")
    deliveries = [arrival(other, "a.json", minutes=1), arrival(first, "b.json", minutes=2)]
    known = {first.key: first.digest} if settled else {}
    plan = planned(*deliveries[: 1 if settled else 2], known=known)
    assert named(plan) == ([] if settled else [("refresh_devices", "v1.jsonl")])
    reason = "contradiction: an event of provider with the id 1 and other content came before"
    assert plan.held == {"a.json": reason}


def test_the_same_id_of_another_source_is_another_event():
    """Ids are unique within their source only."""
    plan = planned(arrival(event()), arrival(event(source="other"), "b.json"))
    assert len(plan.partitions) == 2


@pytest.mark.parametrize(
    "changes",
    [{"type": "users.published"}, {"type": "dataset.published", "subject": "users"}, {"type": "dataset.published"}],
)
def test_an_unrelated_event_starts_nothing_and_says_so(changes):
    """Another type, another table or no table: held with a reason, whatever its data looks like."""
    plan = planned(arrival(event(data="anything", **changes)), pipelines=PIPELINES)
    assert plan.partitions == ()
    told = " ".join([changes["type"], changes.get("subject", "")]).strip()
    assert plan.held == {"a.json": f"unrelated: no pipeline starts on {told}"}


def test_an_unrelated_event_starts_once_somebody_subscribes():
    """What was set aside can be replayed to a pipeline that was deployed later."""
    sent = arrival(event(type="dataset.published", subject="devices"))
    assert planned(sent).partitions == ()
    assert named(planned(sent, pipelines=PIPELINES)) == [("refresh_devices", "v1.jsonl")]


def test_one_event_may_start_several_pipelines():
    """Each pipeline it concerns gets a start of its own; one that it does not concern gets none."""
    assert sorted(pipeline for pipeline, _ in named(planned(arrival(event()), pipelines=PIPELINES))) == [
        "rebuild_catalogue",
        "refresh_devices",
    ]
    elsewhere = planned(arrival(event(source="other")), pipelines=PIPELINES)
    assert named(elsewhere) == [("refresh_devices", "v1.jsonl")]


def test_every_record_of_an_event_is_processed_by_every_pipeline():
    """Not only the first one: three objects and two pipelines are six starts, repeated objects count once."""
    plan = planned(arrival(event("1", "a.jsonl", "b.jsonl", "c.jsonl", "b.jsonl")), pipelines=PIPELINES)
    expected = [(pipeline, f"{name}.jsonl") for pipeline in sorted(PIPELINES) for name in "abc"]
    assert sorted(named(plan)) == expected


def test_a_start_names_the_decoded_object():
    """The run loads the key as the store knows it, not as the envelope spells it."""
    (start,) = starts_of(event("1", "releases/v+7%20%C3%A4.jsonl"), pipelines=ONE)
    assert (start.pipeline, start.object) == ("refresh_devices", "releases/v 7 ä.jsonl")


def test_events_come_out_by_the_time_they_happened():
    """However they were delivered, the earliest comes first."""
    times = {"1": 30, "2": 50, "3": 10}
    sent = [arrival(event(i, f"v{i}.jsonl", time=NOW - timedelta(minutes=m)), f"{i}.json") for i, m in times.items()]
    assert [name for _, name in named(planned(*sent))] == ["v2.jsonl", "v1.jsonl", "v3.jsonl"]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"{half", "malformed: it is not JSON"),
        (b'{"specversion": "1.0"}', "malformed: it has no id, source, type, time"),
        (event(data=None), "malformed: its data names no objects to load"),
        (event("1", "../../secrets"), "malformed: it names the object '../../secrets', which is no key of the store"),
        (
            event(time=NOW + timedelta(days=1)),
            "malformed: its time 2026-01-21T12:00:00.000000+00:00 lies in the future",
        ),
    ],
    ids=["torn", "incomplete", "names nothing", "leads out", "future"],
)
def test_a_malformed_event_is_held_with_the_reason_and_stops_no_other(sent, words):
    """One poisoned delivery does not keep the healthy ones from starting."""
    plan = planned(arrival(sent, "bad.json", minutes=9), arrival(event("2"), "good.json"))
    assert named(plan) == [("refresh_devices", "v1.jsonl")]
    assert list(plan.held) == ["bad.json"]
    assert plan.held["bad.json"].startswith(words)


def test_a_malformed_delivery_does_not_spend_the_id():
    """After the producer mended it, the same event starts."""
    broken = event(data={"objects": []})
    plan = planned(arrival(broken, "a.json", minutes=2), arrival(event(), "b.json", minutes=1))
    assert named(plan) == [("refresh_devices", "v1.jsonl")]
    assert list(plan.held) == ["a.json"]


def test_a_clock_that_is_a_little_ahead_is_believed():
    """Clocks of producers differ by minutes."""
    assert len(planned(arrival(event(time=NOW + timedelta(minutes=59)))).partitions) == 1


@given(st.permutations([(i, copy) for i in range(4) for copy in range(3)]), st.integers(0, 12))
def test_any_order_and_any_number_of_deliveries_start_each_event_once(deliveries, restart_after):
    """Also if the trigger dies in between and sees a part of them again."""
    sent = [
        arrival(event(str(i), f"v{i}.jsonl", "all.jsonl"), f"{i}-{copy}.json", minutes=99 - place)
        for place, (i, copy) in enumerate(deliveries)
    ]
    first = planned(*sent[:restart_after])
    second = planned(*sent, started=first.partitions)
    everything = sorted((f"{i}", name) for i in range(4) for name in (f"v{i}.jsonl", "all.jsonl"))
    keys = [*first.partitions, *second.partitions]
    assert sorted((key.split("/")[2], key.split("/", 3)[3].partition("@")[0]) for key in keys) == everything
    assert len(second.held) == 8


@pytest.mark.parametrize("wanted", [{}, {"table": "devices"}, {"type": "t", "time": "now"}])
def test_a_filter_that_could_never_or_always_hold_is_refused(wanted):
    """A misspelt attribute is an error of the call."""
    with pytest.raises(ConfigError, match=r"refresh filters by .* one or more of source, subject, type"):
        planned(pipelines={"refresh": [wanted]})
    with pytest.raises(ConfigError, match="refresh filters by"):
        starts_of(event(), pipelines={"refresh": [wanted]})


def test_a_sent_event_is_read_as_it_was_sent(tmp_path):
    """Producer and trigger understand each other, and nothing but the event is left in the inbox."""
    path = send_event(tmp_path / "events", event("7/ü", "v 7.jsonl", subject="devices"))
    (received,) = Inbox(tmp_path / "events").arrivals(limit=10)
    assert received.event == event("7/ü", "v 7.jsonl", subject="devices")
    assert [entry.name for entry in (tmp_path / "events").iterdir()] == [path.name]
    assert json.loads(path.read_text())["specversion"] == "1.0"


def test_a_half_written_event_is_never_seen(tmp_path, monkeypatch):
    """The name comes last: of a producer that dies before there is a draft, which nobody reads."""
    drafts = []

    def killed(draft, _):
        drafts.append(Path(draft))
        assert list(Inbox(tmp_path).arrivals(limit=10)) == []
        raise OSError("killed")

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(OSError, match="killed"):
        send_event(tmp_path, event())
    assert [(draft.parent, draft.name[0]) for draft in drafts] == [(tmp_path, ".")]


def test_an_event_that_is_sent_by_several_at_once_is_whole_at_every_moment(tmp_path):
    """A producer and its own retry: neither fails, and nobody reads half of what one of them writes."""
    inbox, sent = Inbox(tmp_path), event("1", *[f"v{n}.jsonl" for n in range(500)])
    send_event(tmp_path, sent)
    with ThreadPoolExecutor(4) as producers:
        sending = [producers.submit(send_event, tmp_path, sent) for _ in range(200)]
        while not all(one.done() for one in sending):
            assert {arrival.refusal for arrival in inbox.arrivals(limit=10)} <= {""}
        assert len({one.result() for one in sending}) == 1


def test_the_same_event_sent_again_is_one_file(tmp_path):
    """A producer that retries before anybody looked leaves one delivery; other content leaves another."""
    assert send_event(tmp_path, event()) == send_event(tmp_path, event())
    send_event(tmp_path, event("1", "v2.jsonl"))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("id_", ["_done", ".hidden", "../up", "a" * 500])
def test_no_id_makes_a_name_that_nobody_reads(tmp_path, id_):
    """Ids with slashes, dots or many characters lie in the inbox, visible."""
    send_event(tmp_path / "events", event(id_))
    assert [a.event.id for a in Inbox(tmp_path / "events").arrivals(limit=10)] == [id_]


def test_an_event_its_reader_would_refuse_is_not_sent(tmp_path):
    """The producer learns it, not the trigger."""
    with pytest.raises(ContractError, match="put the data into an object"):
        send_event(tmp_path, event(data={"objects": ["a"], "rows": "x" * 70_000}))
    assert list(tmp_path.iterdir()) == []


@known_calls
def calls_that_work(known):
    event = Event(id="7", source="shop", type="published", time=NOW, data={"objects": ["a.jsonl"]})
    started = {"pipelines": {"refresh": [{"type": "published"}]}}
    return {
        "plan_triggers": {
            "arrivals": [Arrival("a.json", NOW, event)],
            **started,
            "known": {"shop/8": "x"},
            "started": ["x"],
            "now": NOW,
        },
        "starts_of": {"event": event, **started},
        "send_event": {"inbox": known.folder / "inbox", "event": event},
    }
