"""Secrets as a Dagster resource without fields, so that run configs hold no secret."""

import os
import secrets
from pathlib import Path
from typing import Any

import dagster as dg

from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey

__all__ = ["Secrets"]

_BYTES = 32


class Secrets(dg.ConfigurableResource[Any]):
    """The keys of the platform."""

    def masking_key(self) -> MaskingKey:
        """Return the key of pseudonyms: ``DEDP_MASKING_KEY``, or a key of this home, created at the first use.

        Raises:
            ConfigError: if the setting is not 64 hexadecimal digits; the text does not repeat it.
        """
        chosen = settings()
        if chosen.masking_key is None:
            return MaskingKey("home", _own(chosen.home / "masking.key"))
        try:
            return MaskingKey("setting", bytes.fromhex(chosen.masking_key))
        except ValueError:
            raise ConfigError(f"DEDP_MASKING_KEY has to be {2 * _BYTES} hexadecimal digits") from None


def _own(file: Path) -> bytes:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    if not file.exists():
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(_BYTES))
        try:
            file.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return file.read_bytes()
