"""Rotation of the home's authorities: a new key, a grace period, and certificates of running servers.

PostgreSQL has an authority of its own, as the server may be of another user; the other servers share the home's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from dedp_assets.graph.resources.announced import announced
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems import kafka, orchestrator, registry, services
from dedp_assets.graph.systems import postgres as database
from dedp_assets.graph.systems.identities import CLIENTS, FOLDER
from dedp_assets.laptop import status_server
from dedp_assets.laptop.servers import kafka_tls, loopback, postgres
from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import facts_of
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["former_until", "retire", "rotate"]

_HTTP = {
    services.FOLDER: "the HTTP services",
    status_server.FOLDER: "the status page",
    orchestrator.FOLDER: "Dagster's webserver",
    registry.FOLDER: "the schema registry (within half a minute)",
}


def rotate(chosen: Settings, *, at: datetime) -> list[str]:
    """Begin a grace period: new keys sign, and certificates of the former keys stay valid.

    A rotation that was interrupted goes on: an authority in its grace period gets no further key.

    Args:
        chosen: settings of the home.
        at: the time now.

    Returns:
        Names of the running servers, which took the certificates under open connections.

    Raises:
        ConfigError: if the home has no authority.
        NotReady: if a running server goes on with its former certificates.
    """
    made = _authorities(chosen)
    trusted = _administrator(chosen, made, at)  # by a certificate that the broker trusts already
    for authority in made.values():
        if not authority.in_grace:
            authority.rotate(at=at)
    return [*_taken(chosen, made, trusted, at)]


def retire(chosen: Settings, *, at: datetime) -> list[str]:
    """End the grace period: certificates of the former keys are refused.

    Args:
        chosen: settings of the home.
        at: the time now.

    Returns:
        As :func:`rotate`.

    Raises:
        ConfigError: if the home has no authority, or none in a grace period.
        NotReady: if a running server goes on with its former certificates.
    """
    made = _authorities(chosen)
    if not any(authority.in_grace for authority in made.values()):
        raise ConfigError("no former authority is left to retire: begin with `dedp certificates rotate`")
    trusted = _administrator(chosen, made, at)
    for authority in made.values():
        authority.retire()
    return [*_taken(chosen, made, trusted, at)]


def former_until(chosen: Settings, *, at: datetime) -> datetime | None:
    """Return the end of the last valid client certificate of a former key; ``None`` where none is left.

    Args:
        chosen: settings of the home.
        at: the time now.
    """
    authority = _authorities(chosen).get(FOLDER)
    if authority is None or not authority.in_grace:
        return None
    current = facts_of(authority.path).name
    found = [facts_of(path) for path in (chosen.home / CLIENTS).glob("*/*/*.pem") if ".keystore." not in path.name]
    return max((each.ends for each in found if each.issuer != current and each.ends > at), default=None)


def _authorities(chosen: Settings) -> Mapping[str, Authority]:
    """Return the authorities of the home and of the PostgreSQL server in the home.

    Raises:
        ConfigError: if there is none.
    """
    places = {FOLDER: chosen.home / FOLDER, database.FOLDER: chosen.home / database.FOLDER / "tls"}
    found = {name: Authority(place / "ca.pem", place / "ca.key") for name, place in places.items()}
    if made := {name: authority for name, authority in found.items() if authority.path.exists()}:
        return made
    raise ConfigError(f"{chosen.home} has no authority of certificates: `DEDP_SECURE=on dedp up` makes one")


def _administrator(chosen: Settings, made: Mapping[str, Authority], at: datetime) -> Mapping[str, Any] | None:
    """Return the configuration of the broker's administrator; ``None`` without a locked broker."""
    folder = chosen.home / kafka.FOLDER
    address = announced(folder)
    if not address or FOLDER not in made or not kafka_tls.is_locked(folder):
        return None
    return kafka_tls.administrator(address, folder, made[FOLDER], at=at)


def _taken(
    chosen: Settings, made: Mapping[str, Authority], administrator: Mapping[str, Any] | None, at: datetime
) -> Iterator[str]:
    """Let the running servers take certificates; yield their names."""
    if postgres.take_new_certificates(chosen, at=at):
        yield "PostgreSQL"
    if FOLDER not in made:
        return
    for folder, name in _HTTP.items():
        if announced(chosen.home / folder).startswith("https:"):
            loopback.server_certificate(chosen.home / folder, made[FOLDER], at=at)
            yield name
    if administrator:
        kafka_tls.take_new_certificates(administrator, chosen.home / kafka.FOLDER, made[FOLDER], at=at)
        yield "Kafka"
