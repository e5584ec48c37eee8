"""``dedp alerts``: open alerts, messages that channels have not taken, and a test of the channels."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence
from datetime import datetime, timezone

from rich.markup import escape
from rich.table import Table as Grid

from dedp_assets.commands._output import console, say
from dedp_assets.mail.alert_outbox import Pending
from dedp_assets.mail.alerts import Channel, Message
from dedp_assets.mail.episodes import Episode
from dedp_assets.mail.outbox import attempt
from dedp_assets.patterns.core.troubles import Trouble
from dedp_assets.resources.alerting import channels_of, outbox_of
from dedp_assets.resources.clock import Clock
from dedp_assets.resources.environments import Settings

__all__ = ["alerts", "arguments", "run"]

NEEDS = "dagster"
BESIDE = True

_NONE = "No channel is configured: set DEDP_ALERTS to some of log, file, webhook, apprise."


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the test of the channels."""
    parser.add_argument("--test", action="store_true", help="send a marked test alert through each channel instead")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the alerts, or test the channels."""
    return alerts(settings, test=chosen.test)


def alerts(settings: Settings, *, test: bool = False) -> int:
    """Print the open alerts and the undelivered messages, or send a test alert through each channel.

    Args:
        settings: where everything is, and the channels.
        test: whether to send a test alert instead.

    Returns:
        The exit code: 1 if a channel did not take the test alert, or if there is no channel to test.
    """
    channels, now = channels_of(settings), Clock().now()
    if test:
        return _test(channels, now)
    outbox = outbox_of(settings)
    _print(outbox.open_episodes(), outbox.pending(channels, now), channels)
    return 0


def _test(channels: Sequence[Channel], now: datetime) -> int:
    """Send a marked alert through each channel, and print the answers; silent hours hold no test back."""
    reason = "a test of the channels by `dedp alerts --test`; nothing is wrong"
    alert = Trouble(kind="test", table="platform", severity="info", reason=reason, command="dedp alerts")
    episode = uuid.uuid4().hex
    message = Message(id=f"{episode}/test", event="test", episode=episode, alert=alert, since=now)
    answers = [attempt(channel, message) for channel in channels]
    for channel, answer in zip(channels, answers, strict=True):
        say(f"{_called(channel)}: {answer.outcome}: {answer.text}")
    if not channels:
        say(_NONE)
    return 0 if answers and all(answer.outcome == "delivered" for answer in answers) else 1


def _print(lasting: Sequence[Episode], pending: Sequence[Pending], channels: Sequence[Channel]) -> None:
    terminal = console()
    terminal.print(f"Channels: {escape(', '.join(map(_called, channels)))}" if channels else _NONE)
    headings = ("severity", "table", "partition", "alert", "since, UTC", "figure, reason, and what shows more")
    grid = Grid(*headings, title="Open alerts", title_justify="left")
    for episode in lasting:
        alert = episode.alert
        more = escape("; ".join(filter(None, [alert.detail, alert.command])))
        place = (escape(alert.table), escape(alert.partition), escape(alert.kind))
        grid.add_row(alert.severity, *place, f"{episode.since.astimezone(timezone.utc):%Y-%m-%d %H:%M}", more)
    terminal.print(grid if lasting else "There are no open alerts.")
    if pending:
        owed = Grid("channel", "message", "about", "why it waits", title="Not delivered yet", title_justify="left")
        for each in pending:
            about = f"{each.message.alert.place}: {each.message.alert.kind}"
            owed.add_row(each.channel, each.message.event, escape(about), escape(each.reason))
        terminal.print(owed)


def _called(channel: Channel) -> str:
    return f"{channel.name} ({channel.address})" if channel.address else channel.name
