"""Rendering of commits and findings for Dagster: check results, metadata, audit bounds as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.contracts import CONTRACT
from dedp_assets.graph.catalogue.fan_in import branch_metadata
from dedp_assets.graph.catalogue.figures import Figure, labelled, shown
from dedp_assets.graph.catalogue.links import status_link
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.core.results import BY_NAME, Finding, WriteResult
from dedp_assets.patterns.delta import Commit, FileStats, Partition, Table

__all__ = ["Did", "bounds", "check_result", "findings_of", "materialized", "metadata_of"]


@dataclass(frozen=True, slots=True)
class Did:
    """The result of a run for one partition: write or skip, reason, commits, pattern results.

    Attributes:
        unchanged: version since which the partition is as it is; ``None`` if this run wrote it.
        because: why it was computed although nothing had changed; empty otherwise.
        outcome: what the write says about itself.
        commits: table -> the commit that tells about the partition: the one that the write made, or the last one.
        results: table -> what the pattern returned about it; empty if nothing was computed.
        written: what the pattern returned about any table, also about tables that the step does not declare.
    """

    unchanged: int | None = None
    because: str = ""
    outcome: str = ""
    commits: Mapping[Table, Commit | None] = field(default_factory=dict)
    results: Mapping[Table, WriteResult] = field(default_factory=dict)
    written: tuple[WriteResult, ...] = ()


def findings_of(commit: Commit | None) -> Iterator[Finding]:
    """List the findings stored in a commit: findings on the input first, then findings on the rows."""
    record = commit.record if commit else None
    for stored in (*record.notes.get("input", ()), *record.findings) if record else ():
        yield Finding(**stored)


def check_result(table: str, name: str, by_key: Mapping[str, Finding], contract: str = "") -> dg.AssetCheckResult:
    """Return the result of check ``name``: the worst finding over all partition keys, with all figures.

    Args:
        table: name of the table.
        name: name of the check.
        by_key: partition key -> finding.
        contract: version of the table's published contract; empty without one.
    """
    worst = max(by_key.values(), key=lambda f: (f.refuses, not f.passed))
    notes = {key: finding.note for key, finding in by_key.items() if finding.note}
    return dg.AssetCheckResult(
        asset_key=table.split("/"),
        check_name=name,
        passed=worst.passed,
        severity=dg.AssetCheckSeverity.ERROR if worst.refuses else dg.AssetCheckSeverity.WARN,
        description="; ".join(f"{key}: {note}" if key else note for key, note in notes.items()) or None,
        metadata={
            (f"{key} {figure}" if len(by_key) > 1 else figure): shown(value)
            for key, finding in by_key.items()
            for figure, value in finding.figures.items()
        }
        | ({CONTRACT: contract} if contract else {}),
    )


def metadata_of(
    table: Table,
    commits: Mapping[str, Commit | None],
    did: Mapping[str, Did],
    *,
    column: str = "",
    figures: Mapping[str, Figure | str] = MappingProxyType({}),
) -> dict[str, dict[str, Any]]:
    """Return the UI metadata of each partition key, from the partition's commit and the run's result.

    Args:
        table: the table.
        commits: partition key -> the commit that tells about it.
        did: partition key -> what this run did for it.
        column: partition column that the keys are values of; without it a commit tells of the partition it owned.
        figures: how the table's figures are shown; the others are called as they are measured.
    """
    active = table.ledger.state().statistics() if table.ledger.exists() else {}
    return {
        key: _of_commit(table, commit, {column: key} if column else {}, active, did.get(key, Did()), figures)
        for key, commit in commits.items()
    }


def materialized(
    context: dg.AssetExecutionContext,
    asset_key: dg.AssetKey,
    by_key: Mapping[str, Mapping[str, Any]],
    fingerprint: str | None = None,
) -> dg.MaterializeResult[Any]:
    """Return the ``MaterializeResult`` of a run's partitions.

    A run of one partition has the fingerprint of the rows as data version.
    """
    if len(by_key) == 1:
        version = None if fingerprint is None else dg.DataVersion(fingerprint)
        return dg.MaterializeResult(asset_key=asset_key, metadata=next(iter(by_key.values())), data_version=version)
    for key, metadata in by_key.items():
        context.add_asset_metadata(metadata, asset_key=asset_key, partition_key=key)
    return dg.MaterializeResult(asset_key=asset_key, metadata={"partitions": len(by_key)})


def bounds(audit: Audit) -> str:
    """Return an audit's rule as text, for the description of the asset check."""
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


def _of_commit(
    table: Table,
    commit: Commit | None,
    partition: Mapping[str, str],
    active: Mapping[Partition, FileStats],
    did: Did,
    known: Mapping[str, Figure | str],
) -> dict[str, Any]:
    uri = {"dagster/uri": table.store.uri, **status_link(table.name)}
    if commit is None or commit.record is None:
        return uri
    record = commit.record
    owned = {} if table.spec.executed_by else partition or record.partition
    held = {values: stats for values, stats in active.items() if owned.items() <= dict(values).items()}
    metadata = {
        **uri,
        "dagster/partition_row_count" if owned else "dagster/row_count": sum(stats.rows for stats in held.values()),
        "size [bytes]": sum(stats.bytes for stats in held.values()),
        "version": commit.version,
        "verdict": record.verdict,
        "partition": slice_name(record.partition),
        "inputs": dg.MetadataValue.json(dict(record.inputs)),
        "written by": dg.MetadataValue.dagster_run(record.run_id),
        **branch_metadata(record.notes.get("branches", {})),
        **({"approved by": f"{record.approval['by']}: {record.approval['because']}"} if record.approval else {}),
    }
    metadata |= {"outcome": did.outcome} if did.outcome else {}
    metadata |= {"computed again because": did.because} if did.because else {}
    returned = did.results[table].figures if table in did.results else {}
    metadata |= labelled({n: v for n, v in returned.items() if n not in (*record.figures, *record.rows)}, known)
    if did.unchanged is not None:
        return {**metadata, "unchanged since version": commit.version}
    return {
        **metadata,
        "cause": record.cause,
        **_cost_of(record),
        **({f"rows {name}": count for name, count in record.rows.items()} if record.counted else {}),
        **_rows_by_value(owned, held),
        **labelled({name: value for name, value in record.figures.items() if name not in record.rows}, known),
    }


def _cost_of(record: CommitRecord) -> dict[str, float]:
    """Return the cost of a commit as figures that Dagster plots, such as ``cost/bytes written``."""
    known = record.cost.known if record.cost else {}
    return {f"cost/{name.replace('_', ' ')}": value for name, value in known.items()}


def _rows_by_value(owned: Mapping[str, str], held: Mapping[Partition, FileStats]) -> dict[str, dg.MetadataValue[Any]]:
    """Count the rows of an owned partition by each further partition column, such as the event date."""
    found: dict[str, dict[str, int]] = {}
    for values, stats in held.items():
        for column, value in values if owned else ():
            if column not in owned and stats.rows:
                by_value = found.setdefault(f"rows by {column}", {})
                by_value[value or "none"] = by_value.get(value or "none", 0) + stats.rows
    return {name: dg.MetadataValue.json(dict(sorted(by_value.items()))) for name, by_value in found.items()}
