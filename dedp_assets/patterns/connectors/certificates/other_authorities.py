"""Authorities elsewhere: the PKI engine of a Vault-compatible server, and agents of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from dedp_assets.patterns.connectors.certificates.files import Certificate, saved
from dedp_assets.patterns.connectors.secrets.key_files import replace_private
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.core.errors import ContractError

__all__ = ["GivenCertificates", "VaultAuthority"]


@dataclass(frozen=True, slots=True)
class VaultAuthority:
    """The PKI engine of OpenBao or HashiCorp Vault; the authority's key never leaves the server.

    Attributes:
        server: the server, with the login of whoever asks for certificates.
        path: file for the certificates that vouch, written at each issue.
        servers: certificates of further authorities that vouch for servers, if the engine's own does not.
        role: role of the engine, which says the names that the login may ask for.
        mount: path of the engine.
    """

    server: VaultServer
    path: Path
    servers: Path | None = None
    role: str = "clients"
    mount: str = "pki"

    @property
    def name(self) -> str:
        """Name of the authority for people."""
        return f"the authority {self.mount} of {self.server.name}"

    def issue(self, name: str, folder: Path, *, begins: datetime, ends: datetime) -> Certificate:  # noqa: ARG002
        """Issue a client certificate of a role, with a new key, in a folder.

        Args:
            name: common name.
            folder: takes the files.
            begins: not asked for; the server begins a minute before its own time.
            ends: last moment of validity.

        Raises:
            ConfigError: for a name that the server does not grant to this login.
            ContractError: if the answer holds no certificate.
            NotReady: while the server does not answer, or is sealed.
        """
        wanted = {
            "common_name": name,
            "not_after": f"{ends.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
            "private_key_format": "pkcs8",
            "exclude_cn_from_sans": True,
        }
        answer = self.server.ask("POST", f"{self.mount}/issue/{self.role}", wanted) or {}
        made = answer.get("data") or {}
        try:
            parts = [str(made[part]).strip().encode() + b"\n" for part in ("issuing_ca", "private_key", "certificate")]
        except KeyError as error:
            raise ContractError(f"{self.name} answers for {name} without {error}: look at the engine's role") from None
        replace_private(self.path, parts[0] + (self.servers.read_bytes() if self.servers else b""), mode=0o644)
        return saved(name, folder, key=parts[1], certificate=parts[2])


@dataclass(frozen=True, slots=True)
class GivenCertificates:
    """Certificates that somebody else issues and renews in place, such as an agent of the machine.

    Attributes:
        folder: holds ``<role>.pem`` and ``<role>.key`` (0600), and for Java ``<role>.pk8`` and
            ``<role>.keystore.pem``.
        path: certificates of the authorities that vouch for servers.
    """

    folder: Path
    path: Path
    name: str = field(default="whoever renews the certificates", init=False)

    def issue(self, name: str, folder: Path, *, begins: datetime, ends: datetime) -> Certificate:  # noqa: ARG002
        """Return the files of a role, unchecked."""
        return Certificate.named(name, self.folder)
