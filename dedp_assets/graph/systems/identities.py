"""Roles of runs as a Dagster resource without fields: client certificates in place of passwords.

The authority is OpenBao's engine of certificates with ``DEDP_SECRETS=bao``, otherwise one of the home.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.graph.systems.secrets import FOLDER as SECRETS
from dedp_assets.graph.systems.secrets import OWN, PKI, store_of
from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import CertificateAuthority
from dedp_assets.patterns.connectors.certificates.other_authorities import VaultAuthority
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.security.secretless_connector import Proof, RoleCertificates, using_role

__all__ = [
    "CLIENTS", "FOLDER", "KAFKA", "PLATFORM", "SERVICES", "Identities", "as_platform", "authority_of", "home_authority",
]  # fmt: skip

FOLDER = "tls"
"""Folder of the home with the authority of the home."""
CLIENTS = "tls/clients"
"""Folder of the home with client certificates, the only place for their keys."""
PLATFORM, KAFKA, SERVICES = "dedp", "kafka", "services"
"""The role of the platform's own processes, and the servers of ``DEDP_SECURE=on`` that ask for a certificate."""
_LASTS_SECONDS = 3600


class Identities(dg.ConfigurableResource[Any]):
    """The roles that runs may assume."""

    def certificates(self, identity: str, *, roles: Mapping[str, Sequence[str]]) -> RoleCertificates:
        """Return the roles of a run, with certificates that all runs of an identity in this process share.

        Args:
            identity: name of the asset, the job or the person.
            roles: role -> servers within the role's scope.

        Raises:
            ConfigError: for names that are none.
            NotReady: if the laptop's own server of secrets is the authority and does not run.
        """
        chosen = settings()
        scopes = tuple(sorted((role, tuple(servers)) for role, servers in roles.items()))
        return _certificates(chosen.home, chosen.secret_store, identity, scopes)


def home_authority(chosen: Settings) -> Authority:
    """Return the authority of the home, created at the first call."""
    return Authority.of(chosen.home / FOLDER, at=Clock().now())


@contextmanager
def as_platform(server: str) -> Iterator[Proof]:
    """Lend the proof of the platform's own processes for a server of the home.

    Raises:
        ConfigError: if the server refuses the role.
        NotReady: if the certificate expired, or the server hangs up.
    """
    with using_role(_of_platform(settings().home), role=PLATFORM, server=server) as proof:
        yield proof


def authority_of(chosen: Settings) -> CertificateAuthority:
    """Return the authority that signs the certificates of clients.

    Raises:
        NotReady: if the laptop's own server of secrets is the authority and does not run.
    """
    if chosen.secret_store != OWN:
        return home_authority(chosen)
    server = store_of(chosen)
    assert isinstance(server, VaultServer)  # noqa: S101 - by `store_of`
    return VaultAuthority(server, chosen.home / SECRETS / "ca.pem", home_authority(chosen).path, mount=PKI)


@cache
def _of_platform(home: Path) -> RoleCertificates:
    authority = Authority.of(home / FOLDER, at=Clock().now())
    return RoleCertificates(
        authority, "the platform", {PLATFORM: [KAFKA, SERVICES]}, home / CLIENTS, Clock().now, _LASTS_SECONDS
    )


@cache
def _certificates(
    home: Path, _: str, identity: str, scopes: tuple[tuple[str, tuple[str, ...]], ...]
) -> RoleCertificates:
    """Return the certificates of an identity in a home, by the authority of a store of secrets."""
    return RoleCertificates(authority_of(settings()), identity, dict(scopes), home / CLIENTS, Clock().now)
