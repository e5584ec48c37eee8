"""Secretless Connector: a job proves a role by a certificate of minutes, without a password.

Problem: a password can leak wherever it is stored or sent, and somebody has to hand it out, rotate and withdraw it.
Solution: an identity assumes a role, and an authority that the servers trust signs a client certificate of minutes for
    the role. Each new connection has the current one, so that a job may last longer than a certificate. The server
    decides by the certificate's name what the role may do.
Consequences: identities, roles and permissions have to be set up, and the authority kept running. While an authority
    is rotated, servers trust the former one, too, for a while. An open connection outlives the certificate.
Choose instead: Secrets Pointer, where the other side takes a password or a key only.
"""

from __future__ import annotations

import re
import shutil
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from threading import Lock

from dedp_assets.patterns.connectors.certificates.files import (
    Certificate,
    CertificateAuthority,
    facts_of,
    is_signed_by,
    require_key_files,
)
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.security._refused_roles import why_refused

__all__ = ["assume_role", "using_role", "Proof", "RoleCertificates"]

_NAME = re.compile(r"[A-Za-z_][\w.-]{0,62}", re.ASCII)
_LONGEST_SECONDS = 86_400
_BEFORE = timedelta(minutes=1)
"""How far a server's clock may be behind."""
_PATIENCE = Backoff(attempts=4, first_seconds=0.2, longest_seconds=5)


@dataclass(frozen=True, slots=True)
class RoleCertificates:
    """The roles that an identity may assume, and the client certificates that prove the roles.

    Attributes:
        authority: signs certificates, or names those that somebody else renews.
        identity: who assumes the roles: a run, an asset, a person.
        roles: role -> servers within the permission scope of the role, by names for people.
        folder: the only allowed place of key files, for the owner alone.
        clock: returns the time now, with a time zone.
        lasts_seconds: lifetime of a certificate, in seconds; at most a day.
        renewed_seconds: rest of the lifetime at which the next certificate is issued, in seconds.
        backoff: attempts while the authority does not answer.
        sleep: waits so many seconds.

    Raises:
        ConfigError: for a name that is none, a lifetime of more than a day, or a renewal before the begin.
    """

    authority: CertificateAuthority
    identity: str
    roles: Mapping[str, Sequence[str]]
    folder: Path
    clock: Callable[[], datetime]
    lasts_seconds: float = 600
    renewed_seconds: float = 200
    backoff: Backoff = _PATIENCE
    sleep: Callable[[float], None] = time.sleep
    _held: dict[str, Certificate] = field(default_factory=dict, repr=False)
    _turn: AbstractContextManager[object] = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        require_types(self)
        for name in (*self.roles, *(server for servers in self.roles.values() for server in servers)):
            if not _NAME.fullmatch(name):
                raise ConfigError(f"roles must name roles and servers by letters, digits, '_', '.', '-', not {name!r}")
        if not 1 <= self.lasts_seconds <= _LONGEST_SECONDS:
            raise ConfigError(f"lasts_seconds must lie between 1 and {_LONGEST_SECONDS}, not {self.lasts_seconds:g}")
        if not 0 <= self.renewed_seconds < self.lasts_seconds:
            raise ConfigError(
                f"renewed_seconds must be less than the lifetime of {self.lasts_seconds:g} seconds, not "
                f"{self.renewed_seconds:g}"
            )

    def current(self, role: str) -> Certificate:
        """Return a role's certificate, issued again shortly before the end, or after that of the authority.

        Raises:
            ConfigError: if the authority refuses the role, or others could read the key.
            NotReady: if the authority does not answer, and no valid certificate is held.
        """
        with self._turn:
            at, held = self.clock(), self._held.get(role)
            if held is None or self._rest(held, at) <= self.renewed_seconds or self._is_of_a_retired_key(held):
                held = self._held[role] = self._issued(role, at, held)
        require_key_files((held.key, *filter(Path.exists, (held.java_key, held.keystore))), self.folder)
        return held

    def drop(self, role: str) -> None:
        """Forget the held certificate of a role: the next connection has another one."""
        self._held.pop(role, None)

    def _issued(self, role: str, at: datetime, held: Certificate | None) -> Certificate:
        place = self.folder / role
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sweep(place, at)
        ends = at + timedelta(seconds=self.lasts_seconds)
        for last in self.backoff.tries(self.sleep):
            try:
                return self.authority.issue(role, place / token_hex(8), begins=at - _BEFORE, ends=ends)
            except NotReady as error:
                if held is not None and self._rest(held, at) > 0:
                    return held  # the next connection asks again
                if last:
                    raise NotReady(
                        f"role {role} has no certificate after {self.backoff.attempts} attempts: {error}"
                    ) from None
        raise AssertionError  # there is at least one attempt

    def _sweep(self, place: Path, at: datetime) -> None:
        """Remove the files of expired certificates, also of other processes."""
        for folder in place.iterdir():
            made = Certificate.named(place.name, folder).path
            if made.exists() and facts_of(made).ends < at:
                shutil.rmtree(folder, ignore_errors=True)

    def _is_of_a_retired_key(self, held: Certificate) -> bool:
        trusted = self.authority.path
        return trusted.exists() and not is_signed_by(held.path, trusted)

    @staticmethod
    def _rest(held: Certificate, at: datetime) -> float:
        return (facts_of(held.path).ends - at).total_seconds() if held.path.exists() else 0


