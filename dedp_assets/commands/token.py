"""``dedp token``: values behind tokens of the vault, for granted identities, and a log of requests.

Exit code 1: no value is behind a token.

Examples:
    dedp token reveal tok_4f1d --by Ada
    dedp token log --json
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import Grid, answer, note
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
    """Add the action, the tokens, who asks, and the form for programs."""
    parser.add_argument("action", choices=("reveal", "log"), help="log lists all requests, also refused ones")
    parser.add_argument("token", nargs="*", help="token, e.g. tok_4f1d...")
    parser.add_argument("--by", default="", metavar="NAME", help="who asks: one of DEDP_VAULT_READERS")
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the value behind each token, or the requests for values."""
    require_home(settings)
    vault = Secrets().token_vault("dedp token")
    if chosen.action == "log":
        grid = Grid("at", "who", "token", "outcome")
        requests = [*vault.reversals()]
        for each in requests:
            grid.add_row(each.at, each.who, each.asked, each.outcome)
        answer(requests, grid, as_json=chosen.json)
        return 0
    if not chosen.token or not chosen.by:
        raise ConfigError("the tokens and who asks must be stated: dedp token reveal tok_4f1d --by NAME")
    found = vault.reveal(chosen.token, who=chosen.by, at=Clock().now())
    answer(found, *(f"{token} {value}" for token, value in found.items()), as_json=chosen.json)
    if missing := [token for token in chosen.token if token not in found]:
        note(f"no value is behind {', '.join(missing)}: removed, or of another vault")
    return _UNKNOWN if missing else 0
