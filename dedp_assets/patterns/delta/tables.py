"""The only writer of Delta tables.

An append or overwrite goes: **stage** (one Spark job writes Parquet inside the table's folder and observes every figure
on the way) -> **audit** the figures -> **publish** under the table's lock (one metadata-only transaction: old files of
the partition out, staged files in, transaction id and commit record with them). Readers see the old or the new
version, never unaudited rows; a crash leaves nothing but a folder.

Merge and delete go the same way: the files that hold the rows to change are rewritten beside the table, audited and
exchanged. Everything works the same in an embedded session and over Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.audits import Audit, not_empty, require_passed
from dedp_assets.patterns.core.columns import require_rows
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.meeting import as_held
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import CommitRecord, Provenance, slice_name
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead, evaluated_once
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql_options import reason_of
from dedp_assets.patterns.delta import commits, publishing, statements
from dedp_assets.patterns.delta.accounting import Accounting
from dedp_assets.patterns.delta.clauses import Clause, Merge, check_condition, no_rows
from dedp_assets.patterns.delta.creation import doubtful_checks, first_commit
from dedp_assets.patterns.delta.declared_keys import (
    REPEATED,
    repeated,
    require_free,
    require_merge_by_key,
    require_own_key,
    require_whole,
)
from dedp_assets.patterns.delta.definition import (
    alterations,
    conform,
    content_columns,
    creation,
    held_types,
    require_open,
    require_partition,
    require_replaceable,
    require_usable,
)
from dedp_assets.patterns.delta.locations import Located, Location, require_vacant, store_at
from dedp_assets.patterns.delta.locks import table_lock
from dedp_assets.patterns.delta.log import Ledger, TableState
from dedp_assets.patterns.delta.measuring import Measuring
from dedp_assets.patterns.delta.merging import Deletion, Merging, look
from dedp_assets.patterns.delta.parts import Parts
from dedp_assets.patterns.delta.reading import missing, predicate, read_at
from dedp_assets.patterns.delta.recomputing import Compute, Recomputing
from dedp_assets.patterns.delta.recomputing import look as look_at
from dedp_assets.patterns.delta.rewriting import ChangeRequest, rewrite
from dedp_assets.patterns.delta.sessions import private, require_literals
from dedp_assets.patterns.delta.stages import empty_stage, stage_rows
from dedp_assets.patterns.delta.store import require
from dedp_assets.patterns.delta.stored_spec import stored_spec
from dedp_assets.patterns.delta.target import Target
from dedp_assets.patterns.delta.verification import lost_files, tell_lost
from dedp_assets.patterns.delta.writes import StagedWrite, discarded_if_unjudged, in_range, layout_of, refusal

__all__ = ["Table"]


class Table(Located):
    """A Delta table: its declaration, its place, and the only ways to change it.

    Args:
        spec: what the table declares about itself.
        location: where it lies.
        session: a Spark session, or a function that gives one once rows are touched; the ledger needs none.
    """

    def __init__(self, spec: TableSpec, location: Location, session: SparkSession | Callable[[], SparkSession]) -> None:
        self.spec = spec
        self.name = spec.name
        self.ledger = Ledger(location, name=spec.name)
        self.store = self.ledger.store
        self._session = session

    @classmethod
    def at(cls, location: Location, session: SparkSession | Callable[[], SparkSession], *, name: str = "") -> Table:
        """Open a table that exists, with the declaration that its log states; nothing of the table is altered.

        Args:
            location: where it lies.
            session: as for :class:`Table`.
            name: what messages and transaction ids call the table, as whoever else writes it calls it; by default the
                last two names of the location, which is ``layer/dataset``.

        Raises:
            ConfigError: if there is no table.

        Example:
            >>> orders = table("silver/orders", "id INT, day STRING", (1, "mon"), partition_by=["day"])
            >>> again = Table.at(orders.location, spark)
            >>> again.name, again.spec.partition_by, rows(again)
            ('silver/orders', ('day',), [(1, 'mon')])
        """
        ledger = Ledger(location, name=name or "/".join(store_at(location).address.rsplit("/", 2)[1:]))
        if not ledger.exists():
            raise ConfigError(
                f"{ledger.store.address} holds no table: declare one (TableSpec), or name another location"
            )
        return cls(stored_spec(ledger.name, ledger.state()), location, session)

    @property
    def session(self) -> SparkSession:
        """The Spark session; asking for it starts one if need be.

        Raises:
            ConfigError: for one whose settings change what SQL texts say.
        """
        session = self._session() if callable(self._session) else self._session
        require_literals(session)
        return session

    @typed
    def target(
        self,
        run: Provenance | str,
        *,
        partition: Mapping[str, object] | None = None,
        audits: Sequence[Audit] = (),
        inputs: Mapping[str, Any] | None = None,
        sequence: int | None = None,
        rows_read: RowsRead = RowsRead(),  # noqa: B008 - frozen
    ) -> Target:
        """Make the target of a write to this table.

        Args:
            run: who writes, from which inputs, and why; of a text, the run's id.
            partition: partition column -> value, of the partition that the write owns; nothing for the whole table. For
                a table with executions (``TableSpec.executed_by``), its name -> the execution.
            audits: rules that the rows must pass before the commit.
            inputs: upstream name -> version or content identity that was read, where ``run`` is an id.
            sequence: upstream version that the write applies, where ``run`` is an id.
            rows_read: facts about the rows that the run read, for the row accounting.

        Raises:
            ConfigError: if ``run`` has inputs or a sequence of its own.

        Example:
            >>> orders = table("orders", "id INT, day STRING", partition_by=["day"])
            >>> into = orders.target("nightly-17", partition={"day": "mon"}, inputs={"orders.csv": "sha256:5feceb66"})
            >>> into.run.asset, into.run.run_id
            ('orders', 'nightly-17')
        """
        if isinstance(run, str):
            run = Provenance(asset=self.name, run_id=run, inputs=inputs or {}, sequence=sequence)
        elif inputs is not None or sequence is not None:
            raise ConfigError(f"{self.name}: inputs= and sequence= must be part of run, which is a Provenance here")
        return Target(self, run, dict(partition or {}), tuple(audits), rows_read)

    def read(self, *partitions: Mapping[str, object], version: int | None = None) -> DataFrame:
        """Read the rows at a pinned version (the newest if ``None``), of the named partitions if any; lazy.

        Raises:
            ConfigError: if a vacuum removed files of that version, and its rows are no longer the current ones.
            ContractError: if files of the pinned version are lost that its rows are still current in.
        """
        state = self.ledger.state(version)
        named = [self._spelled(state, partition) for partition in partitions]
        if version is not None and (gone := missing(self.store, state, named)):
            state = self._same_rows(state, named, gone)
        return read_at(self.session, self.store, state, named)

    def stream(self) -> DataFrame:
        """Stream the rows that commits add, from the present ones on; a commit that replaces rows is passed over."""
        return self.session.readStream.format("delta").option("skipChangeCommits", "true").load(self.store.address)

    def ensure(self) -> TableState:
        """Create the table, or alter it to its declaration, in commits of its own; do nothing if they agree.

        Raises:
            SchemaMismatch: if only a migration could make them agree.
            ConfigError: if no table can be made as declared, or where it is declared to lie, or the table is closed.
        """
        require(self.store, "lock", "put_if_absent")
        if self.ledger.exists():
            state = self.ledger.state()
            require_open(self.name, state)
            if not list(alterations(self.spec, self.store.address, state)):
                return state
        else:
            require_vacant(self.name, self.store)
        with table_lock(self.store):
            # Looked at again under the lock: another writer may have been here first.
            if not self.ledger.exists():
                self._create()
            state = self.ledger.state()
            if altered := list(alterations(self.spec, self.store.address, state)):
                require_usable(self.spec, self.session)
                self._define(altered)
                state = self.ledger.state()
            return state

    def overwrite(
        self,
        rows: DataFrame | Split,
        *,
        partition: Mapping[str, object] | None = None,
        provenance: Provenance,
        audits: Sequence[Audit] = (),
    ) -> WriteResult:
        """Replace a partition (the whole table if none is named): afterwards it holds ``rows`` and no others."""
        return self.stage(rows, partition=partition, provenance=provenance, audits=audits).publish()

    def append(self, rows: DataFrame | Split, *, provenance: Provenance, audits: Sequence[Audit] = ()) -> WriteResult:
        """Add rows to the table.

        Raises:
            ConfigError: without ``provenance.sequence``: a retry could not be told from new rows.
        """
        if provenance.sequence is None:
            raise ConfigError(f"an append to {self.name} needs provenance.sequence, or a retry adds its rows twice")
        return self.stage(rows, provenance=provenance, audits=audits, append=True).publish()

    def clear(
        self, *, partition: Mapping[str, object], provenance: Provenance, since: int | None = None
    ) -> WriteResult:
        """Replace a partition by no rows, without starting Spark for it; ``since`` as :meth:`StagedWrite.publish`."""
        owned = require_partition(self.name, self.ensure(), partition)
        return self._without_rows(owned, provenance, since=since)

    def mark(self, *, provenance: Provenance) -> WriteResult:
        """Move the table's cursor to ``provenance.sequence`` without rows: upstream held nothing for it so far."""
        self.ensure()
        return self._without_rows({}, provenance, append=True)

    @in_range
    def stage(
        self,
        rows: DataFrame | Split,
        *,
        partition: Mapping[str, object] | None = None,
        provenance: Provenance,
        audits: Sequence[Audit] = (),
        rows_read: RowsRead = RowsRead(),  # noqa: B008 - frozen
        keep: str = "valid",
        also: Sequence[str] = (),
        append: bool = False,
    ) -> StagedWrite:
        """Write rows beside the table and judge them, publishing nothing.

        Args:
            rows: what to write; of a split, the part ``keep``.
            partition: the partition values this write owns; empty owns the whole table.
            provenance: who writes, from what, and why.
            audits: rules over the written rows; constraints and row accounting are judged in any case.
            rows_read: what is known about the rows read, to account for them.
            keep: the part of a split that is meant for this table.
            also: parts of a split to stage in the same job for other tables.
            append: keep the present rows.

        Raises:
            AuditFailed: if a rule refuses the rows; the stage stays for inspection.
            ConfigError: for an append to a table with a key, or a partition that does not follow from the key.
            SchemaMismatch: if the rows' columns are not the table's.
        """
        require_rows(self.name, rows)
        require_whole(self.spec, partition or {}, append=append)
        split, state = Split.of(rows, keep), self.ensure()
        owned = require_partition(self.name, state, partition or {})
        conform(self.name, split, keep, state)
        rows_read = rows_read.along(rows, audits)
        tally = rows_read.tally
        split = Split.of(tally.rows) if tally and tally.along else split
        parts = Parts.of(split, keep, content_columns(self.spec, state), rows_read)
        same = repeated(self.spec, parts.chosen)
        accounting = Accounting.of(parts, state, owned, audits, repeated=REPEATED if same else "")
        hashes = {**parts.hashes, **same}
        measuring = Measuring(accounting.measures(), accounting.asked(), accounting.landed(), hashes).along(tally)
        stage = stage_rows(split, layout_of(self, state, owned), measuring=measuring, keep=keep, also=also)
        with discarded_if_unjudged(stage):
            judged = accounting.judge(stage.observed, provenance.approval)
        if judged.refused:
            raise refusal(self, owned, judged, stage, stage.read())
        return StagedWrite.of(self, stage, judged, owned, provenance, append=append)

    @in_range
    def merge(  # noqa: PLR0913 - what meets, what becomes of it, and of what it is a part
        self,
        source: DataFrame,
        *,
        keys: Sequence[str],
        clauses: Sequence[Clause],
        provenance: Provenance,
        on: str = "",
        null_keys: bool = False,
        unusable: Mapping[str, str] | None = None,
        partition: Mapping[str, object] | None = None,
        whole: bool = False,
        allow_empty: bool = False,
        since: int | None = None,
        execution: str = "",
        due: Collection[str] | None = None,
        audits: Sequence[Audit] = (),
    ) -> WriteResult:
        """Merge a source (``s``) into the table (``t``), as one audited commit.

        Rows meet by ``keys``; a NULL in a key equals nothing, so that such a row of the source is a new one. A table
        that declares its key (``TableSpec.key``) is merged by this key alone, and takes no row without it. The result
        and the record count the rows ``inserted``, ``updated``, ``deleted``, ``untouched``, and ``unused``: rows of the
        source that met no row and were not inserted.

        Args:
            source: rows to merge, one for each key.
            keys: columns of both sides, of which equal values make two rows one.
            clauses: what becomes of rows that both sides have (``Update``, ``Delete``) and of rows that only the source
                has (``Insert``): the first clause whose condition is true takes a row.
            provenance: who merges, from what, and why.
            on: further SQL condition over ``t`` and ``s`` for rows to meet.
            null_keys: whether NULL is a key like any other, and equals NULL.
            unusable: what may be wrong with a row of the source -> SQL that is true of such a row; one of them, and
                nothing is merged.
            partition: partition values that this merge owns: only their rows are met, and a row that would leave them
                is refused; without, a row whose partition value changes moves.
            whole: whether the source is all that the partition holds: rows that meet none of it are removed.
            allow_empty: whether a source without rows may remove them, with a warning.
            since: version of the table that the source was computed from, if it was: what others wrote to the partition
                after it is not in the source.
            execution: key of the execution that this merge is, for a table that declares what they are told apart by.
            due: executions that have to be in the rows before it. If it is given, an execution of the past begins with
                the rows that were there before it, and those after it have to follow.
            audits: rules over the rows inserted or updated; the table's constraints are judged in any case.

        Raises:
            AmbiguousKeys: if the source has two rows for one key, or of a declared key one without it, or one that
                stands outside of the partition already.
            AuditFailed: if a rule or a constraint refuses the rows; nothing is published.
            ConfigError: if the clauses can never work, or could bring a declared key twice.
            Conflict: if the partition was written after ``since``, or other writers change the same rows and do not
                yield.
            ContractError: if a row of the source is unusable, or the rows before an execution are gone.
            NotReady: if an execution before it is not in the rows.

        Example:
            >>> from dedp_assets.patterns.delta.clauses import Delete, Insert, Update
            >>> users = table("users", "id INT, name STRING", (1, "Ada"), (2, "Bob"))
            >>> changes = frame("id INT, name STRING, gone BOOLEAN", (1, "Ada L.", False), (2, "Bob", True))
            >>> clauses = [Delete(when="s.gone"), Update(), Insert(when="NOT s.gone")]
            >>> _ = users.merge(changes, keys=["id"], provenance=run, clauses=clauses)
            >>> rows(users)
            [(1, 'Ada L.')]
        """
        require_rows(self.name, source)
        state = self.ensure()
        owned = require_partition(self.name, state, partition or {})
        merge = Merge(tuple(keys), tuple(clauses), on, null_keys, owned, unusable or {}, whole, self.spec.key)
        require_merge_by_key(self.spec, merge)
        source = merge.checked(self.name, state, source)
        some = (not_empty("source", allow_empty=allow_empty),) if whole else ()
        with evaluated_once(source.select("*")) as rows:
            seen = look(self.spec, merge, rows, state)
            change = Merging(merge, rows, seen, merge.statement(self.name, state), self.store, self.spec)
            request = ChangeRequest(owned, provenance, audits, self._execution(execution), due, since)
            if not (why := publishing.only_spark_changes(state)):
                return rewrite(self, change, replace(request, audits=(*some, *audits)))
            require_passed(self.name, some, {"source": seen.rows}, provenance.approval)
            if execution:
                raise ConfigError(f"{self.name} has {why}: only a merge without executions can be made of it")
            if seen.outside and merge.takes_columns:
                raise ContractError(f"{self.name}: {seen.outside} source rows lie outside of {slice_name(owned)}")
            statement = merge.statement(f"delta.`{self.store.address}`", state)

            def run(session: SparkSession, staged: DataFrame | None) -> None:
                if merge.reaches_out and staged is not None:
                    there = session.read.format("delta").load(self.store.address)
                    others = there.filter(f"NOT coalesce({predicate(owned, state)}, false)")
                    require_free(self.spec, merge, others, staged)
                session.sql(statement, s=staged)

            return statements.run(self, run, change.content, request, source=rows, why=why)

    @in_range
    def recompute(
        self,
        source: DataFrame,
        *,
        keys: Sequence[str],
        identity: Sequence[str],
        compute: Compute,
        provenance: Provenance,
        aside: Sequence[str] = (),
        audits: Sequence[Audit] = (),
    ) -> WriteResult:
        """Replace all rows of the keys in ``source`` by those that ``compute`` makes, as one audited commit.

        Only these keys' rows are read, at the version that the commit follows: where another writer changed them in
        the meantime, they are computed again.

        Args:
            source: rows of the keys to change, any number for each.
            keys: columns of both sides that say which rows belong together.
            identity: columns by which a row is the same one before and after, ``keys`` among them.
            compute: the present rows of these keys, and ``source`` -> all rows that they shall have.
            aside: columns in which a row may differ and say the same to who reads it: such a commit changes no row for
                whoever follows the table.
            provenance: who changes, from what, and why.
            audits: rules over the rows inserted or updated; the table's constraints are judged in any case.

        Raises:
            AmbiguousKeys: if a key is NULL.
            AuditFailed: if a rule or a constraint refuses the rows; nothing is published.
            ConfigError: for a table whose rows only Delta's own statements may change.
            Conflict: if other writers change the same rows and do not yield.
            SchemaMismatch: if ``compute`` makes other columns than the table's.
        """
        require_rows(self.name, source)
        state = self.ensure()
        require_own_key(self.spec, identity)
        if why := publishing.only_spark_changes(state):
            raise ConfigError(f"{self.name} has {why}: rows of it cannot be computed anew, merge into it instead")
        held = [field for field in held_types(state).fields if field.name.lower() in map(str.lower, keys)]
        source = as_held(source, StructType(held), self.name)
        with evaluated_once(source.select("*")) as rows:
            looked = look_at(self.name, rows, keys)
            change = Recomputing(tuple(keys), tuple(identity), rows, compute, looked, self.store, tuple(aside))
            return rewrite(self, change, ChangeRequest({}, provenance, audits))

    def delete(
        self,
        where: str,
        *,
        provenance: Provenance,
        partition: Mapping[str, object] | None = None,
        audits: Sequence[Audit] = (),
    ) -> WriteResult:
        """Delete the rows for which the SQL predicate ``where`` is true, as one audited commit; NULL keeps a row.

        Raises:
            AuditFailed: if a rule refuses it, e.g. a bound on the figure ``deleted``.
            ConfigError: if the predicate cannot be analysed.
            Conflict: if other writers change the same rows and do not yield.
        """
        state = self.ensure()
        owned = require_partition(self.name, state, partition or {})
        check_condition(self.name, no_rows(self.session, state), where)
        change, request = Deletion(where, owned, self.session, self.store), ChangeRequest(owned, provenance, audits)
        if not (why := publishing.only_spark_changes(state)):
            return rewrite(self, change, request)
        condition = f"({where}) AND {predicate(owned, state)}"
        statement = f"DELETE FROM delta.`{self.store.address}` WHERE {condition}"  # noqa: S608 - a predicate is SQL by contract
        return statements.run(self, lambda session, _: session.sql(statement), change.content, request, why=why)

    def restore(self, version: int, *, provenance: Provenance) -> WriteResult:
        """Make the rows of an earlier ``version`` current again, as a new commit.

        Delta keeps transaction ids through a restore, so a replay of what was rolled back would look already applied:
        the table's generation is raised first, and a crash between the two steps only allows a rerun too many.

        Raises:
            ConfigError: if a vacuum removed files of that version, or the table is append-only or closed.
        """
        statement = f"RESTORE TABLE delta.`{self.store.address}` TO VERSION AS OF {version}"
        record = CommitRecord.of(provenance, content=statement)
        with table_lock(self.store):
            if gone := missing(self.store, self.ledger.state(version)):
                raise self._vacuumed(version, gone)
            require_replaceable(self.name, self.ledger.state())
            publishing.raise_generation(self.ledger, lambda: self.session)
            before = self.ledger.version()
            settings = {"spark.databricks.delta.commitInfo.userMetadata": record.to_json()}
            with private(self.session, settings) as own:
                own.sql(statement)
            return statements.committed(self, before, record)

    def _execution(self, key: str) -> dict[str, str]:
        """Name an execution as commits do.

        Raises:
            ConfigError: if the table does not declare what its executions are told apart by.
        """
        if key and not self.spec.executed_by:
            raise ConfigError(f"{self.name} does not declare what its executions are told apart by (executed_by)")
        return {self.spec.executed_by: key} if key else {}

    def _spelled(self, state: TableState, partition: Mapping[str, object]) -> dict[str, str | None]:
        """Spell a partition as the log does; its values may be missing (NULL)."""
        known = require_partition(self.name, state, {c: v for c, v in partition.items() if v is not None})
        missing = state.spelled({c: None for c, v in partition.items() if v is None})
        if foreign := [c for c in missing if c not in state.kinds]:
            raise ConfigError(f"{self.name} is partitioned by {list(state.partition_columns)}, not by {foreign}")
        return {**missing, **known}

    # --- what the methods above share ---------------------------------------------------------------------------------

    def _without_rows(
        self, owned: Mapping[str, str], provenance: Provenance, *, append: bool = False, since: int | None = None
    ) -> WriteResult:
        """Publish that there are no rows, without a job."""
        judged = Accounting(Parts()).judge({})
        staged = StagedWrite.of(self, empty_stage(self.store), judged, owned, provenance, append=append)
        return staged.publish(since=since)

    def _same_rows(
        self, state: TableState, partitions: Sequence[Mapping[str, str | None]], gone: Sequence[str]
    ) -> TableState:
        """Return the newest state if no rows changed since: compaction exchanges files and keeps the rows."""
        head, changed = self.ledger.changes(since=state.version)
        for key in map(dict, changed):
            if any(all(key.get(c) == value for c, value in named.items()) for named in partitions or [{}]):
                raise self._vacuumed(state.version, gone)
        current = self.ledger.state(head)
        if lost := lost_files(self.store, current, *partitions):
            raise ContractError(f"{tell_lost(self.name, lost)}: `dedp verify` names what repairs it")
        return current

    def _vacuumed(self, version: int, gone: Sequence[str]) -> ConfigError:
        return ConfigError(
            f"{self.name} can no longer be read at version {version}: a vacuum removed {len(gone)} of its files. Take "
            "a newer version; what shall stay readable for longer needs a longer retention"
        )

    def _create(self) -> None:
        """Create the table by its first commit, without Spark where that is certain to be what Spark would do."""
        first = first_commit(self.spec)
        if first is None or doubtful_checks(self.spec):
            require_usable(self.spec, self.session)
        if first is None:
            self._define(creation(self.spec, self.store.address))
            return
        # Whoever knows no lock and was faster created it.
        with suppress(Conflict):
            commits.write(self.store, 0, first)

    def _define(self, statements: Iterable[str]) -> None:
        found = list(statements)
        if not found:
            return
        try:
            with private(self.session, {}) as own:
                for statement in found:
                    own.sql(statement)
        except PySparkException as error:
            if publishing.is_conflict(error):
                raise
            kind = ContractError if publishing.violation(error) else ConfigError
            raise kind(f"{self.name} cannot be made as it is declared: {reason_of(error)}") from error
