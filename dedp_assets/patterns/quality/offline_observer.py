"""Offline Observer: changed partitions are profiled by a job apart from the producer.

Problem: each row is valid, and yet the share of one country goes from 90 % to nothing. Rules that somebody wrote down
    see none of it, and a look at the data must not hold up the job that writes the data.
Solution: a job of its own reads what changed since the last profile, by versions and not by ids, so that late and
    backfilled partitions are seen, and stores mergeable states. Rules compare a profile with earlier ones.
Consequences: a fault is found after somebody may have read it. A day of 24 hourly partitions is one larger pass. How
    far a stream lags behind its topic (latest less committed offset) is the Lag Detector's question.
Choose instead: Online Observer, to know in the run that writes; Audit-Write-Audit-Publish, to keep wrong rows out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measured
from dedp_assets.patterns.core.measuring.profiles import Profile
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.types.partitions import from_folder, to_folder
from dedp_assets.patterns.delta import Ledger, Partition, Table, Target
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
    last_offline,
    offline,
    require_profiles,
    rows_of,
    write_profiles,
)
from dedp_assets.patterns.quality._profiles.profile_rules import ProfileRules, ProposedRule, audit_of
from dedp_assets.patterns.quality._profiles.profile_series import ProfileSeries

__all__ = [
    "observe_offline",
    "judge_profile",
    "propose_rule",
    "ProfileRules",
    "ProfileSeries",
    "PROFILE",
    "PROFILED_BY",
]

_PATTERN = "quality.offline_observer"
_RULES = ProfileRules()


@demanding(replaces="table")
@typed
def observe_offline(
    table: Table,
    into: Target,
    *,
    version: int | None = None,
    sample: float = 1.0,
    sample_by: Sequence[str] = (),
) -> WriteResult:
    """Profile the partitions of a table that changed since the last profile, in one pass and one commit.

    The table is only read: no lock, no commit, no setting. A partition without rows has a profile of 0 rows.

    Args:
        table: the observed table.
        into: target of the profiles, without a partition: a table of the columns ``PROFILE``, partitioned by
            ``PROFILED_BY``. Its log says up to which version the table was observed.
        version: version to observe; the newest if ``None``.
        sample: share of the rows that distinct values, quantiles and frequent values are computed of; counts and bounds
            are of all rows. A value that is rare may be missed: of one row in 100,000, a sample of 10 % sees nothing in
            nine of ten cases.
        sample_by: columns whose hash chooses the rows of a sample, so that each run chooses the same rows.

    Raises:
        ConfigError: for a share that is not above 0 and at most 1, a version that is not there, or a table of profiles
            with other partitions.
        Conflict: if another run observed the table meanwhile.
        SchemaMismatch: if the table of profiles lacks a column.

    Example:
        >>> from dedp_assets.patterns.core.schema import TableSpec
        >>> visits = table("visits", "country STRING, day STRING", ("USA", "mon"), (None, "tue"), partition_by=["day"])
        >>> profiles = table(TableSpec("quality/profiles", PROFILE, PROFILED_BY))
        >>> observe_offline(visits, profiles.target(run)).reason
        'profiled 2 partitions of visits at version 1'
        >>> observe_offline(visits, profiles.target(run)).reason
        'visits has no rows that changed after version 1'
        >>> rows(profiles.read().select("data_partition", "column", "rows", "nulls"))[1:3]
        [('day=mon', 'day', 1, 0), ('day=tue', 'country', 1, 1)]
    """
    into = into.by(_PATTERN, "audits")
    require_sample(sample, sample_by)
    require_profiles(into)
    before, newest = into.table.ledger.version(), table.ledger.version()
    pinned = newest if version is None else version
    if not 0 <= pinned <= newest:
        raise ConfigError(f"version must be one of {table.name}, 0 to {newest}, not {pinned}")
    since = table.ledger.resume(last_offline(into.table, table.name))
    changed = _changed(table.ledger, since, pinned)
    if not changed:
        reason = f"{table.name} has no rows that changed after version {since}"
        return WriteResult(into.name, before, applied=False, changed=False, reason=reason)
    profiles = _profiles(table, changed, pinned, sample, sample_by)
    rows = [
        row
        for key, profile in profiles.items()
        for row in rows_of(profile, slice_name(dict(key)), data_version=changed[key])
    ]
    written = write_profiles(into, rows, offline(table.name, pinned), version=pinned, since=before)
    reason = f"profiled {len(profiles)} partitions of {table.name} at version {pinned}"
    return replace(written, reason=reason) if written.applied else written


@typed
def judge_profile(
    profile: Profile,
    history: Sequence[Profile],
    now: datetime,
    partition: str = "",
    *,
    table: str,
    rules: ProfileRules = _RULES,
) -> Measured:
    """Judge columns, NULL, distinct values, categories and shares of a profile by earlier profiles.

    A profile is never part of its own history. What was unusual of a profile by the profiles before is no measure for
    later ones, or a fault would be usual after a while; it is once more of them came in a row than usual ones before,
    and more than seven at most.

    Args:
        profile: the new profile.
        history: earlier profiles, oldest first, of parts of about the same size: more than ``rules.last``, such as four
            times as many, so that enough of them count while a fault lasts.
        now: current time, with time zone.
        partition: partition of the new profile; empty for the whole table.
        table: name of the observed table.
        rules: the limits.

    Returns:
        ``schema_changes``, and for each column ``null_share.COLUMN``, ``distinct_values.COLUMN``, of floating point
        ``not_finite_share.COLUMN``, where the column has categories ``new_categories.COLUMN`` and
        ``share_shift.COLUMN``, and of categories and numbers ``distribution.COLUMN``, the PSI, as a warning;
        ``unknown`` with too little history or too few rows.
    """
    series = ProfileSeries(rules)
    for each in history:
        series.judge(each, now, table=table, partition=partition)
    return series.judge(profile, now, table=table, partition=partition)


@typed
def propose_rule(profile: Profile, *, column: str, rule: ProposedRule) -> Audit:
    """Propose the audit that the profiled rows pass, for a person to turn on.

    As a constraint of a table the same rule is ``NOT (audit.where)``.

    Args:
        profile: profile of rows that are right, such as of a month that was merged.
        column: name of the column in the profile.
        rule: ``not_null``; ``known_values``: the values of the profile and NULL; ``bounds``: numbers and times between
            least and greatest; ``length``: lengths of texts between shortest and longest.

    Raises:
        ConfigError: for a column that the profile does not have, and a rule that the profile does not support.
    """
    if column not in profile.columns:
        raise ConfigError(f"column must be one of {', '.join(profile.columns) or 'no column'}, not {column}")
    return audit_of(profile.columns[column], rule)


def _changed(ledger: Ledger, since: int, until: int) -> dict[Partition, int]:
    """List the partitions whose rows changed after ``since``, each with the version of the last change."""
    found: dict[Partition, int] = {}
    for glimpse in ledger.glimpses(since=since):
        if glimpse.version > until:
            break
        found.update(dict.fromkeys(glimpse.changed, glimpse.version))
    return found


def _profiles(
    table: Table, keys: Collection[Partition], version: int, sample: float, sample_by: Sequence[str]
) -> Mapping[Partition, Profile]:
    """Compute the profile of each partition in one pass over all rows."""
    kinds = table.ledger.state(version).kinds
    by = table.ledger.state(version).partition_columns
    stored = table.read(*map(dict, keys), version=version)
    rows, columns = with_sample(stored, profiled_columns(stored.schema, table.spec.columns), sample, sample_by)
    names = [F.expr(to_folder(c, kinds[c])).alias(f"{RESERVED}{n}") for n, c in enumerate(by)]
    measures = [F.expr(sql).alias(name) for name, sql in profile_expressions(columns).items()]
    found = dict.fromkeys(keys, profile_of(columns, {}))
    for row in rows.groupBy(*names).agg(*measures).collect():
        key = tuple(sorted((c, from_folder(row[f"{RESERVED}{n}"], kinds[c])) for n, c in enumerate(by)))
        found[key] = profile_of(columns, row.asDict())
    return found
