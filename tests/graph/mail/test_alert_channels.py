"""Channels of alerts: a real server that is slow, down, busy or fine, and no secret in any word."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from dedp_assets.graph.mail import alert_channels
from dedp_assets.graph.mail.alert_channels import (
    AppriseService,
    BrokenChannel,
    FileChannel,
    LogChannel,
    Webhook,
)
from dedp_assets.graph.mail.episodes import next_message, raise_episode
from dedp_assets.graph.mail.outbox import attempt
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.measuring.troubles import Trouble

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
ALERT = Trouble(kind="stale", table="gold/visits", figure="31 h", limit="26 h", command="dedp status gold/visits")
MESSAGE = next_message(raise_episode([], ALERT, NOW), "x", NOW)
CANARY = "tok3n-canary"


@pytest.fixture
def hook(webhook):
    return Webhook(f"{webhook.base}/hooks/{CANARY}?key={CANARY}", timeout_seconds=60, total_seconds=60)


def test_a_webhook_gets_the_message_as_json_with_its_idempotency_key(hook, webhook):
    """In the body and in the header, at the whole address."""
    assert attempt(hook, MESSAGE).text == "status 200"
    (path, headers, body) = webhook.taken[0]
    assert path == f"/hooks/{CANARY}?key={CANARY}"
    assert (headers["Content-Type"], headers["Idempotency-Key"]) == ("application/json", MESSAGE.id)
    assert body == json.loads(json.dumps(MESSAGE.record()))
    assert (body["figure"], body["limit"], body["command"]) == ("31 h", "26 h", "dedp status gold/visits")


ANSWERS = [
    ("200", "delivered", "status 200"),
    ("204", "delivered", "status 204"),
    ("large", "delivered", "acknowledged"),
    ("400", "refused", "{address} refuses the message with status 400"),
    ("413", "refused", "{address} refuses the message with status 413"),
    ("401", "failed", "{address} answers with status 401"),
    ("404", "failed", "{address} answers with status 404"),
    ("429", "failed", "{address} answers with status 429"),
    ("500", "failed", "{address} answers with status 500"),
    ("503", "failed", "{address} answers with status 503"),
    ("302", "failed", "{address} sends the request elsewhere (status 302): name the final address"),
    ("308", "failed", "{address} sends the request elsewhere (status 308): name the final address"),
    ("slow", "failed", "{address} does not answer: TimeoutError"),
    ("breaks off", "failed", "{address} does not answer: IncompleteRead"),
]


@pytest.mark.parametrize(("behaviour", "outcome", "text"), ANSWERS, ids=[each[0] for each in ANSWERS])
def test_each_answer_of_a_webhook_has_its_outcome(hook, webhook, behaviour, outcome, text):
    """One request each; no answer is quoted, and no redirect followed."""
    webhook.behaviours.append(behaviour)
    if behaviour == "slow":
        hook = replace(hook, timeout_seconds=0.2)
    answer = attempt(hook, MESSAGE)
    assert (answer.outcome, answer.text) == (outcome, text.format(address=webhook.base))
    assert len(webhook.taken) == 1
    assert CANARY not in repr((answer, hook))


def test_a_webhook_that_nobody_serves_is_down():
    """With the words of the operating system."""
    url = f"http://127.0.0.1:{free_port()}"
    answer = attempt(Webhook(f"{url}/{CANARY}"), MESSAGE)
    assert (answer.outcome, answer.text) == (
        "failed",
        f"{url} does not answer: ConnectionRefusedError: Connection refused",
    )


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://host/{CANARY}",
        f"https://{CANARY}@host/x",
        f"https:///{CANARY}",
        f"https://host/{CANARY} x",
        f"https://host:port/{CANARY}",
        CANARY,
        "",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_repeated(url):
    """Before anything is sent; neither the error nor its causes show the address."""
    with pytest.raises(ConfigError, match="the webhook must be an http:// or https:// address") as raised:
        Webhook(url)
    assert CANARY not in str(raised.value)
    assert raised.value.__suppress_context__


def test_the_log_has_one_line_for_a_message_at_a_level_that_is_shown(caplog):
    """With the key; the level follows the severity."""
    critical = next_message(raise_episode([], Trouble(kind="x", table="a/b", severity="critical"), NOW), "x", NOW)
    info = next_message(raise_episode([], Trouble(kind="x", table="a/b", severity="info"), NOW), "x", NOW)
    assert [attempt(LogChannel(), message).text for message in (MESSAGE, critical, info)] == ["logged"] * 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.CRITICAL, logging.WARNING]
    assert caplog.records[0].getMessage() == f"{MESSAGE.text} [{MESSAGE.id}]"


def test_the_file_has_a_whole_line_for_each_message(tmp_path):
    """Also after a process that was killed in the middle of a line."""
    channel = FileChannel(tmp_path / "home" / "alerts.jsonl")
    assert attempt(channel, MESSAGE).text == "appended"
    with channel.path.open("ab") as file:
        file.write(b'{"id": "ha')
    attempt(channel, MESSAGE)
    attempt(channel, MESSAGE)
    first, torn, *more = channel.path.read_text().splitlines()
    assert torn == '{"id": "ha'
    assert [json.loads(line) for line in (first, *more)] == [json.loads(json.dumps(MESSAGE.record()))] * 3


def test_a_file_that_cannot_be_written_is_a_failure(tmp_path):
    """It is a folder; the reason is the operating system's."""
    answer = attempt(FileChannel(tmp_path), MESSAGE)
    assert (answer.outcome, answer.text) == ("failed", f"{tmp_path} cannot be written: Is a directory")


