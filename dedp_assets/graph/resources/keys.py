"""The key of pseudonyms, by the settings."""

from __future__ import annotations

from dedp_assets.graph.resources.environments import Settings
from dedp_assets.patterns.connectors.secrets.key_files import KEY_BYTES, key_in
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey

__all__ = ["masking_key"]


def masking_key(chosen: Settings) -> MaskingKey:
    """Return the key of pseudonyms: ``DEDP_MASKING_KEY``, or a key of the home, created at the first use.

    Raises:
        ConfigError: if the setting is not 64 hexadecimal digits; the text does not repeat it.
    """
    if chosen.masking_key is None:
        return MaskingKey("home", key_in(chosen.home / "masking.key"))
    try:
        return MaskingKey("setting", bytes.fromhex(chosen.masking_key))
    except ValueError:
        raise ConfigError(f"DEDP_MASKING_KEY has to be {2 * KEY_BYTES} hexadecimal digits") from None
