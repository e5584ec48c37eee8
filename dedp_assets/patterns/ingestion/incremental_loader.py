"""Incremental Loader: read only rows added to the source, by bounded, half-open windows.

Problem: the source only grows, and reading all of it for the few rows added since the last run costs more each day.
Solution: windows [start, end) of the column that says when a row was *ingested*, each one partition of the target and
    one commit; the target's log says which are loaded. Of a source partitioned by time, a run takes one whole
    partition once it is ready. Partitions are values in the log, not names of folders.
Consequences: a row the source deletes stays in the target: agree on soft deletes, or fold the versions it inserts by
    ``deduplicate(keep="last")``. A row that becomes visible late is found when its window is read again: look back a
    few windows, over all of them once in a while. With *event* time as the delta column, late rows are missed.
Choose instead: Change Data Capture, if deletes have to be seen or a schedule is too slow; Full Loader, if it is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit, not_empty
from dedp_assets.patterns.core.columns import COMPARED, require_columns, require_free, require_named, require_rows
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import Plan, Split, WriteResult
from dedp_assets.patterns.core.rows import count_where, tally
from dedp_assets.patterns.core.types.partitions import literal
from dedp_assets.patterns.delta import Ledger, Target, conformed, predicate, require_partition
from dedp_assets.patterns.ingestion._increments import KEPT, LATE, merged, require_same_window
from dedp_assets.patterns.ingestion._windows import Bound, Window, cut, interval, windowless, within

__all__ = ["load_increment", "plan_windows", "load_partition"]

_NAME = "ingestion.incremental_loader"
_FIGURES = {"late": count_where(LATE), "gone": count_where(KEPT), "undated": count_where(f"{OUTCOME} = 'undated'")}


@typed
def load_increment(
    rows: DataFrame,
    into: Target,
    *,
    delta: str,
    window: Window,
    keys: Sequence[str],
) -> WriteResult:
    """Load the rows of a window into the window's partition, in one commit.

    A window read again is merged by key: rows the source shows replace their former selves, rows that became visible
    since are added and counted as ``late``, rows it no longer shows stay and are counted as ``gone``. So each row is in
    the partition of its delta value once, whatever the order of the windows.

    Args:
        rows: the whole source, lazy; its filter is one that Spark pushes down to databases and files.
        into: target with the partition that holds this window and no other: a table with the source's columns and those
            of the partition, which are filled in if the source has none. The run's inputs name the reading (when), as a
            window may gain rows later; audits may judge the figures ``late``, ``gone`` and ``undated``, in rows.
        delta: column that says when a row reached the source: TIMESTAMP, TIMESTAMP_NTZ (taken as UTC), growing integer.
        window: its start, which belongs to it, and its end, which does not: times with zone, or integers.
        keys: columns that identify a row of the source.

    Raises:
        AuditFailed: if a row has no key or no delta value, or infinity (a person may approve leaving it out), or an
            audit refuses.
        SchemaMismatch: if the source's columns are not the table's.
        Conflict: if another run wrote the same window meanwhile.
        ConfigError: for bounds that do not fit ``delta``, or a partition that holds another window.

    Example:
        >>> sold = frame("id INT, seq BIGINT", (1, 99), (2, 100), (3, 150), (4, 200))
        >>> loaded, own = table("loaded", "id INT, seq BIGINT, part STRING", partition_by=["part"]), {"part": "100"}
        >>> _ = load_increment(sold, loaded.target(run, partition=own), delta="seq", window=(100, 200), keys=["id"])
        >>> rows(loaded)
        [(2, 100, '100'), (3, 150, '100')]
    """
    into = into.by(_NAME, "partition", "audits")
    if not keys or not into.partition:
        raise ConfigError("keys and partition must each name a column")
    require_distinct("keys=", keys)
    require_columns(require_free(require_rows("load_increment", rows)), [delta, *keys], COMPARED)
    undated = windowless(rows, delta)
    wanted = f"({within(rows, delta, window)}) OR {undated}"
    target, state, there = into.table, into.table.ensure(), {column.lower() for column in rows.columns}
    partition = require_partition(target.name, state, into.partition)
    given = {c: F.expr(literal(v, state.kinds[c])) for c, v in partition.items() if c.lower() not in there}
    shown = conformed(target.name, rows.filter(wanted).withColumns(given), state)
    if not state.written(target.name, partition) and not state.holds(partition):
        judged = shown.withColumns(dict.fromkeys((KEPT, LATE), F.lit(False)))  # noqa: FBT003
    else:
        require_same_window(target.ledger, partition, interval(window))
        judged = merged(shown, target.read(partition, version=state.version), keys, delta)
    flagged = judged.withColumn(OUTCOME, F.expr(f"if({undated}, 'undated', 'valid')"))
    flagged, seen = tally(flagged, identity=keys, measures=_FIGURES)
    split = Split(flagged, {"valid": tuple(shown.columns), "undated": ()}, identity=tuple(keys))
    dated = Audit(name="every_row_has_a_delta_value", of="undated", fail_above=0, approvable=True)
    keyed = Audit.none_where("every_row_has_its_key", " OR ".join(f"{identifier(key)} IS NULL" for key in keys))
    gated = replace(into, partition=partition).noting({"window": interval(window)})
    return gated.with_audits(dated, keyed).reading(seen).stage(split).publish(since=state.version)


@typed
def plan_windows(
    ledger: Ledger,
    *,
    column: str,
    origin: Bound,
    length: int,
    until: Bound,
    lookback: int = 0,
    key_format: str = "%Y-%m-%d",
) -> Plan:
    """Choose the windows to load, oldest first: unloaded complete windows with a look-back.

    The target's log says what is loaded: no restart forgets it, no failed run moves it, no backfill hides a gap.

    Args:
        ledger: the target's.
        column: partition column of the target that holds the window's key.
        origin: start of the first window, with time zone; what lies before is never loaded.
        length: of a window, in seconds; in units of the delta column if that is an integer.
        until: what ends later is held: the current time less what the source needs to make its rows visible.
        lookback: how many windows before each due one are read again for rows that became visible late.
        key_format: ``strftime`` format of a window's start in UTC that makes its key.

    Returns:
        A plan with causes ``due`` and ``look-back``; its ``cursor`` holds each window as ``start/end`` (ISO 8601).

    Raises:
        ConfigError: for a length below 1, a negative look-back, a time without zone, or windows that share a key.

    Example:
        >>> plan_windows(Ledger("nowhere"), column="window", origin=0, length=100, until=250).partitions
        ('0', '100')
    """
    if lookback < 0:
        raise ConfigError(f"lookback={lookback} windows cannot be read again")
    windows = cut(origin, length=length, until=until, key_format=key_format)
    *keys, running = windows
    cursors = ledger.transactions()
    due = {n for n, key in enumerate(keys) if not cursors.written(ledger.name, {column: key})}
    chosen = sorted({before for n in due for before in range(max(0, n - lookback), n + 1)})
    causes = {keys[n]: "due" if n in due else "look-back" for n in chosen}
    reason = f"everything before {windows[keys[min(due)] if due else running][0]} is loaded, {len(due)} windows are due"
    held = {running: f"is not over before {windows[running][1]}"}
    return Plan(tuple(causes), reason, causes, held, cursor={key: interval(windows[key]) for key in causes})


@typed
def load_partition(rows: DataFrame, into: Target, *, ready: Plan) -> WriteResult:
    """Load a whole partition of an identically partitioned source, in one commit.

    No other partition is read.

    Args:
        rows: the whole source, lazy, partition columns included.
        into: target with the partition to load, which follows from the run's logical date.
        ready: what ``readiness_marker.plan_ready`` offers; with ``consumed={}`` also what was loaded before.

    Raises:
        ConfigError: if a column of the partition has no value, or the rows lack the column.
        NotReady: if the partition is not offered, or not there; nothing is written.
        AuditFailed: if it is said to be ready and empty, or an audit refuses it.
    """
    into = into.by(_NAME, "partition", "audits")
    require_named("partition", into.partition)
    if unnamed := [column for column, value in into.partition.items() if value is None]:
        raise ConfigError(f"partition must give {', '.join(unnamed)} a value, not None")
    require_columns(require_rows("load_partition", rows), into.partition)
    declared = {c.lower(): c for c in into.table.spec.columns}
    partition = {declared.get(c.lower(), c): str(value) for c, value in into.partition.items()}
    named = slice_name(partition), "/".join(partition.values())
    key = next((name for name in named if name in ready.partitions), "")
    if not key:
        reason = next((ready.held[name] for name in named if name in ready.held), "there is no such partition")
        raise NotReady(f"{into.name} {named[0]} was not loaded: {reason}")
    own = rows.filter(predicate(partition, into.table.ensure()))
    gated = replace(into, partition=partition).noting({"delivery": ready.cursor.get(key)}).with_audits(not_empty())
    return gated.stage(own).publish()
