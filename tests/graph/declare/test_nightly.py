"""Chains: which range of partitions is asked for, by the tables' logs."""

from __future__ import annotations

from datetime import datetime, timezone

import dagster as dg

from dedp_assets.case_study.defs.gold.sessions import PENDING, SESSIONS, sessions
from dedp_assets.graph.declare import schedules_of
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.delta import transaction_id
from tests.helpers import a_record, write_log

VISITS = "silver/visits"
(SESSIONS_EVERY_DAY,) = schedules_of(sessions)


class Logs:
    """Tables that are nothing but their logs."""

    def __init__(self, root) -> None:
        self.root, self.versions = root, {}

    def write(self, table, day, inputs=None, *, rows=True, code_version="1"):
        """Write a day of a table; what its version is."""
        part, self.versions[table] = {"event_date": day}, self.versions.get(table, 0) + 1
        record = a_record(table, part, inputs=inputs or {}, code_version=code_version)
        made = {"record": record, "txn": {transaction_id(table, part, 0): self.versions[table]}}
        made |= {"changed": [part]} if rows else {}
        write_log(self.root / table, {"id": "long", "event_date": "date"}, ["event_date"], [made])
        return self.versions[table]

    def run(self, day, inputs, *, rows=True, code_version="1"):
        """Compute a day of sessions; whether it leaves some open. The version of those."""
        left = self.write(PENDING.name, day, inputs, rows=rows, code_version=code_version)
        self.write(SESSIONS.name, day, inputs, code_version=code_version)
        return left

    def asked(self, day):
        with dg.build_schedule_context(
            scheduled_execution_time=datetime.fromisoformat(day).replace(hour=3, tzinfo=timezone.utc),
            resources={"lake": Lake(root=str(self.root), engine=SparkEngine())},
        ) as context:
            found = SESSIONS_EVERY_DAY.evaluate_tick(context)
        requests = found.run_requests or []
        ends = [[r.tags[f"dagster/asset_partition_range_{end}"] for end in ("start", "end")] for r in requests]
        return ends[0] if ends else found.skip_message


def test_the_oldest_day_that_is_not_current_begins_the_range(tmp_path):
    """A day is current if it was computed from its visits, and from what the day before it leaves open, as they are.

    The first day with visits needs none before it, a day without visits is of the chain, and so is one that is missing.
    """
    logs = Logs(tmp_path)
    current = f"{SESSIONS.name} is current up to 2026-01-0"
    assert logs.asked("2026-01-08") == f"{current}7"
    seen = {day: logs.write(VISITS, f"2026-01-0{day}") for day in (5, 6, 8)}
    assert logs.asked("2026-01-09") == ["2026-01-05", "2026-01-08"]
    fifth = logs.run("2026-01-05", {VISITS: seen[5]})
    assert logs.asked("2026-01-06") == f"{current}5"
    assert logs.asked("2026-01-09") == ["2026-01-06", "2026-01-08"]
    logs.run("2026-01-06", {VISITS: seen[6], PENDING.name: fifth}, rows=False)
    assert logs.asked("2026-01-09") == ["2026-01-07", "2026-01-08"]
    empty = logs.write(VISITS, "2026-01-07", rows=False)
    assert logs.asked("2026-01-09") == ["2026-01-07", "2026-01-08"]
    logs.run("2026-01-07", {VISITS: empty, PENDING.name: 0}, rows=False)
    logs.run("2026-01-08", {VISITS: seen[8], PENDING.name: 0})
    assert logs.asked("2026-01-09") == f"{current}8"
    logs.run("2026-01-06", {VISITS: seen[6], PENDING.name: fifth}, rows=False)
    assert logs.asked("2026-01-09") == f"{current}8"
    again = logs.run("2026-01-05", {VISITS: seen[5]})
    assert logs.asked("2026-01-09") == ["2026-01-06", "2026-01-08"]
    logs.run("2026-01-06", {VISITS: seen[6], PENDING.name: again}, code_version="0")
    assert logs.asked("2026-01-09") == ["2026-01-06", "2026-01-08"]


def test_the_schedule_is_called_after_its_table():
    """People look for it by that name."""
    assert SESSIONS_EVERY_DAY.name == "gold_sessions_every_day"
