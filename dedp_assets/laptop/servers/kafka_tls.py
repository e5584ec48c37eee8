"""Mutual TLS of a laptop's Kafka broker: properties, certificates, and their exchange in mid-run.

The certificate's common name is the user. A user may do what an access control entry allows, and nothing else;
:data:`ADMINISTRATOR` and the platform may do all.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from dedp_assets.graph.systems.identities import PLATFORM
from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import Certificate, facts_in, facts_of
from dedp_assets.patterns.connectors.secrets.key_files import replace_private
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.running.backoff import Backoff

__all__ = ["ADMINISTRATOR", "LISTENER", "administrator", "is_locked", "properties", "take_new_certificates"]

ADMINISTRATOR = "kafka-administrator"
"""Role that may do all."""
LISTENER = "CLIENTS"
"""Name of the listener of clients."""

_BROKER, _NODE = "broker", "1"
_HOSTS = ("localhost", "127.0.0.1")
_LASTS, _ADMINISTERED = timedelta(days=365), timedelta(hours=1)
_BEFORE = timedelta(minutes=5)
_TRUSTED = "trusted.pem"
_SECONDS = 10
_PATIENCE = Backoff(attempts=10, first_seconds=0.1, longest_seconds=3)


def administrator(address: str, folder: Path, authority: Authority, *, at: datetime) -> dict[str, Any]:
    """Return the configuration of a client of the administrator, by a certificate of an hour.

    Args:
        address: ``host:port`` of the broker.
        folder: the broker's folder.
        authority: signs the certificate.
        at: the time now.
    """
    ends = at + _ADMINISTERED
    made = authority.issue(ADMINISTRATOR, folder / "administrator", begins=at - _BEFORE, ends=ends)
    files = {"certificate": made.path, "key": made.key, "ca": authority.path}
    stated = {f"ssl.{name}.location": str(file) for name, file in files.items()}
    return {**client(address), "security.protocol": "ssl", **stated}


def properties(folder: Path, authority: Authority, *, at: datetime) -> dict[str, object]:
    """Issue the broker's certificate, and return the properties of a broker that takes certificates only.

    The listener of the controller asks for a certificate, too, which only the broker and the administrator have.

    Args:
        folder: the broker's folder.
        authority: signs the certificates of broker and clients.
        at: the time now; the broker's certificate is valid for a year, and is another one at the next start.
    """
    # Listeners have files of their own, so that those of clients are exchanged alone while the broker runs.
    stated: dict[str, object] = {}
    for listener in ("controller", LISTENER.lower()):
        made, prefix = _server_certificate(folder, listener, authority, at), f"listener.name.{listener}.ssl"
        stores = {"keystore": made.keystore, "truststore": _trusted(folder, listener, authority)}
        for store, file in stores.items():
            stated |= {f"{prefix}.{store}.type": "PEM", f"{prefix}.{store}.location": file}
        stated |= {f"{prefix}.client.auth": "required"}
    return {
        **stated,
        # Each of a broker's network threads reads certificates by itself, one after the other. While they differ, a
        # later one finds authorities and certificate exchanged at once, which it refuses, with all that comes after.
        "num.network.threads": 1,
        "listener.security.protocol.map": f"{LISTENER}:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": LISTENER,
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{_BROKER};User:{ADMINISTRATOR};User:{PLATFORM}",
    }


def is_locked(folder: Path) -> bool:
    """Return whether the broker of a folder was started with certificates."""
    file = folder / "server.properties"
    return file.exists() and f"{LISTENER}:SSL" in file.read_text()


def take_new_certificates(trusted: Mapping[str, Any], folder: Path, authority: Authority, *, at: datetime) -> None:
    """Let a running broker read the trusted authorities again, and give the broker a new certificate.

    Connections stay open. Returns once the broker shows the new certificate.

    Args:
        trusted: configuration of a client of the administrator, by a certificate that the broker still trusts.
        folder: the broker's folder.
        authority: the authority.
        at: the time now.

    Raises:
        NotReady: if the broker goes on with the former certificates.
    """
    address, listener = str(trusted["bootstrap.servers"]), LISTENER.lower()
    admin = AdminClient(dict(trusted))  # a client that nobody holds ends with the request under way
    _set(admin, "truststore", _trusted(folder, listener, authority))
    # A broker refuses a certificate of its own by an authority that it does not trust yet.
    _await(lambda: _takes(administrator(address, folder, authority, at=at)), "does not trust the new authority")
    made = _server_certificate(folder, listener, authority, at)
    _set(admin, "keystore", made.keystore)
    _await(lambda: _shows(address, made), "shows its former certificate")


def _server_certificate(folder: Path, listener: str, authority: Authority, at: datetime) -> Certificate:
    """Issue a listener's certificate, of a server and of a client: the broker connects to itself."""
    begins, ends, place = at - _BEFORE, at + _LASTS, folder / "tls" / listener
    return authority.issue(_BROKER, place, begins=begins, ends=ends, hosts=_HOSTS, both=True)


def _trusted(folder: Path, listener: str, authority: Authority) -> Path:
    """Copy the authority's certificates for a listener."""
    file = folder / "tls" / listener / _TRUSTED
    replace_private(file, authority.path.read_bytes())
    return file


def _set(admin: AdminClient, store: str, file: Path) -> None:
    """State the file of a listener again, upon which the broker reads the file."""
    name = f"listener.name.{LISTENER.lower()}.ssl.{store}.location"
    entry = ConfigEntry(name, str(file), incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, _NODE, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([broker], request_timeout=_SECONDS).values():
        done.result()


def _await(reached: Callable[[], bool], otherwise: str) -> None:
    for _ in _PATIENCE.tries():
        if reached():
            return
    raise NotReady(f"the broker of Kafka {otherwise}: look at its log, and start it again")


def _takes(configuration: Mapping[str, Any]) -> bool:
    try:
        AdminClient(dict(configuration)).list_topics(timeout=1)
    except KafkaException:
        return False
    return True


def _shows(address: str, made: Certificate) -> bool:
    host, port = address.rsplit(":", 1)
    return facts_in(ssl.get_server_certificate((host, int(port))).encode()) == facts_of(made.path)
