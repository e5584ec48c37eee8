"""Files of a client's or server's certificate, and the statements of the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dedp_assets.patterns.connectors.secrets.key_files import replace_private, require_private
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.x509 import oid
else:
    x509, oid = optional("cryptography.x509"), optional("cryptography.x509.oid")
    exceptions = optional("cryptography.exceptions")
    serialization = optional("cryptography.hazmat.primitives.serialization")

__all__ = [
    "Certificate", "CertificateAuthority", "CertificateFacts", "facts_in", "facts_of", "is_signed_by",
    "require_key_files", "saved",
]  # fmt: skip

_WRITABLE = 0o022


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate.

    Attributes:
        path: the certificate, PEM.
        key: the private key, PEM, which only the owner of the file may read.
        java_key: the same key as PKCS-8 DER, which Java's driver of PostgreSQL reads.
        keystore: key and certificate in one PEM, which Java's clients of Kafka read.
    """

    path: Path
    key: Path
    java_key: Path
    keystore: Path

    @classmethod
    def named(cls, name: str, folder: Path) -> Certificate:
        """Return the files of a name in a folder."""
        return cls(*(folder / f"{name}{ending}" for ending in (".pem", ".key", ".pk8", ".keystore.pem")))


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The statements of a certificate.

    Attributes:
        name: common name: the role.
        issuer: common name of the authority.
        serial: number by the authority, in hexadecimal digits.
        begins: first moment of validity.
        ends: last moment of validity.
    """

    name: str
    issuer: str
    serial: str
    begins: datetime
    ends: datetime


class CertificateAuthority(Protocol):
    """An authority that signs client certificates of roles."""

    @property
    def name(self) -> str:
        """Name of the authority for people."""

    @property
    def path(self) -> Path:
        """Certificates, PEM, of all authorities that vouch for servers and clients."""

    def issue(self, name: str, folder: Path, *, begins: datetime, ends: datetime) -> Certificate:
        """Issue a client certificate of a role, with a new key, in a folder.

        Raises:
            ConfigError: for a role that the authority refuses.
            NotReady: while the authority does not answer.
        """


def saved(name: str, folder: Path, *, key: bytes, certificate: bytes) -> Certificate:
    """Write the files of a certificate, the key readable by the owner alone; the certificate comes last.

    Args:
        name: common name.
        folder: takes the files; earlier ones of the name are replaced.
        key: private key, PEM.
        certificate: certificate, PEM.
    """
    made = Certificate.named(name, folder)
    read = serialization.load_pem_private_key(key, password=None)
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    replace_private(made.key, read.private_bytes(serialization.Encoding.PEM, kind, plain))
    replace_private(made.java_key, read.private_bytes(serialization.Encoding.DER, kind, plain))
    replace_private(made.keystore, read.private_bytes(serialization.Encoding.PEM, kind, plain) + certificate)
    replace_private(made.path, certificate, mode=0o644)
    return made


def facts_of(path: Path) -> CertificateFacts:
    """Return the statements of a certificate.

    Raises:
        ConfigError: for a file without a certificate.
    """
    return _facts(_certificates(path)[0])


def facts_in(pem: bytes) -> CertificateFacts:
    """Return the statements of a certificate in a PEM text."""
    return _facts(x509.load_pem_x509_certificate(pem))


def _facts(found: x509.Certificate) -> CertificateFacts:
    name, issuer = (
        str(each.get_attributes_for_oid(oid.NameOID.COMMON_NAME)[0].value) for each in (found.subject, found.issuer)
    )
    return CertificateFacts(
        name, issuer, f"{found.serial_number:x}", found.not_valid_before_utc, found.not_valid_after_utc
    )


def is_signed_by(path: Path, authorities: Path) -> bool:
    """Return whether one of some authorities signed a certificate."""
    found = _certificates(path)[0]
    return any(_vouches(each, found) for each in _certificates(authorities))


def require_key_files(files: Sequence[Path], within: Path) -> None:
    """Refuse key files that others can read, or that lie outside of the only allowed folder.

    Args:
        files: the files with a private key.
        within: the folder, which nobody else may write to.

    Raises:
        ConfigError: names the file and the remedy, never the content.
    """
    place = within.resolve()
    if place.exists() and (mode := place.stat().st_mode & _WRITABLE):
        raise ConfigError(f"{within} must be writable for its owner alone, not for others ({mode:03o}): chmod 700 it")
    for file in files:
        if not file.resolve().is_relative_to(place):
            raise ConfigError(
                f"key file {file} must lie in {within}, not lead out of it: keep keys nowhere else, so that no output "
                "takes a copy along"
            )
        if not file.exists():
            raise ConfigError(f"key file {file} must be there, and is missing: issue the certificate, or let it renew")
        require_private(file)


def _certificates(path: Path) -> list[x509.Certificate]:
    try:
        return list(x509.load_pem_x509_certificates(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} must hold a certificate as PEM, not be {_fault(error)}") from None


def _fault(error: Exception) -> str:
    return "missing" if isinstance(error, FileNotFoundError) else "unreadable"


def _vouches(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, exceptions.InvalidSignature):
        return False
    return True
