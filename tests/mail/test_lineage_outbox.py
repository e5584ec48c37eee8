"""Outbox of lineage: events in files, delivered in order and at least once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.local.ports import free as free_port
from dedp_assets.mail import lineage_outbox
from dedp_assets.mail.lineage_outbox import KEPT_DAYS, LineageOutbox, Receiver
from dedp_assets.mail.openlineage import Attempt, complete_event, start_event
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import LocalStore

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def later(**span):
    return NOON + timedelta(**span)


@pytest.fixture
def outbox(tmp_path):
    return LineageOutbox(tmp_path / "lineage")


@pytest.fixture
def receiver(webhook):
    return Receiver(f"{webhook.base}/")


def note(outbox, run, at=NOON, *, ended=True):
    """Note the start of a step, and its end a second later."""
    attempt = Attempt(run_id=run, job="job", step=f"step of {run}")
    outbox.append(run, start_event(attempt, at=at), at=at)
    if ended:
        end = at + timedelta(seconds=1)
        outbox.append(run, complete_event(attempt, at=end), at=end)


def heard(webhook):
    """Step and type of each event that arrived."""
    return [(body["job"]["name"].removeprefix("step of "), body["eventType"]) for _, _, body in webhook.taken]


def test_events_arrive_once_in_the_order_of_their_times(outbox, receiver, webhook):
    """Over the files of several runs and days, at the interface's path, with a key that tells them apart."""
    note(outbox, "b", later(days=1))
    note(outbox, "a", NOON)
    note(outbox, "c", later(seconds=0.5))
    assert outbox.deliver(receiver, later(days=1)) == "6 delivered"
    assert heard(webhook) == [
        *[("a", "START"), ("c", "START"), ("a", "COMPLETE"), ("c", "COMPLETE"), ("b", "START"), ("b", "COMPLETE")]
    ]
    path, headers, body = webhook.taken[0]
    assert path == "/api/v1/lineage"
    assert headers["Idempotency-Key"] == f"{body['run']['runId']}-START"
    assert outbox.deliver(receiver, later(days=1)) == "0 delivered"


def test_what_comes_later_is_delivered_later(outbox, receiver, webhook):
    """To the file of the same run, too."""
    note(outbox, "a", ended=False)
    outbox.deliver(receiver, NOON)
    note(outbox, "a", later(seconds=9))
    assert outbox.deliver(receiver, NOON) == "2 delivered"
    assert heard(webhook) == [("a", "START"), ("a", "START"), ("a", "COMPLETE")]


def test_what_is_owed_waits_for_a_receiver_that_is_down(outbox, receiver, webhook):
    """Nothing is skipped; the pause grows with the failures and ends with a success, over restarts."""
    note(outbox, "a")
    down = Receiver(f"http://127.0.0.1:{free_port()}")
    assert "does not answer" in outbox.deliver(down, NOON)
    again = LineageOutbox(outbox.folder)
    assert again.deliver(down, later(seconds=10)).startswith("waits until")
    assert "does not answer" in again.deliver(down, later(seconds=31))
    assert again.deliver(receiver, later(seconds=32)).startswith("waits until")
    assert again.deliver(receiver, later(seconds=95)) == "2 delivered"
    assert heard(webhook) == [("a", "START"), ("a", "COMPLETE")]
    note(outbox, "b", later(minutes=3))
    assert again.deliver(receiver, later(minutes=3)) == "2 delivered"


def test_a_receiver_that_fails_in_between_gets_the_rest_in_order(outbox, receiver, webhook):
    """The event that it did not acknowledge first."""
    note(outbox, "a")
    webhook.behaviours += ["200", "503"]
    assert outbox.deliver(receiver, NOON).startswith("1 delivered, then")
    outbox.deliver(receiver, later(hours=1))
    assert heard(webhook) == [("a", "START"), ("a", "COMPLETE"), ("a", "COMPLETE")]


def test_a_refused_event_does_not_stop_the_others(outbox, receiver, webhook):
    """It would be refused for ever."""
    note(outbox, "a")
    webhook.behaviours += ["422"]
    assert "1 delivered, then" in outbox.deliver(receiver, NOON)
    assert heard(webhook) == [("a", "START"), ("a", "COMPLETE")]
    assert outbox.deliver(receiver, NOON) == "0 delivered"


