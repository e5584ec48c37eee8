"""Nightly maintenance by workload class of a table: sort order, compaction, vacuum, abandoned stages.

Replicas and tables that show versions are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.rendering import check_result
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import (
    Finding,
    PatternError,
    Plan,
    Provenance,
    Table,
    Target,
    compact,
    judge_manifest,
    judge_retention,
    plan_compaction,
    plan_maintenance,
    vacuum,
    workload_of,
    write_manifest,
)
from dedp_assets.patterns.core.layout import SORTED
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.delta import serves
from dedp_assets.patterns.delta.maintenance import Stages, expire_partitions, remove_stages, safe_hours
from dedp_assets.patterns.storage.metadata_enhancer import enhance_statistics
from dedp_assets.patterns.storage.sorter import plan_sorting, sort_files
from dedp_assets.patterns.storage.vacuum_optimize_policies import POLICIES, MaintenancePolicy, Workload

KEY = ["platform", "maintenance"]
BUSY = QuietHours(zone="UTC", start="08:00", end="18:00")
"""Hours of most queries, in which a scheduled run maintains no table."""
STAGE_HOURS = 7 * 24
"""How long the rows of a refused or crashed write can be looked at."""
_PATTERNS = "storage.vacuum_optimize_policies, ingestion.compactor, storage.sorter, storage.metadata_enhancer"
_SIZES = {
    "table": ("string", "layer/dataset"),
    "class": ("string", "class of the table, by writes and files; it decides intervals and retention"),
    "files_before": ("bigint", "data files of its newest version"),
    "files_after": ("bigint", "data files after compaction"),
    "bytes_before": ("bigint", "their size, in bytes"),
    "bytes_after": ("bigint", "their size after compaction, in bytes"),
    "average_before": ("bigint", "average size of a data file, in bytes"),
    "average_after": ("bigint", "average size of a data file after compaction, in bytes"),
    "files_removed": ("bigint", "old data files that the vacuum deleted"),
    "bytes_removed": ("bigint", "what that freed on disk, in bytes"),
    "files_described": ("bigint", "files of other writers whose statistics in the log were mended"),
    "stages_removed": ("bigint", "folders of refused or crashed writes that were removed"),
    "stages_bytes": ("bigint", "what that freed on disk, in bytes"),
    "stages_kept": ("bigint", "such folders that are not old enough"),
    "stages_in_use": ("bigint", "folders that a running write may still publish"),
    "outcome": ("string", "what was done, or why nothing was"),
}
_RETENTION = ", ".join(str(policy.retention_hours // 24) for policy in POLICIES.values())
REPORT = dg.TableSchema([dg.TableColumn(name, kind, meaning) for name, (kind, meaning) in _SIZES.items()])


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            KEY,
            description="Data files of every table, merged where they are many and small, and removed from disk "
            f"{_RETENTION} days after they were replaced, by the class of the table. Rows never change, so nothing "
            f"downstream is asked for. What refused and crashed writes left beside the tables goes after "
            f"{STAGE_HOURS // 24} days.\n\nPatterns at work: Vacuum Optimize Policies, Compactor, Sorter, Metadata "
            "Enhancer.",
            metadata={"dagster/column_schema": REPORT, "patterns": _PATTERNS},
            group_name="platform",
            code_version="1",
            owners=["team:platform"],
            tags={"dedp/pattern": "storage.vacuum_optimize_policies", "dedp/chapter": "storage"},
            kinds={"spark", "deltalake", "platform"},
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(
            "no_table_has_many_small_files",
            asset=KEY,
            description="Warns where compaction gave way to other writers or failed.",
            blocking=True,
        ),
        dg.AssetCheckSpec(
            "the_past_is_kept",
            asset=KEY,
            description="Warns of a table whose properties let replaced files go before the policy of its class does.",
            blocking=True,
        ),
    ],
    name="platform_maintenance",
    pool="platform_maintenance",
)
def maintenance(context: dg.AssetExecutionContext, lake: Lake, clock: Clock) -> Iterator[Any]:
    """Maintain every table in turn; a failed table does not stop the others.

    What shows versions is left out: which of them go is for nobody to decide by night.
    """
    now, failures = clock.now(), dict[str, str]()
    run = Provenance(asset="/".join(KEY), run_id=context.run.run_id, at=now)
    rows: list[dict[str, Any]] = []
    tables = _workloads(lake, now, failures)
    plan = _plan(tables, now, by_schedule="dagster/schedule_name" in context.run.tags)
    first = dict.fromkeys(job.partition(" ")[2] for job in plan.partitions)
    for name in (*first, *(name for name in tables if name not in first)):
        try:
            rows.append(_maintain(lake.stored(name).target(run), now, tables[name], plan))
        except PatternError as error:
            failures[name] = str(error)
    metadata: dict[str, Any] = {
        "tables": dg.MetadataValue.table([dg.TableRecord(row) for row in rows], REPORT),
        "plan": dg.MetadataValue.json({"reason": plan.reason, "jobs": dict(plan.causes), "held": dict(plan.held)}),
        **_totals(rows),
    }
    yield _files_are_few(lake, tables)
    yield _past_is_kept(lake, tables, now)
    if failures:
        context.log_event(dg.AssetMaterialization(KEY, metadata=metadata))
        raise dg.Failure("; ".join(failures.values()), metadata=failures, allow_retries=False)
    yield dg.MaterializeResult(asset_key=KEY, metadata=metadata)


maintain_tables = dg.define_asset_job(
    "maintain_tables",
    selection=dg.AssetSelection.assets(KEY),
    description="Compaction and vacuum of every table of the lake.",
)
maintenance_every_night = dg.ScheduleDefinition(
    name="maintenance_every_night",
    job=maintain_tables,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Compaction and vacuum at 03:00 UTC, apart from the jobs that write the tables.",
)


def _workloads(lake: Lake, now: datetime, failures: dict[str, str]) -> dict[str, Workload]:
    """Read the workload of each table; note the tables whose log cannot be judged."""
    found: dict[str, Workload] = {}
    for name in lake.names():
        ledger = lake.ledger(name)
        if ledger.state().closed:
            continue
        try:
            by = _order(lake.stored(name))
            plans = [plan_compaction(ledger), *([plan_sorting(ledger, **by)] if by else [])]
            found[name] = workload_of(ledger, plans, now=now)
        except PatternError as error:
            failures[name] = str(error)
    return found


def _order(table: Table) -> dict[str, Any]:
    """Return the declared order of a table, unless the table states another one, which a person changes."""
    layout, stated = table.spec.layout, table.ledger.state().properties.get(SORTED)
    by = layout.sort_by or layout.cluster_by
    return {"by": by, "curve": layout.curve} if by and stated in (None, layout.order) else {}


def _plan(tables: Mapping[str, Workload], now: datetime, *, by_schedule: bool) -> Plan:
    """Plan the jobs of a run; they run in turn, so that no number of jobs at once is reached."""
    most, avoid = max(len(tables), 1), (BUSY,) if by_schedule else ()
    return plan_maintenance([*tables.values()], now=now, avoid=avoid, most_optimize=most, most_vacuum=most)


def _files_are_few(lake: Lake, tables: Iterable[str]) -> dg.AssetCheckResult:
    plans = {name: plan_compaction(lake.ledger(name)) for name in tables}
    left = {name: dg.MetadataValue.json(dict(plan.causes)) for name, plan in plans.items() if plan.partitions}
    return dg.AssetCheckResult(
        asset_key=KEY,
        check_name="no_table_has_many_small_files",
        passed=not left,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=left,
    )


def _past_is_kept(lake: Lake, tables: Mapping[str, Workload], now: datetime) -> dg.AssetCheckResult:
    policies = {name: _policy(lake.stored(name), table, now) for name, table in tables.items()}
    kept = {name: judge_retention(lake.ledger(name), policy=policy) for name, policy in policies.items()}
    return check_result("/".join(KEY), "the_past_is_kept", kept or {"": Finding("the_past_is_kept", passed=True)})


def _policy(table: Table, workload: Workload, now: datetime) -> MaintenancePolicy:
    """Return the policy of the table's class, with the retention that the table declares."""
    policy, declared = POLICIES[workload.table_class(now)], table.spec.layout.retention_hours
    return replace(policy, retention_hours=declared) if declared else policy


