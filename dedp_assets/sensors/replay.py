"""Replay: a new code version runs the open dead letters of older code again, date by date.

The cursor keeps the version looked at and the open letters of each date, so a tick pays for new commits only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.replays import letters_of, replay_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.requests import decide
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.error_management.dead_letter_replay import plan_replay
from dedp_assets.resources.environments import settings

__all__ = ["dead_letters_fixed"]

_UNKNOWN = ""


def dead_letters_fixed(tables: Sequence[LakeTable[...]]) -> dg.SensorDefinition:
    """Make the sensor over every declared table with a replay of dead letters.

    Args:
        tables: the declared tables of the graph.
    """
    diverting = {table: letters_of(table) for table in tables if table.runs.replay}
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
        cursor: dict[str, Any] = json.loads(context.cursor or "{}")
        requests: list[dg.RunRequest] = []
        reasons: list[str] = []
        after: dict[str, Any] = {}
        errors = TableErrors()
        for table, letters in diverting.items():
            with errors.at(letters.name):
                ledger, known = context.resources.lake.ledger(letters.name), cursor.get(letters.name, {})
                plan, after[letters.name] = _plan(ledger, letters, known, code_version=_deployed(context, table))
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
            return dg.SensorResult(run_requests=requests, cursor=json.dumps(after))
        return dg.SensorResult(skip_reason="; ".join(reasons), cursor=json.dumps(after))

    return evaluate


def _deployed(context: dg.SensorEvaluationContext, table: LakeTable[...]) -> str:
    """Return the deployed code version of a table."""
    graph = context.repository_def.asset_graph if context.repository_def else None
    return (graph.get(asset_key(table.spec)).code_version if graph else None) or table.code_version


def _plan(
    ledger: Ledger, spec: TableSpec, cursor: Mapping[str, Any], *, code_version: str
) -> tuple[Plan, Mapping[str, Any]]:
    """Plan replays of the dates whose dead letters were refused by another version of the code."""
    if not ledger.exists():
        return Plan((), "there are no dead letters"), cursor
    column = next(iter(spec.partition_by), "")
    version, letters = _letters(ledger, column, cursor.get("version", -1), cursor.get("letters", {}))
    open_letters = {day: count for day, (count, _) in letters.items()}
    refused_by = {day: code for day, (_, code) in letters.items()}
    plan = plan_replay(open_letters, refused_by, code_version=code_version)
    return plan, {"version": version, "letters": letters}


def _letters(
    ledger: Ledger, column: str, since: int, known: Mapping[str, tuple[int, str]]
) -> tuple[int, dict[str, tuple[int, str]]]:
    """Return the newest version, and per date the number of open letters with the refusing code version.

    Dates that the log no longer tells about count as refused by unknown code. Without partitions the date is empty.
    """
    version, letters = ledger.resume(since), dict(known)
    if version < since:
        letters = {}
    for commit in ledger.commits(since=version):
        if commit.version > version + 1:
            active = ledger.state(commit.version).statistics()
            held = {_day(dict(values), column): stats.rows for values, stats in active.items()}
            letters = {day: letters.get(day, (rows, _UNKNOWN)) for day, rows in held.items() if day is not None}
        if commit.record and (day := _day(commit.record.partition, column)) is not None:
            letters[day] = (int(commit.record.figures.get("open", commit.rows_added)), commit.record.code_version)
        version = commit.version
    return version, {day: letter for day, letter in letters.items() if letter[0]}


def _day(partition: Mapping[str, str | None], column: str) -> str | None:
    """Return the date that letters are filed under, empty in a table without partitions.

    ``None`` for a commit about no date.
    """
    return partition.get(column) or None if column else ""
