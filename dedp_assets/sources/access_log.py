"""A real web server log in Apache combined format as visit events, landed on the day of each request."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import date, datetime, timezone
from pathlib import Path

from dedp_assets.patterns.ingestion.readiness_marker import delivering

__all__ = ["land_log", "visit_of"]

_COMBINED = re.compile(
    r'(?P<host>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<page>\S+)[^"]*" (?P<status>\d{3}) '
    r'(?P<bytes>\d+|-) "(?P<referrer>[^"]*)" "(?P<agent>(?:[^"\\]|\\.)*)"\s*$'
)
_DATE = re.compile(r"\[(\d{2}/[A-Z][a-z]{2}/\d{4}):")


def visit_of(line: str, number: int) -> str | None:
    """Convert one log line to a visit event as JSON; ``None`` if the line is not in combined format.

    The visit's id is the request's second and its line number; the user is a digest of host and agent, so that no
    address travels further.
    """
    match = _COMBINED.match(line)
    if match is None:
        return None
    try:
        moment = datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z").astimezone(timezone.utc)
    except ValueError:
        return None
    visit = {
        "visit_id": f"{int(moment.timestamp())}_{number}",
        "event_time": moment.isoformat().replace("+00:00", "Z"),
        "user_id": hashlib.sha256(f"{match['host']} {match['agent']}".encode()).hexdigest()[:16],
        "page": match["page"],
        "referrer": None if match["referrer"] in ("", "-") else match["referrer"],
        "user_agent": match["agent"],
        "status": int(match["status"]),
        "bytes": None if match["bytes"] == "-" else int(match["bytes"]),
    }
    return json.dumps({name: value for name, value in visit.items() if value is not None})


def land_log(log: Path, folder: Path) -> dict[date, int]:
    """Land a log as one delivery a day; a line that is no request lands as it is, on the day around it.

    Returns:
        Landing day -> lines landed.

    Raises:
        ValueError: if no line of the file carries a date.
    """
    days: dict[date, list[bytes]] = {}
    for day, line in _dated(log):
        days.setdefault(day, []).append(line)
    if not days:
        raise ValueError(f"{log} has no line with a date: it is empty")
    for day, lines in days.items():
        content, path = b"".join(lines), folder / day.isoformat() / "access.jsonl"
        if not (path.exists() and path.read_bytes() == content):
            with delivering(path.parent):
                path.write_bytes(content)
    return {day: len(lines) for day, lines in days.items()}


def _dated(log: Path) -> Iterator[tuple[date, bytes]]:
    day: date | None = None
    waiting: list[bytes] = []
    with log.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            event = visit_of(raw.decode("utf-8", "replace"), number)
            landed = f"{event}\n".encode() if event else raw.rstrip(b"\r\n") + b"\n"
            day = _day(raw, event) or day
            if day is None:
                waiting.append(landed)
                continue
            yield from ((day, early) for early in waiting)
            waiting.clear()
            yield day, landed
    if waiting:
        raise ValueError(f"{log} has no line with a date like [17/May/2015:10:05:03 +0000]")


def _day(raw: bytes, event: str | None) -> date | None:
    if event:
        return date.fromisoformat(json.loads(event)["event_time"][:10])
    found = _DATE.search(raw.decode("utf-8", "replace"))
    try:
        return datetime.strptime(found[1], "%d/%b/%Y").replace(tzinfo=timezone.utc).date() if found else None
    except ValueError:
        return None
