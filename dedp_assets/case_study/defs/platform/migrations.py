"""Schema migrations of any table, one phase per run; without a configuration, a report on all of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg
from pydantic import Field

import dedp_assets.case_study.defs as case_study
from dedp_assets.graph.catalogue.figures import labelled
from dedp_assets.graph.checks.lineage import column_readers
from dedp_assets.graph.declare import declared
from dedp_assets.graph.outcomes.run_tags import provenance_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.column_traces import traced_last
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.ddl import field
from dedp_assets.patterns.quality._compatibility.schema_changes import STATE
from dedp_assets.patterns.quality._migration.phases import PHASES, Phase, Stored, stored
from dedp_assets.patterns.quality.schema_migrator import Migration, Retype, SplitText, migrate_schema

KEY = ["platform", "schema_migrations"]
_STATES = {
    "table": ("string", "layer/dataset"),
    "migration": ("string", "name of the migration in that table"),
    "phase": ("string", "declared, added, both, switched or removed"),
    "since": ("string", "when the phase was entered, UTC"),
    "deadline": ("string", "end of the grace period; empty until both forms are complete"),
}
REPORT = dg.TableSchema([dg.TableColumn(name, kind, meaning) for name, (kind, meaning) in _STATES.items()])


class MigrationConfig(dg.Config):
    """A table and the moves of a migration; the same configuration in each run, until the last phase."""

    table: str = Field(default="", description="layer/dataset; empty for the report alone")
    name: str = Field(default="", description="name of the migration, unique in the table")
    rename: dict[str, str] = Field(default={}, description="column -> new column")
    retype: dict[str, dict[str, Any]] = Field(default={}, description="column -> {to: new column, type: INT, ...}")
    split: dict[str, dict[str, Any]] = Field(default={}, description="text column -> {into: [new columns], by: text}")
    nest: dict[str, dict[str, str]] = Field(default={}, description="new struct column -> its field -> column")
    lift: dict[str, str] = Field(default={}, description="field of a struct column (device.os) -> new column")
    drop: list[str] = Field(default=[], description="columns that go without a new form")
    grace_days: int = Field(default=30, description="days from both forms being complete to the deadline")
    consumers: dict[str, list[str]] = Field(default={}, description="reader outside the graph -> old columns read")

    def migration(self) -> Migration:
        """Return the migration.

        Raises:
            ConfigError: if no such migration can work.
        """
        try:
            retype = {old: Retype(**rule) for old, rule in self.retype.items()}
            split = {old: SplitText(**rule) for old, rule in self.split.items()}
        except TypeError as error:
            raise ConfigError(f"retype and split must have the options of a move: {error}") from error
        plain = {name: getattr(self, name) for name in ("name", "rename", "nest", "lift", "drop", "grace_days")}
        return Migration(retype=retype, split=split, consumers=self.consumers, **plain)


@dataclass(frozen=True, slots=True)
class _State:
    """State of a migration, as stored in a table."""

    table: str
    name: str
    known: Stored

    def row(self) -> dict[str, str]:
        """Return the state as a row of the report."""
        known = self.known
        values = self.table, self.name, known.phase, known.at[known.phase], known.deadline
        return dict(zip(_STATES, values, strict=True))

    def is_overdue(self, now: datetime) -> bool:
        """Return whether the old columns are still there after the deadline."""
        return self.known.phase != "removed" and self.known.days_over(now) > 0


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            KEY,
            description="Migrations of columns: renamed, retyped, divided, moved and dropped in five phases. A run "
            "with a table and its moves takes the next phase, or fails with the reason; a run without a configuration "
            "reports all migrations by the tables' logs.\n\nPatterns at work: Schema Migrator.",
            metadata={"dagster/column_schema": REPORT, "patterns": "quality.schema_migrator"},
            group_name="platform",
            code_version="1",
            owners=["team:platform"],
            tags={"dedp/pattern": "quality.schema_migrator", "dedp/chapter": "quality"},
            kinds={"spark", "deltalake", "platform"},
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(
            "no_migration_is_overdue",
            asset=KEY,
            description="Warns of tables whose old columns are still there after the deadline.",
            blocking=True,
        )
    ],
    name="platform_schema_migrations",
    pool="platform_schema_migrations",
)
def schema_migrations(
    context: dg.AssetExecutionContext, config: MigrationConfig, lake: Lake, clock: Clock
) -> Iterator[Any]:
    """Take one phase of the configured migration, and report the migrations of all tables."""
    now, metadata = clock.now(), {}
    if config.table or config.name:
        try:
            metadata = _advanced(context.run, config, lake, now)
        except PatternError as error:
            raise dg.Failure(str(error), metadata={"table": config.table}, allow_retries=False) from error
    states = list(_states(lake))
    overdue = {f"{each.table}: {each.name}": each.known.deadline for each in states if each.is_overdue(now)}
    yield dg.AssetCheckResult(
        asset_key=KEY,
        check_name="no_migration_is_overdue",
        passed=not overdue,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=overdue,
    )
    rows = [dg.TableRecord(each.row()) for each in states]
    yield dg.MaterializeResult(asset_key=KEY, metadata={"migrations": dg.MetadataValue.table(rows, REPORT), **metadata})


migrate_tables = dg.define_asset_job(
    "migrate_tables",
    selection=dg.AssetSelection.assets(KEY),
    description="One phase of a schema migration; without a configuration, the state of all migrations.",
)
migrations_every_morning = dg.ScheduleDefinition(
    name="migrations_every_morning",
    job=migrate_tables,
    cron_schedule="30 5 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="At 05:30 UTC, the report alone: warns of old columns that outlive their deadline.",
)


def _advanced(run: dg.DagsterRun, config: MigrationConfig, lake: Lake, now: datetime) -> dict[str, Any]:
    """Take the next phase of a migration; return the metadata."""
    migration = config.migration()
    if config.table not in lake.names():
        raise ConfigError(f"table must be one of the lake's own, not {config.table!r}")
    known = stored(config.table, lake.ledger(config.table).state(), migration)
    phase = PHASES[min(known.reached + 1, len(PHASES) - 1) if known else 0]
    tables = declared(case_study)
    spec = next((spec for table in tables for spec in table.tables if spec.name == config.table), None)
    if spec is not None:
        _require_declaration(spec, migration, phase)
    lineages = {name: traced_last(lake.column_lineage(name)) for table in tables for name in table.lineage()}
    readers = column_readers(config.table, tables, {name: each for name, each in lineages.items() if each})
    into = lake.stored(config.table).target(provenance_of(run, "/".join(KEY), code_version="1", at=now))
    done = migrate_schema(into, now, migration=migration, to=phase, readers=readers)
    steps = dg.MetadataValue.md(migration.steps(config.table))
    return {"table": config.table, "state": done.reason, "steps": steps, **_metadata(done)}


def _metadata(done: WriteResult) -> dict[str, Any]:
    """Return the findings of a step as metadata: a verdict by name, and the figures."""
    found = labelled(done.figures, {})
    for each in done.findings:
        found |= {
            **labelled(each.figures, {}),
            each.name.replace("_", " "): each.note or ("yes" if each.passed else "no"),
        }
    return found


def _require_declaration(spec: TableSpec, migration: Migration, phase: Phase) -> None:
    """Refuse columns that the declaration contradicts: the table's own writer would be refused from then on.

    Raises:
        ConfigError: names the columns to declare, or to leave out.
    """
    missing = [name for name in migration.new_columns if not _declares(spec, name)]
    if phase == "added" and missing:
        raise ConfigError(
            f"{spec.name} must declare {', '.join(missing)} beside the old columns first: its runs fill both"
        )
    left = [".".join(old) for old in migration.old_columns if _declares(spec, *old)]
    if phase == "removed" and left:
        raise ConfigError(f"{spec.name} must no longer declare {', '.join(left)}: its runs would ask for them again")


def _declares(spec: TableSpec, column: str, *inside: str) -> bool:
    """Return whether a declaration has a column, or a field of a struct column."""
    known = {name.lower(): each for name, each in spec.columns.items()}.get(column.lower())
    if known is None or not inside:
        return known is not None
    kind = (field(column, known.type) or {"type": ""})["type"]
    return isinstance(kind, dict) and inside[0].lower() in {each["name"].lower() for each in kind.get("fields", ())}


def _states(lake: Lake) -> Iterator[_State]:
    """List the migrations of all tables, by the tables' logs."""
    for table in lake.names():
        for name, text in sorted(lake.ledger(table).state().properties.items()):
            if name.startswith(STATE):
                yield _State(table, name.removeprefix(STATE), Stored(**json.loads(text)))
