"""Episodes: raised once and cleared once to each channel, whatever happens in between."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedp_assets.graph.mail.alert_outbox import AlertOutbox
from dedp_assets.graph.mail.episodes import acknowledge, end_episode, follow, next_message, raise_episode
from dedp_assets.graph.mail.silence import Manner, SilentHours
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.delta import LocalStore

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
NIGHT = SilentHours(QuietHours(zone="Europe/Berlin", start="22:00", end="07:00"))
STALE = Trouble(kind="stale", table="gold/visits", figure="31 h", limit="26 h", source="platform")
REFUSED = Trouble(kind="refused", table="gold/visits", partition="2026-01-05", severity="critical", source="platform")


def at(day, hour, minute=0):
    return datetime(2026, 1, day, hour, minute, tzinfo=timezone.utc)


def test_an_observation_begins_keeps_changes_and_ends_episodes():
    """Once each: an equal observation changes nothing, another figure changes the episode and begins none."""
    (stale,) = follow([], [STALE], NOW)
    assert (stale.since, stale.ended, stale.alert) == (NOW, None, STALE)
    later = NOW + timedelta(hours=1)
    assert follow([stale], [STALE], later) == []
    older = Trouble(kind="stale", table="gold/visits", figure="32 h", limit="26 h", source="platform")
    (changed,) = follow([stale], [older], later)
    assert (changed.id, changed.since, changed.alert.figure) == (stale.id, NOW, "32 h")
    (ended,) = follow([changed], [], later)
    assert (ended.id, ended.ended) == (stale.id, later)
    (again,) = follow([ended], [STALE], later)
    assert (again.number, again.since, again.id == stale.id) == (2, later, False)


def test_a_table_that_nobody_could_observe_keeps_its_episodes():
    """Nothing is known of it, so nothing is cleared; neither is what code raised."""
    (stale,) = follow([], [STALE], NOW)
    by_code = raise_episode([], Trouble(kind="incomplete", table="gold/other"), NOW)
    assert follow([stale, by_code], [], NOW, unjudged={"gold/visits"}) == []
    assert follow([stale, by_code], [], NOW) == [end_episode(stale, NOW)]


def test_the_highest_severity_of_an_episode_stays():
    """A warning that becomes critical passes the silent hours; an episode never gets less severe."""
    warned = raise_episode([], STALE, NOW)
    critical = Trouble(kind="stale", table="gold/visits", severity="critical", source="platform")
    raised = raise_episode([warned], critical, NOW)
    assert raised.alert.severity == "critical"
    assert raise_episode([raised], STALE, NOW).alert.severity == "critical"


def test_an_end_never_lies_before_its_beginning():
    """Also where the clock was set back."""
    episode = raise_episode([], STALE, NOW)
    assert end_episode(episode, NOW - timedelta(hours=1)).ended == NOW


def test_a_message_carries_place_figure_limit_time_and_command():
    """In one sentence and as JSON; the two messages of an episode have keys of their own."""
    alert = Trouble(
        kind="stale",
        table="gold/visits",
        partition="2026-01-05",
        figure="31 h",
        limit="26 h",
        reason="nothing came",
        command="dedp status gold/visits",
    )
    episode = raise_episode([], alert, NOW)
    message = next_message(episode, "log", NOW)
    assert message.text == (
        "WARNING: gold/visits 2026-01-05: stale, 31 h (limit 26 h): nothing came; since 2026-01-20 12:00 UTC. "
        "More: dedp status gold/visits"
    )
    record = message.record()
    assert {name: record[name] for name in ("id", "event", "table", "partition", "figure", "limit", "since")} == {
        "id": f"{episode.id}/raised",
        "event": "raised",
        "table": "gold/visits",
        "partition": "2026-01-05",
        "figure": "31 h",
        "limit": "26 h",
        "since": "2026-01-20T12:00:00+00:00",
    }
    ended = end_episode(acknowledge(episode, "log", message, NOW), NOW + timedelta(hours=2))
    cleared = next_message(ended, "log", NOW)
    assert (cleared.id, cleared.event) == (f"{episode.id}/cleared", "cleared")
    assert "it lasted from 2026-01-20 12:00 UTC to 2026-01-20 14:00 UTC" in cleared.text
    assert next_message(acknowledge(ended, "log", cleared, NOW), "log", NOW) is None


def test_an_alert_held_at_night_is_delivered_in_the_morning():
    """And not before; its end in the daytime is a message of its own."""
    episode = raise_episode([], STALE, at(20, 23))
    assert next_message(episode, "log", at(21, 5), silence=NIGHT) is None
    assert next_message(episode, "log", at(21, 6), silence=NIGHT).event == "raised"
    ended = end_episode(episode, at(21, 8))
    assert next_message(ended, "log", at(21, 9), silence=NIGHT).event == "raised"


def test_an_alert_raised_and_cleared_at_night_is_one_sentence_in_the_morning():
    """Which names both times, and acknowledges both."""
    ended = end_episode(raise_episode([], STALE, at(20, 23)), at(21, 3))
    assert next_message(ended, "log", at(21, 4), silence=NIGHT) is None
    message = next_message(ended, "log", at(21, 6), silence=NIGHT)
    assert (message.event, message.id) == ("raised and cleared", f"{ended.id}/raised and cleared")
    assert "raised at 2026-01-20 23:00 UTC and cleared at 2026-01-21 03:00 UTC, in the silent hours" in message.text
    assert next_message(acknowledge(ended, "log", message, at(21, 6)), "log", at(21, 9), silence=NIGHT) is None


def test_an_end_at_night_waits_for_the_morning_too():
    """Of an episode that everybody heard of in the evening."""
    episode = raise_episode([], STALE, at(20, 20))
    ended = end_episode(acknowledge(episode, "log", next_message(episode, "log", at(20, 20)), at(20, 20)), at(20, 23))
    assert next_message(ended, "log", at(20, 23), silence=NIGHT) is None
    assert next_message(ended, "log", at(21, 6), silence=NIGHT).event == "cleared"


def test_what_passes_is_announced_at_night():
    """By its severity."""
    assert next_message(raise_episode([], REFUSED, at(20, 23)), "log", at(20, 23), silence=NIGHT).event == "raised"


def hours(count):
    return NOW + timedelta(hours=count)


def told(episode, at, *, remind_hours=0.0):
    """The messages that the channel ``log`` gets at a time, and the episode after them."""
    heard = []
    while message := next_message(episode, "log", at, remind_hours=remind_hours):
        heard.append(message.id.partition("/")[2])
        episode = acknowledge(episode, "log", message, at)
    return heard, episode


def test_reminders_come_while_an_episode_lasts_and_each_once():
    """Counted from the last message; those of the time that a channel was down are one."""
    episode, heard = raise_episode([], STALE, NOW), {}
    for hour in (0, 3.9, 9, 12.9, 13):
        heard[hour], episode = told(episode, hours(hour), remind_hours=4)
    assert heard == {0: ["raised"], 3.9: [], 9: ["reminder/1"], 12.9: [], 13: ["reminder/2"]}
    episode = end_episode(episode, hours(14))
    assert told(episode, hours(20), remind_hours=4)[0] == told(episode, hours(20))[0] == ["cleared"]


def test_no_reminder_comes_with_the_beginning():
    """However late a channel hears of it: it was down, the night was silent, or nobody could confirm the trouble."""
    heard, episode = told(raise_episode([], STALE, NOW), hours(30), remind_hours=4)
    assert heard == ["raised"]
    assert [told(episode, hours(30 + hour), remind_hours=4)[0] for hour in (3, 4)] == [[], ["reminder/1"]]


def test_a_trouble_that_gets_worse_is_told_once_more():
    """A channel that heard of a warning hears that it is critical now; one that did not hears of a critical trouble."""
    _, warned = told(raise_episode([], STALE, NOW), NOW)
    worse = raise_episode([warned], replace(STALE, severity="critical"), hours(1))
    message = next_message(worse, "log", hours(1))
    assert (message.event, message.title) == ("escalated", "NOW CRITICAL: gold/visits: stale")
    heard, after = told(worse, hours(1))
    assert (heard, told(after, hours(2))[0]) == (["escalated/critical"], [])
    assert next_message(worse, "other", hours(1)).title == "CRITICAL: gold/visits: stale"
    assert next_message(worse, "log", at(21, 2), silence=NIGHT).event == "escalated"
    assert told(end_episode(worse, hours(2)), hours(2))[0] == ["cleared"]


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(-100, 100), st.booleans()), min_size=1, max_size=30))
def test_no_wait_is_longer_than_its_longest_step_whatever_the_clock(rounds):
    """Rounds of an hour or so, in which the clock may be days off: the next reminder comes within its pause."""
    (episode,) = follow([], [STALE], NOW)
    waited, real = 0.0, 0.0
    for passed, off, is_wrong in [*rounds, *[(1.0, 0.0, False)] * 6]:
        real += passed
        now = hours(real + (off if is_wrong else 0))
        (episode,) = follow([episode], [STALE], now) or [episode]
        heard, episode = told(episode, now, remind_hours=4)
        # A clock that is right measures the wait, up to the rounds between which it was wrong.
        waited = 0.0 if heard or is_wrong else waited + passed
        assert waited < 4 + 3


LATE = Trouble(kind="gap", table="silver/visits", source="platform", confirmations=2)
"""An alert of a figure, which one wrong clock must neither begin nor end."""


def explained(by):
    """The same alert, explained by an upstream table."""
    return Trouble(kind="gap", table="silver/visits", source="platform", confirmations=2, explained_by=by)


def test_a_trouble_of_one_observation_is_never_announced():
    """A clock that jumps for one look raises no alert, and clears none."""
    (once,) = follow([], [LATE], NOW)
    assert next_message(once, "log", NOW) is None
    (over,) = follow([once], [], NOW)
    assert over.ended
    assert next_message(over, "log", NOW) is None
    (twice,) = follow([once], [LATE], NOW)
    message = next_message(twice, "log", NOW)
    heard = acknowledge(twice, "log", message, NOW)
    (missed,) = follow([heard], [], NOW)
    assert missed.ended is None
    assert next_message(missed, "log", NOW) is None
    (back,) = follow([missed], [LATE], NOW)
    assert (back.missed, back.ended) == (0, None)
    (missed,) = follow([back], [], NOW)
    (ended,) = follow([missed], [], NOW)
    assert next_message(ended, "log", NOW).event == "cleared"


def test_a_figure_that_cannot_be_judged_neither_begins_nor_ends_an_episode():
    """Too little history, or a source that nobody reaches."""
    (once,) = follow([], [LATE], NOW)
    assert follow([once], [], NOW, undecided={LATE.key}) == []


def test_an_explained_trouble_is_sent_only_if_it_outlives_its_explanation():
    """One alert for a domino; what was announced before the explanation was found is cleared all the same."""
    episodes = []
    for _ in range(3):
        episodes = follow(episodes, [explained("bronze/visits")], NOW) or episodes
    assert next_message(episodes[0], "log", NOW) is None
    (own,) = follow(episodes, [LATE], NOW)
    (own,) = follow([own], [LATE], NOW + timedelta(hours=2))
    (own,) = follow([own], [LATE], NOW + timedelta(minutes=59))
    assert next_message(own, "log", NOW) is None, "the tables below recover, too, whatever a clock says once"
    assert next_message(end_episode(own, NOW), "log", NOW) is None
    for _ in range(2):
        (own,) = follow([own], [LATE], NOW + timedelta(hours=1))
    announced = acknowledge(own, "log", next_message(own, "log", NOW), NOW)
    (again,) = follow([announced], [explained("bronze/visits")], NOW)
    assert next_message(end_episode(again, NOW), "log", NOW).event == "cleared"
    assert next_message(end_episode(again, NOW), "late", NOW) is None, "a channel that never heard of the beginning"


LOOKS = st.lists(st.sampled_from(["found", "missing", "undecided", "unread"]), max_size=30)


@given(looks=LOOKS, needed=st.integers(1, 3))
def test_announcements_follow_runs_of_equal_observations(looks, needed):
    """Raised after so many findings, cleared after so many misses; looks without a verdict count as nothing."""
    alert = Trouble(kind="gap", table="silver/visits", source="platform", confirmations=needed)
    episodes, heard = {}, []
    is_open, found, missed, expected = False, 0, 0, []
    for look in looks:
        undecided = {alert.key} if look == "undecided" else set()
        unread = {alert.table} if look == "unread" else set()
        now_found = [alert] if look == "found" else []
        for each in follow(list(episodes.values()), now_found, NOW, unjudged=unread, undecided=undecided):
            episodes[each.id] = each
        for each in [*episodes.values()]:
            if message := next_message(each, "log", NOW):
                heard.append(message.event)
                episodes[each.id] = acknowledge(each, "log", message, NOW)
        if look in ("found", "missing"):
            found, missed = (found + 1, 0) if look == "found" else (found if is_open else 0, missed + 1)
        if not is_open and found >= needed:
            is_open, expected = True, [*expected, "raised"]
        if is_open and missed >= needed:
            is_open, found, expected = False, 0, [*expected, "cleared"]
    assert heard == expected


# --- the whole, against a plain model ---------------------------------------------------------------------------------

TROUBLES = [
    STALE,
    REFUSED,
    Trouble(kind="refused", table="gold/visits", partition="2026-01-06", source="platform"),
]
BY_CODE = Trouble(kind="incomplete", table="gold/summary", severity="info")
NAMES = ("one", "two")
STEPS = st.one_of(
    st.tuples(st.just("observe"), st.sets(st.integers(0, len(TROUBLES) - 1))),
    st.tuples(st.just("code"), st.booleans()),
    st.tuples(st.just("channel"), st.sampled_from(NAMES), st.sampled_from(["up", "down", "deaf", "picky"])),
    st.tuples(st.just("wait"), st.sampled_from([1, 30, 200, 600])),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("die")),
)


class Receiver:
    """A channel that may be down, take a message without an answer (``deaf``), or refuse every other one."""

    def __init__(self, name):
        self.name, self.address, self.state, self.heard, self.asked = name, name, "up", [], 0

    def send(self, message):
        if self.state == "down":
            raise NotReady("down")
        self.asked += 1
        if self.state == "picky" and self.asked % 2:
            raise ContractError("refused")
        self.heard.append(message)
        if self.state == "deaf":
            raise TimeoutError
        return "taken"

    def announcements(self):
        """What a receiver that knows messages by their ids has heard: trouble -> events in order."""
        once = {message.id: message for message in self.heard}
        found = {}
        for message in once.values():
            events = ["raised", "cleared"] if message.event == "raised and cleared" else [message.event]
            found.setdefault(message.alert.key, []).extend((event, message.episode) for event in events)
        return found


class Model:
    """Open troubles in a set, and for each trouble the events that everybody has to hear of."""

    def __init__(self):
        self.open, self.events = set(), {}

    def now(self, keys, among):
        for key in among:
            if (key in keys) != (key in self.open):
                self.events.setdefault(key, []).append("raised" if key in keys else "cleared")
                self.open ^= {key}


class World:
    """An outbox of which nothing but its folder lives on, a clock, and two channels."""

    def __init__(self, root, silence):
        self.root, self.now, self.manner = root, NOW, Manner(silence=silence)
        self.channels = [Receiver(name) for name in NAMES]
        self.model = Model()

    @property
    def outbox(self):
        return AlertOutbox(LocalStore(self.root), manner=self.manner)

    def step(self, name, *more):
        getattr(self, name)(*more)

    def observe(self, which):
        found = [TROUBLES[n] for n in which]
        self.outbox.observe(found, self.now)
        self.model.now({a.key for a in found}, [a.key for a in TROUBLES])

    def code(self, raises):
        act = self.outbox.raise_alert if raises else self.outbox.clear
        act(BY_CODE, self.now)
        self.model.now({BY_CODE.key} if raises else set(), [BY_CODE.key])

    def channel(self, name, state):
        next(c for c in self.channels if c.name == name).state = state

    def wait(self, minutes):
        self.now += timedelta(minutes=minutes)

    def deliver(self):
        self.outbox.deliver(self.channels, self.now)

    def die(self):
        """A delivery whose process dies after the first message was sent and before that was noted."""
        with suppress(Died):
            AlertOutbox(DyingStore(self.root), manner=self.manner).deliver(self.channels, self.now)

    def settle(self):
        """Everything is up again, and the night and all pauses go by."""
        for channel in self.channels:
            channel.state = "up"
        for _ in range(30):
            self.wait(61)
            self.deliver()


class Died(BaseException):
    """The death of a process: no handler of errors sees it."""


class DyingStore(LocalStore):
    """A store whose process dies at the first write."""

    def put(self, *_):
        raise Died


A_REFUSED_BEGINNING = [
    ("observe", {0}),
    ("observe", set()),
    ("observe", {0}),
    ("channel", "one", "picky"),
    ("deliver",),
]


@pytest.mark.promise("every-episode-is-announced-once")
@given(steps=st.lists(STEPS, max_size=30), nights=st.booleans())
@example(steps=A_REFUSED_BEGINNING, nights=False)
def test_every_episode_is_announced_once_as_raised_and_once_as_cleared_to_each_channel(steps, nights):
    """In order, over restarts, deaths, lost answers, outages and silent hours; nothing is left in the files then."""
    with TemporaryDirectory() as folder:
        world = World(f"{folder}/alerts", NIGHT if nights else None)
        for step in steps:
            world.step(*step)
        world.settle()
        for channel in world.channels:
            heard = channel.announcements()
            assert {key: [event for event, _ in events] for key, events in heard.items()} == world.model.events
            for events in heard.values():
                ids = [episode for _, episode in events]
                assert ids[::2][: len(ids[1::2])] == ids[1::2], "the end is that of the episode before it"
                assert len({*ids}) == len(ids[::2])
        assert {e.alert.key for e in world.outbox.episodes()} == world.model.open
        world.observe(set())
        world.code(False)
        world.settle()
        assert world.outbox.episodes() == []
