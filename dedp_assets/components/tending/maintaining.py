"""Definitions of a declared maintenance for Dagster: asset, checks of the inspections, job and start."""

# Without `from __future__ import annotations`: Dagster reads the annotations of a sensor's function.

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dagster as dg

from dedp_assets.components.tending.upkeep import Action, At, Done, OnPlan, Upkeep
from dedp_assets.graph.catalogue.rendering import check_result
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.runs import Job, OnRequest
from dedp_assets.graph.declare.starting import LakeJob, job_of, starting
from dedp_assets.graph.outcomes.run_tags import provenance_of
from dedp_assets.graph.reconcile.requests import decide, is_running
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.results import Finding, Plan

__all__ = ["maintenance_of"]

_REPORT = dg.TableSchema(
    [
        dg.TableColumn("table", "string", "layer/dataset"),
        dg.TableColumn("action", "string", "function of the pattern"),
        dg.TableColumn("outcome", "string", "what was done, found or planned, or why nothing was"),
        dg.TableColumn("figures", "string", "measured numbers, as JSON"),
    ]
)
_CAUSE = "maintenance"


def maintenance_of(upkeep: Upkeep) -> dg.Definitions:
    """Return asset, checks, job, schedule and sensor of a declared maintenance."""
    start = OnRequest() if isinstance(upkeep.when, OnPlan) else upkeep.when
    description = upkeep.description or f"Maintenance of {upkeep.name}."
    job = Job(f"maintain_{_plain(upkeep.name)}", description, selection=f'key:"{upkeep.name}"')
    declared = LakeJob(None, job, start)
    sensors = [_sensor(upkeep, upkeep.when, declared)] if isinstance(upkeep.when, OnPlan) else []
    return dg.Definitions.merge(starting([declared]), dg.Definitions(assets=[_asset(upkeep)], sensors=sensors))


def _plain(name: str) -> str:
    return name.replace("/", "_")


def _asset(upkeep: Upkeep) -> dg.AssetsDefinition:
    patterns = list(dict.fromkeys(_pattern(action) for action in upkeep.actions))
    checks = _checks(upkeep)
    spec = dg.AssetSpec(
        upkeep.name.split("/"),
        description=upkeep.description or None,
        metadata={"dagster/column_schema": _REPORT, "patterns": ", ".join(patterns)},
        group_name=upkeep.name.split("/")[0],
        owners=[upkeep.owner],
        tags={"dedp/pattern": patterns[0], "dedp/chapter": patterns[0].partition(".")[0]},
        kinds={"spark", "deltalake"},
    )

    @dg.multi_asset(
        specs=[spec],
        check_specs=checks,
        name=_plain(upkeep.name),
        pool=_plain(upkeep.name),
        required_resource_keys={"lake", "clock"},
    )
    def maintain(context: dg.AssetExecutionContext) -> Iterator[Any]:
        now, lake = context.resources.clock.now(), context.resources.lake
        run = provenance_of(context.run, upkeep.name, code_version="1", at=now)
        done = [each for table in upkeep.stored(lake) for each in upkeep.on(At(table, lake, now, run))]
        metadata = _metadata(done)
        yield from _results(upkeep, done, {check.name for check in checks})
        if failed := {each.table: each.outcome for each in done if each.failed}:
            context.log_event(dg.AssetMaterialization(spec.key, metadata=metadata))
            raise dg.Failure("; ".join(failed.values()), metadata=failed, allow_retries=False)
        yield dg.MaterializeResult(asset_key=spec.key, metadata=metadata)

    return maintain


def _checks(upkeep: Upkeep) -> list[dg.AssetCheckSpec]:
    """Return a check for each inspection: of each named table, or of all tables together."""
    return [
        dg.AssetCheckSpec(name, asset=upkeep.name.split("/"), description=action.operation.summary)
        for action in upkeep.actions
        if action.operation.kind == "inspect"
        for name in (
            [action.label] if upkeep.tables == "all" else [_check(t.name, action.label) for t in upkeep.tables]
        )
    ]


def _check(table: str, label: str) -> str:
    return f"{_plain(table)}_{label}"


