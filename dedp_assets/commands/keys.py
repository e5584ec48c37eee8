"""``dedp keys``: keys of encrypted columns, rotated, deleted with a grace, restored and shredded.

Examples:
    dedp keys rotate silver/users
    dedp keys delete silver/users --person u7 --grace-days 30
    dedp keys shred --json
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import answer
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.core.errors import ConfigError

if TYPE_CHECKING:
    from dedp_assets.patterns.security.encryptor import KeyRing

__all__ = ["arguments", "run"]

NEEDS = "dagster"
BESIDE = True
_ACTIONS = ("rotate", "delete", "restore", "shred", "rewrap")
_GRACE_DAYS = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the purpose of the keys, the person, the grace, and the form for programs."""
    parser.add_argument("action", choices=_ACTIONS, help="shred destroys what was deleted, once the grace is over")
    parser.add_argument("purpose", nargs="?", default="", help="table or purpose, e.g. silver/users")
    parser.add_argument("--person", default=None, help="subject of the values, where each person has a key")
    parser.add_argument(
        "--grace-days", type=int, default=_GRACE_DAYS, help=f"days within which a restore is possible ({_GRACE_DAYS})"
    )
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Change keys of the home's ring."""
    require_home(settings)
    if chosen.grace_days < 0:
        raise ConfigError(
            f"--grace-days must be at least 0, not {chosen.grace_days}: dedp keys delete silver/users --grace-days 30"
        )
    if not chosen.purpose and chosen.action in ("rotate", "delete", "restore"):
        raise ConfigError(
            f"the table or the purpose of the keys must be stated: dedp keys {chosen.action} silver/users"
        )
    answer(*_done(chosen, Secrets().key_ring("dedp keys"), Clock().now()), as_json=chosen.json)
    return 0


def _done(chosen: argparse.Namespace, ring: KeyRing, now: datetime) -> tuple[dict[str, object], str]:
    """Change keys; return the outcome for programs and as a sentence."""
    content, purpose = dict[str, object](action=chosen.action), chosen.purpose
    if chosen.action == "rotate":
        key = ring.rotate(purpose, chosen.person)
        return {**content, "purpose": purpose, "key": key}, f"new values of {purpose} have key {key}"
    if chosen.action == "delete":
        until = now + timedelta(days=chosen.grace_days)
        number = ring.delete(purpose, chosen.person, until=until)
        text = f"{number} keys of {purpose} are deleted, and can be restored until {until:%Y-%m-%d %H:%M} UTC"
        return {**content, "purpose": purpose, "keys": number, "until": until}, text
    if chosen.action == "restore":
        number = ring.restore(purpose, chosen.person, now=now)
        return {**content, "purpose": purpose, "keys": number}, f"{number} keys of {purpose} are back"
    if chosen.action == "shred":
        number = ring.shred(now=now)
        return {**content, "keys": number}, f"{number} keys are shredded: what they encrypted is gone for ever"
    number = ring.rewrap()
    return {
        **content,
        "keys": number,
    }, f"{number} keys were wrapped again, by version {ring.newest} of the wrapping key"
