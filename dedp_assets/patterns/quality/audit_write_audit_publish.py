"""Audit-Write-Audit-Publish: rows become visible only by passed audits or a named approval.

Problem: a job succeeds technically and publishes rows that are wrong, such as half the usual volume.
Solution: audit the input before computing anything, write the result beside the table, audit it with figures measured
    in the same pass, and publish in one metadata-only commit only if both audits pass.
Consequences: a real anomaly looks like a bug: a named person may approve it, and the commit says so. What was published
    before stays while a partition is refused. Rows are visible only once all of their partition (or window) are
    written and judged: how long written rows waited is `held_seconds` of the result, their price is in `benchmarks/`.
Choose instead: Constraints Enforcer, if every rule is about a single row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit, not_empty, overrule, summary
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.sql.sql_options import require_repeatable
from dedp_assets.patterns.delta import Commit, Ledger, Table, Target, same_run, usual_values
from dedp_assets.patterns.quality._quarantine import dispatch, timed

__all__ = ["audit_write_audit_publish", "require_pass", "usual"]

Response = Literal["fail", "quarantine", "annotate"]
_PATTERN = "quality.audit_write_audit_publish"
_ALL_ALIKE: Mapping[str, Response] = {}


@demanding(as_is=True)
@typed
def audit_write_audit_publish(
    rows: DataFrame,
    into: Target,
    quarantine: Target | None = None,
    *,
    on_failure: Response = "fail",
    responses: Mapping[str, Response] = _ALL_ALIKE,
    allow_empty: bool = False,
) -> WriteResult:
    """Publish a partition only if the audits of input and result pass.

    Args:
        rows: the result, lazy: nothing is computed if the input fails.
        into: target of the write. An approval of its run may overrule approvable audits; its facts about the rows read
            hold verdicts on the input (:func:`require_pass`) and figures such as a baseline.
        quarantine: target for the rows that are put aside, of the same run: a table with the same columns, for the
            response ``quarantine``.
        on_failure: ``fail`` publishes nothing; ``quarantine`` publishes the rows that no failed audit names and puts
            the others (all, if an audit names none) into ``quarantine``; ``annotate`` publishes with a warning.
        responses: audit -> response, of audits of the target with another one than ``on_failure``. If audits with
            several responses fail, ``fail`` outweighs the others.
        allow_empty: whether no rows may replace the partition, with a warning; a source that delivers nothing is
            usually broken.

    Raises:
        AuditFailed: if the input or the result is refused; the table is as it was.
        ConfigError: for ``quarantine`` without a table, and for an audit of rows that says something else each time.
        Conflict: if another run wrote the partition of the target or of ``quarantine`` meanwhile, where one is given.

    Example:
        >>> daily = table("daily", "visits INT, day STRING", (40, "mon"), (50, "tue"), partition_by=["day"])
        >>> enough = Audit(name="some_visits", of="visits", sql="sum(visits)", fail_below=10)
        >>> monday, tuesday = frame("visits INT, day STRING", (45, "mon")), frame("visits INT, day STRING", (2, "tue"))
        >>> audit_write_audit_publish(monday, daily.target(run, partition={"day": "mon"}, audits=[enough])).reason
        '1 rows published'
        >>> audit_write_audit_publish(tuesday, daily.target(run, partition={"day": "tue"}, audits=[enough]))
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.AuditFailed: daily day=tue: nothing published. some_visits: below 10 (visits=2)
        >>> rows(daily)
        [(45, 'mon'), (50, 'tue')]
    """
    _require_responses(into, quarantine, on_failure, responses)
    into = into.by(_PATTERN, "partition", "audits", "rows_read")
    # Which rows are put aside is asked again, once it is known that there are some.
    require_repeatable(rows, "audit", {audit.name: audit.where for audit in into.audits if audit.where})
    judged = overrule(into.rows_read.findings, into.run.approval)
    if any(finding.refuses for finding in judged):
        named = f"{into.name} {slice_name(into.partition)}"
        raise AuditFailed(f"{named}: nothing computed, the input was refused. {summary(judged)}", findings=judged)
    into = _noting(into, judged)
    aside = quarantine and _aside(quarantine, into)
    # The rows of a run lie in two tables: another run in between would leave those of one run here, of the other there.
    kept, since = [_version(each.table) if aside else None for each in (aside or into, into)]
    into = replace(into, audits=_softened(into.audits, on_failure, responses))
    gated = into.with_audits(*_softened([not_empty(allow_empty=allow_empty)], on_failure, {}))
    try:
        staged = gated.stage(rows)
    except AuditFailed as error:
        found = (*judged, *error.findings)
        refused = AuditFailed(str(error), findings=found, stage=error.stage, letters=error.letters)
        answers = {responses.get(finding.name, on_failure) for finding in refused.findings if finding.refuses}
        if aside is None or "fail" in answers:
            raise refused from None
        return dispatch(refused, into, aside, since=(since, kept), allow_empty=allow_empty)
    result = timed(staged.publish(since=since), staged)
    if aside is not None and aside.table.ledger.exists() and aside.table.ledger.state().holds(aside.partition):
        # What was put aside before is in the target now.
        aside.table.clear(partition=aside.partition, provenance=aside.run, since=kept)
    return replace(result, findings=(*judged, *result.findings))


@typed
def require_pass(
    upstream: Ledger, *partitions: Mapping[str, str | None], version: int, audits: Sequence[str] = ()
) -> Finding:
    """Judge whether the newest commits of ``partitions`` up to ``version`` carry a passing verdict.

    No answer means no: rows written without an audit, by foreign code or under a log that was cleaned up, do not pass.

    Args:
        upstream: the upstream table's ledger.
        partitions: the partitions that will be read.
        version: the version that will be read.
        audits: audits that must have been judged, by name; one that did not run blocks like one that failed.

    Raises:
        ConfigError: if no partition is named.
    """
    if not partitions:
        raise ConfigError(
            f"require_pass was asked for no partition of {upstream.name}: name those to be read, {{}} for a whole table"
        )
    verdicts = [_judge_upstream(upstream, partition, version, audits) for partition in partitions]
    refused = [finding for finding in verdicts if not finding.passed]
    return refused[0] if refused else verdicts[-1]


@typed
def usual(ledger: Ledger, partition: Mapping[str, object], *, figure: str, days: int = 7) -> float | None:
    """Return the usual value of ``figure``: the partition's last, or the median of earlier partitions.

    A partition that is rebuilt is compared with its own history, a new one with the last ``days`` partitions before it.
    What was published of a partition that was not over yet (``notes["open"]`` of its record) is no measure of anything,
    and neither is a figure that is infinite.

    Args:
        ledger: the table's ledger.
        partition: the partition about to be published, one column.
        figure: name of a recorded figure.
        days: how many earlier partitions to look at.
    """
    if days < 1:
        raise ConfigError(f"days must be at least 1, not {days}")

    def measure(commit: Commit) -> dict[str, float] | None:
        record = commit.record
        return {figure: float(record.figures[figure])} if record and _is_measure(record, figure) else None

    return usual_values(ledger, partition, measure, last=days).get(figure)


def _require_responses(
    into: Target, quarantine: Target | None, on_failure: Response, responses: Mapping[str, Response]
) -> None:
    if ("quarantine" in {on_failure, *responses.values()}) != (quarantine is not None):
        also = f", responses={dict(responses)}" if responses else ""
        raise ConfigError(
            f"on_failure={on_failure!r}{also} and quarantine={quarantine}: a quarantine table goes with quarantine"
        )
    if unknown := sorted(responses.keys() - {audit.name for audit in into.audits}):
        raise ConfigError(f"responses must be of audits of {into.name}, not {', '.join(unknown)}")


def _softened(audits: Iterable[Audit], on_failure: Response, responses: Mapping[str, Response]) -> tuple[Audit, ...]:
    """Return the audits, with a warning in place of each refusal that ``annotate`` answers."""
    return tuple(
        _as_warning(audit) if responses.get(audit.name, on_failure) == "annotate" else audit for audit in audits
    )


def _version(table: Table) -> int:
    """Return the newest version of a table, or 0 for a table that the write has yet to create."""
    return table.ledger.version() if table.ledger.exists() else 0


def _noting(into: Target, judged: Sequence[Finding]) -> Target:
    """Return the target with the verdicts on the input, for the result's accounting and for the ledger."""
    noted = into.noting({"input": [finding.as_dict() for finding in judged]})
    return replace(noted, rows_read=replace(into.rows_read, findings=tuple(judged)))


