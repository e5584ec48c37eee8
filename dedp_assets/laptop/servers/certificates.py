"""Certificates of a laptop's servers and of identities that log in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "Certificate"]

_YEARS = timedelta(days=3650)
_BEFORE = timedelta(minutes=5)
"""How far another machine's clock may be behind."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate.

    Attributes:
        path: the certificate, PEM.
        key: the private key, PEM, which only the owner of the file may read.
        java_key: the same key as PKCS-8 DER, which Java's driver of PostgreSQL reads.
    """

    path: Path
    key: Path
    java_key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority of a folder, which signs certificates of servers and identities.

    Attributes:
        path: the authority's certificate, PEM, by which others verify the certificates that it signed.
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
            key, name = generate_private_key(SECP256R1()), _named(f"dedp {os.urandom(4).hex()}")
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
            _write(made.key, _pem(key))
            # The certificate comes last: without it there is no authority yet.
            _write(made.path, signed.public_bytes(serialization.Encoding.PEM), mode=0o644)
        return made

    def issue(
        self, name: str, folder: Path, *, begins: datetime, ends: datetime, hosts: Sequence[str] = ()
    ) -> Certificate:
        """Issue a certificate, with a new key, in a folder: ``<name>.pem``, ``<name>.key`` and ``<name>.pk8``.

        Args:
            name: common name: for PostgreSQL, the role that logs in with the certificate.
            folder: takes the files; earlier ones of the name are replaced.
            begins: first moment of validity.
            ends: last moment of validity.
            hosts: names and addresses of a server; empty for an identity that logs in.
        """
        issuer = x509.load_pem_x509_certificate(self.path.read_bytes())
        read = serialization.load_pem_private_key(self.key.read_bytes(), password=None)
        signer = cast("EllipticCurvePrivateKey", read)  # by `of`
        key, made = generate_private_key(SECP256R1()), _files(folder, name)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        stated = (
            _statement(_named(name), issuer.subject, key, begins, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        if hosts:
            stated = stated.add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False)
        signed = stated.sign(signer, hashes.SHA256())
        _write(made.key, _pem(key))
        pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        _write(made.java_key, key.private_bytes(serialization.Encoding.DER, pkcs8, plain))
        _write(made.path, signed.public_bytes(serialization.Encoding.PEM), mode=0o644)
        return made


def _files(folder: Path, name: str) -> Certificate:
    folder.mkdir(parents=True, exist_ok=True)
    return Certificate(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.pk8")


def _statement(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, begins: datetime, ends: datetime
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
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, kind, plain)


def _write(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file atomically; nobody else may read a key at any moment."""
    draft = file.with_name(f".{file.name}.{os.urandom(4).hex()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as made:
        made.write(content)
    draft.replace(file)
