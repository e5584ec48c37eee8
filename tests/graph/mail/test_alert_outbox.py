"""The outbox of alerts: no channel delays a caller, and none that is down loses a message or delays another one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from threading import Event

import pytest

from dedp_assets.graph.mail.alert_outbox import AlertOutbox
from dedp_assets.graph.mail.silence import Manner, SilentHours
from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.delta import LocalStore, table_lock

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
STALE = Trouble(kind="stale", table="gold/visits", source="platform")
OTHER = Trouble(kind="stale", table="gold/others", source="platform")
BY_CODE = Trouble(kind="incomplete", table="gold/summary", figure="83 %", limit="95 %")


class Receiver:
    """A channel whose next answers are given: errors to raise, or nothing."""

    def __init__(self, name="one", *answers):
        self.name, self.address, self.answers, self.heard = name, name, list(answers), []

    def send(self, message):
        answer = self.answers.pop(0) if self.answers else None
        if answer:
            raise answer
        self.heard.append((message.event, message.alert.table))
        return "taken"


@pytest.fixture
def store(tmp_path):
    return LocalStore(str(tmp_path / "home" / "alerts"))


@pytest.fixture
def outbox(store):
    return AlertOutbox(store)


def minutes(count):
    return NOW + timedelta(minutes=count)


def test_looking_at_an_outbox_that_is_not_there_makes_nothing(outbox, tmp_path):
    """No folder and no lock."""
    assert (outbox.episodes(), outbox.open_episodes(), outbox.pending([Receiver()], NOW)) == ([], [], [])
    assert list(tmp_path.iterdir()) == []


def test_a_trouble_that_is_raised_by_many_at_once_is_one_episode(outbox):
    """Processes and threads wait for each other, and the last figure stays."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: outbox.raise_alert(BY_CODE, NOW), range(12)))
        list(pool.map(lambda _: outbox.observe([STALE, OTHER], NOW), range(4)))
    assert {e.alert.key for e in outbox.open_episodes()} == {OTHER.key, STALE.key, BY_CODE.key}
    assert len(outbox.episodes()) == 3
    outbox.clear(BY_CODE, minutes(1))
    outbox.clear(BY_CODE, minutes(2))
    (ended,) = [episode for episode in outbox.episodes() if episode.ended]
    assert (ended.alert, ended.ended) == (BY_CODE, minutes(1))


def test_an_observation_that_died_halfway_is_completed_by_the_next(store):
    """What was written before stays, and begins nothing twice."""

    class Died(BaseException): ...

    class Dying(LocalStore):
        written = 0

        def put(self, path, content):
            if Dying.written:
                raise Died
            Dying.written += 1
            super().put(path, content)

    with pytest.raises(Died):
        AlertOutbox(Dying(store.root)).observe([STALE, OTHER], NOW)
    (first,) = AlertOutbox(store).episodes()
    AlertOutbox(store).observe([STALE, OTHER], minutes(1))
    assert len(AlertOutbox(store).episodes()) == 2
    assert first in AlertOutbox(store).episodes()


def test_a_channel_that_hangs_holds_no_lock(outbox):
    """While a message is under way alerts are raised and cleared, and another delivery does not send it again."""
    under_way, answered = Event(), Event()

    class Hanging(Receiver):
        def send(self, message):
            under_way.set()
            assert answered.wait(60)
            return super().send(message)

    hanging, other = Hanging("hanging"), Receiver("other")
    outbox.raise_alert(BY_CODE, NOW)
    with ThreadPoolExecutor(1) as pool:
        delivery = pool.submit(outbox.deliver, [hanging, other], NOW)
        assert under_way.wait(60)
        outbox.observe([STALE], NOW)
        outbox.clear(BY_CODE, minutes(1))
        assert outbox.deliver([hanging, other], NOW) == {}
        answered.set()
        delivery.result()
    outbox.deliver([hanging, other], minutes(1))
    summary, visits = "gold/summary", "gold/visits"
    for channel in (hanging, other):
        assert [e for e in channel.heard if e[1] == summary] == [("raised", summary), ("cleared", summary)]
        assert [e for e in channel.heard if e[1] == visits] == [("raised", visits)]


def test_a_channel_that_is_down_delays_no_other_and_gets_everything_later(outbox):
    """It is left alone for a pause that doubles, and hears of both ends in order."""
    down, up = Receiver("down", *[NotReady("status 503")] * 3), Receiver("up")
    outbox.raise_alert(BY_CODE, NOW)
    assert outbox.deliver([down, up], NOW) == {"down": "0 delivered, then status 503", "up": "1 delivered"}
    outbox.clear(BY_CODE, NOW)
    report = outbox.deliver([down, up], NOW)
    assert (report["down"].startswith("waits until 12:00:"), report["up"]) == (True, "1 delivered")
    assert len(down.answers) == 2, "nobody asked while it is left alone"
    outbox.deliver([down, up], NOW + timedelta(seconds=31))
    assert len(down.answers) == 1
    outbox.deliver([down, up], NOW + timedelta(seconds=31 + 29))
    assert len(down.answers) == 1, "the second pause is twice as long"
    outbox.deliver([down, up], minutes(5))
    assert outbox.deliver([down, up], minutes(90))["down"] == "2 delivered"
    assert down.heard == up.heard == [("raised", "gold/summary"), ("cleared", "gold/summary")]
    assert outbox.episodes() == []


def test_the_pause_of_a_channel_never_exceeds_an_hour(outbox):
    """After a week of failures, too."""
    down = Receiver("down", *[NotReady("no")] * 100)
    outbox.raise_alert(BY_CODE, NOW)
    for hour in range(100):
        outbox.deliver([down], NOW + timedelta(hours=hour, minutes=hour))
    assert down.answers == []


