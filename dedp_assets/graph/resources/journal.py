"""The journal of measurements as a Dagster resource: files of one day each, and samples of positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.running.json_lines import append_lines, stored_lines

__all__ = ["Journal"]

_KEPT_DAYS = 90
_AGAIN = timedelta(hours=1)
_SAMPLES = "samples.json"
_TIMES = ("at", "since")
Key = tuple[str, str, str]


class Journal(dg.ConfigurableResource[Any]):
    """Measurements of all detectors, in the files ``<folder>/<UTC day>.jsonl``.

    A measurement is written when its verdict changes, and otherwise once an hour: rounds of detectors come every half
    minute. A line that is none is passed over. The newest 90 days are kept.
    """

    folder: str = Field(description="Folder of the journal.")
    _last: dict[Key, tuple[str, datetime]] = PrivateAttr(default_factory=dict)

    def append(self, measurements: Sequence[Measurement]) -> int:
        """Write the measurements that are news, and return their number.

        Args:
            measurements: the measurements of one round.
        """
        news = [each for each in measurements if self._is_news(each)]
        by_day: dict[date, list[Measurement]] = {}
        for each in news:
            by_day.setdefault(_day(each.at), []).append(each)
        for day, found in by_day.items():
            self._write(day, found)
        self._last.update({_key(each): (each.verdict, each.at) for each in news})
        return len(news)

    def of_day(self, day: date) -> list[Measurement]:
        """List the measurements of a UTC day, in the order of writing.

        Args:
            day: the day.
        """
        return list(self._read(self._file(day)))

    def since(self, day: date) -> list[Measurement]:
        """List the measurements from a UTC day on, the oldest first.

        Args:
            day: first day.
        """
        files = sorted(file for file in Path(self.folder).glob("*.jsonl") if file.stem >= day.isoformat())
        return [each for file in files for each in self._read(file)]

    def samples(self) -> str:
        """Return the stored samples of positions, as text; empty without any."""
        try:
            return (Path(self.folder) / _SAMPLES).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def keep_samples(self, samples: str) -> None:
        """Replace the stored samples of positions.

        Args:
            samples: the samples as text.
        """
        file = Path(self.folder) / _SAMPLES
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_suffix(".half")
        half.write_text(samples, encoding="utf-8")
        half.replace(file)

    def _is_news(self, measured: Measurement) -> bool:
        verdict, at = self._last.get(_key(measured), ("", measured.at))
        # A clock that was set back must not stop the journal.
        return verdict != measured.verdict or abs(measured.at - at) >= _AGAIN

    def _write(self, day: date, found: Sequence[Measurement]) -> None:
        file = self._file(day)
        begins = not file.exists()
        append_lines(file, map(_plain, found))
        if begins:
            self._forget()

    def _forget(self) -> None:
        """Remove the files of all but the newest days."""
        # By their number, and not by their dates: a clock that is ahead would forget everything.
        for file in sorted(Path(self.folder).glob("*.jsonl"))[:-_KEPT_DAYS]:
            file.unlink(missing_ok=True)

    def _read(self, file: Path) -> Iterator[Measurement]:
        for stored in stored_lines(file):
            if measured := _measurement(stored):
                yield measured

    def _file(self, day: date) -> Path:
        return Path(self.folder) / f"{day.isoformat()}.jsonl"


def _key(measured: Measurement) -> Key:
    return (measured.metric, measured.table, measured.partition)


def _day(at: datetime) -> date:
    return at.astimezone(timezone.utc).date()


def _plain(measured: Measurement) -> dict[str, Any]:
    """Return a measurement as JSON values."""
    return {n: v.isoformat() if isinstance(v, datetime) else v for n, v in asdict(measured).items()}


def _measurement(stored: Mapping[str, Any]) -> Measurement | None:
    """Read a measurement, without fields of later releases; ``None`` for an object that is none."""
    known = {each.name for each in fields(Measurement)}
    try:
        moments = {name: datetime.fromisoformat(stored[name]) for name in _TIMES if stored.get(name)}
        return Measurement(**{name: value for name, value in {**stored, **moments}.items() if name in known})
    except (ConfigError, TypeError, ValueError):
        return None
