"""Landing zones and lakes with a long history: logs written by hand, no data files, no JVM."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from dedp_assets.patterns.connectors.landing.deliveries import MARKER, delivery_at
from tests.helpers import a_record, write_log

__all__ = ["LAST_DAY", "SILVER", "Zone"]

LAST_DAY = date(2026, 10, 31)
SILVER = "silver/visits"
GOLD = ("gold/daily_page_views", "gold/daily_visitors")
_BRONZE = {"raw": "string", "landed_on": "date", "event_date": "date"}
_MINUTE_NS = 60 * 10**9
_BEGAN = "2026-01-01T00:00:00.000000+00:00"
_FIRST_NS = 1_600_000_000 * 10**9


class Zone:
    """As many landing days as asked for, each landed, and loaded into bronze and silver in one commit each.

    Args:
        root: folder for it.
        landing: folder of the landing zone.
        days: how many.
        last: the last of them.
    """

    def __init__(self, root: Path, landing: Path, days: int, *, last: date = LAST_DAY) -> None:
        self.lake, self.landing = root / "lake", landing
        self.days = [(last - timedelta(days=back)).isoformat() for back in range(days - 1, -1, -1)]
        for number, day in enumerate(self.days):
            self._land(day, _FIRST_NS + number * _MINUTE_NS)
        self.bronze(*[self._loaded(day) for day in self.days])
        self.checkpoint("bronze/visits")
        commits = [self._computed(SILVER, day, version) for version, day in enumerate(self.days, start=1)]
        write_log(self.lake / SILVER, {"id": "long", "event_date": "date"}, ["event_date"], commits)
        for name in GOLD:
            commits = [self._computed(name, day, version) for version, day in enumerate(self.days, start=1)]
            write_log(self.lake / name, {"id": "long", "event_date": "date"}, ["event_date"], commits)
            self.checkpoint(name)

    def checkpoint(self, name: str) -> None:
        """One checkpoint of a table's log, as the platform's commits leave one every 20."""
        DeltaTable(str(self.lake / name)).create_checkpoint()

    def bronze(self, *commits: dict[str, Any]) -> None:
        """Append commits to bronze."""
        write_log(self.lake / "bronze/visits", _BRONZE, ["landed_on", "event_date"], list(commits))

    def late_visit(self, day: str) -> None:
        """One more commit of bronze, for a day that was processed before."""
        self.bronze({"changed": [{"landed_on": self.days[-1], "event_date": day}]})

    def late_file(self, day: str, number: int) -> None:
        """One more file in a day that was loaded before."""
        (self.landing / "visits" / day / f"late-{number:03}.jsonl").write_text("{}\n")

    def dead_letters(self, days: int) -> None:
        """So many days with a dead letter that the present code refused, among as many commits as there are days."""
        from dedp_assets.case_study.defs.silver.visits import (
            visits,
        )  # not before the days have landed: the graph begins with them

        few = set(self.days[:: max(1, len(self.days) // days)])
        code_version = visits.code_version
        commits = [
            {
                "changed": [{"filed_under": day}] if day in few else [],
                "record": a_record(
                    "silver/visits_dead_letter",
                    {"filed_under": day},
                    code_version=code_version,
                    figures={"open": int(day in few)},
                ),
            }
            for day in self.days
        ]
        write_log(
            self.lake / "silver/visits_dead_letter", {"raw": "string", "filed_under": "date"}, ["filed_under"], commits
        )

    def _land(self, day: str, at_ns: int) -> None:
        folder = self.landing / "visits" / day
        folder.mkdir(parents=True)
        for name in ("part-000.jsonl", MARKER):
            (folder / name).write_text("{}\n")
            os.utime(folder / name, ns=(at_ns, at_ns))
        os.utime(folder, ns=(at_ns, at_ns))

    def _loaded(self, day: str) -> dict[str, Any]:
        delivery = delivery_at(self.landing / "visits" / day).identity
        record = a_record("bronze/visits", {"landed_on": day}, notes={"delivery": delivery}, at=_BEGAN)
        applied = {f"bronze/visits/landed_on={day}/0": 1}
        return {"changed": [{"landed_on": day, "event_date": day}], "record": record, "txn": applied}

    def _computed(self, name: str, day: str, version: int) -> dict[str, Any]:
        record = a_record(name, {"event_date": day}, inputs={"upstream": version}, sequence=version)
        return {"changed": [{"event_date": day}], "record": record, "txn": {f"{name}/event_date={day}/0": version}}