def _maintain(into: Target, now: datetime, workload: Workload, plan: Plan) -> dict[str, Any]:
    table, kind = into.table, workload.table_class(now)
    version, before, done = table.ledger.version(), _size(table), list[str]()
    expired = expire_partitions(table, into.run, now=now)
    done += [expired.reason] if expired else []
    described, stages, figures = 0, Stages(), dict.fromkeys(("files_removed", "bytes_removed"), 0)
    if f"optimize {table.name}" in plan.causes:
        # What is sorted has large files, so that no compaction is due.
        done += [sort_files(into, **by).reason] if (by := _order(table)) else []
        done.append(compact(into).reason)
        if serves(table.ledger.state()):
            mended = enhance_statistics(into)
            described = mended.figures["files_described"]
            done.append(mended.reason)
    if f"vacuum {table.name}" in plan.causes:
        stages = remove_stages(table, cutoff=now - timedelta(hours=STAGE_HOURS))
        kept = max(_policy(table, workload, now).retention_hours, safe_hours(table.ledger.state()))
        cleaned = vacuum(into, retention_hours=kept, now=now)
        figures |= cleaned.figures
        done.append(cleaned.reason)
    if table.ledger.version() != version and judge_manifest(table).figures["manifest version"] is not None:
        write_manifest(table)  # of the versions that this made, with other files
    after = _size(table)
    return {
        "table": table.name,
        "class": kind,
        "files_before": before[0],
        "files_after": after[0],
        "bytes_before": before[1],
        "bytes_after": after[1],
        "average_before": before[1] // max(before[0], 1),
        "average_after": after[1] // max(after[0], 1),
        "files_removed": figures["files_removed"],
        "bytes_removed": figures["bytes_removed"],
        "files_described": described,
        "stages_removed": stages.removed,
        "stages_bytes": stages.freed,
        "stages_kept": stages.younger,
        "stages_in_use": stages.in_use,
        "outcome": "; ".join(
            [*done, *(f"{job}: {plan.held[job]}" for job in plan.held if job.endswith(f" {table.name}"))]
        ),
    }


def _size(table: Table) -> tuple[int, int]:
    parts = table.ledger.state().statistics().values()
    return sum(part.files for part in parts), sum(part.bytes for part in parts)


def _totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    numbers = [name for name, (kind, _) in _SIZES.items() if kind == "bigint" and not name.startswith("average")]
    return {name.replace("_", " "): sum(row[name] for row in rows) for name in numbers}