def _results(upkeep: Upkeep, done: list[Done], known: set[str]) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of each check, also of an inspection that was not reached."""
    found: dict[str, dict[str, Finding]] = {}
    for each in done:
        name = each.action if upkeep.tables == "all" else _check(each.table, each.action)
        if isinstance(each.result, Finding):
            found.setdefault(name, {})[each.table] = each.result
    for name in sorted(known):
        missing = {"": Finding(name, passed=False, severity="warn", note="no table was inspected")}
        yield check_result(upkeep.name, name, found.get(name) or missing)


def _metadata(done: list[Done]) -> dict[str, Any]:
    rows = [
        dg.TableRecord({"table": d.table, "action": d.action, "outcome": d.outcome, "figures": _figures(d.result)})
        for d in done
    ]
    return {"actions": dg.MetadataValue.table(rows, _REPORT), "tables": len({each.table for each in done})}


def _figures(result: Any) -> str:  # noqa: ANN401 - of any pattern
    shown = {"partitions": list(result.partitions)} if isinstance(result, Plan) else getattr(result, "figures", {})
    return json.dumps(dict(shown), default=str)


def _pattern(action: Action) -> str:
    return ".".join(action.operation.name.split(".")[:2])


def _sensor(upkeep: Upkeep, start: OnPlan, declared: LakeJob) -> dg.SensorDefinition:
    status = dg.DefaultSensorStatus.RUNNING if start.running else dg.DefaultSensorStatus.STOPPED
    options: dict[str, Any] = {
        "name": f"{_plain(upkeep.name)}_plans",
        "minimum_interval_seconds": start.every_seconds,
        "default_status": status,
        "description": start.description or f"Plans of {upkeep.name}.",
        "required_resource_keys": {"lake", "clock"},
    }
    target = {"asset_selection": [asset_key(start.computes)]} if start.computes else {"job": job_of(declared)}
    return dg.sensor(**options, **target)(_looking(upkeep, start, declared.job.name))


def _looking(upkeep: Upkeep, start: OnPlan, job: str) -> Callable[..., Any]:
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if not start.computes and is_running(context.instance, job):
            return dg.SkipReason(f"{job} is running")
        try:
            plans = _plans(upkeep, context.resources.lake, context.resources.clock.now())
        except PatternError as error:
            return dg.SkipReason(str(error))
        asset = start.computes.name if start.computes else upkeep.name
        plan = _merged(plans) if start.computes else _as_a_whole(plans, asset)
        asked = {} if start.computes else {"job_name": job}
        decision = decide(context.instance, plan, asset=asset, repository=context.repository_def, **asked)
        if decision.requests:
            return dg.SensorResult(run_requests=list(decision.requests))
        return dg.SkipReason("; ".join([plan.reason, *decision.held.values()]))

    return evaluate


def _plans(upkeep: Upkeep, lake: Lake, now: Any) -> dict[str, list[Plan]]:  # noqa: ANN401 - a time
    """Compute the plans of each table; a partition without a version has the version of the table."""
    found: dict[str, list[Plan]] = {}
    for table in upkeep.stored(lake):
        version = table.ledger.version() if table.ledger.exists() else -1
        for action in upkeep.plans if version >= 0 else ():
            plan = action.on(At(table, lake, now))
            if isinstance(plan, Plan):
                cursor = {key: plan.cursor.get(key, version) for key in plan.partitions}
                causes = {key: plan.causes.get(key, _CAUSE) for key in plan.partitions}
                found.setdefault(f"{table.name}@{version}", []).append(replace(plan, cursor=cursor, causes=causes))
    return found


def _merged(plans: dict[str, list[Plan]]) -> Plan:
    """Return the plans of all tables as one."""
    every = [plan for of_table in plans.values() for plan in of_table]
    causes, held, cursor = (
        {k: v for p in every for k, v in getattr(p, n).items()} for n in ("causes", "held", "cursor")
    )
    keys = tuple(dict.fromkeys(key for plan in every for key in plan.partitions))
    return Plan(keys, "; ".join(plan.reason for plan in every) or "no table is there yet", causes, held, cursor)


def _as_a_whole(plans: dict[str, list[Plan]], asset: str) -> Plan:
    """Return the plan of one run of all actions, for the versions of the tables with a planned partition."""
    due = {at: [plan.reason for plan in found if plan.partitions] for at, found in plans.items()}
    due = {at: reasons for at, reasons in due.items() if reasons}
    if not due:
        return Plan((), _merged(plans).reason)
    reason = "; ".join(f"{at}: {', '.join(reasons)}" for at, reasons in due.items())
    return Plan((asset,), reason, causes={asset: _CAUSE}, cursor={asset: ", ".join(due)})
