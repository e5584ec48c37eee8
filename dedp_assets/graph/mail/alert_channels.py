"""Channels of alerts: Python's log, a file of JSON lines, a webhook, and the services of Apprise.

Addresses of a webhook and of Apprise's services hold tokens. No text that leaves this module quotes more than scheme
and host of a webhook, or more than the scheme of a service, whose host may be the token itself. Answers of a server are
not quoted either: a server may repeat the path that it was asked for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request

from dedp_assets.graph.mail.alerts import Message
from dedp_assets.patterns.connectors.web.parts import ResponseLimits, exchanged, require_address
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.running.json_lines import append_lines

apprise = optional("apprise")

__all__ = ["AppriseService", "BrokenChannel", "FileChannel", "LogChannel", "Webhook"]

LOGGER = "dedp.alerts"
_MOST_BYTES = 1 << 20
_REFUSED = (400, 413, 422)
"""HTTP statuses for a message with refused content; all other errors concern the whole channel."""


@dataclass(frozen=True, slots=True)
class LogChannel:
    """Python's logger ``dedp.alerts``, at the level WARNING or CRITICAL, which no default hides."""

    name: str = "log"

    @property
    def address(self) -> str:
        """Name of the logger."""
        return f"logger {LOGGER}"

    def send(self, message: Message) -> str:
        """Log a message in one line with the idempotency key at the end."""
        level = logging.CRITICAL if message.alert.severity == "critical" else logging.WARNING
        logging.getLogger(LOGGER).log(level, "%s [%s]", message.text, message.id)
        return "logged"


@dataclass(frozen=True, slots=True)
class FileChannel:
    """A file of JSON lines, one for each message; one process appends at a time.

    Attributes:
        path: the file.
    """

    path: Path
    name: str = "file"

    @property
    def address(self) -> str:
        """Path of the file."""
        return str(self.path)

    def send(self, message: Message) -> str:
        """Append a message as one line, and flush the line to the disk.

        Raises:
            NotReady: if the file cannot be written.
        """
        try:
            append_lines(self.path, [message.record()])
        except OSError as error:
            raise NotReady(f"{self.path} cannot be written: {error.strerror}") from None
        return "appended"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL that takes each message as JSON by POST; any status from 200 to 299 acknowledges the message.

    Attributes:
        url: address with its token; ``http`` or ``https``.
        timeout_seconds: how long the server may be silent.
        total_seconds: how long a whole answer may take.
    """

    url: str = field(repr=False)
    timeout_seconds: float = 10
    total_seconds: float = 15
    name: str = "webhook"

    def __post_init__(self) -> None:
        try:
            require_address(self.url, what="a webhook")
        except ConfigError:  # its text shows the path
            raise ConfigError(
                "the webhook must be an http:// or https:// address of plain characters without user and password"
            ) from None

    @property
    def address(self) -> str:
        """Scheme and host."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def send(self, message: Message) -> str:
        """Post a message once, with the idempotency key in the body and in the header ``Idempotency-Key``.

        Raises:
            ConfigError: if the server sends the request elsewhere.
            ContractError: if the server refuses this message.
            NotReady: if there is no acknowledgement.
        """
        return self.post(message.record(), key=message.id)

    def post(self, record: Mapping[str, object], *, key: str) -> str:
        """Post a record as JSON once.

        Args:
            record: JSON values.
            key: idempotency key, for the header ``Idempotency-Key``.

        Raises:
            ConfigError: if the server sends the request elsewhere.
            ContractError: if the server refuses this record.
            NotReady: if there is no acknowledgement.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        body = json.dumps(record).encode()
        request = Request(self.url, data=body, headers=headers, method="POST")  # noqa: S310 - the scheme was checked
        try:
            status = exchanged(request, ResponseLimits(self.timeout_seconds, self.total_seconds, _MOST_BYTES)).status
        except ContractError:  # only the body of a success is judged, and nobody reads the body
            return "acknowledged"
        except (OSError, HTTPException) as error:
            raise NotReady(f"{self.address} does not answer: {_cause(error)}") from None
        if 200 <= status < 300:
            return f"status {status}"
        raise self._failure(status)

    def _failure(self, status: int) -> ConfigError | ContractError | NotReady:
        if 300 <= status < 400:
            return ConfigError(f"{self.address} sends the request elsewhere (status {status}): name the final address")
        if status in _REFUSED:
            return ContractError(f"{self.address} refuses the message with status {status}")
        return NotReady(f"{self.address} answers with status {status}")


@dataclass(frozen=True, slots=True)
class AppriseService:
    """One service that Apprise sends to: mail, chat, SMS and many more.

    A service is a channel by itself, so that one that is down neither delays the others nor makes them hear twice.

    Attributes:
        url: Apprise's address of the service, with its tokens.
        number: place among the configured services, from 1 on; the name of the channel.
    """

    url: str = field(repr=False)
    number: int

    @property
    def name(self) -> str:
        """Name by number: ``apprise-1``."""
        return f"apprise-{self.number}"

    @property
    def address(self) -> str:
        """Scheme alone: in many addresses of Apprise the host is the token."""
        scheme, found, _ = self.url.partition("://")
        return f"{scheme}://" if found and scheme.isalnum() else "an address without a scheme"

    def send(self, message: Message) -> str:
        """Send a message by Apprise.

        Raises:
            ConfigError: if Apprise is not installed, or does not know the address.
            NotReady: if the service does not take the message.
        """
        # Apprise and the HTTP client below it log addresses.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)
        service = apprise.Apprise()
        if not service.add(self.url):
            raise ConfigError(f"{self.name} ({self.address}) must be an address that Apprise knows")
        if not service.notify(title=message.title, body=f"{message.text}\n[{message.id}]"):
            raise NotReady(f"{self.name} ({self.address}) did not take the message")
        return "sent"


@dataclass(frozen=True, slots=True)
class BrokenChannel:
    """A channel with wrong settings: messages wait until the settings are corrected.

    Attributes:
        name: name of the channel.
        reason: what is wrong, without secrets.
    """

    name: str
    reason: str

    @property
    def address(self) -> str:
        """Empty: the settings name no usable address."""
        return ""

    def send(self, message: Message) -> str:  # noqa: ARG002 - as every channel
        """Refuse to send.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(self.reason)


def _cause(error: OSError | HTTPException) -> str:
    """Return the class of a network error with the operating system's words, without the error's own text."""
    inner = getattr(error, "reason", None)
    found = inner if isinstance(inner, OSError) else error
    words = found.strerror if isinstance(found, OSError) and isinstance(found.strerror, str) else ""
    return f"{type(found).__name__}: {words}".removesuffix(": ")
