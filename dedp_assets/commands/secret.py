"""``dedp secret``: secrets by name, stored, listed, removed and restored; no value is ever printed.

Examples:
    dedp secret put prod/db --field password  # asks for the value, or reads a line of the input
    dedp secret put keys/columns --random
    dedp secret list --json
"""

from __future__ import annotations

import argparse
import sys
from getpass import getpass
from secrets import token_hex

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import answer
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems.secrets import store_of
from dedp_assets.patterns.connectors.secrets.key_files import KEY_BYTES
from dedp_assets.patterns.connectors.secrets.store import VALUE, SecretStore, require_path
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.secret import Secret

__all__ = ["arguments", "run"]

NEEDS = "dagster"
BESIDE = True
_ACTIONS = ("put", "list", "remove", "restore")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the name of the secret, the fields, and the form for programs."""
    parser.add_argument("action", choices=_ACTIONS, help="put asks for the values, or reads a line each of the input")
    parser.add_argument("name", nargs="?", default="", help="name of the secret, e.g. prod/db")
    parser.add_argument(
        "--random", action="store_true", help="put a random key of 64 hexadecimal digits, shown to nobody"
    )
    parser.add_argument("--field", action="append", default=[], help="field of the secret, e.g. password; may repeat")
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Store, list, remove or restore secrets of the store of ``DEDP_SECRETS``."""
    store: SecretStore = store_of(settings, as_owner=True)
    if chosen.action == "list":
        found = [*store.paths()]
        answer(found, *found, as_json=chosen.json)
        return 0
    path, content = require_path(chosen.name), dict[str, object](action=chosen.action, name=chosen.name)
    if chosen.action == "put":
        fields = chosen.field or [VALUE]
        made = {name: token_hex(KEY_BYTES) if chosen.random else _value(f"{path}#{name}") for name in fields}
        version = store.write(path, made)
        text = f"{path} has version {version} in {store.name}: runs take it within minutes, refused ones at once"
        content["version"] = version
    elif chosen.action == "remove":
        store.remove(path)
        text = f"{path} is removed from {store.name}; `dedp secret restore {path}` brings it back"
    else:
        store.restore(path)
        text = f"{path} is back in {store.name}"
    answer(content, text, as_json=chosen.json)
    return 0


def _value(pointer: str) -> str:
    """Read a value without an echo from the terminal, or a line of the input."""
    # No option takes one: a list of processes shows options.
    value = getpass(f"{pointer}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not value:
        raise ConfigError(
            f"the value of {pointer} must be a line of the input, not empty; a key may be random: "
            "`dedp secret put keys/columns --random`"
        )
    return Secret(value).reveal()
