"""The HTTP services of enrichment and delivery, below a base URL."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
from pydantic import Field

from dedp_assets.graph.resources.announced import announced
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.graph.systems.identities import SERVICES, as_platform
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.connectors.secrets.store import parted
from dedp_assets.patterns.connectors.web.http import Patience, Service
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.secret import Secret
from dedp_assets.patterns.security.secrets_pointer import using_secret

__all__ = ["FOLDER", "Services", "address", "lacking"]

FOLDER = "services"
"""Folder of the home in which the laptop's own services announce where they are."""

_ANSWER_SECONDS = 2
_ABSENT = "no HTTP services run: start `make up`, or name some by DEDP_SERVICES"


def address(chosen: Settings) -> str:
    """Return the URL in ``DEDP_SERVICES``, otherwise of the laptop's own services; may be empty."""
    return announced(chosen.home / FOLDER) if chosen.services is None else chosen.services


def lacking() -> str:
    """Return the reason that the configured HTTP services cannot be used now; empty if usable."""
    return Services().lacks()


class Services(dg.ConfigurableResource[Any]):
    """HTTP services below a URL; without a URL, the laptop's own services, resolved at each use."""

    url: str = Field(default="", description="http://host:port of the services; empty: the laptop's own.")
    timeout_seconds: float = Field(default=10, description="How long an answer may take.")
    pause_seconds: float = Field(default=0.5, description="How long the first pause between two attempts is.")

    def lacks(self) -> str:
        """Return the reason that the services cannot be used now; empty if the port accepts connections."""
        if not (url := self.url or address(settings())):
            return _ABSENT
        place = urlsplit(url)
        try:
            port = place.port or (443 if place.scheme == "https" else 80)
            socket.create_connection((place.hostname or "", port), timeout=_ANSWER_SECONDS).close()
        except (OSError, ValueError):
            return f"the HTTP services at {url} do not answer: start them, or correct DEDP_SERVICES"
        return ""

    def at(self, path: str) -> Service:
        """Return the HTTP service at a path below the services' URL.

        Raises:
            NotReady: if nobody said where services are, and none run here.
        """
        if not (url := self.url or address(settings())):
            raise NotReady(_ABSENT)
        patience = Patience(Clock().now, Backoff(attempts=4, first_seconds=self.pause_seconds, longest_seconds=30))
        secured = _certificate if url.startswith("https:") and settings().services is None else nullcontext
        login = nullcontext if (pointer := settings().services_pointer) is None else partial(_login, pointer)
        return Service(
            f"{url.rstrip('/')}/{path}", patience, timeout_seconds=self.timeout_seconds, login=login, secured=secured
        )


@contextmanager
def _certificate() -> Iterator[SSLContext]:
    """Lend the platform's client certificate for the laptop's own services, and the trusted authority."""
    with as_platform(SERVICES) as proof:
        yield proof.context()


@contextmanager
def _login(pointer: str) -> Iterator[Secret | None]:
    """Lend the services' key of the store of secrets; a refused one is read again by the next attempt."""
    path, _ = parted(pointer)
    with using_secret(Secrets().pointers("services", granted=[path]), pointer=pointer) as access:
        yield access.secret
