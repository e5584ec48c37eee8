"""Encrypted file of secrets, for a machine without a server of secrets.

AES-256-GCM under a key in a file beside; both are readable by their owner alone. A copy of the one file without the
other tells nothing. Whoever can read both, as the owner's processes and the superuser can, reads every secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from dedp_assets.patterns.connectors.secrets.key_files import key_in, replace_private, require_private
from dedp_assets.patterns.connectors.secrets.store import StoredSecret, missing_secret, require_path
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional

__all__ = ["SealedFile"]

_HEAD = b"dedp secrets 1\n"
_NONCE_BYTES = 12
_KEPT = 10
"""Versions of a secret that are kept."""


@dataclass(frozen=True, slots=True)
class SealedFile:
    """Secrets in an encrypted file; a :class:`~dedp_assets.patterns.connectors.secrets.store.SecretStore`.

    Attributes:
        folder: holds ``secrets.sealed``, and ``secrets.key`` beside; made at the first write.
    """

    folder: Path

    @property
    def name(self) -> str:
        """Name of the store for people."""
        return "the encrypted file of this home"

    def read(self, path: str, version: int | None = None) -> StoredSecret:
        """Return a version of a secret, the newest one unless stated otherwise.

        Raises:
            ConfigError: for an unknown or removed name, a file open to others, and a damaged file or another key.
        """
        entry = self._opened().get(require_path(path))
        if entry is None:
            raise missing_secret(path, self.name, "nobody stored one")
        if entry["removed"]:
            raise missing_secret(path, self.name, f"removed; `dedp secret restore {path}` brings it back")
        found = version or max(map(int, entry["versions"]))
        if str(found) not in entry["versions"]:
            raise missing_secret(path, self.name, f"no version {found}")
        return StoredSecret(path, found, entry["versions"][str(found)])

    def write(self, path: str, values: Mapping[str, str]) -> int:
        """Add a version of a secret, and return the number of the version."""
        with self._changed() as content:
            entry = content.setdefault(require_path(path), {"removed": False, "versions": {}})
            newest = max(map(int, entry["versions"]), default=0) + 1
            entry["removed"] = False
            entry["versions"] = {
                **{number: held for number, held in entry["versions"].items() if int(number) > newest - _KEPT},
                str(newest): dict(values),
            }
        return newest

    def make(self, path: str, values: Mapping[str, str]) -> None:
        """Add the first version of a secret, unless another process was first or the secret was removed."""
        with self._changed() as content:
            content.setdefault(require_path(path), {"removed": False, "versions": {"1": dict(values)}})

    def remove(self, path: str) -> None:
        """Remove a secret; :meth:`restore` brings the secret back."""
        self._mark(path, removed=True)

    def restore(self, path: str) -> None:
        """Bring a removed secret back."""
        self._mark(path, removed=False)

    def paths(self) -> Sequence[str]:
        """List the names of all secrets that are not removed."""
        return sorted(path for path, entry in self._opened().items() if not entry["removed"])

    @property
    def _file(self) -> Path:
        return self.folder / "secrets.sealed"

    def _mark(self, path: str, *, removed: bool) -> None:
        with self._changed() as content:
            if require_path(path) not in content:
                raise missing_secret(path, self.name, "nobody stored one")
            content[path]["removed"] = removed

    @contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.folder / "secrets.lock", mode=0o600):
            content = self._opened()
            yield content
            nonce = os.urandom(_NONCE_BYTES)
            sealed = self._cipher().encrypt(nonce, json.dumps(content).encode(), _HEAD)
            replace_private(self._file, _HEAD + nonce + sealed)

    def _opened(self) -> dict[str, Any]:
        if not self._file.exists():
            return {}
        if not self._key.exists():
            raise ConfigError(f"{self._file} must have its key beside it, and {self._key} is not there: restore both")
        require_private(self._file)
        held = self._file.read_bytes()
        begin, cipher = len(_HEAD) + _NONCE_BYTES, self._cipher()
        try:
            opened = cipher.decrypt(held[len(_HEAD) : begin], held[begin:], _HEAD)
        except (optional("cryptography.exceptions").InvalidTag, ValueError):
            raise ConfigError(
                f"{self._file} must be encrypted by the key in {self._key}, not damaged or by another key: restore "
                "both from one backup, or remove both and store the secrets again (`dedp secret put NAME`)"
            ) from None
        content: dict[str, Any] = json.loads(opened)
        return content

    @property
    def _key(self) -> Path:
        return self.folder / "secrets.key"

    def _cipher(self) -> Any:  # noqa: ANN401 - of an optional package
        return optional("cryptography.hazmat.primitives.ciphers.aead").AESGCM(key_in(self._key))
