"""``dedp keys``: keys of encrypted columns, rotated, deleted with a grace, restored and shredded."""

from __future__ import annotations

import argparse
from datetime import timedelta

from dedp_assets.commands._output import say
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["arguments", "run"]

NEEDS = "dagster"
BESIDE = True
_ACTIONS = ("rotate", "delete", "restore", "shred", "rewrap")
_GRACE_DAYS = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the purpose of the keys, the person, and the grace."""
    parser.add_argument("action", choices=_ACTIONS, help="shred destroys what was deleted, once the grace is over")
    parser.add_argument("purpose", nargs="?", default="", help="table or purpose, e.g. silver/users")
    parser.add_argument("--person", default=None, help="subject of the values, where each person has a key")
    parser.add_argument(
        "--grace-days", type=int, default=_GRACE_DAYS, help=f"days within which a restore is possible ({_GRACE_DAYS})"
    )


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Change keys of the home's ring."""
    require_home(settings)
    if chosen.grace_days < 0:
        raise ConfigError(f"--grace-days must be at least 0, not {chosen.grace_days}")
    if not chosen.purpose and chosen.action in ("rotate", "delete", "restore"):
        raise ConfigError(f"name the table or the purpose of the keys: dedp keys {chosen.action} silver/users")
    ring, now = Secrets().key_ring("dedp keys"), Clock().now()
    if chosen.action == "rotate":
        say(f"new values of {chosen.purpose} have key {ring.rotate(chosen.purpose, chosen.person)}")
    elif chosen.action == "delete":
        until = now + timedelta(days=chosen.grace_days)
        number = ring.delete(chosen.purpose, chosen.person, until=until)
        say(f"{number} keys of {chosen.purpose} are deleted, and can be restored until {until:%Y-%m-%d %H:%M} UTC")
    elif chosen.action == "restore":
        say(f"{ring.restore(chosen.purpose, chosen.person, now=now)} keys of {chosen.purpose} are back")
    elif chosen.action == "shred":
        say(f"{ring.shred(now=now)} keys are shredded: what they encrypted is gone for ever")
    else:
        say(f"{ring.rewrap()} keys were wrapped again, by version {ring.newest} of the wrapping key")
    return 0
