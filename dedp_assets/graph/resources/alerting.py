"""Alerts as a Dagster resource: code raises and clears, a sensor delivers.

The resource has no fields, so that run configs hold no address of a channel.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, cast

import dagster as dg

from dedp_assets.graph.mail.alert_channels import (
    AppriseService,
    BrokenChannel,
    FileChannel,
    LogChannel,
    Webhook,
)
from dedp_assets.graph.mail.alert_outbox import AlertOutbox
from dedp_assets.graph.mail.alerts import AlertChannel
from dedp_assets.graph.mail.silence import Manner, SilentHours
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.graph.resources.masking import known_secrets
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.measuring.troubles import Severity, Trouble, TroubleKey
from dedp_assets.patterns.core.running.permissions import restricted_to
from dedp_assets.patterns.delta import LocalStore

__all__ = ["Alerting", "channels_of", "command_for", "outbox_of", "status_command"]

_FOLDER, _FILE = "alerts", "alerts.jsonl"
_COMMAND = re.compile(r"""`(dedp [^`]+)`|(dedp approve [^`;]+? --because "[^"]*")""")
"""Shell command within a sentence: ``dedp ...`` between backticks, or ``dedp approve ...`` with a reason."""


class Alerting(dg.ConfigurableResource[Any]):
    """Alerts of this home. A parameter ``alerts`` of a table's function gets this resource.

    Example, the handler of an error in a table's function::

        alerts.raise_alert("incomplete", "gold/summary", day, figure="83 %", limit="95 %", reason="sensor 7 lacks")
        ...
        alerts.clear("incomplete", "gold/summary", day)
    """

    def raise_alert(
        self,
        name: str,
        table: str,
        partition: str = "",
        *,
        severity: Severity = "warning",
        figure: str = "",
        limit: str = "",
        reason: str = "",
        command: str = "",
    ) -> None:
        """Raise an alert: one episode per name, table and partition, until :meth:`clear` ends the episode.

        Nothing is sent here: a channel that is down delays no run.

        Args:
            name: kind of trouble, such as ``incomplete``.
            table: table that has the trouble.
            partition: partition key; empty for the whole table.
            severity: decides on silent hours.
            figure: measured value with its unit.
            limit: greatest or least value allowed, with its unit.
            reason: a sentence on the cause and on the remedy.
            command: shell command that shows more; by default ``dedp status`` of the table.

        Raises:
            Conflict: if another process keeps the lock of the alerts.
        """
        alert = Trouble(
            kind=name,
            table=table,
            partition=partition,
            severity=severity,
            figure=figure,
            limit=limit,
            reason=reason,
            command=command or status_command(table),
        )
        with restricted_to(None):  # a table's function may write to its table alone
            outbox_of(settings()).raise_alert(alert, Clock().now())

    def clear(self, name: str, table: str, partition: str = "") -> None:
        """Clear an alert that code raised; without one, do nothing.

        Args:
            name: kind of trouble.
            table: table that had the trouble.
            partition: partition key; empty for the whole table.

        Raises:
            Conflict: if another process keeps the lock of the alerts.
        """
        with restricted_to(None):
            outbox_of(settings()).clear(Trouble(kind=name, table=table, partition=partition), Clock().now())

    def observe(
        self,
        found: Iterable[Trouble],
        now: datetime,
        *,
        unjudged: Collection[str] = (),
        undecided: Collection[TroubleKey] = (),
    ) -> None:
        """Follow the troubles that an observation of the whole platform found.

        Args:
            found: every trouble there is now.
            now: current time, with time zone.
            unjudged: tables that could not be observed.
            undecided: keys of alerts whose figures could not be judged.
        """
        outbox_of(settings()).observe(found, now, unjudged=unjudged, undecided=undecided)

    def deliver(self, now: datetime) -> Mapping[str, str]:
        """Send the due messages, and return a report by channel.

        Args:
            now: current time, with time zone.
        """
        chosen = settings()
        return outbox_of(chosen).deliver(channels_of(chosen), now)


def outbox_of(chosen: Settings) -> AlertOutbox:
    """Return the outbox of a home, which masks the secrets of the settings in stored texts."""
    store = LocalStore(str(chosen.home / _FOLDER))
    return AlertOutbox(store, known_secrets(chosen), manner=_manner_of(chosen))


def channels_of(chosen: Settings) -> list[AlertChannel]:
    """List the configured channels, including channels with wrong settings, which answer with the fault."""
    alerts = chosen.alerts
    found: dict[str, list[AlertChannel]] = {
        "log": [LogChannel()],
        "file": [FileChannel(chosen.home / _FILE)],
        "webhook": [_webhook(alerts.webhook)] if "webhook" in alerts.channels else [],
        "apprise": [AppriseService(url, number) for number, url in enumerate(alerts.apprise, start=1)]
        or [BrokenChannel("apprise", "DEDP_ALERTS names apprise: set DEDP_ALERTS_APPRISE to an address, or several")],
    }
    return [channel for name in alerts.channels for channel in found[name]]


def _manner_of(chosen: Settings) -> Manner:
    """Return the times at which messages leave, by the settings."""
    alerts = chosen.alerts
    if not alerts.silent:
        return Manner(remind_hours=alerts.remind_hours)
    start, end, zone = alerts.silent
    hours = QuietHours(zone=zone, start=f"{start}", end=f"{end}")
    silence = SilentHours(hours, cast("tuple[Severity, ...]", alerts.hold))
    return Manner(silence, remind_hours=alerts.remind_hours)


def status_command(table: str) -> str:
    """Return the command that shows the state of a table."""
    return f"dedp status {table}"


def command_for(table: str, reason: str = "") -> str:
    """Return the first command of the library that a reason names, otherwise the one that shows the table."""
    found = _COMMAND.search(reason)
    return (found[1] or found[2]) if found else status_command(table)


def _webhook(url: str) -> AlertChannel:
    if not url:
        return BrokenChannel("webhook", "DEDP_ALERTS names webhook: set DEDP_ALERTS_WEBHOOK to its URL")
    try:
        return Webhook(url)
    except ConfigError as error:
        return BrokenChannel("webhook", f"DEDP_ALERTS_WEBHOOK: {error}")
