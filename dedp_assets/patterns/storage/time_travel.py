"""Time Travel: earlier versions are read, compared and restored; milestones outlive vacuums.

Problem: a corrupting write is found days later; a model or a report has to be explained by the rows of its day, which
    a vacuum has removed by then.
Solution: name a version by number, instant or milestone: `Table.read` reads its rows, a comparison shows what changed
    by key, a rollback makes it current again as a new commit that downstream follows.
Consequences: a milestone keeps the files of its version and the table's whole log until it is released. Vacuums of
    other engines know no milestones. A rollback takes back everything since, also what was right.
Choose instead: Snapshot Export, for a copy that outlives the table; Proxy, to switch between whole loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dedp_assets.patterns.core.comparison import compared_by_key
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import (
    Table,
    TableState,
    Target,
    in_turn,
    keep_log,
    milestone_id,
    milestones,
    missing_files,
    require_lasting,
    require_open,
    version_at,
)
from dedp_assets.patterns.delta.maintenance import put_milestone

__all__ = ["roll_back", "set_milestone", "compare_versions"]


@demanding(replaces="table")
@typed
def roll_back(into: Target, *, to: int | str, because: str) -> WriteResult:
    """Make the rows of an earlier version current again, as a new commit that says why.

    What was rolled back is computed again downstream, and can be written again upstream: the commit begins a new
    generation of transaction ids. A table whose files are those of the version already is left as it is.

    Args:
        into: target of the write: the whole table.
        to: a version, an instant such as ``2026-01-05T10:00Z``, or the name of a milestone.
        because: why; stands in the commit.

    Raises:
        ConfigError: without a reason, before the first commit, for an append-only or closed table, or if a vacuum
            removed files of that version.
        NotReady: if there is no such version or milestone.
        Conflict: if other writers hold the table for too long.

    Example:
        >>> prices = table("prices", "id INT, price INT", (1, 10))
        >>> right = prices.ledger.version()
        >>> frame("id INT, price INT", (1, -1)).write.format("delta").mode("overwrite").save(str(prices.location))
        >>> found = compare_versions(prices, keys=["id"], before=right)
        >>> found.passed, found.figures["samples"]
        (False, 'id 1: price 10 -> -1')
        >>> roll_back(prices.target(run), to=right, because="prices came without a sign").changed
        True
        >>> rows(prices)
        [(1, 10)]
    """
    into = into.by("storage.time_travel")
    if not because.strip():
        raise ConfigError("because must be a reason, not an empty text")
    ledger = into.table.ledger
    version = version_at(ledger, to)
    now, then = ledger.state(), ledger.state(version)
    if _is_same(now, then):
        keep_log(into.table)  # of a rollback that died after its commit
        reason = f"the rows are those of version {version} already"
        return WriteResult(into.name, now.version, applied=False, changed=False, reason=reason)
    run = replace(into.run, notes={**into.run.notes, "because": because, "to": str(to)})
    restored = into.table.restore(version, provenance=run)
    return replace(restored, reason=f"the rows are those of version {version} again")


@demanding(replaces="table")
@typed
def set_milestone(
    into: Target, *, name: str, at: int | str | None = None, change: Literal["keep", "move", "release"] = "keep"
) -> WriteResult:
    """Keep a version of any age under a name, or release the name; no row changes.

    Args:
        into: target of the write: the whole table.
        name: of the milestone: a letter, then letters, digits, dots, hyphens and underscores.
        at: version, instant or other milestone; the newest version if ``None``.
        change: ``keep`` makes a milestone and refuses one that is at another version; ``move`` takes it from there;
            ``release`` lets vacuums have the files again.

    Raises:
        ConfigError: for a name that cannot be, a milestone that stands at another version, files that a vacuum removed,
            a table whose transaction ids expire, or a version that is named for a release.
        NotReady: if there is no such version, or nothing to release.
        Conflict: if other writers do not yield.
    """
    into = into.by("storage.time_travel")
    milestone_id(name)
    if change == "release" and at is not None:
        raise ConfigError(f"at must be None for a release, not {at!r}")
    ledger = into.table.ledger

    def write() -> WriteResult:
        state, known = ledger.state(), milestones(ledger)
        require_open(into.name, state)
        if change == "release" and name not in known:
            version_at(ledger, name)  # says what there is
        version = state.version if at is None else version_at(ledger, at)
        if change == "keep" and at is not None and known.get(name, version) != version:
            raise ConfigError(
                f"at must be version {known[name]}, where {name} of {into.name} is, or change be move, not {at!r}"
            )
        if (change != "release" and known.get(name) == version) or (change == "keep" and name in known):
            reason = f"{name} is version {known[name]} already"
            return WriteResult(into.name, state.version, applied=False, changed=False, reason=reason)
        if change != "release":
            _require_kept(into.table, state, version)
        made = put_milestone(into.table, state, name, None if change == "release" else version, into.run)
        reason = f"{name} is {'released' if change == 'release' else f'version {version}'}"
        return WriteResult(into.name, made, applied=True, changed=False, reason=reason)

    return in_turn(into.table.store, write)


@typed
def compare_versions(
    table: Table,
    *,
    keys: Sequence[str],
    before: int | str,
    after: int | str | None = None,
    columns: Sequence[str] = (),
    tolerance: float = 0.0,
    samples: int = 5,
) -> Finding:
    """Compare two versions by key: rows that came, rows that went, and values that changed by column.

    Only partitions that a commit in between changed are read, each at both versions.

    Args:
        table: the table.
        keys: columns that identify a row.
        before: version, instant or milestone.
        after: the same; the newest version if ``None``.
        columns: columns to compare; by default all of both versions, and a column that one lacks is a difference.
        tolerance: greatest difference of floating-point numbers that counts as none.
        samples: most keys that differ to show with their values.

    Returns:
        ``both_versions_have_the_same_rows``, a warning with the numbers of rows read, keys and values that differ.

    Raises:
        ConfigError: for keys or columns that cannot be compared, or files that a vacuum removed.
        NotReady: if there is no such version or milestone.
    """
    if samples < 0 or tolerance < 0:
        raise ConfigError(f"samples and tolerance must be 0 or more, not {samples} and {tolerance}")
    ledger = table.ledger
    first, last = sorted((version_at(ledger, before), ledger.version() if after is None else version_at(ledger, after)))
    changed = {key for commit in ledger.commits(since=first) if commit.version <= last for key in commit.changed}
    sides = (f"version {first}", f"version {last}")
    by = {ledger.state(version).partition_columns for version in (first, last)}
    partitioned = len(by) == 1 and all(changed)
    named = [dict(key) for key in sorted(changed, key=str)] if partitioned else []
    one, other = (table.read(*named, version=version) for version in (first, last))
    if not changed:
        one, other = one.limit(0), other.limit(0)
    return compared_by_key(
        one,
        other,
        keys=keys,
        columns=columns,
        tolerance=tolerance,
        samples=samples,
        name="both_versions_have_the_same_rows",
        sides=sides,
    )


def _is_same(now: TableState, then: TableState) -> bool:
    """Return whether two versions have the same files and columns, for certain."""
    if None in (now.marked, then.marked):
        return now.version == then.version
    return now.file_identities() == then.file_identities() and now.columns == then.columns


def _require_kept(table: Table, state: TableState, version: int) -> None:
    """Refuse a milestone of a version that has lost files, or of a table that forgets transaction ids."""
    require_lasting(table.name, state, "milestones")
    if gone := missing_files(table.store, table.ledger.state(version)):
        raise table.vacuumed(version, gone)
