"""Visits for the benchmarks: from the platform's seeded generator, multiplied where it would be slow."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from dedp_assets.case_study.defs.silver.visits import RECORDS
from dedp_assets.case_study.sources import visits
from dedp_assets.patterns.ingestion.readiness_marker import delivering

__all__ = ["FIRST_DAY", "TYPED", "day", "land", "lines"]

FIRST_DAY = date(2026, 1, 5)
TYPED = ", ".join(f"{name} {field.type}" for name, field in RECORDS.fields.items())
"""The columns of a visit, as `from_json` takes them."""

_GENERATED = 50_000
_REPEATED_OF = 100
_BROKEN_OF = 200
_START = '{"visit_id": "'


def day(number: int) -> str:
    """The ``number``-th day, from 0."""
    return (FIRST_DAY + timedelta(days=number)).isoformat()


def lines(count: int, on: str) -> list[str]:
    """``count`` JSON lines of one day: 1 % of them delivered twice, 0.5 % broken, every other visit unique."""
    broken, repeated = count // _BROKEN_OF, count // _REPEATED_OF
    healthy = count - broken - repeated
    base = visits.visits_of(FIRST_DAY, count=min(healthy, _GENERATED))
    rounds = range(-(-healthy // len(base)))
    many = [line.replace(_START, f"{_START}{number}-", 1) for number in rounds for line in base][:healthy]
    faults = [visits.BROKEN[number % len(visits.BROKEN)] for number in range(broken)]
    everything = [*many, *many[:repeated], *faults]
    return [line.replace(FIRST_DAY.isoformat(), on) for line in everything]


def land(root: Path, on: str, content: list[str]) -> list[Path]:
    """Deliver lines as a landing day of two files; returns the files."""
    folder, half = root / "visits" / on, len(content) // 2
    files = [folder / "part-000.jsonl", folder / "part-001.jsonl"]
    with delivering(folder):
        for path, part in zip(files, (content[:half], content[half:]), strict=True):
            path.write_text("".join(f"{line}\n" for line in part))
    return files
