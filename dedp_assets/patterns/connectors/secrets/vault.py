"""Vault-compatible servers (OpenBao, HashiCorp Vault): versioned secrets of a KV v2 engine, by HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request

from dedp_assets.patterns.connectors.secrets.key_files import secret_in
from dedp_assets.patterns.connectors.secrets.role_login import HeldToken, RoleLogin
from dedp_assets.patterns.connectors.secrets.store import StoredSecret, missing_secret, require_path
from dedp_assets.patterns.connectors.web.parts import (
    Reply,
    ResponseLimits,
    exchanged,
    require_address,
    sentence,
    without_secrets,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.parsing.strict_json import parse_json

__all__ = ["VaultServer"]

_MOST_BYTES = 1 << 20
_PASSING = (408, 412, 425, 429, 472, 473)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BEGINNING = "Upgrading from non-versioned"
"""A KV engine says so for a second or two after a start."""


@dataclass(frozen=True, slots=True)
class VaultServer:
    """Secrets of a server; a :class:`~dedp_assets.patterns.connectors.secrets.store.SecretStore`.

    Attributes:
        url: address of the server: ``https`` with TLS 1.2 or newer; ``http`` on loopback alone.
        login_file: file with the login of the server's clients, readable by the owner alone; read at each request,
            so that whoever renews the login exchanges the file.
        mount: path of the KV v2 engine.
        timeout_seconds: how long the server may be silent.
        role: id of a role (AppRole), whose secret id the file holds then: the process logs in, and holds a token of its
            own. Without a role, the file holds a token.
    """

    url: str
    login_file: Path
    mount: str = "secret"
    timeout_seconds: float = 5
    role: str = field(default="", repr=False)
    _held: HeldToken = field(default_factory=HeldToken, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_address(self.url, what="a server of secrets")
        if self.url.startswith("http:") and urlsplit(self.url).hostname not in _LOOPBACK:
            raise ConfigError(
                f"url must begin with https:// for a server of secrets on another machine (TLS 1.2 or newer), not be "
                f"{without_secrets(self.url)}"
            )

    @property
    def name(self) -> str:
        """Name of the store for people."""
        return f"the server of secrets at {without_secrets(self.url)}"

    def read(self, path: str, version: int | None = None) -> StoredSecret:
        """Return a version of a secret, the newest one unless stated otherwise.

        Raises:
            ConfigError: for an unknown, removed or forbidden name.
            ContractError: if the answer holds no texts by name.
            NotReady: while the server does not answer, or is sealed.
        """
        asked = f"{self.mount}/data/{require_path(path)}" + (f"?version={version}" if version else "")
        held = (self.ask("GET", asked) or {}).get("data") or {}
        values = held.get("data")
        if values is None:
            why = f"no version {version}" if version else "nobody stored one, or it was removed"
            raise missing_secret(path, self.name, why)
        if not all(isinstance(value, str) for value in values.values()):
            raise ContractError(f"{self.name} answers for {path} with fields that are no texts: store texts")
        return StoredSecret(path, int(held["metadata"]["version"]), values)

    def write(self, path: str, values: Mapping[str, str]) -> int:
        """Add a version of a secret, and return the number of the version."""
        answer = self.ask("POST", f"{self.mount}/data/{require_path(path)}", {"data": dict(values)})
        return int(answer["data"]["version"])

    def remove(self, path: str) -> None:
        """Remove the newest version of a secret; :meth:`restore` brings the version back."""
        self.ask("DELETE", f"{self.mount}/data/{require_path(path)}")

    def restore(self, path: str) -> None:
        """Bring the newest version of a removed secret back."""
        known = self.ask("GET", f"{self.mount}/metadata/{require_path(path)}")
        if known is None:
            raise missing_secret(path, self.name, "nobody stored one")
        self.ask("POST", f"{self.mount}/undelete/{path}", {"versions": [known["data"]["current_version"]]})

    def paths(self) -> Sequence[str]:
        """List the names of all secrets."""
        return sorted(self._below(""))

    def ask(self, method: str, path: str, content: object = None, *, login: str | None = None) -> Any:  # noqa: ANN401
        """Send a request once, and return the JSON of the answer; ``None`` for 404 and an empty answer.

        Args:
            method: of HTTP.
            path: below ``/v1/``.
            content: JSON of the request.
            login: proves who asks; by default the token of the file, or of the role.

        Raises:
            ConfigError: if the server refuses the request, or this identity.
            NotReady: while the server does not answer, or is sealed.
        """
        shown = self._login() if login is None else login
        reply = self._sent(method, path, content, shown)
        if reply.status == 403 and self.role and login is None:  # expired or revoked before its time, or not granted
            reply = self._sent(method, path, content, self._login(refused=shown))
        text = sentence(reply.body.decode(errors="replace")) if reply.status >= 300 else ""
        if reply.status >= 500 or reply.status in _PASSING or _BEGINNING in text:
            raise NotReady(f"{self.name} answers with status {reply.status} ({text}): unseal it, or try again later")
        if reply.status == 403:
            raise ConfigError(
                f"{self.name} does not grant {path.partition('?')[0]} to this identity: let its owner allow the name "
                f"by a policy, or renew the login in {self.login_file}"
            )
        if reply.status not in (200, 204, 404):
            raise ConfigError(f"{self.name} refuses the request with status {reply.status}: {reply.elsewhere or text}")
        return parse_json(reply.body) if reply.body and reply.status == 200 else None

    def _sent(self, method: str, path: str, content: object, login: str) -> Reply:
        data = None if content is None else json.dumps(content).encode()
        headers = {"X-Vault-Token": login, "Content-Type": "application/json"}
        request = Request(f"{self.url.rstrip('/')}/v1/{path}", data, headers, method=method)  # noqa: S310 - see above
        try:
            return exchanged(request, ResponseLimits(self.timeout_seconds, self.timeout_seconds * 3, _MOST_BYTES))
        except (OSError, HTTPException) as error:
            reason = sentence(str(error)) or type(error).__name__
            raise NotReady(f"{self.name} does not answer ({reason}): start it (`make up SECRETS=bao`)") from None

    def _login(self, *, refused: str = "") -> str:
        if self.role:
            return self._held.current(self.ask, RoleLogin(self.role, self.login_file), refused=refused)
        return secret_in(self.login_file, of=f"the login for {self.name}")

    def _below(self, folder: str) -> list[str]:
        answer = self.ask("GET", f"{self.mount}/metadata/{folder}?list=true")
        found = []
        for name in answer["data"]["keys"] if answer else ():
            found += self._below(f"{folder}{name}") if name.endswith("/") else [f"{folder}{name}"]
        return found
