"""Outbox of lineage: events in files, delivered in order and at least once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from dedp_assets.graph.mail.lineage_outbox import KEPT_DAYS, LineageOutbox, LineageReceiver
from dedp_assets.graph.mail.openlineage import Attempt, complete_event, start_event
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import LocalStore

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def later(**span):
    return NOON + timedelta(**span)


@pytest.fixture
def outbox(tmp_path):
    return LineageOutbox(LocalStore(str(tmp_path / "lineage")))


@pytest.fixture
def receiver(webhook):
    return LineageReceiver(f"{webhook.base}/")


def note(outbox, run, at=NOON, *, ended=True):
    """Note the start of a step, and its end a second later."""
    attempt = Attempt(run_id=run, job="job", step=f"step of {run}")
    outbox.append(run, start_event(attempt, at=at), at=at)
    if ended:
        end = at + timedelta(seconds=1)
        outbox.append(run, complete_event(attempt, at=end), at=end)


def deliver(outbox, receiver, now, **options):
    """The report of a delivery to the only receiver."""
    return outbox.deliver([receiver], now, **options).get("receiver", "another process delivers")


def files(outbox, pattern):
    return sorted(Path(outbox.store.root).glob(pattern))


def heard(webhook):
    """Step and type of each event that arrived."""
    return [(body["job"]["name"].removeprefix("step of "), body["eventType"]) for _, _, body in webhook.taken]


def test_events_arrive_once_in_the_order_of_their_times(outbox, receiver, webhook):
    """Over the files of several runs and days, at the interface's path, with a key that tells them apart."""
    note(outbox, "b", later(days=1))
    note(outbox, "a", NOON)
    note(outbox, "c", later(seconds=0.5))
    assert deliver(outbox, receiver, later(days=1)) == "6 delivered"
    assert heard(webhook) == [
        *[("a", "START"), ("c", "START"), ("a", "COMPLETE"), ("c", "COMPLETE"), ("b", "START"), ("b", "COMPLETE")]
    ]
    path, headers, body = webhook.taken[0]
    assert path == "/api/v1/lineage"
    assert headers["Idempotency-Key"] == f"{body['run']['runId']}-START"
    assert deliver(outbox, receiver, later(days=1)) == "0 delivered"


def test_what_comes_later_is_delivered_later(outbox, receiver, webhook):
    """To the file of the same run, too."""
    note(outbox, "a", ended=False)
    deliver(outbox, receiver, NOON)
    note(outbox, "a", later(seconds=9))
    assert deliver(outbox, receiver, NOON) == "2 delivered"
    assert heard(webhook) == [("a", "START"), ("a", "START"), ("a", "COMPLETE")]


def test_what_is_owed_waits_for_a_receiver_that_is_down(outbox, receiver, webhook):
    """Nothing is skipped; the pause grows with the failures and ends with a success, over restarts."""
    note(outbox, "a")
    down = LineageReceiver(f"http://127.0.0.1:{free_port()}")
    assert "does not answer" in deliver(outbox, down, NOON)
    again = LineageOutbox(outbox.store)
    assert deliver(again, down, later(seconds=10)).startswith("waits until")
    assert "does not answer" in deliver(again, down, later(seconds=31))
    assert deliver(again, receiver, later(seconds=32)).startswith("waits until")
    assert deliver(again, receiver, later(seconds=95)) == "2 delivered"
    assert heard(webhook) == [("a", "START"), ("a", "COMPLETE")]
    note(outbox, "b", later(minutes=3))
    assert deliver(again, receiver, later(minutes=3)) == "2 delivered"


def test_a_receiver_that_fails_in_between_gets_the_rest_in_order(outbox, receiver, webhook):
    """The event that it did not acknowledge first."""
    note(outbox, "a")
    webhook.behaviours += ["200", "503"]
    assert deliver(outbox, receiver, NOON).startswith("1 delivered, then")
    deliver(outbox, receiver, later(hours=1))
    assert heard(webhook) == [("a", "START"), ("a", "COMPLETE"), ("a", "COMPLETE")]


def test_a_refused_event_does_not_stop_the_others(outbox, receiver, webhook):
    """It would be refused for ever."""
    note(outbox, "a")
    webhook.behaviours += ["422"]
    assert "1 delivered, then" in deliver(outbox, receiver, NOON)
    assert heard(webhook) == [("a", "START"), ("a", "COMPLETE")]
    assert deliver(outbox, receiver, NOON) == "0 delivered"


def test_a_process_that_dies_before_it_notes_what_it_sent_sends_it_again(outbox, receiver, webhook):
    """At least once, never less."""
    note(outbox, "a")

    class Dying(LocalStore):
        def put(self, *_):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(LineageOutbox(Dying(outbox.store.root)), receiver, NOON)
    assert deliver(outbox, receiver, NOON) == "2 delivered"
    assert heard(webhook) == [("a", "START"), ("a", "START"), ("a", "COMPLETE")]


