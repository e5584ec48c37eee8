"""``dedp certificates``: rotation of the home's authority, with a grace period.

Examples:
    dedp certificates rotate
    dedp certificates retire  # once nothing holds a certificate of the former key
    dedp certificates retire --at-once --json
"""

from __future__ import annotations

import argparse

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import answer
from dedp_assets.commands._tables import require_home
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["arguments", "run"]

NEEDS = "local"
_ROTATE, _RETIRE = "rotate", "retire"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, an early end of certificates, and the form for programs."""
    parser.add_argument(
        "action",
        choices=(_ROTATE, _RETIRE),
        help="rotate makes a new key beside the former one, retire ends the latter",
    )
    parser.add_argument(
        "--at-once", action="store_true", help="retire also while programs hold certificates of the former key"
    )
    add_json(parser)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Rotate or retire the authorities of the home, and let running servers take the certificates."""
    require_home(settings)
    from dedp_assets.laptop import rotation  # noqa: PLC0415 - seconds of imports

    now, lines = Clock().now(), list[str]()
    if chosen.action == _ROTATE:
        taken = rotation.rotate(settings, at=now)
        lines.append("a new key signs certificates; those of the former key stay valid")
    else:
        until = rotation.former_until(settings, at=now)
        if until and not chosen.at_once:
            raise ConfigError(
                f"a program may hold a certificate of the former key until {until:%H:%M:%S} UTC: retire the key then, "
                "or at once, upon which such a program has to connect again: `dedp certificates retire --at-once`"
            )
        taken = rotation.retire(settings, at=now)
        lines.append("certificates of the former key are refused")
    lines.append(
        f"under open connections: {', '.join(taken)}"
        if taken
        else "no server with a lock runs: the next start takes it"
    )
    until = rotation.former_until(settings, at=now) if chosen.action == _ROTATE else None
    trusted = f"{settings.home}/tls/ca.pem"
    if chosen.action == _ROTATE:
        lines.append(f"next: give {trusted} to browsers and programs that trust the former file, and then")
        lines.append("`dedp certificates retire`" + (f", after {until:%Y-%m-%d %H:%M:%S} UTC" if until else ""))
    content = {"action": chosen.action, "reconnected": taken, "trusted": trusted, "former_until": until}
    answer(content, *lines, as_json=chosen.json)
    return 0
