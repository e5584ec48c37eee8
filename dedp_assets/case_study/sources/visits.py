"""Visit events from a seeded generator: the same seed and day give the same bytes, on any machine.

One event: ``visit_id``, ``event_time`` (ISO 8601, UTC), ``user_id``, ``page``, ``referrer``, ``user_agent``, ``ip``,
``device_type``, ``device_version``, ``status`` (HTTP status), ``bytes`` (size of the response). A visitor keeps address
and device.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from random import Random

from dedp_assets.case_study.sources.devices import devices
from dedp_assets.patterns.ingestion.readiness_marker import delivering

__all__ = ["BROKEN", "deliver", "drop_late_file", "visits_of"]

_PAGES = ["/", "/about", "/archive", *[f"/posts/{n}" for n in range(1, 38)]]
_REFERRERS = [None, "https://search.example/", "https://news.example/item", "https://social.example/feed"]
_AGENTS = ["Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Macintosh)", "Mozilla/5.0 (iPhone)", "crawler/2.1"]

_DEVICES = devices()

BROKEN = (
    '{"visit_id": "cut-off", "event_time": "2026-',
    "not JSON at all",
    '{"visit_id": "no-time", "user_id": "u1", "page": "/"}',
    '{"visit_id": "bad-time", "event_time": "HELLO", "user_id": "u1", "page": "/"}',
)
"""Records that no version of the pipeline can process, one of each kind."""


def visits_of(day: date, *, count: int, seed: int = 1) -> list[str]:
    """Generate ``count`` visits of one day as JSON lines, in order of time."""
    random = Random(f"{seed}/{day}")  # noqa: S311 - test data
    midnight = datetime.combine(day, time(), timezone.utc)
    seconds = sorted(random.uniform(0, 86_399) for _ in range(count))
    return [_visit(random, midnight + timedelta(seconds=second), number) for number, second in enumerate(seconds)]


def deliver(
    folder: Path,
    day: date,
    lines: Sequence[str],
    *,
    late: Iterable[str] = (),
    broken: Sequence[str] = (),
    repeat: int = 0,
) -> None:
    """Deliver lines as a day's landing folder: two files, then the marker; idempotent.

    Args:
        folder: landing folder of the dataset.
        day: the landing day.
        lines: visits of the day.
        late: visits of earlier days that arrive only now.
        broken: records to mix in.
        repeat: how many of the first visits are delivered twice, as a producer's retry does.
    """
    everything = [*lines, *late, *broken, *lines[:repeat]]
    half = len(everything) // 2
    target = folder / day.isoformat()
    wanted = {"part-000.jsonl": everything[:half], "part-001.jsonl": everything[half:]}
    if all(_holds(target / name, part) for name, part in wanted.items()):
        return
    with delivering(target):
        for name, part in wanted.items():
            (target / name).write_text("".join(f"{line}\n" for line in part))


def drop_late_file(folder: Path, day: date, lines: Sequence[str]) -> None:
    """Add a file to a day that was marked complete before."""
    path = folder / day.isoformat() / "late-000.jsonl"
    if not _holds(path, lines):
        path.write_text("".join(f"{line}\n" for line in lines))


def _visit(random: Random, moment: datetime, number: int) -> str:
    visitor = int(random.paretovariate(1.2)) % 5000
    visit = {
        "visit_id": f"{int(moment.timestamp())}_{number}",
        "event_time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "user_id": f"u{visitor}",
        "page": random.choice(_PAGES),
        "referrer": random.choice(_REFERRERS),
        "user_agent": random.choice(_AGENTS),
        "status": random.choices([200, 304, 404, 500], weights=[90, 6, 3, 1])[0],
        "bytes": random.randrange(200, 60_000),
        **_place(visitor),
    }
    return json.dumps({name: value for name, value in visit.items() if value is not None})


def _place(user: int) -> dict[str, str]:
    """Return a visitor's address and device; some addresses are private, some devices unknown."""
    device = json.loads(_DEVICES[user % len(_DEVICES)])
    version = device["version"] if user % 10 else "0.0"
    network = "192.168" if user % 25 == 0 else "203.0"
    return {"ip": f"{network}.{user // 250}.{user % 250}", "device_type": device["type"], "device_version": version}


def _holds(path: Path, lines: Sequence[str]) -> bool:
    return path.exists() and path.read_text() == "".join(f"{line}\n" for line in lines)
