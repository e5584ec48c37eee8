"""Between the library and Dagster: declares tables as assets, runs partitions, and says in the UI what the ledger says.

The library knows nothing of Dagster; here its specs become asset specs, its findings check results, its commit records
materialization metadata, and its errors failures that are retried or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, Conflict, PatternError
from dedp_assets.patterns.core.log import Commit, FileStats, Partition
from dedp_assets.patterns.core.records import Approval, Provenance, slice_name
from dedp_assets.patterns.core.results import BY_NAME, Finding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.tables import Table

__all__ = [
    "APPROVED_AUDITS",
    "APPROVED_BECAUSE",
    "APPROVED_BY",
    "CAUSE",
    "TRIGGER",
    "Appending",
    "Inputs",
    "Step",
    "Work",
    "appending",
    "asset_spec",
    "check_specs",
    "outcome",
    "refusal",
    "refusals",
    "run",
    "told",
]

CAUSE = "dedp/cause"
TRIGGER = "dedp.trigger/"
APPROVED_BY = "dedp/approved_by"
APPROVED_BECAUSE = "dedp/approved_because"
APPROVED_AUDITS = "dedp/approved_audits"
_REFUSED = "dedp.refused/"
_ALWAYS = ("rows_are_accounted_for", "rows_lie_in_their_partition", "constraints_hold")
_RETRIES = 2


@dataclass(frozen=True, slots=True)
class Inputs:
    """What one partition's computation reads, pinned before it starts.

    Attributes:
        identities: upstream name -> version or content identity; equal ones and equal code mean equal rows.
        versions: upstream table -> version to read.
        sequence: upstream version this partition applies; ``None`` counts runs.
        notes: facts for the ledger.
    """

    identities: Mapping[str, Any]
    versions: Mapping[str, int] = field(default_factory=dict)
    sequence: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One partition to compute.

    Attributes:
        key: Dagster's partition key; empty for an unpartitioned asset.
        inputs: what to read.
        provenance: what the commit will say about this run.
    """

    key: str
    inputs: Inputs
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Work:
    """How one table is computed, partition by partition.

    Attributes:
        target: the table whose checks are reported.
        owned: partition key -> partition values a run owns in ``target``.
        reads: partition key -> what to read; raises if it is not ready.
        build: computes and publishes one partition.
        beside: further tables that ``build`` writes, with the partition values it owns there.
    """

    target: Table
    owned: Callable[[str], Mapping[str, str]]
    reads: Callable[[str], Inputs]
    build: Callable[[Step], object]
    beside: Mapping[Table, Callable[[str], Mapping[str, str]]] = field(default_factory=dict)


def asset_spec(
    table: TableSpec,
    *,
    patterns: Sequence[Callable[..., Any]],
    owners: Sequence[str],
    code_version: str,
    deps: Sequence[Any] = (),
    partitions: dg.PartitionsDefinition | None = None,
) -> dg.AssetSpec:
    """A table as a software-defined asset: key, lineage, columns, owners, kinds, patterns at work (main one first)."""
    ids = [pattern.__module__.removeprefix("dedp_assets.patterns.") for pattern in patterns]
    named = ", ".join(id_.partition(".")[2].replace("_", " ").title() for id_ in ids)
    columns = [
        dg.TableColumn(name, c.type.lower(), c.comment, dg.TableColumnConstraints(nullable=not c.required))
        for name, c in table.columns.items()
    ]
    return dg.AssetSpec(
        table.name.split("/"),
        deps=deps,
        description=f"{table.comment}\n\nPatterns at work: {named}.",
        metadata={
            "dagster/column_schema": dg.TableSchema(
                columns, constraints=dg.TableConstraints(other=[f"{n}: {p}" for n, p in table.checks.items()])
            ),
            "dagster/table_name": table.name.replace("/", "."),
            "partitioned_by": ", ".join(table.partition_by) or "nothing",
            "patterns": ", ".join(ids),
        },
        group_name=table.name.split("/")[0],
        code_version=code_version,
        owners=owners,
        tags={"dedp/pattern": ids[0], "dedp/chapter": ids[0].partition(".")[0]},
        kinds={"spark", "deltalake", table.name.split("/")[0]},
        partitions_def=partitions,
    )


