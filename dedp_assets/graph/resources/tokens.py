"""Tokens of a home's servers: files that only the owner can read."""

from pathlib import Path

from dedp_assets.graph.resources.environments import Settings
from dedp_assets.patterns.connectors.secrets.key_files import key_in, replace_private, require_private

__all__ = ["token_file"]

_FOLDER = "tls/tokens"


def token_file(chosen: Settings, server: str) -> Path:
    """Return the file with the token of a server of the home, written at the first call.

    Args:
        chosen: settings of the home.
        server: name of the server.

    Raises:
        ConfigError: if others can read the file.
    """
    file = chosen.home / _FOLDER / server
    if not file.exists():
        replace_private(file, key_in(file.with_suffix(".key")).hex().encode())
    require_private(file)
    return file