@dataclass(frozen=True, slots=True)
class Proof:
    """An assumed role: settings of drivers for PostgreSQL, Kafka and HTTP by client certificate.

    Attributes:
        access: the role and its end.
        certificate: files of the client certificate.
        authorities: certificates of the authorities that vouch for servers.
    """

    access: Access
    certificate: Certificate
    authorities: Path

    def libpq(self) -> dict[str, str]:
        """Return settings of libpq and psycopg, which refuse a server that asks for a password."""
        files = {"sslcert": self.certificate.path, "sslkey": self.certificate.key, "sslrootcert": self.authorities}
        rules = {"sslmode": "verify-full", "sslcertmode": "require", "require_auth": "none"}
        return {"user": self.access.identity, **rules, **{name: str(file) for name, file in files.items()}}

    def jdbc(self) -> dict[str, str]:
        """Return settings of PostgreSQL's JDBC driver: the options of Spark's reader beside ``url``."""
        files = {"sslcert": self.certificate.path, "sslkey": self.certificate.java_key}
        files |= {"sslrootcert": self.authorities}
        named = {name: str(file) for name, file in files.items()}
        return {"user": self.access.identity, "sslmode": "verify-full", **named}

    def kafka(self) -> dict[str, str]:
        """Return settings of librdkafka."""
        files = {"certificate": self.certificate.path, "key": self.certificate.key, "ca": self.authorities}
        return {"security.protocol": "ssl", **{f"ssl.{name}.location": str(file) for name, file in files.items()}}

    def spark_kafka(self) -> dict[str, str]:
        """Return options of Spark's source and sink of Kafka; paths stand in the plan, keys do not."""
        stores = {"keystore": self.certificate.keystore, "truststore": self.authorities}
        stated = {f"kafka.ssl.{name}.location": str(file) for name, file in stores.items()}
        types = {f"kafka.ssl.{name}.type": "PEM" for name in stores}
        return {"kafka.security.protocol": "SSL", **stated, **types}

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of an HTTP client."""
        made = ssl.create_default_context(cafile=str(self.authorities))
        made.load_cert_chain(self.certificate.path, self.certificate.key)
        return made


@typed
def assume_role(certificates: RoleCertificates, *, role: str, server: str) -> Access:
    """Assume a role at a server, by a client certificate that is issued or renewed if needed.

    Args:
        certificates: the roles that this identity may assume, and their authority.
        role: the role: common name of the certificate.
        server: the server, by the name for people.

    Returns:
        The access of the role until the certificate's end, without a secret; the version is the serial number.

    Raises:
        ConfigError: for a role that the identity may not assume, a server out of the role's scope, or a key file that
            others can read or that lies elsewhere.
        NotReady: if the authority does not answer, after a bounded number of attempts.

    Example:
        >>> import tempfile
        >>> from datetime import datetime, timezone
        >>> from pathlib import Path
        >>> from dedp_assets.patterns.connectors.certificates.authority import Authority
        >>> noon, folder = datetime(2026, 1, 5, 12, tzinfo=timezone.utc), Path(tempfile.mkdtemp())
        >>> authority = Authority.of(folder / "ca", at=noon)
        >>> certificates = RoleCertificates(
        ...     authority, "gold/report", {"reporter": ["warehouse"]}, folder / "clients", clock=lambda: noon
        ... )
        >>> access = assume_role(certificates, role="reporter", server="warehouse")
        >>> access.identity, access.allowed, access.secret, access.until.isoformat()
        ('reporter', {'connect': ('warehouse',)}, None, '2026-01-05T12:10:00+00:00')
    """
    return _proof(certificates, role, server).access


@contextmanager
@typed
def using_role(certificates: RoleCertificates, *, role: str, server: str) -> Iterator[Proof]:
    """Lend the proof of a role to a block that connects; refusals leave the block as a sentence.

    Args:
        certificates: the roles that this identity may assume, and their authority.
        role: the role.
        server: the server, by the name for people.

    Yields:
        The proof, with the settings of drivers.

    Raises:
        ConfigError: if the server refuses the role, the certificate's name or its authority, or a permission, and as
            :func:`assume_role`.
        NotReady: for an expired certificate, or one that is not valid yet: the next attempt has another one; and for a
            server that does not answer.
    """
    proof = _proof(certificates, role, server)
    try:
        yield proof
    except Exception as error:
        refused = why_refused(error, proof.certificate, proof.authorities, at=certificates.clock())
        if refused is None:
            raise
        certificates.drop(role)
        kind, why = refused
        # The driver's own error may quote rows.
        raise kind(f"{server} refuses role {role} (key file {proof.certificate.key}): {why}") from None


def _proof(certificates: RoleCertificates, role: str, server: str) -> Proof:
    scope = certificates.roles.get(role)
    if scope is None:
        raise ConfigError(
            f"{certificates.identity} may not assume role {role}, only {sorted(certificates.roles)}: declare the role "
            f"(roles={{{role!r}: [{server!r}]}}) if it needs the role; nobody was asked"
        )
    if server not in scope:
        raise ConfigError(
            f"role {role} must stay within its scope {list(scope)}, not connect to {server}: declare the server there "
            "if the role needs it; nobody was asked"
        )
    made = certificates.current(role)
    facts, authority = facts_of(made.path), certificates.authority
    if facts.name != role:  # a server that takes any name would take the job for somebody else
        raise ConfigError(f"{made.path} must be the certificate of role {role}, not of {facts.name} (for {server})")
    reason = f"{certificates.identity} connects to {server} as {role}, by a certificate of {authority.name}"
    access = Access(role, {"connect": (server,)}, reason, version=facts.serial, until=facts.ends)
    return Proof(access, made, authority.path)