def check_specs(
    table: TableSpec, audits: Sequence[Audit], *names: str, partitions: dg.PartitionsDefinition | None = None
) -> list[dg.AssetCheckSpec]:
    """One blocking check for every audit, for the rules every write keeps, and for each further name."""
    bounds = {audit.name: _bounds(audit) for audit in audits}
    return [
        dg.AssetCheckSpec(
            name,
            asset=dg.AssetKey(table.name.split("/")),
            description=bounds.get(name),
            blocking=True,
            partitions_def=partitions,
        )
        for name in dict.fromkeys([*_ALWAYS, *bounds, *names])
    ]


def run(
    context: dg.AssetExecutionContext, work: Work, *, at: datetime
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
    """Compute the run's partitions one after the other, each in commits of its own, and report them from the ledger.

    A partition whose inputs and code are what its last commit says they were is not computed again. A refused partition
    does not keep the others of its run from being published.

    Args:
        context: Dagster's.
        work: how the table is computed.
        at: when the run started.

    Raises:
        dagster.Failure: if a partition was refused or not ready; the failed checks are stored first.
        dagster.RetryRequested: if another writer was in the way.
    """
    keys = list(context.partition_keys) if context.has_partition_key or context.has_partition_key_range else [""]
    failures: dict[str, PatternError] = {}
    refused: dict[str, str] = {}
    for key in keys:
        sequence: object = ""
        try:
            inputs = work.reads(key)
            sequence = inputs.sequence
            _compute(context, work, Step(key, inputs, _provenance(context, work.target, inputs, at)))
        except Conflict as error:
            raise dg.RetryRequested(max_retries=_RETRIES, seconds_to_wait=2) from error
        except PatternError as error:
            failures[key] = error
            if not error.retryable:
                refused |= refusal(work.target.name, key, sequence)
    done = [key for key in keys if key not in failures]
    tables = {work.target: work.owned, **work.beside}
    commits = {(table, key): _latest(table, part(key)) for table, part in tables.items() for key in done}
    yield from _checks(work.target, {key: commits[work.target, key] for key in done}, failures)
    if failures:
        if refused:
            context.instance.add_run_tags(context.run.run_id, refused)
        _fail(context, commits, failures)
    for table in tables:
        yield _materialization(context, table, {key: commits[table, key] for key in done})


def outcome(table: TableSpec, finding: Finding) -> dg.AssetCheckResult:
    """A finding that stands in no commit of the table, as the result of the check of its name."""
    return _result(table.name, finding.name, {"": finding})


@dataclass(slots=True)
class Appending:
    """A run that appends to a table.

    Attributes:
        provenance: what its commits will say about it.
        cursor: the position it goes on from, for the tag of a refusal.
    """

    provenance: Provenance
    cursor: str = ""


@contextmanager
def appending(
    context: dg.OpExecutionContext, table: Table, *, code_version: str, column: str, at: datetime
) -> Iterator[Appending]:
    """Run the block as one step that appends to ``table``, and report the partitions that it brought rows for.

    Args:
        context: Dagster's.
        table: where the block appends, in commits of its own.
        code_version: version of the code that computes the rows.
        column: partition column of the table that the asset is partitioned by.
        at: when the run started.

    Raises:
        dagster.Failure: if rows were refused or the upstream is not ready; what was appended before is reported.
        dagster.RetryRequested: if another writer was in the way.
    """
    run = context.run
    before = table.ledger.version() if table.ledger.exists() else -1
    provenance = Provenance(
        asset=table.name,
        run_id=run.run_id,
        code_version=code_version,
        cause=_cause(run),
        approval=_approval(run),
        at=at,
    )
    step = Appending(provenance)
    try:
        yield step
    except Conflict as error:
        raise dg.RetryRequested(max_retries=_RETRIES, seconds_to_wait=2) from error
    except PatternError as error:
        if not error.retryable:
            context.instance.add_run_tags(run.run_id, refusal(table.name, "", step.cursor))
        raise dg.Failure(str(error), allow_retries=False) from error
    finally:
        _report_appended(context, table, before, column)


def refusal(table: str, key: str, sequence: object) -> dict[str, str]:
    """The run tag that says: this partition was refused at this upstream version, by its data and not by chance."""
    name = ".".join([*table.split("/"), *([key] if key else [])])
    return {f"{_REFUSED}{name[:63]}": str(sequence)}


def refusals(tags: Mapping[str, str]) -> list[tuple[str, str]]:
    """Table and partition key (empty for a whole table) of everything that a run with these tags refused."""
    names = [tag.removeprefix(_REFUSED).split(".", 2) for tag in tags if tag.startswith(_REFUSED)]
    return [(f"{layer}/{dataset}", "".join(key)) for layer, dataset, *key in names]


def told(tags: Mapping[str, str]) -> dict[str, str]:
    """What the event that started a run with these tags told it, by name; empty for other runs."""
    return {tag.removeprefix(TRIGGER): value for tag, value in tags.items() if tag.startswith(TRIGGER)}


def _provenance(context: dg.AssetExecutionContext, target: Table, inputs: Inputs, at: datetime) -> Provenance:
    asset_key = dg.AssetKey(target.name.split("/"))
    trigger = told(context.run.tags)
    return Provenance(
        asset=target.name,
        run_id=context.run.run_id,
        code_version=context.assets_def.code_versions_by_key.get(asset_key) or "1",
        inputs=inputs.identities,
        sequence=inputs.sequence,
        cause=_cause(context.run),
        approval=_approval(context.run),
        at=at,
        notes={**inputs.notes, "trigger": trigger} if trigger else inputs.notes,
    )


def _compute(context: dg.AssetExecutionContext, work: Work, step: Step) -> None:
    last = _latest(work.target, work.owned(step.key))
    record = last.record if last else None
    if record and (record.inputs, record.code_version) == (step.inputs.identities, step.provenance.code_version):
        context.log.info(f"{work.target.name} {step.key}: inputs unchanged since version {last.version if last else 0}")
    else:
        work.build(step)


def _latest(table: Table, partition: Mapping[str, str]) -> Commit | None:
    return table.ledger.latest(partition) if table.ledger.exists() else None


def _checks(
    target: Table, done: Mapping[str, Commit | None], failures: Mapping[str, PatternError]
) -> Iterator[dg.AssetCheckResult]:
    """One result per check, the worst over the run's partitions, with the figures of each."""
    seen: dict[str, dict[str, Finding]] = {}
    for key, commit in done.items():
        stored = commit.record.findings if commit and commit.record else ()
        inputs = commit.record.notes.get("input", ()) if commit and commit.record else ()
        for finding in (Finding(**f) for f in (*inputs, *stored)):
            seen.setdefault(finding.name, {})[key] = finding
    for key, error in failures.items():
        for finding in error.findings if isinstance(error, AuditFailed) else ():
            seen.setdefault(finding.name, {})[key] = finding
    for name, by_key in seen.items():
        yield _result(target.name, name, by_key)


def _result(table: str, name: str, by_key: Mapping[str, Finding]) -> dg.AssetCheckResult:
    worst = max(by_key.values(), key=lambda f: (f.refuses, not f.passed))
    notes = {key: finding.note for key, finding in by_key.items() if finding.note}
    return dg.AssetCheckResult(
        asset_key=table.split("/"),
        check_name=name,
        passed=worst.passed,
        severity=dg.AssetCheckSeverity.ERROR if worst.refuses else dg.AssetCheckSeverity.WARN,
        description="; ".join(f"{key}: {note}" if key else note for key, note in notes.items()) or None,
        metadata={
            (f"{key} {figure}" if len(by_key) > 1 else figure): _shown(value)
            for key, finding in by_key.items()
            for figure, value in finding.figures.items()
        },
    )


def _fail(
    context: dg.AssetExecutionContext,
    commits: Mapping[tuple[Table, str], Commit | None],
    failures: Mapping[str, PatternError],
) -> None:
    """Record what was published all the same, then fail with every reason."""
    for table in dict.fromkeys(table for table, _ in commits):
        mine = {key: commit for (owner, key), commit in commits.items() if owner is table}
        for key, metadata in _metadata(table, mine).items():
            event = dg.AssetMaterialization(table.name.split("/"), partition=key or None, metadata=metadata)
            context.log_event(event)
    audited = {key: error for key, error in failures.items() if isinstance(error, AuditFailed)}
    raise dg.Failure(
        "; ".join(str(error) for error in failures.values()),
        metadata={f"{key} refused rows".strip(): error.stage or "none" for key, error in audited.items()},
        allow_retries=False,
    )


def _materialization(
    context: dg.AssetExecutionContext, table: Table, commits: Mapping[str, Commit | None]
) -> dg.MaterializeResult[Any]:
    asset_key = dg.AssetKey(table.name.split("/"))
    trigger = {f"trigger {name.replace('_', ' ')}": value for name, value in told(context.run.tags).items()}
    by_key = {key: {**metadata, **trigger} for key, metadata in _metadata(table, commits).items()}
    if len(by_key) > 1:
        for key, metadata in by_key.items():
            context.add_asset_metadata(metadata, asset_key=asset_key, partition_key=key)
        return dg.MaterializeResult(asset_key=asset_key, metadata={"partitions": len(by_key)})
    ((_, commit),) = commits.items()
    version = dg.DataVersion(commit.record.fingerprint) if commit and commit.record else None
    return dg.MaterializeResult(asset_key=asset_key, metadata=next(iter(by_key.values())), data_version=version)


def _metadata(table: Table, commits: Mapping[str, Commit | None], column: str = "") -> dict[str, dict[str, Any]]:
    """What the UI shows of each partition key, all of it read from the log.

    Args:
        table: the table.
        commits: partition key -> the commit that tells about it.
        column: partition column that the keys are values of; without it a commit tells of the partition it owned.
    """
    active = table.ledger.state().statistics() if table.ledger.exists() else {}
    return {key: _of_commit(table, commit, {column: key} if column else {}, active) for key, commit in commits.items()}


def _of_commit(
    table: Table, commit: Commit | None, partition: Mapping[str, str], active: Mapping[Partition, FileStats]
) -> dict[str, Any]:
    uri = {"dagster/uri": str(table.location)}
    if commit is None or commit.record is None:
        return uri
    record = commit.record
    shown = partition or record.partition
    held = [stats for values, stats in active.items() if shown.items() <= dict(values).items()]
    rows = {"dagster/partition_row_count" if shown else "dagster/row_count": sum(stats.rows for stats in held)}
    figures = {name: _shown(value) for name, value in record.figures.items() if name not in record.rows}
    return {
        **uri,
        **rows,
        "size in bytes": sum(stats.bytes for stats in held),
        "version": commit.version,
        "verdict": record.verdict,
        "cause": record.cause,
        "partition": slice_name(record.partition),
        "inputs": dg.MetadataValue.json(dict(record.inputs)),
        **({f"rows {name}": count for name, count in record.rows.items()} if record.counted else {}),
        **figures,
        **({"approved by": f"{record.approval['by']}: {record.approval['because']}"} if record.approval else {}),
    }


def _report_appended(context: dg.OpExecutionContext, table: Table, before: int, column: str) -> None:
    """A materialization of each partition that this run's commits after version ``before`` brought rows for."""
    commits = table.ledger.commits(since=before) if table.ledger.exists() else ()
    ours = [c for c in commits if c.record and c.record.run_id == context.run.run_id]
    changed = [(dict(partition)[column], commit) for commit in ours for partition in commit.changed]
    newest: dict[str, Commit | None] = {key: commit for key, commit in changed if key is not None}
    for key, metadata in _metadata(table, dict(sorted(newest.items())), column).items():
        context.log_event(dg.AssetMaterialization(table.name.split("/"), partition=key, metadata=metadata))


def _cause(run: dg.DagsterRun) -> str:
    tags = run.tags
    named = {"dagster/backfill": "backfill", "dagster/schedule_name": "schedule", "dagster/sensor_name": "sensor"}
    return tags.get(CAUSE) or next((cause for tag, cause in named.items() if tag in tags), "manual")


def _approval(run: dg.DagsterRun) -> Approval | None:
    by, because = run.tags.get(APPROVED_BY, ""), run.tags.get(APPROVED_BECAUSE, "")
    audits = tuple(name.strip() for name in run.tags.get(APPROVED_AUDITS, "").split(",") if name.strip())
    return Approval(by, because, audits) if by or because or audits else None


def _bounds(audit: Audit) -> str:
    measured = f"{audit.figure} / {audit.per}" if audit.per else audit.sql or audit.figure
    parts = [
        f"{what} {side} {bound:g}"
        for what, side, bound in (
            ("fails", "below", audit.fail_below),
            ("fails", "above", audit.fail_above),
            ("warns", "below", audit.warn_below),
            ("warns", "above", audit.warn_above),
        )
        if bound is not None
    ]
    approvable = "; a named person may approve it" if audit.approvable else ""
    approvable += " by its name" if audit.approvable == BY_NAME else ""
    return f"{measured}: {', '.join(parts)}{approvable}"


def _shown(value: object) -> Any:  # noqa: ANN401 - metadata takes plain values of any kind
    return value if isinstance(value, (int, float, str)) else str(value)
