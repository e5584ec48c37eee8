"""Key files: random keys that only their owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["KEY_BYTES", "key_in", "replace_private", "require_private", "secret_in"]

KEY_BYTES = 32
_OTHERS = 0o077


def key_in(file: Path) -> bytes:
    """Return the key in a file, made at the first call, also of several processes at once.

    Raises:
        ConfigError: if others can read the file, or the file holds no key; without the content.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    if not file.exists():
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(KEY_BYTES))
        try:
            file.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    require_private(file)
    found = file.read_bytes()
    if len(found) != KEY_BYTES:
        raise ConfigError(f"{file} must hold a key of {KEY_BYTES} bytes, not {len(found)}: restore it from a backup")
    return found


def require_private(file: Path) -> None:
    """Refuse a file that others than the owner can read or write.

    Raises:
        ConfigError: with the command that mends it.
    """
    if mode := file.stat().st_mode & _OTHERS:
        raise ConfigError(
            f"{file} must be for its owner alone (0600), not open to others ({mode:03o}): chmod 600 {file}"
        )


def secret_in(file: Path, *, of: str) -> str:
    """Return the stripped text of a private file.

    Args:
        file: the file, which only the owner may read.
        of: the content, for people.

    Raises:
        ConfigError: if the file is not there, or others can read it; without the content.
    """
    if not file.exists():
        raise ConfigError(f"{file} must hold {of}, and is not there: write it")
    require_private(file)
    return file.read_text().strip()


def replace_private(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Exchange the content of a file in one step; by default, only the owner can read the file."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as made:
            os.fchmod(made.fileno(), mode)  # whatever the process's umask
            made.write(content)
            made.flush()
            os.fsync(made.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
