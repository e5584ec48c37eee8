"""Refusals of roles by servers: the sentence behind an error of a driver."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from dedp_assets.patterns.connectors.certificates.files import Certificate, facts_of, is_signed_by
from dedp_assets.patterns.core.errors import ConfigError, NotReady, PatternError, chained_text

__all__ = ["why_refused"]

_TOLD = " refuses role "

_Refusal = tuple[type[PatternError], str]

_SAID: dict[str, _Refusal] = {
    r"permission denied|_AUTHORIZATION_FAILED|Authorization(?: failed|Exception)|status 403|HTTP Error 403": (
        ConfigError,
        "the identity is valid, and has no permission for what was asked: let the owner of the server grant it",
    ),
    r"requires a valid client certificate|certificate required|peer did not return a certificate": (
        ConfigError,
        "no client certificate was sent: connect with the settings of the proof, such as proof.libpq()",
    ),
    r"server requested|password authentication failed|no password supplied|no pg_hba\.conf entry": (
        ConfigError,
        "the server wants no certificate of the role, but a password: let the owner make it a role of certificates, as "
        "by GRANT certified TO the role",
    ),
    r'role "[^"]*" does not exist': (ConfigError, "the server has no such role: let the owner create it"),
    r"certificate verify failed|does not match host name|Hostname mismatch": (
        ConfigError,
        "the server's own certificate is not by an authority that this job trusts, or for another host: correct the "
        "address, or the authority",
    ),
}
"""Words of servers and drivers -> kind and sentence."""
_OF_CERTIFICATES = re.compile(
    r"certificate|\balert\b|\bssl|handshake|_TRANSPORT|transport failure|_ALL_BROKERS_DOWN|_TIMED_OUT|timed out"
    r"|disconnected|closed (?:the )?connection|connection reset|broken pipe|\bEOF\b",
    re.IGNORECASE,
)
_UNCLEAR: _Refusal = (
    NotReady,
    "it does not answer, or does not take this certificate, which is in order: look at its log",
)
_BY_NAME = re.compile(r"certificate authentication failed")
_OTHER_NAME: _Refusal = (ConfigError, "the certificate's name is of another role than the one that was asked for")


def why_refused(error: BaseException, certificate: Certificate, authorities: Path, *, at: datetime) -> _Refusal | None:
    """Return kind and reason of a refusal, without values; ``None`` for an error of another kind.

    Servers often only hang up, so that the certificate itself is looked at.

    Args:
        error: of the driver, with causes.
        certificate: files of the certificate.
        authorities: certificates of the authorities that servers trust.
        at: the time now.
    """
    if _TOLD in str(error) or (type(error).__module__ == "builtins" and not isinstance(error, OSError)):
        return None  # of a block within, or of the job's own code
    text = chained_text(error)
    for pattern, refusal in _SAID.items():
        if re.search(pattern, text, re.IGNORECASE):
            return refusal
    if not _OF_CERTIFICATES.search(text):
        return None
    return _fault(certificate, authorities, at) or (_OTHER_NAME if _BY_NAME.search(text) else _UNCLEAR)


def _fault(certificate: Certificate, authorities: Path, at: datetime) -> _Refusal | None:
    """Return the fault of a certificate; ``None`` for one in order."""
    facts = facts_of(certificate.path)
    if at < facts.begins:
        return (
            NotReady,
            f"the certificate is not valid before {facts.begins:%Y-%m-%d %H:%M:%S} UTC: wait, or set clocks",
        )
    if at > facts.ends:
        return (
            NotReady,
            f"the certificate expired at {facts.ends:%Y-%m-%d %H:%M:%S} UTC: the next attempt needs a new one",
        )
    if not is_signed_by(certificate.path, authorities):
        return ConfigError, (
            f"the certificate is by the authority {facts.issuer}, which is not among the trusted ones of "
            f"{authorities}: issue it by one of these"
        )
    return None
