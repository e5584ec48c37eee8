"""Checks of stored data, run on their own from the UI or every morning, without computing a table.

The checks of a run judge rows before they are published. These judge the table as it lies there, whoever wrote it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import dagster as dg

from dedp_assets.graph.catalogue.calendars import calendar_of, is_within_a_day
from dedp_assets.graph.catalogue.figures import labelled
from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.checks.null_shares import NullCounts, judge_null_shares
from dedp_assets.graph.declare.defaults import USUAL_NULLS, USUAL_VOLUME, takes_null_shares, takes_volume
from dedp_assets.graph.outcomes.run_tags import keys_of
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.errors import PatternError, SchemaMismatch
from dedp_assets.patterns.core.leaving import EXPORTS
from dedp_assets.patterns.core.measuring.activity import Activity, PartitionSize
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import TableLayout, TableSpec
from dedp_assets.patterns.core.types.ddl import field
from dedp_assets.patterns.delta import (
    Table,
    broken_rules,
    lost_files,
    lost_files_message,
    repeated_keys,
)
from dedp_assets.patterns.delta.maintenance import judge_layout
from dedp_assets.patterns.governance.column_classifier import judge_classes
from dedp_assets.patterns.idempotency.proxy import judge_exposure, load_version
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, judge_versions
from dedp_assets.patterns.observability.skew_detector import detect_skew
from dedp_assets.patterns.quality.schema_compatibility_enforcer import enforce_compatibility

if TYPE_CHECKING:
    from dedp_assets.graph.declare.tables import LakeTable

__all__ = ["STORED", "judge_recency", "stored_checks"]

_READ_BY_OTHERS = ("gold", *EXPORTS)
"""Layers whose columns have a class."""
_NEVER = datetime.max.replace(tzinfo=timezone.utc)
STORED = {
    "files_are_there": "Every data file that the newest version names is there, whole. Reads the log, not the files.",
    "declared_schema_is_compatible": "The stored table can take over the declared columns, and readers of the new ones "
    "can read the stored rows; what is missing is added by the next write. Reads the log alone.",
    "stored_rows_keep_constraints": "Every stored row satisfies NOT NULL and CHECK; in a partition's run, its rows.",
    "data_is_recent": "The newest data is no older than the table declares.",
    "newest_volume_is_usual": "The newest partition that is over has as many rows as usual: as other partitions of the "
    f"same weekday, or with less than six weeks, half to twice of the {USUAL_VOLUME.last} before it (median).",
    "null_shares_are_usual": "The newest partition that is over has as many NULL values in each column as usual: the "
    f"share is at most {USUAL_NULLS.tolerance:.0%} of the rows, and the error of few rows, from the median of the "
    f"{USUAL_NULLS.last} partitions before it. Reads the log's statistics.",
    "keys_are_unique": "No two stored rows share a key, whoever wrote them.",
    "versions_are_sound": "The stored versions of each key follow each other: no overlap, no gap, at most one current.",
    "layout_is_as_declared": "Partitions, buckets, order, statistics and filters are stored as the table "
    "declares them. Reads the log alone.",
    "personal_columns_are_declared": "No column that looks personal, by its name or a sample of values, is of no class "
    "or public: others read this layer. Shows counts and no value.",
    "every_version_is_readable": "Every version that was shown has its files, and the table shows one as it is.",
}
"""Name of a check -> its description in the UI."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """The table, time and partitions of a check.

    Attributes:
        declared: the table's declaration.
        table: the table.
        now: the time.
        partitions: the partitions to look at; empty for all.
    """

    declared: "LakeTable[...]"
    table: Table
    now: datetime
    partitions: Sequence[Mapping[str, str]]

    def rows_by_key(self) -> dict[str, int]:
        """Count the rows of each completed partition of time, by the log."""
        column, found = self.table.spec.partition_by[0], dict[str, int]()
        for partition, stats in self.table.ledger.state().statistics().items():
            key = dict(partition)[column]
            if key is not None and stats.rows and self.end(key) <= self.now:
                found[key] = found.get(key, 0) + stats.rows
        return dict(sorted(found.items()))

    def end(self, key: str) -> datetime:
        """Return the end of a partition's time; the last time of all for a partition about no time."""
        span = calendar_of(self.declared.runs.partitions)(key)
        return span.end if span else _NEVER


