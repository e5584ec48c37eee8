"""A generated month: every fault is announced once and cleared once, and nothing else is.

``DEDP_MONTH=seed,faults,oddities`` plays another month.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dedp_assets.graph.declare import (
    About,
    Baseline,
    Due,
    Expects,
    LakeTable,
    QuietHours,
    Reads,
    Runs,
    Step,
    lake_table,
    same,
)
from dedp_assets.graph.mail.alert_outbox import AlertOutbox
from dedp_assets.graph.observe.alerting import judged
from dedp_assets.graph.observe.explaining import explain, upstream_of
from dedp_assets.graph.observe.rounds import Rounds
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import LocalStore, Table, Target
from dedp_assets.patterns.observability._lags.lag_samples import from_json, to_json
from dedp_assets.patterns.observability.lag_detector import LagSample
from tests.logs import LogOverTime
from tests.month import BEGIN, DAYS, HISTORY, HOLIDAYS, TICK, TOPIC, Fault, Moment, Oddity, plan, topic_at, utc

pytestmark = [pytest.mark.slow, pytest.mark.budget(60, "1,440 rounds of all detectors")]
SEED, FAULTS, ODDITIES = map(int, os.environ.get("DEDP_MONTH", "1,40,200").split(","))  # noqa: TID251
FIRST = (BEGIN - timedelta(days=HISTORY)).isoformat()
DAILY = dg.DailyPartitionsDefinition(FIRST, end_offset=1)
HOURLY = dg.HourlyPartitionsDefinition(f"{FIRST}-00", fmt="%Y-%m-%d-%H", end_offset=1)
VOLUME = Baseline(season="weekday", last=8, planned={day.isoformat(): 2 for day in HOLIDAYS})
OFFICE = (
    QuietHours(zone="UTC", start="16:30", end="06:00"),
    QuietHours(zone="UTC", weekdays=("saturday", "sunday"), dates=HOLIDAYS),
)
DELAYS = {
    "half": 1, "explosion": 1, "stopped producer": 5, "stopped consumer": 5, "silent partners": 7, "late": 3,
    "upstream late": 2, "hot partition": 1, "future event": 1, "stalled reader": 4, "topic created again": 1,
}  # fmt: skip
"""Kind of fault -> hours from its beginning after which people have heard of it."""


def spec(name: str, column: str = "day") -> TableSpec:
    columns = {"id": Column("BIGINT"), column: Column("STRING"), "happened_at": Column("TIMESTAMP")}
    return TableSpec(name, columns, partition_by=(column,), event_time="happened_at", comment="x")


def declared(name: str, reads: str, partitions: Any, expects: Expects, column: str = "day") -> LakeTable:
    """A table that nobody computes, with its expectations."""

    def build(step: Step, into: Target) -> WriteResult:
        raise AssertionError("nobody computes it")

    return lake_table(
        spec(name, column),
        reads=Reads({spec(reads, column): same(column)}),
        runs=Runs(partitions),
        about=About("team:x", expects=expects),
        patterns=[Table.overwrite],
        code_version="1",
    )(build)


TABLES = [
    declared("bronze/orders", "source/orders", DAILY, Expects(volume=VOLUME, due=Due("05:30"))),
    declared("silver/orders", "bronze/orders", DAILY, Expects(volume=VOLUME, due=Due("06:00"))),
    declared("gold/revenue", "silver/orders", DAILY, Expects(due=Due("08:00", zone="Europe/Berlin"))),
    declared("gold/regions", "source/orders", DAILY, Expects(variation=0.5)),
    declared("bronze/clicks", "source/clicks", HOURLY, Expects(gap_minutes=150)),
    declared("silver/clicks", "bronze/clicks", HOURLY, Expects(lag_minutes=180)),
    declared("bronze/partners", "source/partners", DAILY, Expects(gap_minutes=240, quiet=OFFICE)),
]


class Receiver:
    """A channel that notes every message with the time of its delivery."""

    name, address = "receiver", ""

    def __init__(self) -> None:
        self.heard: list[tuple[datetime, Any]] = []
        self.now = utc(BEGIN)

    def send(self, message: Any) -> str:
        self.heard.append((self.now, message))
        return "taken"


class World:
    """The logs of all tables, and the observation of them by a virtual clock."""

    def __init__(self, root: Path) -> None:
        self.lake = Lake(root=str(root / "lake"), engine=SparkEngine())
        names = {table.spec.name for table in TABLES}
        self.logs = {name: LogOverTime(root / "lake" / name, name) for name in names}
        for log in self.logs.values():
            log.create(utc(BEGIN - timedelta(days=HISTORY)))
        self.store, self.receiver, self.written = LocalStore(str(root / "alerts")), Receiver(), {}
        self.journal = Journal(folder=str(root / "journal"))
        self.restart()

    def restart(self) -> None:
        """Begin again with what is in files."""
        stored = self.journal.samples()
        self.rounds = Rounds(TABLES, from_json(stored) if stored else [])

    def write(self, moment: Moment, *, append: bool = False) -> None:
        """Write what a moment says; a table downstream notes the version of its input."""
        upstream = self.written.get((moment.table.replace("silver", "bronze"), moment.key))
        follows = moment.table == "silver/clicks"
        version = self.logs[moment.table].write(
            moment.at,
            moment.key,
            moment.rows,
            newest=moment.newest,
            append=append or moment.table == "bronze/partners",
            upstream=upstream if follows else None,
        )
        self.written[moment.table, moment.key] = version

    def disturb(self, oddity: Oddity, last: dict[str, Moment]) -> None:
        """Do something harmless."""
        log, moment = self.logs[oddity.table], last[oddity.table]
        simple = {"optimize": log.optimize, "vacuum": log.vacuum, "alter": log.alter, "empty commit": log.empty}
        if oddity.kind in simple:
            simple[oddity.kind](oddity.at)
        elif oddity.kind == "restart":
            self.restart()
        elif oddity.kind in ("rerun", "late file", "retry") and oddity.table != "bronze/partners":
            few = moment.rows if oddity.kind == "rerun" else max(moment.rows // 100, 1)
            for table in (oddity.table, oddity.table.replace("bronze", "silver")):
                if table in last:
                    again = Moment(oddity.at, table, moment.key, few, moment.newest)
                    self.write(again, append=oddity.kind != "rerun")

    def look(self, at: datetime, now: datetime, faults: Sequence[Fault]) -> None:
        """One round, at a time and with what the clock shows then."""
        end, position, identity = topic_at(at, list(faults))
        sample = LagSample(
            consumer=TOPIC, producer="visits", seen_at=now, produced=end, consumed=position, identity=identity
        )
        seen = self.rounds.judge(self.lake, now, samples=[sample])
        self.journal.keep_samples(to_json(self.rounds.samples))
        assert not seen.unjudged
        found = judged(seen.measured.measurements)
        outbox = AlertOutbox(self.store)
        outbox.observe(explain(found.troubles, upstream_of(TABLES)), now, undecided=found.undecided)
        self.receiver.now = at
        outbox.deliver([self.receiver], now)


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    """The plan, and everything that a receiver heard."""
    made, world = plan(SEED, faults=FAULTS, oddities=ODDITIES), World(tmp_path_factory.mktemp("month"))
    moments, oddities, last = iter(made.moments), list(made.oddities), {}
    moment, now = next(moments), utc(BEGIN)
    while now < utc(BEGIN + timedelta(days=DAYS)):
        due = [each for each in oddities if each.at <= now]
        oddities = oddities[len(due) :]
        while moment is not None and moment.at <= now:
            world.write(moment)
            last[moment.table] = moment
            moment = next(moments, None)
        shown = now
        for oddity in due:
            world.disturb(oddity, last)
            shown += {"clock ahead": 1, "clock behind": -1}.get(oddity.kind, 0) * timedelta(hours=3)
        world.look(now, shown, made.faults)
        now += TICK
    return made, world.receiver.heard


@pytest.mark.promise("a-month-of-faults-is-heard")
def test_every_fault_is_announced_once_and_cleared_once(month):
    """And nothing that harms nobody is announced."""
    made, heard = month
    episodes = {}
    for at, message in heard:
        episodes.setdefault(message.episode, []).append((at, message))
    unexplained, found = [], dict.fromkeys(range(len(made.faults)), 0)
    for messages in episodes.values():
        at, message = messages[0]
        about = [
            number
            for number, fault in enumerate(made.faults)
            if (fault.alert, fault.table) == (message.alert.kind, message.alert.table)
            and fault.begins <= at <= fault.ends + timedelta(hours=1)
        ]
        if len(about) != 1 or [each.event for _, each in messages] != ["raised", "cleared"]:
            unexplained.append([(f"{at:%m-%d %H:%M}", each.text) for at, each in messages])
            continue
        found[about[0]] += 1
    missed = [made.faults[number] for number, times in found.items() if times != 1]
    assert (unexplained, missed) == ([], [])


@pytest.mark.promise("a-month-of-faults-is-heard")
def test_a_fault_is_heard_of_in_the_stated_time(month):
    """By its kind."""
    made, heard = month
    late = []
    for fault in made.faults:
        times = [
            at
            for at, message in heard
            if message.event == "raised"
            and (fault.alert, fault.table) == (message.alert.kind, message.alert.table)
            and fault.begins <= at <= fault.ends + timedelta(hours=1)
        ]
        hours = (times[0] - fault.begins).total_seconds() / 3600
        late += [(fault.kind, hours)] if hours > DELAYS[fault.kind] else []
    assert late == []