def _aside(quarantine: Target, into: Target) -> Target:
    """Return the quarantine target with the run and the notes of ``into``."""
    quarantine = quarantine.by(_PATTERN, "partition")
    same_run(into, quarantine)
    return replace(quarantine, run=into.run)


def _is_measure(record: CommitRecord, figure: str) -> bool:
    value = record.figures.get(figure)
    return record.promotable and value is not None and math.isfinite(float(value)) and not record.notes.get("open")


def _judge_upstream(
    upstream: Ledger, partition: Mapping[str, str | None], version: int, audits: Sequence[str]
) -> Finding:
    commit = upstream.latest(partition, until=version)
    record = commit.record if commit else None
    judged = {f["name"]: f for f in record.findings} if record else {}
    missing = [name for name in audits if name not in judged]
    failed = [n for n in audits if n in judged and not judged[n]["passed"] and judged[n]["severity"] == "fail"]
    name = f"{upstream.name} {slice_name(partition)}"
    if commit is None:
        note = f"{name} was never written, or its log no longer says how"
    elif record is None or not record.promotable:
        note = f"version {commit.version} of {name} was written without an audit"
    else:
        note = f"{name}: not judged: {missing}; failed: {failed}" if missing or failed else ""
    figures = {"version": commit.version if commit else None, "verdict": record.verdict if record else None}
    return Finding("upstream_passed", passed=not note, figures=figures, note=note)


def _as_warning(audit: Audit) -> Audit:
    low = audit.warn_below if audit.fail_below is None else audit.fail_below
    high = audit.warn_above if audit.fail_above is None else audit.fail_above
    return replace(audit, warn_below=low, warn_above=high, fail_below=None, fail_above=None)
