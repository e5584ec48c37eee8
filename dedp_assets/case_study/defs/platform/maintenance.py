"""Maintenance of every table of the lake: order where declared, compaction where worthwhile, vacuum, abandoned stages.

Replicas and tables that show versions are left out.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import (
    PatternError,
    Provenance,
    Table,
    compact,
    judge_manifest,
    plan_compaction,
    vacuum,
    write_manifest,
)
from dedp_assets.patterns.delta import serves
from dedp_assets.patterns.delta.maintenance import remove_stages
from dedp_assets.patterns.storage.metadata_enhancer import enhance_statistics
from dedp_assets.patterns.storage.sorter import sort_files

KEY = ["platform", "maintenance"]
RETENTION_HOURS = 30 * 24
"""How long replaced rows can be read and restored: longer than any reader lags behind."""
STAGE_HOURS = 7 * 24
"""How long the rows of a refused or crashed write can be looked at."""
SORTED = {"silver/visits": ("event_time", "page")}
"""Tables whose files are kept in order, by the columns that most queries name."""
_PATTERNS = "ingestion.compactor, storage.sorter, storage.metadata_enhancer"
_SIZES = {
    "table": ("string", "layer/dataset"),
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
REPORT = dg.TableSchema([dg.TableColumn(name, kind, meaning) for name, (kind, meaning) in _SIZES.items()])


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            KEY,
            description="Data files of every table, merged where they are many and small, and removed from disk "
            f"{RETENTION_HOURS // 24} days after they were replaced. Rows never change, so nothing downstream is asked "
            f"for. What refused and crashed writes left beside the tables goes after {STAGE_HOURS // 24} days.\n\n"
            "Patterns at work: Compactor, Sorter, Metadata Enhancer.",
            metadata={"dagster/column_schema": REPORT, "patterns": _PATTERNS},
            group_name="platform",
            code_version="1",
            owners=["team:platform"],
            tags={"dedp/pattern": "ingestion.compactor", "dedp/chapter": "ingestion"},
            kinds={"spark", "deltalake", "platform"},
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(
            "no_table_has_many_small_files",
            asset=KEY,
            description="Warns where compaction gave way to other writers or failed.",
            blocking=True,
        )
    ],
    name="platform_maintenance",
    pool="platform_maintenance",
)
def maintenance(context: dg.AssetExecutionContext, lake: Lake, clock: Clock) -> Iterator[Any]:
    """Maintain every table in turn; a failed table does not stop the others.

    What shows versions is left out: which of them go is for nobody to decide by night.
    """
    now, failures = clock.now(), {}
    run = Provenance(asset="/".join(KEY), run_id=context.run.run_id, at=now)
    rows: list[dict[str, Any]] = []
    names = [name for name in lake.names() if not lake.ledger(name).state().closed]
    for name in names:
        try:
            rows.append(_maintain(lake.stored(name), run, now))
        except PatternError as error:
            failures[name] = str(error)
    metadata: dict[str, Any] = {
        "tables": dg.MetadataValue.table([dg.TableRecord(row) for row in rows], REPORT),
        **_totals(rows),
    }
    plans = {name: plan_compaction(lake.ledger(name)) for name in names}
    left = {name: dg.MetadataValue.json(dict(plan.causes)) for name, plan in plans.items() if plan.partitions}
    yield dg.AssetCheckResult(
        asset_key=KEY,
        check_name="no_table_has_many_small_files",
        passed=not left,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=left,
    )
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


def _maintain(table: Table, run: Provenance, now: datetime) -> dict[str, Any]:
    before = _size(table)
    # What is sorted has large files, so that no compaction is due.
    in_order = sort_files(table.target(run), by=SORTED[table.name]) if table.name in SORTED else None
    compacted = compact(table.target(run))
    described = enhance_statistics(table.target(run)) if serves(table.ledger.state()) else None
    stages = remove_stages(table, cutoff=now - timedelta(hours=STAGE_HOURS))
    cleaned = vacuum(table.target(run), retention_hours=RETENTION_HOURS, now=now)
    if judge_manifest(table).figures["manifest version"] is not None:
        write_manifest(table)  # compaction and vacuum made versions, of other files
    after = _size(table)
    return {
        "table": table.name,
        "files_before": before[0],
        "files_after": after[0],
        "bytes_before": before[1],
        "bytes_after": after[1],
        "average_before": before[1] // max(before[0], 1),
        "average_after": after[1] // max(after[0], 1),
        "files_removed": cleaned.figures["files_removed"],
        "bytes_removed": cleaned.figures["bytes_removed"],
        "files_described": described.figures["files_described"] if described else 0,
        "stages_removed": stages.removed,
        "stages_bytes": stages.freed,
        "stages_kept": stages.younger,
        "stages_in_use": stages.in_use,
        "outcome": "; ".join(done.reason for done in (in_order, compacted, described, cleaned) if done),
    }


def _size(table: Table) -> tuple[int, int]:
    parts = table.ledger.state().statistics().values()
    return sum(part.files for part in parts), sum(part.bytes for part in parts)


def _totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    numbers = [name for name, (kind, _) in _SIZES.items() if kind == "bigint" and not name.startswith("average")]
    return {name.replace("_", " "): sum(row[name] for row in rows) for name in numbers}
