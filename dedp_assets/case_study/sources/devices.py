"""Devices reference of an external provider: full deliveries without a last-updated attribute."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from dedp_assets.patterns.ingestion.readiness_marker import delivering

__all__ = ["deliver", "devices"]

_TYPES = ["phone", "tablet", "laptop", "desktop", "tv", "watch"]
_MAKERS = ["Aurora", "Borealis", "Cirrus", "Delphi", "Eclipse"]


def devices(*, count: int = 120, seed: int = 1) -> list[str]:
    """Generate ``count`` devices as JSON lines, unique by type and version.

    A device has ``type``, ``full_name`` and ``version``.
    """
    random = Random(seed)  # noqa: S311 - test data
    made = []
    for number in range(count):
        kind, maker = _TYPES[number % len(_TYPES)], random.choice(_MAKERS)
        version = f"{number // len(_TYPES) + 1}.{random.randrange(10)}"
        made.append(json.dumps({"type": kind, "full_name": f"{maker} {kind.title()} {version}", "version": version}))
    return made


def deliver(folder: Path, lines: list[str], *, cut: bool = False) -> None:
    """Deliver the dataset as a single file with a marker; ``cut`` tears the last line."""
    text = "".join(f"{line}\n" for line in lines)
    text = text[:-20] if cut else text
    path = folder / "devices.jsonl"
    if path.exists() and path.read_text() == text:
        return
    with delivering(folder):
        path.write_text(text)
