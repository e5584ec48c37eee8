"""The activity of ten thousand partitions, read from logs for the first time and again.

Ours: ``ActivityLog``, which a round of the detectors polls: arrivals of rows, newest events, and sizes of partitions
with the times and verdicts of their commits. Theirs: deltalake opens each table, or brings a kept one up to date, and
lists the active files; they tell sizes and no arrival.

Fair, because both read the same logs, written by hand as the platform's commits are, each partition in one commit,
without checkpoints and data files; no JVM may start. The goals are absolute, CPU seconds of one round: 1 s for the
first one, and 0.1 s for one over unchanged tables, or after one more commit of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.measure import Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.delta import ActivityLog, Ledger
from tests.helpers import a_record, write_log

__all__ = ["run"]

_DAY = date(2026, 10, 31)


def run(*, quick: bool) -> list[Row]:
    """Measure fifty tables of 200 partitions, and one table with as many as all of them."""
    tables, each = (5, 20) if quick else (50, 200)
    home = settings().home
    many = [_written(home / f"activity-{number}", each) for number in range(tables)]
    one = [_written(home / "activity-of-one", tables * each)]
    named = {f"{tables} tables of {each:,} partitions": many, f"a table of {tables * each:,}": one}
    return [row for what, paths in named.items() for row in _Tables(what, paths).measure(quick=quick)]


@dataclass
class _Tables:
    """Tables that both sides read, and what each side keeps of them."""

    what: str
    paths: Sequence[Path]
    commits: int = 0
    logs: dict[Path, ActivityLog] = field(default_factory=dict)
    tables: dict[Path, DeltaTable] = field(default_factory=dict)

    def measure(self, *, quick: bool) -> list[Row]:
        """Measure a first round, a round over unchanged tables, and a round after one commit."""
        rows = []
        for name, most in {"the first round": 1.0, "unchanged": 0.1, "one commit": 0.1}.items():
            before = partial(self.prepare, name)
            sides = interleave({"poll": self.poll, "deltalake": self.list_files}, rounds=3, before=before)
            row = compare(f"{self.what}, {name}", *sides)
            reached = row.ours["cpu"]
            met = None if quick else reached <= most
            rows.append(replace(row, goal=f"<= {most:g} s CPU", reached=f"{reached:.3f} s", met=met))
        return rows

    def prepare(self, name: str, _: int) -> None:
        """Forget everything before a first round, or commit to a table."""
        if name == "the first round":
            self.logs.clear()
            self.tables.clear()
        elif name == "one commit":
            self.commits += 1
            _commit(self.paths[0], [_DAY + timedelta(days=self.commits)])

    def poll(self, _: int) -> None:
        """Read the activity of each table."""
        for path in self.paths:
            log = self.logs.setdefault(path, ActivityLog(event_time="event_date"))
            assert log.poll(Ledger(path)).arrivals

    def list_files(self, _: int) -> None:
        """List the active files of each table."""
        for path in self.paths:
            table = self.tables.get(path)
            if table:
                table.update_incremental()
            table = self.tables.setdefault(path, table or DeltaTable(str(path)))
            assert pa.table(table.get_add_actions(flatten=True)).num_rows


def _written(path: Path, partitions: int) -> Path:
    """Write the log of a table with as many days, each in a commit; return the path."""
    _commit(path, [_DAY - timedelta(days=back) for back in range(partitions)])
    return path


def _commit(path: Path, days: Iterable[date]) -> None:
    owned = [{"event_date": day.isoformat()} for day in days]
    commits = [{"record": a_record("silver/visits", each), "changed": [each]} for each in owned]
    write_log(path, {"id": "long", "event_date": "date"}, ["event_date"], commits)