@pytest.mark.parametrize("content", ["", "7", "null", "[]", '{"eventType": "COMP', '{"run": 1}', "\x00"])
def test_a_damaged_file_is_left_out_and_spoils_no_other(outbox, receiver, webhook, content):
    """It is told, and the events around it arrive."""
    note(outbox, "a")
    files(outbox, "*/a/*")[0].write_text(content)
    note(outbox, "b")
    assert deliver(outbox, receiver, NOON) == "3 delivered, then 2026-01-05/a: file 1 holds no event"
    assert heard(webhook) == [("b", "START"), ("a", "COMPLETE"), ("b", "COMPLETE")]
    assert [run.job for run in outbox.runs()] == ["step of a", "step of b"]
    assert deliver(outbox, receiver, NOON) == "0 delivered"


def test_a_clock_that_was_set_back_does_not_exchange_the_events_of_a_run(outbox, receiver, webhook):
    """The order of the lines counts within a run."""
    attempt = Attempt(run_id="a", job="job", step="step of a")
    outbox.append("a", start_event(attempt, at=NOON), at=NOON)
    outbox.append("a", complete_event(attempt, at=later(minutes=-5)), at=NOON)
    note(outbox, "b", later(minutes=-1))
    deliver(outbox, receiver, NOON)
    assert [kind for run, kind in heard(webhook) if run == "a"] == ["START", "COMPLETE"]


def test_processes_that_append_at_once_lose_nothing(outbox):
    """Each event has a number of its own."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: note(outbox, "a", later(seconds=n)), range(40)))
    assert [int(file.stem) for file in files(outbox, "*/a/*")] == list(range(1, 81))
    events = [json.loads(file.read_text()) for file in files(outbox, "*/a/*")]
    assert len({(each["eventType"], each["eventTime"]) for each in events}) == 80


def test_one_process_delivers_at_a_time(outbox, receiver, webhook):
    """A second one leaves it to the first."""
    note(outbox, "a")
    claim = outbox.store.claim("delivering")
    assert deliver(outbox, receiver, NOON) == "another process delivers"
    claim.release()
    assert deliver(outbox, receiver, NOON) == "2 delivered"


def test_a_delivery_ends_in_time_and_goes_on_the_next_time(outbox, receiver, webhook):
    """What was sent is noted."""
    note(outbox, "a")
    assert deliver(outbox, receiver, NOON, seconds=0) == "0 delivered"
    assert deliver(outbox, receiver, NOON) == "2 delivered"


def test_old_days_are_forgotten_when_a_new_one_begins(outbox, receiver, webhook):
    """The others are kept for whoever compares them with the declarations."""
    for n in range(KEPT_DAYS + 3):
        note(outbox, f"run{n}", later(days=n))
    days = [each.name for each in files(outbox, "*")]
    assert (len(days), days[0]) == (KEPT_DAYS + 1, "2026-01-07")
    assert len(list(outbox.runs(since=later(days=KEPT_DAYS).date()))) == 3


def test_delivered_days_are_not_read_again(outbox, receiver, webhook):
    """A day counts as delivered once no run can add to it."""
    note(outbox, "a")
    deliver(outbox, receiver, NOON)
    assert not files(outbox, "*/delivered")
    deliver(outbox, receiver, later(days=2))
    assert files(outbox, "*/delivered")
    assert deliver(outbox, receiver, later(days=2)) == "0 delivered"


def test_names_of_runs_cannot_leave_the_folder(outbox):
    """Whatever a scheduler calls its runs."""
    note(outbox, "../../etc/passwd")
    note(outbox, "..")
    assert len(files(outbox, "*/*/*.json")) == 4


@pytest.mark.parametrize("off", [timedelta(days=3), timedelta(days=400), timedelta(days=-3)])
def test_a_clock_that_is_wrong_for_one_round_loses_no_event(outbox, receiver, webhook, off):
    """It neither marks a day that goes on as delivered, nor forgets days with events that are owed."""
    for n in range(KEPT_DAYS - 1):
        note(outbox, f"run{n}", later(days=n - KEPT_DAYS), ended=False)
    note(outbox, "a", ended=False)
    note(outbox, "b", NOON + off, ended=False)
    deliver(outbox, receiver, NOON + off)
    note(outbox, "a", later(minutes=1), ended=False)
    deliver(outbox, receiver, later(minutes=2))
    assert sorted(run for run, _ in heard(webhook)) == sorted(
        ["a", "a", "b", *(f"run{n}" for n in range(KEPT_DAYS - 1))]
    )


@pytest.mark.parametrize("url", ["localhost:5000", "ftp://x", "http://user:pw@host", ""])
def test_an_address_that_is_none_is_refused(url):
    """Before anything is delivered, and without its text, which may hold a password."""
    with pytest.raises(ConfigError, match="the URL of the receiver of lineage must be an http"):
        LineageReceiver(url)


def test_runs_of_an_empty_folder_are_none(outbox, receiver):
    """A platform that has not run yet."""
    assert list(outbox.runs()) == []
    assert deliver(outbox, receiver, NOON) == "0 delivered"