def stored_checks(declared: "LakeTable[...]") -> dg.AssetChecksDefinition:
    """Return the stored-data checks of a declared table and of the other tables of the same step."""
    by_key = {asset_key(table): table for table in declared.tables}
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=STORED[name], metadata={RUNS_ALONE: True})
        for key, table in by_key.items()
        for name in _names(declared, table)
    ]

    @dg.multi_asset_check(
        specs=specs,
        can_subset=True,
        name=f"{declared.name}_stored",
        required_resource_keys={"lake", "clock"},
        description=f"What is stored of {declared.spec.name}, judged as it lies there.",
    )
    def judge(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        lake, now = context.resources.lake, context.resources.clock.now()
        days = declared.runs.partitions
        keys = keys_of(context.run.tags, days) if days else ()
        for check in sorted(context.selected_asset_check_keys):
            table = lake.table(by_key[check.asset_key])
            partitions = [] if table.spec.executed_by else [owned_by(key, table.spec) for key in keys]
            finding = _judged(check.name, _Checked(declared, table, now, partitions))
            yield _result(check, finding)

    return judge


def judge_recency(declared: "LakeTable[...]", table: Table, now: datetime) -> Finding:
    """Judge the age of a table's newest data by the log.

    Args:
        declared: the table's declaration.
        table: the table.
        now: current time, with time zone.

    Returns:
        A finding with the figure ``age_seconds``, which is missing where no data is complete.
    """
    return _recent(_Checked(declared, table, now, ()))


def _names(declared: "LakeTable[...]", table: TableSpec) -> list[str]:
    main = table == declared.spec
    offered = {
        "declared_schema_is_compatible": all(field(name, c.type) for name, c in table.columns.items()),
        "data_is_recent": main and declared.fresh,
        "newest_volume_is_usual": main and takes_volume(declared),
        "null_shares_are_usual": main and takes_null_shares(declared),
        "keys_are_unique": table.key,
        "layout_is_as_declared": table.layout != TableLayout(),
        "versions_are_sound": table.columns.keys() >= VERSION.keys(),
        "personal_columns_are_declared": table.name.partition("/")[0] in _READ_BY_OTHERS,
        "every_version_is_readable": main and load_version in declared.patterns,
    }
    return [name for name in STORED if offered.get(name, True)]


def _judged(name: str, checked: _Checked) -> Finding:
    if not checked.table.ledger.exists():
        return Finding(name, passed=False, severity="warn", note="the table holds nothing yet: materialize it")
    try:
        return _JUDGES[name](checked)
    except PatternError as error:
        return Finding(name, passed=False, note=str(error))


def _files(checked: _Checked) -> Finding:
    state = checked.table.ledger.state()
    lost = lost_files(checked.table.store, state, *checked.partitions)
    note = f"{lost_files_message(checked.table.name, lost)}: `dedp verify` names what repairs it" if lost else ""
    return Finding(
        "files_are_there", passed=not lost, figures={"files": len(state.files()), "lost": len(lost)}, note=note
    )


def _schema(checked: _Checked) -> Finding:
    name = "declared_schema_is_compatible"
    try:
        held = enforce_compatibility(checked.table.spec, checked.table, mode="BACKWARD", new_columns=True)
    except SchemaMismatch as error:
        reasons = str(error).removesuffix(": nothing was written")
        return Finding(name, passed=False, note=f"{reasons}; `platform/schema_migrations` takes the steps")
    coming = {kind: ", ".join(names) for kind, names in held.figures.items() if names}
    return Finding(name, passed=True, figures=coming)


def _constraints(checked: _Checked) -> Finding:
    broken, rows = broken_rules(checked.table, checked.partitions)
    note = "; ".join(f"{count} rows break {rule}" for rule, count in broken.items())
    return Finding("stored_rows_keep_constraints", passed=not broken, figures={"rows": rows, **broken}, note=note)


def _recent(checked: _Checked) -> Finding:
    limit = checked.declared.fresh
    days = isinstance(checked.declared.runs.partitions, dg.TimeWindowPartitionsDefinition)
    if days and not checked.table.spec.executed_by:
        keys = list(checked.rows_by_key())
        last = checked.end(keys[-1]) if keys else None
        what = f"the newest complete partition is {keys[-1]}" if keys else "no partition that is over has rows"
    else:
        commit = checked.table.ledger.last(lambda commit: commit.record)
        last = commit.timestamp if commit else None
        what = f"the last publish was at {last:%Y-%m-%d %H:%M} UTC" if last else "nothing was published"
    age = (checked.now - last) if last else None
    old = age is None or (limit is not None and age > limit)
    figures = {"age_seconds": round(age.total_seconds())} if age else {}
    return Finding("data_is_recent", passed=not old, severity="warn", figures=figures, note=what if old else "")


def _volume(checked: _Checked) -> Finding:
    name, rows = "newest_volume_is_usual", checked.rows_by_key()
    sizes = {key: PartitionSize(rows=n, size=0, files=0) for key, n in rows.items()}
    calendar = calendar_of(checked.declared.runs.partitions)
    activity = Activity(table=checked.table.name, partitions=sizes, calendar=calendar)
    has_season = is_within_a_day(checked.declared.runs.partitions)
    usual = USUAL_VOLUME if has_season else replace(USUAL_VOLUME, season="none")
    (found,) = detect_skew(activity, checked.now, baseline=usual).measurements
    figures = {"rows": rows.get(found.partition, 0)} | ({} if found.target is None else {"usual": found.target})
    return Finding(name, passed=not found.is_trouble, severity="warn", figures=figures, note=found.reason)


def _nulls(checked: _Checked) -> Finding:
    columns = [name for name, column in checked.table.spec.columns.items() if not column.required]
    nulls, column = dict[str, dict[str, int]](), checked.table.spec.partition_by[0]
    for partition, counts in checked.table.ledger.state().null_counts(columns).items():
        key = dict(partition)[column] or ""
        known = nulls.get(key, dict.fromkeys(counts, 0))
        nulls[key] = {each: known[each] + count for each, count in counts.items() if each in known}
    found = {key: NullCounts(rows, nulls[key]) for key, rows in checked.rows_by_key().items()}
    return judge_null_shares(found, limits=USUAL_NULLS)


def _keys_once(checked: _Checked) -> Finding:
    repeated = repeated_keys(checked.table)
    note = f"{repeated} keys of {', '.join(checked.table.spec.key)} have several rows" if repeated else ""
    return Finding("keys_are_unique", passed=not repeated, figures={"repeated": repeated}, note=note)


def _versions(checked: _Checked) -> Finding:
    columns = checked.table.spec.columns
    keys = [name for name, column in columns.items() if column.required and name not in VERSION]
    return judge_versions(checked.table.read(), keys=keys)


def _result(check: dg.AssetCheckKey, finding: Finding) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=check.asset_key,
        check_name=check.name,
        passed=finding.passed,
        severity=dg.AssetCheckSeverity.ERROR if finding.severity == "fail" else dg.AssetCheckSeverity.WARN,
        description=finding.note or None,
        metadata=labelled(finding.figures, {}),
    )


_JUDGES: Mapping[str, Callable[[_Checked], Finding]] = {
    "files_are_there": _files,
    "declared_schema_is_compatible": _schema,
    "stored_rows_keep_constraints": _constraints,
    "data_is_recent": _recent,
    "newest_volume_is_usual": _volume,
    "null_shares_are_usual": _nulls,
    "keys_are_unique": _keys_once,
    "versions_are_sound": _versions,
    "layout_is_as_declared": lambda checked: judge_layout(checked.table),
    "personal_columns_are_declared": lambda checked: judge_classes(checked.table.read(), checked.table),
    "every_version_is_readable": lambda checked: judge_exposure(checked.table),
}
