"""Store of secrets: values under names, in versions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["VALUE", "SecretSource", "SecretStore", "StoredSecret", "missing_secret", "parted", "require_path"]

VALUE = "value"
"""Field of a secret with a single value."""

_PATH = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)*", re.ASCII)
_FIELD = re.compile(r"[\w.-]+", re.ASCII)
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """One version of a secret.

    Attributes:
        path: name in the store.
        version: number of the version, from 1.
        values: field -> value; never shown.
    """

    path: str
    version: int
    values: Mapping[str, str] = field(repr=False)


class SecretSource(Protocol):
    """A place with secrets by name, for runs, which only read."""

    @property
    def name(self) -> str:
        """Name of the store for people."""

    def read(self, path: str, version: int | None = None) -> StoredSecret:
        """Return a version of a secret, the newest one unless stated otherwise.

        Raises:
            ConfigError: for an unknown, removed or forbidden name.
            NotReady: while the store does not answer.
        """


class SecretStore(SecretSource, Protocol):
    """A place with secrets by name, for owners, who also write and remove."""

    def write(self, path: str, values: Mapping[str, str]) -> int:
        """Add a version of a secret, and return the number of the version."""

    def remove(self, path: str) -> None:
        """Remove the newest version of a secret, which :meth:`restore` brings back."""

    def restore(self, path: str) -> None:
        """Bring the newest version of a removed secret back."""

    def paths(self) -> Sequence[str]:
        """List the names of all secrets."""


def parted(pointer: str) -> tuple[str, str]:
    """Return path and field of a pointer such as ``prod/db#password``; without a field, :data:`VALUE`.

    Raises:
        ConfigError: if the text is no pointer; without the text, which may be a secret.
    """
    path, _, name = pointer.partition("#")
    if not _PATH.fullmatch(path) or len(pointer) > _LONGEST or ("#" in pointer and not _FIELD.fullmatch(name)):
        # The value itself is what people write here by mistake.
        raise ConfigError(
            "pointer must be the name of a secret like prod/db#password (letters, digits, '.', '_', '-' between "
            "slashes), not the secret; `dedp secret put prod/db` stores one"
        )
    return path, name or VALUE


def require_path(path: str) -> str:
    """Return the name of a secret, without a field.

    Raises:
        ConfigError: if the text is no such name.
    """
    found, name = parted(path)
    if "#" in path:
        raise ConfigError(f"the name of a secret must be {found}, without a field, not {found}#{name}")
    return found


def missing_secret(path: str, store: str, why: str) -> ConfigError:
    """Return the error for a missing secret; no default takes the place of a secret."""
    return ConfigError(f"{store} has no secret {path} ({why}): `dedp secret put {path}` stores one; nothing was read")
