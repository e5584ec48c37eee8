"""``dedp token``: values behind tokens of the vault, for granted identities, and a log of requests."""

from __future__ import annotations

import argparse

from dedp_assets.commands._output import Grid, console, note, say
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["arguments", "run"]

NEEDS = "dagster"
BESIDE = True
_UNKNOWN = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the tokens, and who asks."""
    parser.add_argument("action", choices=("reveal", "log"), help="log lists all requests, also refused ones")
    parser.add_argument("token", nargs="*", help="token, e.g. tok_4f1d...")
    parser.add_argument("--by", default="", metavar="NAME", help="who asks: one of DEDP_VAULT_READERS")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the value behind each token, or the requests for values."""
    require_home(settings)
    vault = Secrets().token_vault("dedp token")
    if chosen.action == "log":
        grid = Grid("at", "who", "token", "outcome")
        for each in vault.reversals():
            grid.add_row(each.at, each.who, each.asked, each.outcome)
        console().print(grid)
        return 0
    if not chosen.token or not chosen.by:
        raise ConfigError("name the tokens and who asks: dedp token reveal tok_4f1d... --by NAME")
    found = vault.reveal(chosen.token, who=chosen.by, at=Clock().now())
    for token, value in found.items():
        say(f"{token} {value}")
    if missing := [token for token in chosen.token if token not in found]:
        note(f"no value is behind {', '.join(missing)}: removed, or of another vault")
    return _UNKNOWN if missing else 0
