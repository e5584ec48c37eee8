"""Displays of ads from a seeded generator, seconds to minutes before given visits.

One event: ``display_id``, ``display_time`` (ISO 8601, UTC), ``ad_page`` (the page it was shown on), ``ad_id``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

__all__ = ["ads_before"]


def ads_before(visits: Iterable[str], *, share: float = 0.6, longest_seconds: float = 900, seed: int = 1) -> list[str]:
    """Generate the ads shown before visits, as JSON lines; equal for equal visits and seed.

    Args:
        visits: visits as JSON lines.
        share: of how many visits an ad was shown before.
        longest_seconds: how long before at most.
        seed: of the generator.
    """
    random = Random(seed)  # noqa: S311 - test data
    found = (json.loads(line) for line in visits)
    return [_display(random, visit, longest_seconds) for visit in found if random.random() < share]


def _display(random: Random, visit: dict[str, str], longest_seconds: float) -> str:
    moment = datetime.fromisoformat(visit["event_time"]) - timedelta(seconds=random.uniform(0, longest_seconds))
    display = {
        "display_id": f"before_{visit['visit_id']}",
        "display_time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "ad_page": visit["page"],
        "ad_id": f"ad{random.randrange(40)}",
    }
    return json.dumps(display)
