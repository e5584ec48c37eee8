"""Staged write: audited rows before the commit.

Under the table's lock the ledger is read, and one metadata-only commit made; whatever takes a job is done before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.measuring.requests import with_requests_counted
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import Finding, RowCounts, WriteResult
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.types.partitions import from_folder, to_folder
from dedp_assets.patterns.delta.commit import file_exchange, idempotency, spark_writer
from dedp_assets.patterns.delta.handle import ERASURES, TableHandle
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.vectors import FileIdentity
from dedp_assets.patterns.delta.snapshots.definition import content_columns, require_replaceable
from dedp_assets.patterns.delta.snapshots.lost_files import FilesGone, lost_files
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.delta.staging.guards import require_same_erasures, require_same_rules, require_untouched
from dedp_assets.patterns.delta.staging.row_accounting import StageVerdict
from dedp_assets.patterns.delta.staging.stages import Stage, held_cost
from dedp_assets.patterns.delta.storage.coordination import AGAIN, turn

__all__ = ["StagedWrite"]


@dataclass(frozen=True, slots=True)
class _Differing:
    """Partitions whose staged rows differ from the stored rows, with the stored files compared."""

    files: frozenset[FileIdentity]
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """Audited rows in a stage, ready to be published.

    Attributes:
        record: what the commit will say.
        findings: every audit that was judged.
        judged: state of the table whose columns and constraints the rows were judged by; ``None`` if unknown.
    """

    table: TableHandle
    stage: Stage
    record: CommitRecord
    findings: tuple[Finding, ...]
    append: bool = False
    judged: TableState | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        table: TableHandle,
        stage: Stage,
        judged: StageVerdict,
        owned: Mapping[str, str],
        provenance: Provenance,
        *,
        append: bool = False,
        meter: Meter | None = None,
        state: TableState | None = None,
    ) -> StagedWrite:
        """Make the write of accepted rows; the record names stage and cost."""
        noted = replace(provenance, notes={**provenance.notes, "stage": stage.store.name})
        record = judged.record(noted, owned)
        record = record.costing(meter.cost()) if meter else record
        return cls(table, stage, record, judged.findings, append, judged=state)

    @classmethod
    def of_note(cls, table: TableHandle, note: Mapping[str, Any]) -> StagedWrite:
        """Restore a staged write from a note, possibly of another process.

        Raises:
            ConfigError: if the note is none of :meth:`note`.
        """
        record = CommitRecord.from_json(note["record"])
        if record is None:
            raise ConfigError(f"{table.name}: the note of {note['stage']} was written by somebody else")
        adds = tuple(AddAction(**file) for file in note["files"])
        return cls(table, Stage(table.store.within(note["stage"]), adds), record, ())

    def note(self) -> dict[str, Any]:
        """Serialise the write to JSON values, for a publish by another process without Spark.

        Raises:
            ConfigError: for a table that only Spark can write, or with finer partitions than the write owns.
            Conflict: if columns or constraints changed after the rows were judged.
        """
        state = self.table.ledger.state()
        require_same_rules(self.table, self.judged, state)
        if not file_exchange.serves(state) or {*state.partition_columns} - {*self.record.partition}:
            raise ConfigError(
                f"{self.table.name} cannot be published without Spark: own whole partitions of a plain table"
            )
        files = [asdict(add) for add in self.stage.adds]
        return {"stage": self.stage.store.name, "files": files, "record": self.record.to_json()}

    def is_applied(self) -> bool:
        """Return whether the table holds this very write.

        Raises:
            TransactionReused: if the same inputs were applied before with other rows.
            Conflict: if a newer upstream version was applied meanwhile.
        """
        return self._decide(self.table.ledger.state(), None).applied is not None

    def is_whole(self) -> bool:
        """Return whether all staged files exist."""
        paths = [unquote(add.path) for add in self.stage.adds]
        return len(self.table.store.entries(paths)) == len(paths)

    def part(self, name: str) -> DataFrame:
        """Read the staged rows of another part of the split."""
        return self.stage.read(name)

    @with_requests_counted
    def publish(
        self, *, since: int | None = None, after: int | None = None, held: Mapping[str, str] | None = None
    ) -> WriteResult:
        """Commit the staged rows; a repeated publish of the same write changes nothing.

        Args:
            since: version of the table that the rows were computed from, if they were: what others wrote to the owned
                partition after it would be lost.
            after: upstream version that has to be the last one applied when the rows are published (0: none yet), so
                that of two runs which went on from the same place only one appends; ``None`` asks for none.
            held: partition that nobody may have written after ``since``: the owned one if ``None``, the table if empty.

        Raises:
            TransactionReused: if the same inputs were applied before with other rows.
            ConfigError: if the table is append-only and holds rows that would be replaced.
            Conflict: if a newer upstream version was applied meanwhile, the partition was written after ``since``,
                columns or constraints changed after the rows were judged, another writer does not yield, or somebody
                removed what was staged.
            ContractError: if the rows' partition belongs to another channel.
        """
        table, meter = self.table, Meter()
        differing = self._compare(after, meter)
        with meter.waiting(turn(table.store)):
            for last in meter.trying(AGAIN.tries()):
                state = table.ledger.state()
                decision = self._decide(state, after)
                if decision.applied:
                    self._discard_unless_live()
                    return idempotency.already_applied(table.name, self.record, decision.applied)
                self._require_accepted(state, decision)
                require_untouched(table, self.record.partition if held is None else held, since)
                self._require_channel(state)
                try:
                    changed = self._commit(state, decision, differing, meter)
                    break
                except (Conflict, *SPARK_ERRORS) as error:
                    if last or not spark_writer.is_conflict(error):
                        raise
            ours = [c for c in table.ledger.commits(since=state.version) if c.record == self.record]
        if not ours:
            raise Conflict(f"{table.name}: the commit of {self.stage.store.name} is not in the log, run the step again")
        if changed and file_exchange.serves(state):
            self.stage.finish()
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

    def _decide(self, state: TableState, after: int | None) -> idempotency.Decision:
        """Run the idempotency check of the write; for an applied write, check for lost files, too."""
        ledger = self.table.ledger
        decision = idempotency.decide(ledger, state, self.record, append=self.append, after=after)
        if (decision.applied or decision.same_rows) and not self.append and self._lost(state):
            return idempotency.decide(ledger, state, self.record, after=after, lost=True)
        return decision

    def _lost(self, state: TableState) -> bool:
        return bool(lost_files(self.table.store, state, self.record.partition))

    def _require_accepted(self, state: TableState, decision: idempotency.Decision) -> None:
        """Discard and refuse rows that were judged by other rules, or replace rows that may not be replaced."""
        try:
            require_same_erasures(self.table, self.record.notes.get(ERASURES, "") if self.stage.adds else None)
            require_same_rules(self.table, self.judged, state)
            if not (self.append or decision.same_rows) and state.holds(self.record.partition):
                require_replaceable(self.table.name, state)
        except (ConfigError, Conflict):
            self.stage.discard()
            raise

    def _require_channel(self, state: TableState) -> None:
        table = self.table
        try:
            idempotency.require_channel(table.ledger, state, self.record, table.spec.one_channel_per, self.stage.adds)
        except ContractError:
            self.stage.discard()
            raise

    def _commit(
        self, state: TableState, decision: idempotency.Decision, differing: _Differing | None, meter: Meter
    ) -> bool:
        if not decision.same_rows:
            self._require_staged()
        if not file_exchange.serves(state):
            location = self.table.store.address
            rows = self.stage.read() if self.stage.session else self.table.read(version=state.version).limit(0)
            record = self.record.costing(meter.cost() + held_cost(self.stage.adds))
            spark_writer.commit_by_spark(rows, record, decision, location=location, state=state, append=self.append)
            return not decision.same_rows
        # What was compared is not what is replaced, if another writer was here meanwhile: then nothing is kept.
        only = differing.partitions if differing and differing.files == self._replaced(state) else None
        stage_commit.commit_files(state, self.stage, self.record, decision, meter, append=self.append, only=only)
        return not decision.same_rows

    def _require_staged(self) -> None:
        """Check existence and size of the staged files; discard the stage if a file is gone."""
        try:
            file_exchange.require_staged(self.table.store, self.stage.adds)
        except FilesGone:
            self.stage.discard()
            raise

    def _compare(self, after: int | None, meter: Meter) -> _Differing | None:
        """Compare staged and stored rows by partition, in Spark jobs and without the lock."""
        state = self.table.ledger.state()
        finer = set(state.partition_columns) - set(self.record.partition)
        if self.append or not finer or not file_exchange.serves(state):
            return None
        decision = self._decide(state, after)
        if decision.applied or decision.same_rows or decision.repair or not decision.rewrite or self._lost(state):
            return None
        with meter.jobs(self.table.session):
            return _Differing(self._replaced(state), frozenset(self._differing(state)))

    def _replaced(self, state: TableState) -> frozenset[FileIdentity]:
        """List the active files of the owned partition."""
        return state.file_identities(self.record.partition)

    def _discard_unless_live(self) -> None:
        """Remove the stage unless the table has files of the stage, as after a repeated publish."""
        own = f"{self.stage.store.name}/"
        files = self.table.ledger.state().files() if self.stage.adds else ()
        if not any(file["path"].startswith(own) for file in files):
            self.stage.discard()

    def _differing(self, state: TableState) -> set[Partition]:
        """List the partitions within the owned partition whose rows differ."""
        owned, columns = self.record.partition, state.partition_columns

        keys = [F.expr(to_folder(c, state.kinds[c])).alias(f"{RESERVED}{n}") for n, c in enumerate(columns)]

        def digests(rows: DataFrame | None) -> dict[Partition, tuple[int, str]]:
            if rows is None:
                return {}
            content = digest(row_hash(fields_of(rows, content_columns(self.table.spec, state))))
            measured = [F.expr("count(1)").alias(f"{RESERVED}rows"), F.expr(content).alias(f"{RESERVED}digest")]
            found = rows.groupBy(*keys).agg(*measured).collect()
            spelled = [[from_folder(v, state.kinds[c]) for c, v in zip(columns, row, strict=False)] for row in found]
            named = [tuple(sorted(zip(columns, values, strict=True))) for values in spelled]
            return {key: (row[-2], row[-1]) for key, row in zip(named, found, strict=True)}

        now = digests(self.table.read(owned, version=state.version))
        then = digests(self.stage.read() if self.stage.adds else None)
        return {key for key in {*now, *then} if now.get(key) != then.get(key)}


def _published(rows: int, decision: idempotency.Decision) -> str:
    if decision.repair:
        return f"{rows} rows written again, because files that held them were lost"
    return "the same rows as before: nothing changed" if decision.same_rows else f"{rows} rows published"
