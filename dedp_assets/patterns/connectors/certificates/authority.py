"""Certificate authority of a folder, for servers of this machine and identities that log in.

Whoever reads the folder can make any identity: an authority elsewhere does not have this weakness.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dedp_assets.patterns.connectors.certificates.files import Certificate, saved
from dedp_assets.patterns.connectors.secrets.key_files import replace_private, require_private
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import oid
else:
    x509, oid = optional("cryptography.x509"), optional("cryptography.x509.oid")
    hashes = optional("cryptography.hazmat.primitives.hashes")
    serialization = optional("cryptography.hazmat.primitives.serialization")
    ec = optional("cryptography.hazmat.primitives.asymmetric.ec")

__all__ = ["Authority"]

_YEARS = timedelta(days=3650)
_BEFORE = timedelta(minutes=5)
"""How far another machine's clock may be behind."""
_END = b"-----END PRIVATE KEY-----\n"


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority of a folder, which signs certificates of servers and identities.

    Attributes:
        path: certificates, PEM, by which others verify the certificates that the authority signed: the current one,
            and in the grace period after :meth:`rotate` the one before.
        key: the private key, PEM, which only the owner of the file may read.
    """

    path: Path
    key: Path

    @classmethod
    def of(cls, folder: Path, *, at: datetime) -> Authority:
        """Return the authority of a folder, created at the first call.

        Args:
            folder: holds ``ca.pem`` and ``ca.key``.
            at: time from which a new authority is valid, for ten years.
        """
        made = cls(folder / "ca.pem", folder / "ca.key")
        if not made.path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            key, certificate = _self_signed(at)
            replace_private(made.key, key)
            # The certificate comes last: without it there is no authority yet.
            replace_private(made.path, certificate, mode=0o644)
        return made

    @property
    def name(self) -> str:
        """Name of the authority for people."""
        return f"the authority in {self.path.parent}"

    @property
    def in_grace(self) -> bool:
        """Grace period: certificates of a former key are valid, between a rotation and a retirement."""
        return len(x509.load_pem_x509_certificates(self.path.read_bytes())) > 1

    def rotate(self, *, at: datetime) -> None:
        """Begin a grace period: a new key signs, and certificates of the former key stay valid.

        Servers and clients have to read :attr:`path` again. A second rotation ends the first one's grace.

        Args:
            at: time from which the new key is valid, for ten years.
        """
        former = self.path.read_bytes()
        current = x509.load_pem_x509_certificates(former)[0].public_bytes(serialization.Encoding.PEM)
        key, certificate = _self_signed(at)
        # At each moment the file of keys holds the one of the first certificate.
        replace_private(self.key, key + self.key.read_bytes())
        replace_private(self.path, certificate + current, mode=0o644)
        replace_private(self.key, key)

    def retire(self) -> None:
        """End the grace period: whoever reads :attr:`path` again refuses certificates of the former key."""
        current = x509.load_pem_x509_certificates(self.path.read_bytes())[0]
        replace_private(self.path, current.public_bytes(serialization.Encoding.PEM), mode=0o644)

    def issue(
        self,
        name: str,
        folder: Path,
        *,
        begins: datetime,
        ends: datetime,
        hosts: Sequence[str] = (),
        both: bool = False,
    ) -> Certificate:
        """Issue a certificate, with a new key, in a folder.

        Args:
            name: common name: for PostgreSQL, the role that logs in with the certificate.
            folder: takes the files; earlier ones of the name are replaced.
            begins: first moment of validity.
            ends: last moment of validity.
            hosts: names and addresses of a server; empty for an identity that logs in.
            both: whether a server is a client of its own, too, as a broker of Kafka.

        Raises:
            ConfigError: if the authority's key is missing, or readable for others.
        """
        issuer, signer = self._signing()
        key = ec.generate_private_key(ec.SECP256R1())
        server, client = oid.ExtendedKeyUsageOID.SERVER_AUTH, oid.ExtendedKeyUsageOID.CLIENT_AUTH
        purposes = [server, client] if both else [server] if hosts else [client]
        stated = (
            _statement(_named(name), issuer.subject, key, begins, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        if hosts:
            stated = stated.add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False)
        signed = stated.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return saved(name, folder, key=_pem(key), certificate=signed)

    def _signing(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Return the current certificate and the key that belongs to the certificate."""
        if not self.key.exists():
            raise ConfigError(f"{self.key} must be the key of the authority, and is missing: restore it from a backup")
        require_private(self.key)
        issuer = x509.load_pem_x509_certificate(self.path.read_bytes())
        for pem in self.key.read_bytes().split(_END)[:-1]:
            read = serialization.load_pem_private_key(pem + _END, password=None)
            if read.public_key() == issuer.public_key():
                return issuer, cast("ec.EllipticCurvePrivateKey", read)  # by `of` and `rotate`
        raise ConfigError(f"{self.key} must be the key of {self.path}, not another one: restore it from a backup")


def _self_signed(at: datetime) -> tuple[bytes, bytes]:
    """Return key and certificate of a new authority."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named(f"dedp {os.urandom(4).hex()}")
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    signed = (
        _statement(name, name, key, at - _BEFORE, at + _YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(key), signed.public_bytes(serialization.Encoding.PEM)


def _statement(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, kind, plain)
