"""Dataset Materializer: the result of a query is stored, and refreshed by the partitions that changed.

Problem: every reader of a dashboard computes the same aggregation over weeks of rows again.
Solution: a copy holds the result. A refresh finds in the base's log the partitions that changed, computes the query
    over these alone, and replaces their rows in one commit, which notes the version of the base. Late rows, backfills
    and deletions of the base are changed partitions, too.
Consequences: rows are stored twice, and are as old as the last refresh (`judge_staleness`). A row of the result must
    come from rows of one partition: a total over days is stored as states by day, which readers merge.
Choose instead: Distributed Aggregator, for such states; Data Overwrite, if a run computes a partition by itself anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.measuring.observing import computing
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import BaseChanges, Table, Target, behind, last_refresh, only_spark_changes
from dedp_assets.patterns.storage._base_query import BaseQuery

__all__ = ["materialize", "judge_staleness"]

_NOTE = "materialized"


@demanding(replaces="table", key=True)
@typed
def materialize(
    base: Table,
    into: Target,
    references: Mapping[str, DataFrame] | None = None,
    *,
    query: str,
    version: int | None = None,
    full: bool = False,
) -> WriteResult:
    """Refresh the stored result of a query, by the partitions that changed in the base.

    The first refresh reads all rows of the base, and so does one after a change of the query, of references, of the
    base's columns or by another writer to the copy, one after a cleanup of the base's log, and every one of a query
    whose rows may come from several partitions: without a partition column of the base in the key, with ``{base}`` more
    than once, ``WITH``, ``LIMIT``, or a window over several.

    What a column of the base declares holds for a column of the copy with its values, also under another name; for
    values computed from it, the copy declares what they are.

    Args:
        base: the table that the query reads.
        into: target of the write: the copy, which declares a key. Its audits name rows at fault (``where``).
        references: further rows that the query reads, by name; the run's inputs name their versions.
        query: SQL with ``{base}`` for the base's rows, and ``{name}`` for those of a reference; equal rows have equal
            results.
        version: version of the base; the newest one if ``None``.
        full: whether all rows of the base are read in any case.

    Returns:
        Partitions, files and bytes of the base, in all and read, and bytes of the copy, in ``figures``.

    Raises:
        AuditFailed: if an audit refuses the rows, or a key is NULL or there twice; the copy stays as it was.
        ConfigError: for a query that cannot be, or a copy that drops a declaration of the base.
        Conflict: if a newer version of the base is materialized, or another writer changed the copy meanwhile.
        ContractError: if a key is NULL or there twice in refreshed partitions.
        NotReady: if there is no base yet.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> visits = table("visits", "day STRING, page STRING", ("mon", "/a"), ("tue", "/a"), partition_by=["day"])
        >>> counted = {"day": Column("STRING"), "page": Column("STRING"), "visits": Column("BIGINT")}
        >>> pages = table(TableSpec("pages", counted, ("day",), key=("day", "page")))
        >>> query = "SELECT day, page, count(*) AS visits FROM {base} GROUP BY ALL"
        >>> materialize(visits, pages.target(run), query=query).figures["partitions read"]
        2
        >>> late = visits.target("late", partition={"day": "mon"})
        >>> _ = late.stage(frame("day STRING, page STRING", ("mon", "/a"), ("mon", "/b"))).publish()
        >>> materialize(visits, pages.target(run), query=query).figures["partitions read"]
        1
        >>> rows(pages)
        [('mon', '/a', 1), ('mon', '/b', 1), ('tue', '/a', 1)]
    """
    into, copy = into.by("storage.dataset_materializer", "audits"), into.table
    if unfit := [audit.name for audit in into.audits if audit.where is None]:
        raise ConfigError(f"audits must name rows by where, as a refresh may write some alone, not be like {unfit[0]}")
    pinned = base.ledger.version() if version is None else version
    asked = BaseQuery(base, base.ledger.state(pinned), copy.spec, query, dict(references or {}), into.run.inputs)
    by = asked.checked()
    newest = copy.ensure().version
    plan = _plan(asked, copy, by, full=full)
    changes, noted = plan.changes, into.noting({_NOTE: plan.note})
    into = replace(noted, run=replace(noted.run, inputs={base.name: pinned, **into.run.inputs}))
    if changes.parts is None:
        result = _refresh(into, asked.rows(), since=newest, again=plan.shown is not None)
        result = replace(result, reason=f"{result.reason}; all rows of {base.name} were read: {plan.why}")
    elif changes.parts:
        result = _refresh_parts(into, asked, changes.parts, by, since=newest)
    else:
        reason = f"{base.name} has the same rows as at version {plan.shown}: nothing to do"
        result = WriteResult(into.name, newest, applied=False, changed=False, reason=reason)
    held = sum(each.bytes for each in copy.ledger.state().statistics().values())
    return replace(result, figures={**result.figures, **changes.figures, "copy bytes": held})


@typed
def judge_staleness(
    copy: Table, base: Table, *, now: datetime, most_versions: int = 0, most_seconds: int = 0
) -> Finding:
    """Judge the staleness of a copy against the base, by the logs and without Spark.

    Args:
        copy: the copy.
        base: the table that the copy was made from.
        now: current time, with time zone.
        most_versions: most versions with changed rows that the copy may lack.
        most_seconds: greatest age of the first change that the copy lacks, in seconds; either bound is enough.

    Returns:
        ``the_copy_shows_its_base``, a warning beyond both bounds, with versions and seconds behind, the version of the
        base that the copy shows, and the bytes of both.

    Raises:
        ConfigError: for bounds below 0, or a table that is no copy of the base.
        NotReady: if one of them is not there yet.
    """
    if most_versions < 0 or most_seconds < 0:
        raise ConfigError(f"most_versions and most_seconds must be at least 0, not {most_versions} and {most_seconds}")
    sizes = [sum(each.bytes for each in table.ledger.state().statistics().values()) for table in (copy, base)]
    last, _ = last_refresh(copy.ledger, _NOTE)
    shown = last.record.notes[_NOTE] if last and last.record else {}
    if shown.get("base") != base.name:
        raise ConfigError(f"base must be the table that {copy.name} is made from, {shown.get('base')}, not {base.name}")
    is_same = shown["table"] == base.ledger.state().table_id
    versions, since = behind(base.ledger, shown["version"] if is_same else -1)
    seconds = max(0.0, (now - since).total_seconds()) if since else 0.0
    passed = versions <= most_versions or seconds <= most_seconds
    figures = {"versions behind": versions, "seconds behind": seconds, "base version": shown["version"]}
    note = (
        "" if passed else f"{copy.name} lacks {versions} versions of {base.name}, the first since {since}: refresh it"
    )
    sized = dict(zip(("copy bytes", "base bytes"), sizes, strict=True))
    return Finding("the_copy_shows_its_base", passed, "warn", {**figures, **sized}, note)


@dataclass(frozen=True, slots=True)
class _RefreshPlan:
    """Plan of a refresh: partitions of the base, the reason, and the note of the commit.

    Attributes:
        changes: the partitions of the base to read.
        why: why these are all; empty if only some are.
        shown: version of the base that the copy shows; ``None`` before the first refresh.
        note: facts for the next refresh.
    """

    changes: BaseChanges
    why: str
    shown: int | None
    note: Mapping[str, Any]


def _plan(asked: BaseQuery, copy: Table, by: Mapping[str, str], *, full: bool) -> _RefreshPlan:
    """Choose the partitions of the base to read, by the logs of both tables."""
    base, version = asked.base, asked.state.version
    last, others = last_refresh(copy.ledger, _NOTE)
    before = last.record.notes[_NOTE] if last and last.record else {}
    shown: int | None = before.get("version")
    facts = {"base": base.name, "by": list(by), **asked.facts}
    is_same = {**before, **facts} == before
    if is_same and shown is not None and version < shown:
        raise Conflict(
            f"{copy.name} shows version {shown} of {base.name}: version must be that or a newer one, not {version}"
        )
    spans, foreign = asked.spans(by), only_spark_changes(copy.ledger.state())
    reasons = {
        "it is asked for": full,
        "there is no refresh before": shown is None,
        "another writer changed the copy": others,
        "query, references, columns or base are other ones": not is_same,
        "no column of the key is a partition column of the base": not by,
        spans: bool(spans),
        f"the copy has {foreign}, so that rows of it are replaced all together": bool(foreign),
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    changes = BaseChanges.since(base.ledger, asked.state, by, None if why else shown)
    if changes.parts is None:
        why = why or f"the log does not tell the partitions that changed after version {shown}"
    return _RefreshPlan(changes, why, shown, {**facts, "version": version, **changes.figures, "all rows because": why})


def _refresh(into: Target, rows: DataFrame, *, since: int, again: bool) -> WriteResult:
    """Replace all rows of the copy."""
    # The inputs do not tell the query, and an incremental refresh has another fingerprint for the same rows.
    into = replace(into, run=replace(into.run, replay=into.run.replay or again))
    return into.stage(rows).publish(since=since)


def _refresh_parts(
    into: Target, asked: BaseQuery, parts: Sequence[Mapping[str, str]], by: Mapping[str, str], *, since: int
) -> WriteResult:
    """Replace the rows of the copy from some partitions of the base."""
    with computing(f"{into.name}: the query", "nothing was changed"):
        return into.table.recompute(
            asked.keys(parts, by),
            keys=list(by.values()),
            identity=into.table.spec.key,
            compute=lambda _present, _keys: asked.keyed(asked.rows(*parts)),
            provenance=into.run,
            audits=into.audits,
            since=since,
        )
