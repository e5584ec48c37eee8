"""Logins of a role at a Vault-compatible server (AppRole), and a renewed token of each process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from dedp_assets.patterns.connectors.secrets.key_files import secret_in
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["HeldToken", "RoleLogin"]

_RENEWED = 1 / 3
"""Rest of a token's lifetime at which it is renewed."""


class ServerRequest(Protocol):
    """Request to the server, as of :meth:`VaultServer.ask`."""

    def __call__(self, method: str, path: str, content: object = None, *, login: str | None = None) -> Any:  # noqa: ANN401
        """Send a request once, and return the JSON of the answer."""


@dataclass(frozen=True, slots=True)
class RoleLogin:
    """The login of a role.

    Attributes:
        role_id: id of the role, which is no secret.
        secret_id_file: file with the secret id, readable by the owner alone and read at each login.
        mount: path of the server's engine of logins by roles.
    """

    role_id: str = field(repr=False)
    secret_id_file: Path
    mount: str = "approle"


@dataclass
class HeldToken:
    """The token of a process, renewed in the last third of the lifetime, and exchanged after a refusal.

    Attributes:
        elapsed: returns seconds that only grow.
    """

    elapsed: Callable[[], float] = time.monotonic
    _value: str = field(default="", init=False, repr=False)
    _ends: float = field(default=0, init=False)
    _renews: float = field(default=0, init=False)
    _turn: Any = field(default_factory=Lock, init=False, repr=False)

    def current(self, ask: ServerRequest, login: RoleLogin, *, refused: str = "") -> str:
        """Return the token, after a login or a renewal if needed.

        Args:
            ask: sends a request to the server.
            login: the role.
            refused: a token that the server refused; another one is returned.

        Raises:
            ConfigError: if the server does not know the role with the secret id, or others can read the file.
            NotReady: while the server does not answer, or is sealed.
        """
        with self._turn:
            now = self.elapsed()
            if not self._value or self._value == refused or now >= self._ends:
                self._log_in(ask, login, now)
            elif now >= self._renews:
                self._renew(ask, login, now)
            return self._value

    def _log_in(self, ask: ServerRequest, login: RoleLogin, now: float) -> None:
        self._value = ""
        content = {"role_id": login.role_id, "secret_id": secret_in(login.secret_id_file, of="the role's secret id")}
        try:
            answer = ask("POST", f"auth/{login.mount}/login", content, login="")
        except ConfigError:
            answer = None  # the server says no more than that both do not fit
        if answer is None:
            raise ConfigError(
                f"the server of secrets must know role {login.role_id} with the secret id in {login.secret_id_file} at "
                f"auth/{login.mount}, and refuses the login: a secret id that is wrong, expired or used up is "
                "exchanged in the file"
            )
        self._take(answer["auth"], now)

    def _renew(self, ask: ServerRequest, login: RoleLogin, now: float) -> None:
        try:
            answer = ask("POST", "auth/token/renew-self", {}, login=self._value)["auth"]
        except ConfigError:  # at the end of its longest lifetime, or revoked
            self._log_in(ask, login, now)
        else:
            self._take(answer, now)

    def _take(self, answer: Any, now: float) -> None:  # noqa: ANN401 - JSON
        lasts = float(answer["lease_duration"]) or float("inf")  # 0: without an end
        self._value, self._ends = str(answer["client_token"]), now + lasts
        self._renews = now + lasts * (1 - _RENEWED) if answer["renewable"] else self._ends
