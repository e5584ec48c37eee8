"""Events: what counts as one, when two are the same, and an inbox that loses none."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.web.events import Arrival, Event, Inbox
from dedp_assets.patterns.core.errors import ContractError
from tests.helpers import NOW

STATED = {
    "specversion": "1.0",
    "id": "7",
    "source": "urn:dedp:provider",
    "type": "dedp.devices.published",
    "time": "2026-01-20T11:00:00Z",
    "data": {"objects": ["device_releases/v7.jsonl"]},
}


def body(**changes):
    return json.dumps({name: value for name, value in {**STATED, **changes}.items() if value != "left out"}).encode()


def event(**changes):
    return Event.from_json(body(**changes))


@pytest.fixture
def inbox(tmp_path):
    """An inbox, and a way to put files into it."""
    (tmp_path / "events").mkdir()
    return Inbox(tmp_path / "events")


def put(inbox, name="a.json", **changes):
    (inbox.folder / name).write_bytes(body(**changes))


def lying(inbox):
    return sorted(str(path.relative_to(inbox.folder)) for path in inbox.folder.rglob("*") if path.is_file())


def test_an_envelope_is_read_by_the_names_of_cloudevents():
    """Attributes keep their meaning, the time becomes UTC, and extensions are passed over."""
    read = event(subject="devices", time="2026-01-20T13:30:00.25+02:30", traceparent="00-ab")
    assert (read.id, read.source, read.type) == ("7", "urn:dedp:provider", "dedp.devices.published")
    assert (read.subject, read.time) == ("devices", datetime(2026, 1, 20, 11, 0, 0, 250_000, tzinfo=timezone.utc))
    assert read.at == "2026-01-20T11:00:00.250000+00:00"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "it is not JSON"),
        (b'{"id": "7", "sour', "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[" * 60_000, "it is not JSON"),
        (b"[]", "it is a JSON list"),
        (b"null", "it is a JSON NoneType"),
        (body(id="left out", time="left out"), "it has no id, time"),
        (body(source=None), "it has no source"),
        (body(specversion="0.3"), "its specversion is '0.3'; 1.0 is understood"),
        (body(id=7), "its id is 7, where a text belongs"),
        (body(type=""), "its type is '', where a text belongs"),
        (body(subject=["devices"]), r"its subject is \['devices'\], where a text belongs"),
        (body(id="a\nb"), "its id .* control characters"),
        (body(source="\ud800"), "it is not JSON: half of a character"),
        (body(subject="x" * 1025), "its subject is longer than 1024 characters"),
        (body(time="yesterday"), "its time 'yesterday' is no RFC 3339 timestamp"),
        (body(time="2026-01-20T11:00:00"), "is no RFC 3339 timestamp"),
        (body(time="2026-02-30T11:00:00Z"), "is no RFC 3339 timestamp"),
        (body(time="0001-01-01T00:00:00+10:00"), "is no RFC 3339 timestamp"),
        (body(time=1768906800), "is no RFC 3339 timestamp"),
        (body(data=json.loads("[" * 40 + "]" * 40)), "its data is nested deeper than 32 levels"),
        (body(data="x" * 65_536), "it has more than 65536 bytes"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:30],
)
def test_what_is_no_event_is_refused_with_the_reason(sent, words):
    """Whatever comes over a channel is an event or a sentence, and never an accident of its reader."""
    arrival = Arrival.of("a.json", sent, received=NOW)
    assert arrival.event is None
    with pytest.raises(ContractError, match=words):
        raise ContractError(arrival.refusal)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_stop_the_reader(sent):
    """Random bytes are refused and nothing else happens."""
    assert Arrival.of("a.json", sent, received=NOW).event is None


@pytest.mark.parametrize("wrong", [{"time": NOW.date()}, {"data": {"ms": float("nan")}}, {"data": [NOW]}])
def test_an_event_that_no_reader_could_read_is_refused_at_the_producer(wrong):
    """A day is no time, and JSON has no word for what is no number."""
    with pytest.raises(ContractError, match=f"its {next(iter(wrong))} "):
        Event(**{"id": "7", "source": "shop", "type": "published", "time": NOW, **wrong})


def test_a_time_without_zone_is_refused_at_the_producer_too():
    """Nobody can say which moment it means."""
    with pytest.raises(ContractError, match="has no time zone"):
        Event(id="1", source="s", type="t", time=datetime(2026, 1, 20))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize(
    ("stated", "decoded"),
    [
        ("releases/v7.jsonl", "releases/v7.jsonl"),
        ("releases/v+7%20(final).jsonl", "releases/v 7 (final).jsonl"),
        ("releases/a%2Bb.jsonl", "releases/a+b.jsonl"),
        ("ger%C3%A4te/%E7%AB%AF%E6%9C%AB.jsonl", "geräte/端末.jsonl"),
        ("a%2Fb.jsonl", "a/b.jsonl"),
    ],
)
def test_object_keys_are_decoded_as_stores_encode_them(stated, decoded):
    """Percent sequences are UTF-8 bytes and a plus sign is a space."""
    assert event(data={"objects": [stated]}).objects() == (decoded,)


@pytest.mark.parametrize(
    "data",
    [
        "left out",
        None,
        "text",
        {},
        {"objects": []},
        {"objects": "a.jsonl"},
        {"objects": [7]},
        {"objects": [""]},
        {"objects": ["/etc/passwd"]},
        {"objects": ["..%2F..%2Fetc/passwd"]},
        {"objects": ["%FF%FE"]},
        {"objects": ["a%00b"]},
        {"objects": ["x" * 1025]},
        {"objects": ["good.jsonl", "../bad.jsonl"]},
    ],
    ids=repr,
)
def test_data_that_names_no_object_of_the_store_is_refused(data):
    """No key leads out of the store, and one bad key spoils the event."""
    with pytest.raises(ContractError, match=r"objects? "):
        event(data=data).objects()


def test_several_objects_are_kept_in_order_and_each_once():
    """An event with several records names them all."""
    named = event(data={"objects": ["b.jsonl", "a+1.jsonl", "b.jsonl", "a%201.jsonl"]}).objects()
    assert named == ("b.jsonl", "a 1.jsonl")


def test_the_same_event_has_the_same_digest_however_it_is_written():
    """Order of attributes, spelling of the time and extensions are no content; everything else is."""
    same = Event.from_json(json.dumps(dict(reversed(STATED.items())), indent=2).encode())
    assert same.digest == event().digest == event(time="2026-01-20T12:00:00.000+01:00", extra="x").digest
    others = [event(type="t"), event(subject="s"), event(time="2026-01-20T11:00:01Z"), event(data={"objects": ["b"]})]
    assert len({other.digest for other in others} | {event().digest}) == 5
    assert Event.from_json(event().to_json().encode()) == event()


texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)


@given(texts, texts, texts, texts)
def test_source_and_id_are_told_apart(source, id_, other_source, other_id):
    """No two pairs share a key, whatever separators they hold."""
    one = Event(id=id_, source=source, type="t", time=NOW)
    other = Event(id=other_id, source=other_source, type="t", time=NOW)
    assert (one.key == other.key) == ((source, id_) == (other_source, other_id))


@given(texts.map(lambda text: (text * 1024)[:1024]), st.integers(0, 50_000))
def test_the_envelope_is_bounded(text, size):
    """Whatever the event says, what a run carries of it fits, is JSON and still names the event."""
    long = Event(id=text, source=text, type=text, subject=text, time=NOW, data={"pad": "x" * size, "odd": "\ud800"})
    shown = long.to_json(longest=10_000)
    assert len(shown) <= 10_000
    assert shown.encode()
    assert json.loads(shown)["id"] == text


def test_an_inbox_that_is_not_there_or_empty_holds_nothing(inbox, tmp_path):
    """Hidden files are drafts and folders of the inbox itself."""
    (inbox.folder / ".draft.json").write_bytes(body())
    (inbox.folder / "_done").mkdir()
    assert list(inbox.arrivals(limit=10)) == []
    assert list(Inbox(tmp_path / "nowhere").arrivals(limit=10)) == []


def test_arrivals_come_in_the_order_in_which_they_came(inbox):
    """By the time a file was put in place, whatever its name and whenever it was written."""
    written = {"a.json": 1, "b.json": 3, "c.json": 2}
    for name in ("b.json", "c.json", "a.json"):
        put(inbox, f".{name}", id=name)
        os.utime(inbox.folder / f".{name}", (written[name], written[name]))
        time.sleep(0.02)  # longer than the clock of the file system stands still
        (inbox.folder / f".{name}").rename(inbox.folder / name)
    assert [arrival.name for arrival in inbox.arrivals(limit=10)] == ["b.json", "c.json", "a.json"]
    assert [arrival.name for arrival in inbox.arrivals(limit=2)] == ["b.json", "c.json"]


def test_what_is_no_readable_file_is_an_arrival_with_a_reason(inbox):
    """A folder, a dangling link and a pipe neither stop nor block the reader."""
    (inbox.folder / "folder").mkdir()
    (inbox.folder / "link").symlink_to("nowhere")
    os.mkfifo(inbox.folder / "pipe")
    found = inbox.arrivals(limit=10)
    assert {arrival.name: arrival.refusal for arrival in found} == dict.fromkeys(
        ["folder", "link", "pipe"], "it is no file"
    )
    for arrival in found:
        inbox.acknowledge(arrival, "aside", reason="malformed")
    assert list(inbox.arrivals(limit=10)) == []
    assert {path.name for path in (inbox.folder / "_aside").iterdir()} >= {"folder", "link", "pipe"}


def test_what_is_set_aside_keeps_its_bytes_and_its_reason(inbox):
    """Untouched bytes, the reason beside them, and a second file of the same name overwrites neither."""
    for content in (b"{broken", b"broken too"):
        (inbox.folder / "a.json").write_bytes(content)
        (arrival,) = inbox.arrivals(limit=10)
        inbox.acknowledge(arrival, "aside", reason=f"malformed: {arrival.refusal}")
    assert lying(inbox) == ["_aside/a.json", "_aside/a.json.1", "_aside/a.json.1.reason", "_aside/a.json.reason"]
    assert (inbox.folder / "_aside/a.json").read_bytes() == b"{broken"
    assert (inbox.folder / "_aside/a.json.1").read_bytes() == b"broken too"
    assert "it is not JSON" in json.loads((inbox.folder / "_aside/a.json.1.reason").read_text())["reason"]


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_what_was_settled_is_known_whatever_name_it_comes_under(inbox, outcome):
    """The same source and id is found again by a look at one file, and unknown once that was moved back."""
    put(inbox)
    (arrival,) = inbox.arrivals(limit=10)
    assert inbox.known([arrival]) == {}
    inbox.acknowledge(arrival, outcome, reason="gave up", runs=["run-1"])
    put(inbox, "other.json", data={"objects": ["b.jsonl"]})
    (again,) = inbox.arrivals(limit=10)
    assert inbox.known([again]) == {event().key: event().digest}
    (kept,) = (inbox.folder / f"_{outcome}").glob("*.json")
    kept.rename(inbox.folder / kept.name)
    assert inbox.known(inbox.arrivals(limit=10)) == {}


def test_runs_that_failed_before_a_replay_are_remembered(inbox):
    """They stay in the reason after the event was moved back, so that they do not count against it."""
    put(inbox)
    (arrival,) = inbox.arrivals(limit=10)
    assert inbox.spent([arrival]) == set()
    inbox.acknowledge(arrival, "failed", reason="gave up", runs=["run-1", "run-2"])
    (kept,) = (inbox.folder / "_failed").glob("*.json")
    kept.rename(inbox.folder / "a.json")
    assert inbox.spent(inbox.arrivals(limit=10)) == {"run-1", "run-2"}


def test_a_kept_event_that_was_spoilt_equals_no_other(inbox):
    """A damaged archive makes a redelivery a contradiction, and never a second run."""
    put(inbox)
    (arrival,) = inbox.arrivals(limit=10)
    inbox.acknowledge(arrival, "done")
    (kept,) = (inbox.folder / "_done").glob("*.json")
    kept.write_bytes(b"spoilt")
    assert inbox.known([arrival]) == {event().key: "unreadable"}


def test_a_delivery_that_somebody_took_away_is_no_error(inbox):
    """Settling what is gone changes nothing."""
    put(inbox)
    (arrival,) = inbox.arrivals(limit=10)
    (inbox.folder / "a.json").unlink()
    inbox.acknowledge(arrival, "done")
    assert lying(inbox) == []