def test_a_process_that_dies_before_it_notes_what_it_sent_sends_it_again(outbox, receiver, webhook, monkeypatch):
    """At least once, never less."""
    note(outbox, "a")

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lineage_outbox, "_put", dies)
        with pytest.raises(KeyboardInterrupt):
            outbox.deliver(receiver, NOON)
    assert outbox.deliver(receiver, NOON) == "2 delivered"
    assert heard(webhook) == [("a", "START"), ("a", "COMPLETE")] * 2


def test_a_line_that_was_cut_off_is_left_out_and_spoils_no_other(outbox, receiver, webhook):
    """While it has no end, it may still be being written."""
    note(outbox, "a", ended=False)
    (file,) = outbox.folder.glob("*/*.jsonl")
    with file.open("a") as torn:
        torn.write('{"eventType": "COMP')
    assert outbox.deliver(receiver, NOON) == "1 delivered"
    note(outbox, "a", later(seconds=1))
    assert outbox.deliver(receiver, NOON) == "2 delivered, then a line of a.jsonl is no event"
    assert heard(webhook) == [("a", "START"), ("a", "START"), ("a", "COMPLETE")]
    assert [run.job for run in outbox.runs()] == ["step of a"]


def test_a_clock_that_was_set_back_does_not_exchange_the_events_of_a_run(outbox, receiver, webhook):
    """The order of the lines counts within a run."""
    attempt = Attempt(run_id="a", job="job", step="step of a")
    outbox.append("a", start_event(attempt, at=NOON), at=NOON)
    outbox.append("a", complete_event(attempt, at=later(minutes=-5)), at=NOON)
    note(outbox, "b", later(minutes=-1))
    outbox.deliver(receiver, NOON)
    assert [kind for run, kind in heard(webhook) if run == "a"] == ["START", "COMPLETE"]


def test_processes_that_append_at_once_lose_nothing(outbox):
    """Lines do not mix; an empty line may stand between two, where a process saw another's line half written."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: note(outbox, "a", later(seconds=n)), range(40)))
    (file,) = outbox.folder.glob("*/*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines() if line]
    assert len(lines) == 80


def test_one_process_delivers_at_a_time(outbox, receiver, webhook):
    """A second one leaves it to the first."""
    note(outbox, "a")
    claim = LocalStore(str(outbox.folder)).claim("delivering")
    assert outbox.deliver(receiver, NOON) == "another process delivers"
    claim.release()
    assert outbox.deliver(receiver, NOON) == "2 delivered"


def test_a_delivery_ends_in_time_and_goes_on_the_next_time(outbox, receiver, webhook):
    """What was sent is noted."""
    note(outbox, "a")
    assert outbox.deliver(receiver, NOON, seconds=0) == "0 delivered"
    assert outbox.deliver(receiver, NOON) == "2 delivered"


def test_old_days_are_forgotten_when_a_new_one_begins(outbox, receiver, webhook):
    """The others are kept for whoever compares them with the declarations."""
    for n in range(KEPT_DAYS + 3):
        note(outbox, f"run{n}", later(days=n))
    days = sorted(each.name for each in outbox.folder.iterdir())
    assert (len(days), days[0]) == (KEPT_DAYS + 1, "2026-01-07")
    assert len(list(outbox.runs(since=later(days=KEPT_DAYS).date()))) == 3


def test_delivered_days_are_not_read_again(outbox, receiver, webhook):
    """A day counts as delivered once no run can add to it."""
    note(outbox, "a")
    outbox.deliver(receiver, NOON)
    assert not list(outbox.folder.glob("*/delivered"))
    outbox.deliver(receiver, later(days=2))
    assert list(outbox.folder.glob("*/delivered"))
    assert outbox.deliver(receiver, later(days=2)) == "0 delivered"


def test_names_of_runs_cannot_leave_the_folder(outbox):
    """Whatever a scheduler calls its runs."""
    note(outbox, "../../etc/passwd")
    note(outbox, "..")
    assert len(list(outbox.folder.glob("*/*.jsonl"))) == 2


@pytest.mark.parametrize("url", ["localhost:5000", "ftp://x", "http://user:pw@host", ""])
def test_an_address_that_is_none_is_refused(url):
    """Before anything is delivered, and without its text, which may hold a password."""
    with pytest.raises(ConfigError, match="the URL of the receiver of lineage must be an http"):
        Receiver(url)


def test_runs_of_an_empty_folder_are_none(outbox, receiver):
    """A platform that has not run yet."""
    assert list(outbox.runs()) == []
    assert outbox.deliver(receiver, NOON) == "0 delivered"
