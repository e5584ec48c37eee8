"""Online Observer: the write that brings rows profiles the rows in the same pass.

Problem: a postal code with a letter in it stays for days before a look at the stored rows finds it.
Solution: states of all columns are observed in the Spark job that writes the rows, and stored by the same run: figures
    in the commit record, states in a table of profiles under the version of the commit. The input is read once.
Consequences: the write takes longer, by how much says `benchmarks/`: sketches of a sample cost least, and a value in
    one row of 100,000 may be missed. An error of the observer costs a second pass, or the run, as chosen; never rows.
    Figures count only if they are of as many rows as the published files hold: a task that ran twice counts once.
Choose instead: Offline Observer, if the write must not take longer; audits, for rules that are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.measuring.observing import Watch
from dedp_assets.patterns.core.measuring.profiles import Profile
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.delta import Commit, Table, Target, same_run
from dedp_assets.patterns.quality._profiles.observed_write import ObservedWrite
from dedp_assets.patterns.quality._profiles.profile_measures import (
    profile_expressions,
    profile_of,
    profiled_columns,
    require_sample,
    with_sample,
)
from dedp_assets.patterns.quality._profiles.profile_rows import (
    PROFILE,
    PROFILED_BY,
    Status,
    ahead,
    require_profiles,
    rows_of,
    write_profiles,
)

__all__ = ["observe_online", "observe_ahead", "reconcile_profile", "PROFILE", "PROFILED_BY"]

_PATTERN = "quality.online_observer"


@typed
def observe_online(
    rows: DataFrame,
    into: Target,
    profiles: Target | None = None,
    *,
    on_fault: Literal["isolate", "fail"] = "isolate",
    sample: float = 1.0,
    sample_by: Sequence[str] = (),
    append: bool = False,
    allow_empty: bool = False,
) -> WriteResult:
    """Write rows, and profile the rows in the same pass.

    Args:
        rows: the rows, lazy.
        into: target of the write; the commit record has the figures of each column, without values, as ``profile``
            among its notes.
        profiles: target of the states, without a partition, of the same run: a table of the columns ``PROFILE``,
            partitioned by ``PROFILED_BY``. It is written after the commit, for the version of the commit.
        on_fault: an error of the observer is a finding that warns, and the rows are written (``isolate``), or it fails
            the run (``fail``): before the commit nothing is written, after it a rerun stores the profile and no row
            twice.
        sample: share of the rows that distinct values, quantiles and frequent values are computed of; counts and bounds
            are of all rows.
        sample_by: columns whose hash chooses the rows of a sample, so that a rerun chooses the same rows.
        append: keep the present rows; the run needs a sequence.
        allow_empty: whether no rows may replace others, with a warning.

    Returns:
        The write, with the finding ``rows_are_profiled``, the write of the profile beside it, and as figure
        ``observer_seconds`` the seconds that the observer took apart from the pass.

    Raises:
        AuditFailed: if an audit refuses the rows; nothing is published.
        ConfigError: for a sample that is not above 0 and at most 1, targets of two runs, and an append without a
            sequence.
        ContractError: with ``on_fault="fail"``, if the figures are not of the rows that were written.

    Example:
        >>> from dedp_assets.patterns.core.schema import TableSpec
        >>> visits = table("visits", "id INT, zip STRING")
        >>> profiles = table(TableSpec("quality/profiles", PROFILE, PROFILED_BY))
        >>> batch = frame("id INT, zip STRING", (1, "12345"), (2, "1234X"), (3, None))
        >>> result = observe_online(batch, visits.target(run), profiles.target(run))
        >>> visits.ledger.commit(result.version).record.notes["profile"]["zip"]["shapes"]
        {'digits 5': 1, 'letters and digits 5': 1}
        >>> rows(profiles.read().select("column", "table_version", "run_id", "rows", "nulls"))
        [('id', 1, 'run-1', 3, 0), ('zip', 1, 'run-1', 3, 1)]
        >>> rows(visits)
        [(1, '12345'), (2, '1234X'), (3, None)]
    """
    into = into.by(_PATTERN, "partition", "execution", "audits", "rows_read")
    profiles = profiles and profiles.by(_PATTERN, "audits")
    if append and into.run.sequence is None:
        raise ConfigError(f"append must be False for {into.name} without a sequence, or a retry adds its rows twice")
    require_sample(sample, sample_by)
    with_sample(rows, [], sample, sample_by)  # a column that is not there is no fault of the observer
    if profiles is not None:
        same_run(into, profiles)
    gated = into if append else into.with_audits(not_empty(allow_empty=allow_empty))
    observer = ObservedWrite(isolates=on_fault == "isolate", declared=into.table.spec.columns)
    observer.begin(rows, profiles, sample, sample_by)
    staged = observer.stage(rows, gated, append=append)
    noted = observer.note(staged)
    result = noted.publish()
    beside = observer.store(result)
    figures = {**result.figures, "observer_seconds": observer.seconds}
    return replace(result, findings=(*result.findings, observer.finding), figures=figures, beside=beside)


@typed
def observe_ahead(
    rows: DataFrame,
    into: Target,
    table: Table,
    partition: str = "all",
    *,
    sample: float = 1.0,
    sample_by: Sequence[str] = (),
) -> WriteResult:
    """Profile rows beside the load of the rows, before the commit.

    The profile is provisional until :func:`reconcile_profile` held it against the commit of the same run.

    Args:
        rows: the rows that the run loads; they are computed once more here.
        into: target of the profile, of the run that loads.
        table: the table that they are loaded into.
        partition: name of the loaded partition, such as ``day=2026-01-05``.
        sample: as for :func:`observe_online`.
        sample_by: as for :func:`observe_online`.
    """
    into = into.by(_PATTERN, "audits")
    require_sample(sample, sample_by)
    require_profiles(into)
    chosen, columns = with_sample(rows, profiled_columns(rows.schema, table.spec.columns), sample, sample_by)
    figures = Watch(profile_expressions(columns)).completed(chosen, {})
    stored = rows_of(profile_of(columns, figures), partition, data_version=None, status="provisional")
    return write_profiles(into, stored, ahead(table.name, into.run.run_id), version=None)


@typed
def reconcile_profile(table: Table, into: Target) -> WriteResult:
    """Hold the provisional profile of a run against the commit of the same run.

    Args:
        table: the table that the run wrote.
        into: target of the profiles, of the run that observed.

    Returns:
        The write of the profile with the commit's version and the status ``final``, or ``differs`` if other numbers of
        rows were observed and committed: figures ``observed`` and ``committed``.

    Raises:
        NotReady: if the run has not committed, or has no provisional profile.
    """
    into = into.by(_PATTERN, "audits")
    run = into.run.run_id
    commit = _commit_of(table, run)
    owned = ahead(table.name, run)
    if not (into.table.ledger.exists() and into.table.ledger.state().holds(owned)):
        raise NotReady(f"run {run} has no provisional profile of {table.name}: observe its rows first")
    found = [row.asDict() for row in into.table.read(owned).collect()]
    observed, committed = Profile.of_rows(found).rows, commit.record.rows["written"] if commit.record else 0
    status: Status = "final" if observed == committed else "differs"
    stored = [{**row, "data_version": commit.version, "status": status} for row in found]
    written = write_profiles(into, stored, owned, version=commit.version)
    finding = Finding(
        "profile_is_of_the_committed_rows",
        passed=status == "final",
        severity="warn",
        figures={"observed": observed, "committed": committed},
    )
    return replace(written, findings=(*written.findings, finding), figures={**written.figures, **finding.figures})


def _commit_of(table: Table, run_id: str) -> Commit:
    found = table.ledger.last(lambda commit: commit.record and commit.record.run_id == run_id)
    if found is None:
        raise NotReady(f"run {run_id} has not committed to {table.name}: reconcile its profile afterwards")
    return found
