"""Proxy: one name for readers, which shows one of many immutable versions.

Problem: a dataset is computed whole each time, and every former state of it must be kept, while readers want the
    latest one under one name.
Solution: each load writes a table of its own, named after its run, which is closed and never written again. The name
    that readers know is a table that refers to the files of one version; a switch is one commit that moves no row.
Consequences: versions cost their size until `idempotency/_expiry.py` removes those that nobody needs. Every engine
    refuses to write them; against whoever deletes files, the storage has to be locked (Object Lock, permissions).
Choose instead: Full Loader, if time travel within the retention is enough; Data Overwrite, for one partition.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Split, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.delta.versions import content_of, exposure, folder_of, version_of

__all__ = ["load_version", "switch_version", "judge_exposure"]


@demanding(replaces="table")
@typed
def load_version(
    rows: DataFrame | Split,
    into: Target,
    *,
    min_rows: int = 1,
) -> WriteResult:
    """Load ``rows`` into a new version, and switch the table to the version once complete.

    A load that fails leaves the name where it is. So does one that is killed between load and switch: its retry finds
    the version it loaded and switches only.

    Args:
        rows: the complete dataset; of a split, its ``valid`` part.
        into: target of the write: the name that readers know, which must not be a table with rows of its own. The
            version is named after the run.
        min_rows: fewest rows that a version may have, in rows.

    Raises:
        AuditFailed: if an audit refuses the rows, or there are too few; the former version is shown.
        ConfigError: if the target holds rows of its own, or can only be written by Spark.
        Conflict: if a newer upstream version is shown already.
        TransactionReused: if the same inputs gave other rows before; their version is not shown.

    Example:
        >>> ranking = table("ranking", "page STRING, views INT")
        >>> load_version(frame("page STRING, views INT", ("/a", 1)), ranking.target(run)).reason
        '1 rows shown as run-1-1'
        >>> load_version(frame("page STRING, views INT", ("/a", 5)), ranking.target(run)).reason
        '1 rows shown as run-1-2 instead of run-1-1'
        >>> rows(ranking)
        [('/a', 5)]
    """
    guard = Audit(name="input_is_not_empty", of="written", fail_below=min_rows, approvable=True)
    into = into.by("idempotency.proxy", "audits", "rows_read").with_audits(guard)
    return exposure.load(rows, into.table, provenance=into.run, audits=into.audits, rows_read=into.rows_read)


@typed
def switch_version(into: Target, *, version: str, because: str) -> WriteResult:
    """Switch the table to another existing version, for example to roll back.

    The replaced version may be loaded again.

    Args:
        into: target of the write: the name that readers know.
        version: the version to show, as :func:`dedp_assets.patterns.delta.versions.exposures` names them.
        because: why, for the history.

    Raises:
        ConfigError: without a reason.
        NotReady: if there is no such version, or it was not loaded to the end.
        ContractError: if files of it are lost.
    """
    into = into.by("idempotency.proxy")
    if not because.strip():
        raise ConfigError(f"{into.name}: say why it shall show {version}")
    return exposure.expose(into.table, version, provenance=into.run, because=because)


@typed
def judge_exposure(target: Table) -> Finding:
    """Judge whether all versions are readable and the table shows a version unchanged, without Spark."""
    history = list(exposure.exposures(target))
    versions = {each.version for each in history} - exposure.expired(target)
    faults = []
    for name in sorted(versions):
        try:
            content_of(version_of(target, name))
        except PatternError as error:
            faults.append(str(error))
    if not history:
        faults.append(f"{target.name} shows no version")
    elif history[0].version in versions and not _is_shown(target, history[0].version):
        faults.append(f"{target.name} does not show {history[0].version} as it is: show it again")
    figures = {"versions": len(versions), "shown_rows": _rows(target)}
    return Finding("every_version_is_readable", passed=not faults, figures=figures, note="; ".join(faults))


def _is_shown(target: Table, name: str) -> bool:
    """Return whether the table has exactly the columns and files of the version."""
    shown, version = target.ledger.state(), version_of(target, name).ledger.state()
    files = {f"{folder_of(target)}/{name}/{file['path']}" for file in version.files()}
    same = {file["path"] for file in shown.files()} == files
    return same and list(shown.columns.items()) == list(version.columns.items())


def _rows(target: Table) -> int:
    state = target.ledger.state() if target.ledger.exists() else None
    return sum(each.rows for each in state.statistics().values()) if state else 0