@pytest.mark.parametrize("off", [timedelta(days=3), timedelta(days=-3), timedelta(minutes=20), timedelta(days=36_500)])
@pytest.mark.parametrize("answer", [NotReady("no"), ContractError("refused")])
def test_a_clock_that_is_wrong_in_a_failing_round_mutes_nobody(outbox, answer, off):
    """Neither the channel nor the refused message waits for longer than after such a failure at any other time."""
    channel = Receiver("one", answer, answer)
    outbox.raise_alert(BY_CODE, NOW)
    outbox.deliver([channel], NOW + off)
    outbox.deliver([channel], NOW + timedelta(seconds=30))
    assert outbox.deliver([channel], NOW + timedelta(seconds=91)) == {"one": "1 delivered"}


def test_a_message_that_is_refused_stops_no_other_episode(outbox):
    """Other troubles are announced at once; the same trouble waits, and is tried again after the pause."""
    outbox.raise_alert(BY_CODE, NOW)
    outbox.observe([STALE], minutes(1))
    outbox.clear(BY_CODE, minutes(2))
    channel = Receiver("one", ContractError("status 413"))
    assert outbox.deliver([channel], minutes(3)) == {"one": "1 delivered, then status 413"}
    assert channel.heard == [("raised", "gold/visits")]
    outbox.observe([], minutes(3))
    assert outbox.deliver([channel], minutes(3)) == {"one": "1 delivered"}
    assert channel.heard[1:] == [("cleared", "gold/visits")]
    assert [each.reason for each in outbox.pending([channel], minutes(3))] == ["status 413"]
    outbox.deliver([channel], minutes(10))
    assert channel.heard[2:] == [("raised", "gold/summary"), ("cleared", "gold/summary")]
    assert outbox.pending([channel], minutes(10)) == []


def test_a_channel_that_is_added_later_hears_of_what_lasts(outbox):
    """And a channel that is taken away is owed nothing."""
    first, second = Receiver("first"), Receiver("second")
    outbox.raise_alert(BY_CODE, NOW)
    outbox.deliver([first], NOW)
    outbox.deliver([second], NOW)
    outbox.clear(BY_CODE, NOW)
    outbox.deliver([second], NOW)
    assert second.heard == [("raised", "gold/summary"), ("cleared", "gold/summary")]
    assert outbox.episodes() == []


def test_what_is_owed_is_listed_with_its_reason(outbox):
    """Next to come, held by silent hours, or the last failure of the channel."""
    down, up = Receiver("down", NotReady("status 503")), Receiver("up")
    night = Manner(SilentHours(QuietHours(zone="UTC", start="22:00", end="07:00")))
    outbox.raise_alert(BY_CODE, NOW)
    assert {p.channel: p.reason for p in outbox.pending([down, up], NOW)} == {
        "down": "to be delivered next",
        "up": "to be delivered next",
    }
    (held,) = replace(outbox, manner=night).pending([up], NOW + timedelta(hours=11))
    assert held.reason == "silent hours until 2026-01-21 07:00 UTC"
    outbox.deliver([down, up], NOW)
    (left,) = outbox.pending([down, up], NOW)
    assert (left.channel, left.message.event, left.reason) == ("down", "raised", "status 503")


def test_an_error_of_a_channel_is_named_by_its_class_only(outbox):
    """Its text may quote an address."""
    outbox.raise_alert(BY_CODE, NOW)
    report = outbox.deliver([Receiver("one", ValueError("https://host/token"))], NOW)
    assert report == {"one": "0 delivered, then one failed with ValueError"}


def test_a_damaged_file_hides_no_other_episode(outbox, store):
    """Neither of an episode nor of a channel."""
    outbox.observe([STALE, OTHER], NOW)
    name = store.list("episodes")[0]
    store.put(f"episodes/{name}", b"{")
    store.put("channels/one.json", b"[]")
    assert len(outbox.episodes()) == 1
    assert outbox.deliver([Receiver()], NOW) == {"one": "1 delivered"}


def test_another_writer_is_waited_for(outbox, store, monkeypatch):
    """One writer at a time: while somebody holds the lock nothing is written, and then all of it."""
    with ThreadPoolExecutor(1) as pool:
        with table_lock(store), monkeypatch.context() as hurried:
            hurried.setattr("dedp_assets.graph.mail.alert_outbox._LOCK_SECONDS", 0.2)
            with pytest.raises(Conflict):
                pool.submit(outbox.raise_alert, OTHER, NOW).result()
            assert outbox.episodes() == []
            hurried.undo()
            raising = pool.submit(outbox.raise_alert, BY_CODE, NOW)
        raising.result()
    assert [episode.alert.kind for episode in outbox.episodes()] == [BY_CODE.kind]


def test_no_secret_reaches_a_file(store, tmp_path):
    """Those that are known, and passwords in URLs of any kind, in every text of an alert."""
    outbox = AlertOutbox(store, ["token-4711"])
    texts = {"reason": "postgresql://ada:pw-4712@db/shop", "figure": "token-4711", "command": "x token-4711"}
    for alert in (Trouble(kind="a", table="gold/token-4711", **texts), Trouble(kind="b", table="gold/b", **texts)):
        outbox.raise_alert(alert, NOW)
        outbox.raise_alert(alert, NOW)
        assert "4711" not in repr(outbox)
    assert len(outbox.episodes()) == 2
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not [secret for secret in (b"token-4711", b"pw-4712") if secret in content]
    assert json.loads(store.read(f"episodes/{store.list('episodes')[0]}"))["alert"]["figure"] == "***"
