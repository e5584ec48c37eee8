"""Visits of embedded pages as reported by partners, each partner with a separate schema.

A record of the magazine has ``id``, ``at`` (ISO 8601, UTC), ``user``, ``page`` and ``agent`` (the visitor's program).
One of the radio has ``visit`` (``uuid`` and ``time_ms``, milliseconds since 1970), ``u_id``, ``url`` and ``browser``.
The same seed and day give the same bytes, on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from random import Random

from dedp_assets.patterns.ingestion.readiness_marker import delivering

__all__ = ["deliver", "magazine_visits", "radio_visits"]

_AGENTS = [
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64)",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X)",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) Mobile",
    "crawler/2.1",
]


def magazine_visits(day: date, *, count: int, seed: int = 1) -> list[str]:
    """Generate ``count`` visits of a day in the magazine's schema, in order of time."""
    return [
        json.dumps(
            {
                "id": f"m-{random.getrandbits(48):012x}",
                "at": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "user": str(random.randrange(1, 500)),
                "page": f"/posts/{random.randrange(1, 38)}",
                "agent": random.choice(_AGENTS),
            }
        )
        for moment, random in _moments("magazine", day, count, seed)
    ]


def radio_visits(day: date, *, count: int, seed: int = 1) -> list[str]:
    """Generate ``count`` visits of a day in the radio's schema, in order of time."""
    return [
        json.dumps(
            {
                "visit": {"uuid": f"{random.getrandbits(64):016x}", "time_ms": round(moment.timestamp() * 1000)},
                "u_id": random.randrange(1, 500),
                "url": f"https://radio.example/embed/posts/{random.randrange(1, 38)}",
                "browser": random.choice(_AGENTS),
            }
        )
        for moment, random in _moments("radio", day, count, seed)
    ]


def deliver(folder: Path, day: date, files: Mapping[str, Sequence[str | bytes]]) -> None:
    """Deliver a day's records as files with a marker; equal calls leave equal bytes.

    Args:
        folder: landing folder of the dataset.
        day: the landing day.
        files: name of a file, the partner's with or without more behind a dash, -> its lines.
    """
    target = folder / day.isoformat()
    wanted = {f"{name}.jsonl": b"".join(map(_line, lines)) for name, lines in files.items()}
    if all((target / name).exists() and (target / name).read_bytes() == content for name, content in wanted.items()):
        return
    with delivering(target):
        for name, content in wanted.items():
            (target / name).write_bytes(content)


def _line(record: str | bytes) -> bytes:
    return (record if isinstance(record, bytes) else record.encode()) + b"\n"


def _moments(partner: str, day: date, count: int, seed: int) -> Iterator[tuple[datetime, Random]]:
    """List the times of a day's visits, each with the random generator for further choices."""
    random = Random(f"{partner}/{seed}/{day}")  # noqa: S311 - test data
    midnight = datetime.combine(day, time(), timezone.utc)
    for second in sorted(random.uniform(0, 86_399) for _ in range(count)):
        yield midnight + timedelta(seconds=second), random
