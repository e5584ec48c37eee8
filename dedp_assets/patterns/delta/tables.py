"""The only writer of Delta tables.

An append or overwrite goes: **stage** (one Spark job writes Parquet inside the table's folder and observes every figure
on the way) -> **audit** the figures -> **publish** under the table's lock (one metadata-only transaction: old files of
the partition out, staged files in, transaction id and commit record with them). Readers see the old or the new
version, never unaudited rows; a crash leaves nothing but a folder.

Merge and delete go the same way: the files that hold the rows to change are rewritten beside the table, audited and
exchanged. Everything works the same in an embedded session and over Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit, judge, overrule, summary, verdict
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.partitions import from_folder, to_folder
from dedp_assets.patterns.core.records import CommitRecord, Provenance, slice_name
from dedp_assets.patterns.core.results import Finding, RowCounts, Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead, digest, evaluated_once, fields_of, require_rows, row_hash
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import accounting, commits, publishing, statements
from dedp_assets.patterns.delta.clauses import Clause, Merge, check_condition, no_rows
from dedp_assets.patterns.delta.creation import doubtful_checks, first_commit
from dedp_assets.patterns.delta.definition import (
    alterations,
    conform,
    constraints,
    creation,
    require_partition,
    require_replaceable,
    require_usable,
)
from dedp_assets.patterns.delta.locations import Located, Location, require_vacant
from dedp_assets.patterns.delta.locks import table_lock
from dedp_assets.patterns.delta.log import Ledger, Partition, TableState
from dedp_assets.patterns.delta.merging import Deletion, Merging, look
from dedp_assets.patterns.delta.reading import missing, predicate, read_at
from dedp_assets.patterns.delta.rewriting import ChangeRequest, rewrite
from dedp_assets.patterns.delta.sessions import private
from dedp_assets.patterns.delta.stages import Layout, Stage, empty_stage, stage_rows
from dedp_assets.patterns.delta.store import require
from dedp_assets.patterns.delta.verification import lost_files, tell_lost

__all__ = ["StagedWrite", "Table"]

_SAMPLES = 3


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

    @property
    def session(self) -> SparkSession:
        """The Spark session; asking for it starts one if need be."""
        return self._session() if callable(self._session) else self._session

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

    def ensure(self) -> TableState:
        """Create the table, or alter it to its declaration, in commits of its own; do nothing if they agree.

        Raises:
            SchemaMismatch: if only a migration could make them agree.
            ConfigError: if no table can be made as declared, or where it is declared to lie.
        """
        require(self.store, "lock", "put_if_absent")
        if self.ledger.exists():
            state = self.ledger.state()
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

    def clear(self, *, partition: Mapping[str, object], provenance: Provenance) -> WriteResult:
        """Replace a partition by no rows, without starting Spark for it."""
        owned = require_partition(self.name, self.ensure(), partition)
        return self._staged(empty_stage(self.store), owned, provenance, RowCounts(), ()).publish()

    def mark(self, *, provenance: Provenance) -> WriteResult:
        """Move the table's cursor to ``provenance.sequence`` without rows: upstream held nothing for it so far."""
        self.ensure()
        return self._staged(empty_stage(self.store), {}, provenance, RowCounts(), (), append=True).publish()

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
            SchemaMismatch: if the rows' columns are not the table's.
        """
        frame, split = require_rows(self.name, rows), Split.of(rows, keep)
        state = self.ensure()
        owned = require_partition(self.name, state, partition or {})
        conform(self.name, split, keep, state)
        accounting.require_own_figures(audits, rows_read)
        rules = constraints(state)
        measures = accounting.measures(
            split,
            accounting.kept_rows(split, keep),
            state=state,
            content=fields_of(frame, self._content(state)),
            owned=owned,
            rules=rules,
            audits=audits,
            identity=fields_of(
                frame, rows_read.tally.identity if rows_read.tally and not rows_read.represented else ()
            ),
        )
        protocol = commits.protocol(state) if publishing.serves(state) else commits.PLAIN_PROTOCOL
        layout = Layout(self.store, tuple(state.columns), state.kinds, owned, self.spec.personal, protocol)
        stage = stage_rows(split, layout, measures=measures, keep=keep, also=also)
        tallied = rows_read.tally.figures() if rows_read.tally else {}
        stage = replace(stage, figures={**stage.figures, **tallied, **rows_read.figures})
        counts = accounting.count(stage.figures, split, keep, rows_read.represented)
        try:
            staged = self._staged(stage, owned, provenance, counts, audits, inputs=rows_read.findings, append=append)
        except ConfigError:
            stage.discard()
            raise
        if any(finding.refuses for finding in staged.findings):
            raise self._refusal(staged, rules, audits)
        return staged

    def merge(
        self,
        source: DataFrame,
        *,
        keys: Sequence[str],
        clauses: Sequence[Clause],
        provenance: Provenance,
        on: str = "",
        null_keys: bool = False,
        partition: Mapping[str, object] | None = None,
        audits: Sequence[Audit] = (),
    ) -> WriteResult:
        """Merge a source (``s``) into the table (``t``), as one audited commit.

        Rows meet by ``keys``; a NULL in a key equals nothing, so that such a row of the source is a new one. The result
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
            partition: partition values that this merge owns: only their rows are met, and a row that would leave them
                is refused; without, a row whose partition value changes moves.
            audits: rules over the rows inserted or updated; the table's constraints are judged in any case.

        Raises:
            AmbiguousKeys: if the source has two rows for one key.
            AuditFailed: if a rule or a constraint refuses the rows; nothing is published.
            ConfigError: if the clauses can never work.
            Conflict: if other writers change the same rows and do not yield.

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
        merge = Merge(tuple(keys), tuple(clauses), on, null_keys, owned)
        merge.check(self.name, state, source)
        with evaluated_once(source.select("*")) as rows:
            seen = look(self.spec, merge, rows, state)
            change = Merging(merge, rows, seen, merge.statement(self.name, state), self.store)
            request = ChangeRequest(owned, provenance, audits)
            if not (why := publishing.only_spark_changes(state)):
                return rewrite(self, change, request)
            if seen.outside and merge.takes_columns:
                raise ContractError(
                    f"{self.name}: {seen.outside} rows of the source lie outside of {slice_name(owned)}"
                )
            statement = merge.statement(f"delta.`{self.store.address}`", state)
            return statements.run(
                self,
                lambda session, staged: session.sql(statement, s=staged),
                change.content,
                request,
                source=rows,
                why=why,
            )

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
            ConfigError: if a vacuum removed files of that version, or the table is append-only.
        """
        statement = f"RESTORE TABLE delta.`{self.store.address}` TO VERSION AS OF {version}"
        record = self._record(provenance, {}, RowCounts(), (), content=statement)
        with table_lock(self.store):
            if gone := missing(self.store, self.ledger.state(version)):
                raise self._vacuumed(version, gone)
            require_replaceable(self.name, self.ledger.state())
            publishing.raise_generation(self.ledger, lambda: self.session)
            before = self.ledger.version()
            settings = {"spark.databricks.delta.commitInfo.userMetadata": record.to_json()}
            with private(self.session, settings) as own:
                own.sql(statement)
            return self._committed(before, record)

    def _spelled(self, state: TableState, partition: Mapping[str, object]) -> dict[str, str | None]:
        """Spell a partition as the log does; its values may be missing (NULL)."""
        known = require_partition(self.name, state, {c: v for c, v in partition.items() if v is not None})
        return {**dict.fromkeys((c for c, v in partition.items() if v is None), None), **known}

    # --- what the methods above share ---------------------------------------------------------------------------------

    def _content(self, state: TableState) -> list[str]:
        """List the stored columns that say what a row is."""
        technical = {name.lower() for name in {*self.spec.columns} - {*self.spec.content}}
        return [name for name in state.columns if name.lower() not in technical]

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
            raise kind(f"{self.name} cannot be made as it is declared: {str(error).splitlines()[0]}") from error

    def _staged(
        self,
        stage: Stage,
        owned: Mapping[str, str],
        provenance: Provenance,
        counts: RowCounts,
        audits: Sequence[Audit],
        *,
        inputs: Sequence[Finding] = (),
        append: bool = False,
    ) -> StagedWrite:
        figures = {**stage.figures, **counts.as_dict()}
        findings = overrule((*accounting.built_in(figures, counts), *judge(audits, figures)), provenance.approval)
        content = f"{counts.written} rows {figures.get(accounting.FINGERPRINT) or 0}"
        noted = replace(provenance, notes={**provenance.notes, "stage": stage.store.name})
        record = self._record(noted, owned, counts, findings, content=content, figures=accounting.public(figures))
        record = replace(record, verdict=verdict((*inputs, *findings)))
        return StagedWrite(self, stage, record, findings, append)

    def _record(
        self,
        provenance: Provenance,
        owned: Mapping[str, str],
        counts: RowCounts,
        findings: Sequence[Finding],
        *,
        content: str,
        figures: Mapping[str, Any] | None = None,
    ) -> CommitRecord:
        return CommitRecord.of(
            provenance,
            content=content,
            owned=owned,
            counts=counts,
            findings=findings,
            verdict=verdict(findings),
            figures=figures,
        )

    def _refusal(self, staged: StagedWrite, rules: Mapping[str, str], audits: Sequence[Audit]) -> AuditFailed:
        failed = {finding.name for finding in staged.findings if finding.refuses}
        faults = accounting.violations(staged.stage.figures, rules)
        faults += [audit.where for audit in audits if audit.where and audit.name in failed]
        message = f"{self.name} {slice_name(staged.record.partition)}: nothing published. {summary(staged.findings)}"
        if faults:
            shown = [c for c in self.spec.columns if c not in self.spec.personal]
            rows = staged.stage.read().filter(" OR ".join(f"({f})" for f in faults))
            rows = rows.select(*map(identifier, shown)).limit(_SAMPLES)
            message += f". For example {[row.asDict() for row in rows.collect()]}"
        return AuditFailed(message, findings=staged.findings, stage=staged.stage.store.address)

    def _committed(self, before: int, record: CommitRecord) -> WriteResult:
        ours = [c for c in self.ledger.commits(since=before) if c.record == record]
        if not ours:
            return WriteResult(self.name, before, applied=False, changed=False, reason="no row matched")
        return WriteResult(
            table=self.name,
            version=ours[-1].version,
            applied=True,
            changed=bool(ours[-1].changed),
            reason=f"{ours[-1].operation} committed",
            partition=record.partition,
            figures={name: int(value) for name, value in ours[-1].metrics.items() if value.isdigit()},
        )


@dataclass(frozen=True, slots=True)
class _Differing:
    """Partitions of which other rows are staged than these files hold."""

    files: frozenset[str]
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """Rows that passed their audits and wait beside the table.

    Attributes:
        record: what the commit will say.
        findings: every audit that was judged.
    """

    table: Table
    stage: Stage
    record: CommitRecord
    findings: tuple[Finding, ...]
    append: bool = False

    def part(self, name: str) -> DataFrame:
        """Read the staged rows of another part of the split."""
        return self.stage.read(name)

    def publish(self, *, since: int | None = None, after: int | None = None) -> WriteResult:
        """Make the staged rows the table's rows, in one commit; publishing the same write again changes nothing.

        Args:
            since: version of the table that the rows were computed from, if they were: what others wrote to the owned
                partition after it would be lost.
            after: upstream version that has to be the last one applied when the rows are published (0: none yet), so
                that of two runs which went on from the same place only one appends; ``None`` asks for none.

        Raises:
            TransactionReused: if the same inputs were applied before with other rows.
            ConfigError: if the table is append-only and holds rows that would be replaced.
            Conflict: if a newer upstream version was applied meanwhile, the partition was written after ``since``, or
                another writer does not yield.
            ContractError: if the rows' partition belongs to another channel.
        """
        table = self.table
        differing = self._look(after)
        with table_lock(table.store):
            for last in publishing.attempts():
                state = table.ledger.state()
                decision = self._decide(state, after)
                if decision.applied:
                    self._discard_unless_live()
                    return publishing.already_applied(table.name, self.record, decision.applied)
                self._require_replaceable(state, decision)
                self._require_untouched(since)
                self._require_channel(state)
                try:
                    changed = self._commit(state, decision, differing)
                    break
                except (Conflict, *publishing.SPARK_ERRORS) as error:
                    if last or not publishing.is_conflict(error):
                        raise
            ours = [c for c in table.ledger.commits(since=state.version) if c.record == self.record]
        if not ours:
            raise Conflict(f"{table.name}: the commit of {self.stage.store.name} is not in the log, run the step again")
        if changed and publishing.serves(state):
            self.stage.settle()
        else:
            self._discard_unless_live()
        rows = RowCounts(**self.record.rows)
        return WriteResult(
            table=table.name,
            version=ours[-1].version,
            applied=True,
            changed=changed and bool(ours[-1].changed),
            reason=_published(rows.written, decision),
            rows=rows,
            partition=self.record.partition,
            findings=self.findings,
            figures=self.record.figures,
        )

    def _decide(self, state: TableState, after: int | None) -> publishing.Decision:
        """Ask the ledger about this write; where it is applied already, its files have to be there, too."""
        ledger = self.table.ledger
        decision = publishing.decide(ledger, state, self.record, append=self.append, after=after)
        if (decision.applied or decision.same_rows) and not self.append and self._lost(state):
            return publishing.decide(ledger, state, self.record, after=after, lost=True)
        return decision

    def _lost(self, state: TableState) -> bool:
        return bool(lost_files(self.table.store, state, self.record.partition))

    def _require_replaceable(self, state: TableState, decision: publishing.Decision) -> None:
        if not (self.append or decision.same_rows) and state.holds(self.record.partition):
            try:
                require_replaceable(self.table.name, state)
            except ConfigError:
                self.stage.discard()
                raise

    def _require_channel(self, state: TableState) -> None:
        table = self.table
        try:
            publishing.require_channel(table.ledger, state, self.record, table.spec.one_channel_per, self.stage.adds)
        except ContractError:
            self.stage.discard()
            raise

    def _commit(self, state: TableState, decision: publishing.Decision, differing: _Differing | None) -> bool:
        if not publishing.serves(state):
            location = self.table.store.address
            rows = self.stage.read() if self.stage.session else self.table.read(version=state.version).limit(0)
            publishing.commit_by_spark(
                rows, self.record, decision, location=location, kinds=state.kinds, append=self.append
            )
            return not decision.same_rows
        # What was compared is not what is replaced, if another writer was here meanwhile: then nothing is kept.
        only = differing.partitions if differing and differing.files == self._replaced(state) else None
        publishing.commit_files(state, self.stage, self.record, decision, append=self.append, only=only)
        return not decision.same_rows

    def _look(self, after: int | None) -> _Differing | None:
        """Compare what is staged with what it replaces, where a part of it may be the same: jobs, so unlocked."""
        state = self.table.ledger.state()
        finer = set(state.partition_columns) - set(self.record.partition)
        if self.append or not finer or not publishing.serves(state):
            return None
        decision = self._decide(state, after)
        if decision.applied or decision.same_rows or decision.repair or not decision.rewrite or self._lost(state):
            return None
        return _Differing(self._replaced(state), frozenset(self._differing(state)))

    def _replaced(self, state: TableState) -> frozenset[str]:
        """List the files whose rows this write owns."""
        owned = self.record.partition.items()
        return frozenset(file["path"] for file, key in state.keyed_files() if owned <= dict(key).items())

    def _require_untouched(self, since: int | None) -> None:
        table, owned = self.table, self.record.partition
        others = () if since is None else table.ledger.commits(since=since)
        if met := next((commit for commit in others if commit.touches(owned)), None):
            raise Conflict(
                f"{table.name} {slice_name(owned)} was written at version {met.version}, these rows were computed from "
                f"version {since}: run it again"
            )

    def _discard_unless_live(self) -> None:
        """Remove the stage unless its files are the table's: publishing twice is a retry, too."""
        own = f"{self.stage.store.name}/"
        files = self.table.ledger.state().files() if self.stage.adds else ()
        if not any(file["path"].startswith(own) for file in files):
            self.stage.discard()

    def _differing(self, state: TableState) -> set[Partition]:
        """List the partitions below the owned one whose rows differ; the others keep their files."""
        owned, columns = self.record.partition, state.partition_columns

        keys = [F.expr(to_folder(c, state.kinds[c])).alias(f"{RESERVED}{n}") for n, c in enumerate(columns)]

        def digests(rows: DataFrame | None) -> dict[Partition, tuple[int, str]]:
            if rows is None:
                return {}
            content = digest(row_hash(fields_of(rows, self.table._content(state))))
            measured = [F.expr("count(1)").alias(f"{RESERVED}rows"), F.expr(content).alias(f"{RESERVED}digest")]
            found = rows.groupBy(*keys).agg(*measured).collect()
            spelled = [[from_folder(v, state.kinds[c]) for c, v in zip(columns, row, strict=False)] for row in found]
            named = [tuple(sorted(zip(columns, values, strict=True))) for values in spelled]
            return {key: (row[-2], row[-1]) for key, row in zip(named, found, strict=True)}

        now = digests(self.table.read(owned, version=state.version))
        then = digests(self.stage.read() if self.stage.adds else None)
        return {key for key in {*now, *then} if now.get(key) != then.get(key)}


def _published(rows: int, decision: publishing.Decision) -> str:
    if decision.repair:
        return f"{rows} rows written again, because files that held them were lost"
    return "the same rows as before: nothing changed" if decision.same_rows else f"{rows} rows published"
