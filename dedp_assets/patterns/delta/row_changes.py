"""Changes of stored rows: merge, recompute, delete, restore; methods of ``Table``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.audits import Audit, not_empty, require_passed
from dedp_assets.patterns.core.columns import require_rows
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.measuring.requests import with_requests_counted
from dedp_assets.patterns.core.records import CommitRecord, Provenance, slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import evaluated_once
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.delta.commit import commits, file_exchange
from dedp_assets.patterns.delta.commit.commits import Operation
from dedp_assets.patterns.delta.commit.sessions import private
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.moments import log_properties, milestones
from dedp_assets.patterns.delta.merge.clauses import Merge, check_condition, no_rows
from dedp_assets.patterns.delta.merge.declared_keys import require_free, require_merge_by_key, require_own_key
from dedp_assets.patterns.delta.merge.deletion import Deletion
from dedp_assets.patterns.delta.merge.merging import Merging, profile_merge
from dedp_assets.patterns.delta.merge.recomputing import Compute, Recomputing, profile_keys
from dedp_assets.patterns.delta.rows import spark_dml
from dedp_assets.patterns.delta.rows.base_snapshot import FindBase, newest_snapshot
from dedp_assets.patterns.delta.rows.copy_on_write import rewrite
from dedp_assets.patterns.delta.rows.row_change import RowChangeRequest
from dedp_assets.patterns.delta.snapshots.definition import held_types, require_replaceable
from dedp_assets.patterns.delta.snapshots.reading import missing_files, predicate
from dedp_assets.patterns.delta.snapshots.tiers import require_in_place, require_writable, tiered
from dedp_assets.patterns.delta.staging.guards import in_range
from dedp_assets.patterns.delta.storage.coordination import table_lock

__all__ = ["delete_rows", "keep_log", "merge_rows", "recompute_rows", "restore_version"]


@in_range
@with_requests_counted
def merge_rows(  # noqa: PLR0913 - of a verb of the table
    table: TableHandle,
    source: DataFrame,
    merge: Merge,
    *,
    provenance: Provenance,
    partition: Mapping[str, object] | None = None,
    audits: Sequence[Audit] = (),
    since: int | None = None,
    execution: str = "",
    find_base: FindBase = newest_snapshot,
) -> WriteResult:
    """Merge a source (``s``) into the table (``t``), as one audited commit.

    Rows meet by ``keys``; a NULL in a key equals nothing, so that such a row of the source is a new one. A table
    that declares its key (``TableSpec.key``) is merged by this key alone, and takes no row without it. The result
    and the record count the rows ``inserted``, ``updated``, ``deleted``, ``untouched``, and ``unused``: rows of the
    source that met no row and were not inserted.

    Args:
        table: the table to write.
        source: rows to merge, one for each key.
        merge: keys and clauses of the merge.
        provenance: who merges, from what, and why.
        partition: partition values that this merge owns: only their rows are met, and a row that would leave them
            is refused; without, a row whose partition value changes moves.
        audits: rules over the rows inserted or updated; the table's constraints are judged in any case.
        since: version of the table that the source was computed from, if it was: what others wrote to the partition
            after it is not in the source.
        execution: key of the execution that this merge is, for a table that declares what they are told apart by.
        find_base: finds the snapshot whose rows are merged into, where this may be an earlier one.

    Raises:
        AmbiguousKeys: if the source has two rows for one key, or of a declared key one without it, or one that
            stands outside of the partition already.
        AuditFailed: if a rule or a constraint refuses the rows; nothing is published.
        ConfigError: if the clauses can never work, or could bring a declared key twice.
        Conflict: if the partition was written after ``since``, or other writers change the same rows and do not
            yield.
        ContractError: if a row of the source is unusable, or the base snapshot is gone.
        NotReady: if the base snapshot lacks what has to be there first.

    Example:
        >>> from dedp_assets.patterns.delta import Delete, Insert, Merge, Update
        >>> users = table("users", "id INT, name STRING", (1, "Ada"), (2, "Bob"))
        >>> changes = frame("id INT, name STRING, gone BOOLEAN", (1, "Ada L.", False), (2, "Bob", True))
        >>> clauses = [Delete(when="s.gone"), Update(), Insert(when="NOT s.gone")]
        >>> _ = users.merge(changes, Merge(["id"], clauses), provenance=run)
        >>> rows(users)
        [(1, 'Ada L.')]
    """
    source, erasures = table.without_erased(require_rows(table.name, source), deleting=merge.only_deletes)
    meter, state = Meter(), table.ensure()
    owned = require_writable(table.name, state, partition or {})
    merge = replace(merge, owned=owned, declared=table.spec.key)
    require_merge_by_key(table.spec, merge)
    source = table.shown(merge.checked(table.name, state, source), whole=merge.takes_columns)
    guards = (not_empty("source", allow_empty=merge.allow_empty),) if merge.whole else ()
    with evaluated_once(source.select("*")) as rows:
        seen = meter.jobs(rows.sparkSession)(profile_merge)(table.spec, merge, rows, state)
        change = Merging(merge, rows, seen, merge.statement(table.name, state), table.store, table.spec)
        request = RowChangeRequest(
            owned, provenance, audits, _execution(table.spec, execution), find_base, since, meter, erasures
        )
        if not (why := file_exchange.only_spark_changes(state)):
            return rewrite(table, change, replace(request, audits=(*guards, *audits)))
        require_passed(table.name, guards, {"source": seen.rows}, provenance.approval)
        if execution or find_base is not newest_snapshot:
            raise ConfigError(f"{table.name} has {why}: only a merge without executions can be made of it")
        if seen.outside and merge.takes_columns:
            raise ContractError(f"{table.name}: {seen.outside} source rows lie outside of {slice_name(owned)}")
        statement = merge.statement(f"delta.`{table.store.address}`", state)

        def run(session: SparkSession, staged: DataFrame | None) -> None:
            if merge.reaches_out and staged is not None:
                stored = session.read.format("delta").load(table.store.address)
                others = stored.filter(f"NOT coalesce({predicate(owned, state)}, false)")
                require_free(table.spec, merge, others, staged)
            session.sql(statement, s=staged)

        return spark_dml.run(table, run, change.content, request, source=rows, why=why)


@in_range
@with_requests_counted
def recompute_rows(  # noqa: PLR0913 - of a verb of the table
    table: TableHandle,
    source: DataFrame,
    *,
    keys: Sequence[str],
    identity: Sequence[str],
    compute: Compute,
    provenance: Provenance,
    aside: Sequence[str] = (),
    audits: Sequence[Audit] = (),
    since: int | None = None,
) -> WriteResult:
    """Replace all rows of the source's keys by the result of ``compute``, as one audited commit.

    Only these keys' rows are read, at the version that the commit follows: where another writer changed them in
    the meantime, they are computed again.

    Args:
        table: the table to write.
        source: rows of the keys to change, any number for each.
        keys: columns of both sides that say which rows belong together.
        identity: columns by which a row is the same one before and after, ``keys`` among them.
        compute: the present rows of these keys, and ``source`` -> all rows that they shall have.
        aside: columns in which a row may differ and say the same to who reads it: such a commit changes no row for
            whoever follows the table.
        provenance: who changes, from what, and why.
        audits: rules over the rows inserted or updated; the table's constraints are judged in any case.
        since: version of the table that ``source`` was chosen by, if it was: what others wrote after it is not known.

    Raises:
        AmbiguousKeys: if a key is NULL.
        AuditFailed: if a rule or a constraint refuses the rows; nothing is published.
        ConfigError: for a table whose rows only Delta's own statements may change.
        Conflict: if the table was written after ``since``, or other writers change the same rows and do not yield.
        SchemaMismatch: if ``compute`` makes other columns than the table's.
    """
    source, erasures = table.without_erased(require_rows(table.name, source))
    meter, state = Meter(), table.ensure()
    require_own_key(table.spec, identity)
    require_in_place(table.name, state, {})
    if why := file_exchange.only_spark_changes(state):
        raise ConfigError(f"{table.name} has {why}: rows of it cannot be computed anew, merge into it instead")
    held = [field for field in held_types(state).fields if field.name.lower() in map(str.lower, keys)]
    source = as_held(source, StructType(held), table.name)
    with evaluated_once(source.select("*")) as rows:
        profile = meter.jobs(rows.sparkSession)(profile_keys)(table.name, rows, keys)
        change = Recomputing(tuple(keys), tuple(identity), rows, compute, profile, table.store, tuple(aside))
        return rewrite(
            table, change, RowChangeRequest({}, provenance, audits, since=since, meter=meter, erasures=erasures)
        )


@in_range
@with_requests_counted
def delete_rows(
    table: TableHandle,
    where: str | Column,
    *,
    provenance: Provenance,
    partition: Mapping[str, object] | None = None,
    audits: Sequence[Audit] = (),
    about: str = "",
) -> WriteResult:
    """Delete the rows for which a predicate is true, as one audited commit.

    A row for which the predicate is NULL stays.

    Args:
        table: the table to write.
        where: predicate in SQL; or a column, for values that may stand in no plan, log or commit.
        provenance: who deletes, and why.
        partition: partition values that the rows lie in.
        audits: rules, such as a bound on the figure ``deleted``.
        about: description of the rows of a column, for the commit.

    Raises:
        AuditFailed: if a rule refuses the deletion; nothing is published.
        ConfigError: if the predicate cannot be analysed; for a column, if only Delta's SQL changes rows of the table.
        Conflict: if other writers change the same rows and do not yield.
    """
    state = table.ensure()
    owned = require_writable(table.name, state, partition or {})
    if isinstance(where, str):
        check_condition(table.name, no_rows(table.session, state), where)
    change = Deletion(where, owned, table.session, table.store, about)
    request = RowChangeRequest(owned, provenance, audits)
    if not (why := file_exchange.only_spark_changes(state)):
        return rewrite(table, change, request)
    if not isinstance(where, str):
        raise ConfigError(f"{table.name} has {why}: only a predicate in SQL deletes rows there, not a column")
    condition = f"({where}) AND {predicate(owned, state)}"
    statement = f"DELETE FROM delta.`{table.store.address}` WHERE {condition}"  # noqa: S608 - a predicate is SQL by contract
    return spark_dml.run(table, lambda session, _: session.sql(statement), change.content, request, why=why)


@with_requests_counted
def restore_version(table: TableHandle, version: int, *, provenance: Provenance) -> WriteResult:
    """Make the rows of an earlier ``version`` current again, as a new commit.

    Delta keeps transaction ids through a restore, so a replay of what was rolled back would look already applied:
    the table's generation is raised first, and a crash between the two steps only allows a rerun too many.

    Raises:
        ConfigError: if a vacuum removed files of that version, its deletion vectors may not be written again, or the
            table is append-only or closed.
    """
    statement = f"RESTORE TABLE delta.`{table.store.address}` TO VERSION AS OF {version}"
    record, meter = CommitRecord.of(provenance, content=statement), Meter()
    with meter.waiting(table_lock(table.store)) as held:
        then = table.ledger.state(version)
        if gone := missing_files(table.store, then):
            raise table.vacuumed(version, gone)
        if then.marked and not then.marks_rows:  # RESTORE brings the properties of then, and is refused by Delta
            raise ConfigError(
                f"{table.name}: version {version} has deletion vectors, and a property by which none may be written: "
                "overwrite the table by the rows of that version (Table.read, Table.overwrite)"
            )
        for part in tiered(then):
            part.require_copy(table.name)
        require_replaceable(table.name, table.ledger.state())
        file_exchange.raise_generation(table.ledger, lambda: table.session)
        before = table.ledger.version()
        noted = record.costing(meter.cost()).to_json()
        settings = {"spark.databricks.delta.commitInfo.userMetadata": noted}
        held.confirm()
        with private(table.session, settings) as own:
            own.sql(statement)
        restored = spark_dml.committed(table, before, record)
        keep_log(table)
        return restored


def keep_log(table: TableHandle) -> None:
    """Turn off the cleanup of the log for a table with milestones, as a RESTORE takes back properties."""
    state = table.ledger.state()
    if milestones(table.ledger) and (changed := log_properties(state, kept=True)):
        action, note = commits.with_properties(table.ledger, state, changed), "the log is kept for milestones"
        commits.commit_actions(table.store, state, [action], record=note, operation=Operation("SET TBLPROPERTIES"))


def _execution(spec: TableSpec, key: str) -> dict[str, str]:
    """Return the partition values of an execution in commit records; empty without a key.

    Raises:
        ConfigError: if the table does not declare what its executions are told apart by.
    """
    if key and not spec.executed_by:
        raise ConfigError(f"{spec.name} does not declare what its executions are told apart by (executed_by)")
    return {spec.executed_by: key} if key else {}