class Service:
    """What Apprise's documentation says of ``Apprise``: ``add`` and ``notify`` answer with a truth."""

    known, taken, sent = True, True, []

    def add(self, url):
        logging.getLogger("apprise").warning("Could not load %s", url)
        return self.known

    def notify(self, *, title, body):
        logging.getLogger("urllib3.connectionpool").debug("POST /%s", CANARY)
        if self.taken is None:
            raise RuntimeError(f"bad address {CANARY}")
        self.sent.append((title, body))
        return self.taken


@pytest.fixture
def apprise(monkeypatch):
    """A module in the place of Apprise, whose services one can break."""
    service = type("Apprise", (Service,), {"sent": []})
    monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=service))
    monkeypatch.setattr(alert_channels, "apprise", optional("apprise"))
    return service


SERVICE = AppriseService(f"tgram://{CANARY}/chat", 1)


def test_a_service_of_apprise_gets_title_and_body(apprise):
    """With the key at the end, by which a person sees that two are one."""
    assert attempt(SERVICE, MESSAGE).text == "sent"
    assert apprise.sent == [(MESSAGE.title, f"{MESSAGE.text}\n[{MESSAGE.id}]")]


@pytest.mark.parametrize(
    ("known", "taken", "text"),
    [
        (False, True, "apprise-1 (tgram://) must be an address that Apprise knows"),
        (True, False, "apprise-1 (tgram://) did not take the message"),
        (True, None, "apprise-1 failed with RuntimeError"),
    ],
)
def test_a_service_that_fails_shows_no_more_than_its_scheme(apprise, caplog, known, taken, text):
    """Nor does Apprise's own log, nor that of the HTTP client below it."""
    caplog.set_level(logging.DEBUG)
    apprise.known, apprise.taken = known, taken
    answer = attempt(SERVICE, MESSAGE)
    assert (answer.outcome, answer.text) == ("failed", text)
    assert CANARY not in repr((answer, SERVICE)) + caplog.text


def test_without_apprise_the_extra_is_named(monkeypatch):
    """The message waits until somebody installs it."""
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setattr(alert_channels, "apprise", optional("apprise"))
    answer = attempt(SERVICE, MESSAGE)
    assert (answer.outcome, "needs the extra [alerts]: pip install 'dedp[alerts]'" in answer.text) == ("failed", True)


def test_a_channel_with_wrong_settings_says_so():
    """And delivers nothing."""
    channel = BrokenChannel("webhook", "set DEDP_ALERTS_WEBHOOK")
    answer = attempt(channel, MESSAGE)
    assert (answer.outcome, answer.text) == ("failed", "set DEDP_ALERTS_WEBHOOK")
