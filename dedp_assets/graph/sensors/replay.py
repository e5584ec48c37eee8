"""Replay: a new code version runs the open dead letters of older code again, date by date.

The process keeps the open letters of each date, so a tick pays for new commits only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.replays import letters_of, replay_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.requests import decide
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Commit, Ledger, LogFold
from dedp_assets.patterns.error_management.dead_letter_replay import plan_replay

__all__ = ["OpenLetters", "dead_letters_fixed"]

_UNKNOWN = ""


def dead_letters_fixed(tables: Sequence[LakeTable[...]]) -> dg.SensorDefinition:
    """Make the sensor over every declared table with a replay of dead letters.

    Args:
        tables: the declared tables of the graph.
    """
    diverting = {table: letters_of(table) for table in tables if table.runs.replay}
    known: dict[tuple[str, str], OpenLetters] = {}
    replays = {table.spec.name: "/".join(replay_key(table).path) for table in diverting}

    @dg.sensor(
        name="dead_letters_fixed",
        asset_selection=dg.AssetSelection.assets(*map(replay_key, diverting)),
        minimum_interval_seconds=6 * settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="A new code version of a table replays the dead letters that an older one refused, date by date: "
        + ", ".join(table.spec.name for table in diverting),
        required_resource_keys={"lake"},
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        requests: list[dg.RunRequest] = []
        reasons: list[str] = []
        errors = TableErrors()
        for table, letters in diverting.items():
            with errors.at(letters.name):
                lake = context.resources.lake
                log = known.setdefault((lake.root, letters.name), OpenLetters(letters))
                plan = log.plan(lake.ledger(letters.name), code_version=_deployed(context, table))
                requests += decide(
                    context.instance,
                    plan,
                    asset=table.spec.name,
                    computes=[replays[table.spec.name]],
                    repository=context.repository_def,
                ).requests
                reasons.append(f"{letters.name}: {plan.reason}")
        errors.report(context, fail=not requests)
        if requests:
            return dg.SensorResult(run_requests=requests)
        return dg.SensorResult(skip_reason="; ".join(reasons))

    return evaluate


def _deployed(context: dg.SensorEvaluationContext, table: LakeTable[...]) -> str:
    """Return the deployed code version of a table."""
    graph = context.repository_def.asset_graph if context.repository_def else None
    return (graph.get(asset_key(table.spec)).code_version if graph else None) or table.code_version


@dataclass(slots=True)
class OpenLetters:
    """Open letters of a table by date, kept up to date with the table's log.

    Attributes:
        spec: the table of the letters.
        letters: date -> number of open letters, and the version of the code that refused them; the date is empty
            without partitions. Dates that the log no longer tells about count as refused by unknown code.
    """

    spec: TableSpec
    letters: dict[str, tuple[int, str]] = field(default_factory=dict)
    _fold: LogFold[Commit] = field(init=False)

    def __post_init__(self) -> None:
        self._fold = LogFold(lambda ledger, since: ledger.commits(since=since), self._take, self._forget, self._begin)

    def plan(self, ledger: Ledger, *, code_version: str) -> Plan:
        """Plan replays of the dates whose dead letters were refused by another version of the code."""
        if not ledger.exists():
            return Plan((), "there are no dead letters")
        self._fold.poll(ledger)
        held = {day: letter for day, letter in self.letters.items() if letter[0]}
        refused_by = {day: code for day, (_, code) in held.items()}
        return plan_replay({day: count for day, (count, _) in held.items()}, refused_by, code_version=code_version)

    def _begin(self, ledger: Ledger) -> int:
        first = ledger.begins_at()
        if first == 0 or ledger.files.tells_from() == 0:
            return -1
        for values, stats in ledger.state(first).statistics().items():
            if (day := self._day(dict(values))) is not None:
                self.letters[day] = (stats.rows, _UNKNOWN)
        return first - 1

    def _take(self, commit: Commit) -> None:
        if commit.record and (day := self._day(commit.record.partition)) is not None:
            found = int(commit.record.figures.get("open", commit.rows_added))
            self.letters[day] = (found, commit.record.code_version)

    def _forget(self) -> None:
        self.letters = {}

    def _day(self, partition: Mapping[str, str | None]) -> str | None:
        """Return the date that letters are filed under; ``None`` for a commit about no date."""
        column = next(iter(self.spec.partition_by), "")
        return partition.get(column) or None if column else ""
