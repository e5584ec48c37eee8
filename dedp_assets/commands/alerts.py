"""``dedp alerts``: troubles that need somebody, undelivered messages, and a test of the channels.

Exit code 1: a trouble needs somebody, or something could not be read; with --test, a channel did not take the
message, or there is no channel.

Examples:
    dedp alerts
    dedp alerts --test
    dedp alerts --json
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import Grid, answer, console, print_json, say
from dedp_assets.commands._page import collect, print_troubles
from dedp_assets.graph.mail.alert_outbox import Pending
from dedp_assets.graph.mail.alerts import AlertChannel, Message
from dedp_assets.graph.mail.outbox import attempt
from dedp_assets.graph.resources.alerting import channels_of, outbox_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.status_page.model import Page
from dedp_assets.patterns.core.measuring.troubles import Trouble

__all__ = ["arguments", "run"]

NEEDS = "dagster"
BESIDE = True

_NONE = "No channel is configured: set DEDP_ALERTS to some of log, file, webhook, apprise."


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the test of the channels, and the form for programs."""
    parser.add_argument("--test", action="store_true", help="send a marked test alert through each channel instead")
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the troubles that need somebody and the undelivered messages, or test the channels.

    1 with a trouble or with a source that could not be read; of a test, if a channel did not take the message, or if
    there is none.
    """
    channels = channels_of(settings)
    if chosen.test:
        return _test(channels, Clock().now(), as_json=chosen.json)
    _, page = collect(settings)
    pending = outbox_of(settings).pending(channels, page.made_at)
    if chosen.json:
        print_json(_as_dict(channels, page, pending))
        return 0 if page.verdict == "ok" else 1
    terminal = console()
    terminal.print(f"Channels: {', '.join(map(_called, channels))}" if channels else _NONE)
    print_troubles(terminal, replace(page, troubles=page.open))
    if page.unannounced:
        # Without a channel, a project of somebody's own has no such sensor.
        who = ": the sensor alerts of `dedp up` does" if channels else ""
        say(f"{page.unannounced} of them no alert has announced yet{who}.")
    if pending:
        terminal.print(_owed(pending))
    return 0 if page.verdict == "ok" else 1


def _as_dict(channels: Sequence[AlertChannel], page: Page, pending: Sequence[Pending]) -> dict[str, Any]:
    """Return channels, open troubles and undelivered messages as JSON values."""
    owed = [
        {"channel": each.channel, "event": each.message.event, "trouble": each.message.alert, "reason": each.reason}
        for each in pending
    ]
    return {
        "verdict": page.verdict,
        "channels": [{"name": each.name, "address": each.address} for each in channels],
        "troubles": page.open,
        "not_read": page.notices,
        "unannounced": page.unannounced,
        "undelivered": owed,
    }


def _test(channels: Sequence[AlertChannel], now: datetime, *, as_json: bool) -> int:
    """Send a marked alert through each channel, and print the answers; silent hours hold no test back."""
    reason = "a test of the channels by `dedp alerts --test`; nothing is wrong"
    alert = Trouble(kind="test", table="platform", severity="info", reason=reason, command="dedp alerts")
    episode = uuid.uuid4().hex
    message = Message(id=f"{episode}/test", event="test", episode=episode, alert=alert, since=now)
    answers = [attempt(channel, message) for channel in channels]
    both = [*zip(channels, answers, strict=True)]
    lines = [f"{_called(channel)}: {each.outcome}: {each.text}" for channel, each in both] or [_NONE]
    documents = [{"channel": channel.name, "outcome": each.outcome, "text": each.text} for channel, each in both]
    answer(documents, *lines, as_json=as_json)
    return 0 if answers and all(each.outcome == "delivered" for each in answers) else 1


def _owed(pending: Sequence[Pending]) -> Grid:
    owed = Grid("channel", "message", "about", "why it waits", title="Not delivered yet")
    for each in pending:
        about = f"{each.message.alert.place}: {each.message.alert.kind}"
        owed.add_row(each.channel, each.message.event, about, each.reason)
    return owed


def _called(channel: AlertChannel) -> str:
    return f"{channel.name} ({channel.address})" if channel.address else channel.name
