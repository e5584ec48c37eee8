"""Schema Migrator: columns are renamed, retyped, moved and dropped in phases, without an outage.

Problem: a column gets another name, type or place, and every query of it fails at once. Nobody knows all readers, and
    they do not change on one day.
Solution: the new form is added beside the old one, each write fills both, stored partitions are filled one by one, and
    the old form goes once nobody reads it and its deadline has passed. The phase is stored in the table.
Consequences: values are stored twice for the grace period, which is measured. One reader who does not move on keeps the
    old columns for ever. A dropped name is spent: files hold its values until they are rewritten.
Choose instead: Proxy, if readers can take a new version all at once; the table's declaration, if a column is only
    added, or widened in a table with Delta's type widening.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import overrule
from dedp_assets.patterns.core.errors import ConfigError, Conflict, NotReady
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.sql.sql_options import truth
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.quality._compatibility.schema_changes import CONSTRAINT, require_possible
from dedp_assets.patterns.quality._migration.filling import fill
from dedp_assets.patterns.quality._migration.forms import completed, without_new, without_old
from dedp_assets.patterns.quality._migration.grace import grace_is_over, nobody_reads, report
from dedp_assets.patterns.quality._migration.moves import Migration, Retype, SplitText
from dedp_assets.patterns.quality._migration.phases import PHASES, Phase, Stored, enter, stored

__all__ = ["migrate_schema", "both_forms", "as_version", "Migration", "Retype", "SplitText"]


@demanding(replaces="table")
@typed
def migrate_schema(
    into: Target,
    now: datetime,
    *,
    migration: Migration,
    to: Phase,
    readers: Mapping[str, Collection[str]] | None = None,
    most_fields: int = 100,
) -> WriteResult:
    """Take the steps of a migration up to a phase; a phase that was reached before costs nothing.

    Each phase is a commit of its own, and so is each filled partition: a run that dies is run again.

    Args:
        into: target of the migration, without a partition; its audits judge filled partitions. An approval of its run
            may overrule the audit ``grace_is_over``, and nothing else.
        now: the time of the step.
        migration: the moves.
        to: ``declared`` notes the moves; ``added`` adds the new columns; ``both`` fills stored partitions and compares
            all rows; ``switched`` asks for readers; ``removed`` compares once more and takes the old columns away.
        readers: reader -> columns of the table that it was observed to read (``device.os`` for a field), for instance
            from column lineage.
        most_fields: number of fields above which a warning is reported; from 100 on Spark compiles no whole stages.

    Returns:
        The last phase as reason, and findings: equal forms and values without a counterpart, where rows were compared;
        readers, an overdue deadline with the bytes of the old columns, and the number of fields, each time.

    Raises:
        AuditFailed: if the forms of a row disagree, or a value refuses its row.
        ConfigError: if the table cannot make the moves, or knows others by that name.
        Conflict: if somebody wrote meanwhile.
        NotReady: if somebody reads an old column, or the grace period is not over; names who and until when.

    Example:
        >>> from datetime import datetime, timedelta, timezone
        >>> visits = table("visits", "id INT, from_page STRING", (1, "/a"))
        >>> into, begin = visits.target(run), datetime(2026, 1, 5, tzinfo=timezone.utc)
        >>> moves = Migration(name="v2", rename={"from_page": "referral"}, grace_days=30)
        >>> migrate_schema(into, begin, migration=moves, to="both").reason
        'v2: both since 2026-01-05T00:00:00+00:00, until 2026-02-04T00:00:00+00:00'
        >>> rows(visits.read())
        [(1, '/a', '/a')]
        >>> done = migrate_schema(into, begin + timedelta(days=31), migration=moves, to="removed")
        >>> visits.read().columns, rows(visits.read())
        (['id', 'referral'], [(1, '/a')])
    """
    if most_fields < 1:
        raise ConfigError(f"most_fields must be 1 or more, not {most_fields}")
    into = into.by("quality.schema_migrator", "audits")
    steps = _Steps(into, migration, now, readers or {})
    for phase in PHASES[: PHASES.index(to) + 1]:
        steps.take(phase)
    return steps.result(most_fields)


@typed
def both_forms(rows: DataFrame, into: Target | None = None, *, migration: Migration) -> DataFrame:
    """Give rows the columns of both forms, a missing form computed from the other; lazy.

    Args:
        rows: rows in the old form, in the new one, or in both.
        into: target of the write: the rows get the form that its table has in the present phase, so that a writer works
            before, in and after the migration.
        migration: the moves; its ``audits`` belong to the target of the write.

    Raises:
        ConfigError: for rows with neither form of a move.

    Example:
        >>> both_forms(frame("from_page STRING", ("/a",)), migration=Migration(name="v2", rename={"from_page": "ref"}))
        DataFrame[from_page: string, ref: string]
    """
    if into is None:
        return completed(rows, migration)
    known = stored(into.name, into.table.ledger.state(), migration) if into.table.ledger.exists() else None
    if known is None or known.phase == "declared":
        return as_version(rows, migration=migration, version="old")
    if known.phase == "removed":
        return as_version(rows, migration=migration, version="new")
    return completed(rows, migration)


@typed
def as_version(rows: DataFrame, *, migration: Migration, version: Literal["old", "new"]) -> DataFrame:
    """Give rows the columns of one form, written in either form; lazy, and for a stream as well.

    Args:
        rows: rows of the table, in any phase. A stream that is to outlive the removal is read with a schema log
            (``Table.stream``), and stops once for each change of columns.
        migration: the moves.
        version: ``old`` for the names and values before the migration, ``new`` for those after it.

    Raises:
        ConfigError: for rows with neither form of a move, and for the old form of a column that was dropped.

    Example:
        >>> orders = frame("amount STRING, eur DOUBLE", ("1.5", 1.5), ("2", None), (None, 3.0))
        >>> moves = Migration(name="v2", retype={"amount": Retype("eur", "DOUBLE")})
        >>> rows(as_version(orders, migration=moves, version="new"))
        [(1.5,), (2.0,), (3.0,)]
    """
    held = {name.lower() for name in rows.columns}
    if version == "old" and (gone := [name for name in migration.drop if name.lower() not in held]):
        raise ConfigError(f"version must be new for rows without {gone[0]}, which was dropped, not old")
    return (without_new if version == "old" else without_old)(completed(rows, migration), migration)


@dataclass(slots=True)
class _Steps:
    """The steps of one call.

    Attributes:
        findings: what was judged on the way.
        figures: what was counted on the way.
        changed: whether a stored row changed.
        applied: whether a phase was entered.
    """

    into: Target
    migration: Migration
    now: datetime
    readers: Mapping[str, Collection[str]]
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    changed: bool = False
    applied: bool = False

    @property
    def table(self) -> Table:
        """Table by the stored schema; the declaration may be of another phase."""
        given = self.into.table
        return Table.at(given.store.address, lambda: given.session, name=given.name)

    def take(self, phase: Phase) -> None:
        """Take the step to a phase, unless the table has reached the phase."""
        table, migration = self.table, self.migration
        state = table.ledger.state()
        known = stored(table.name, state, migration)
        if known and known.reached >= PHASES.index(phase):
            return
        if phase in ("declared", "added"):
            require_possible(table.name, state, migration)
        if phase in ("switched", "removed"):
            self._require([nobody_reads(migration, self.readers)])
        if phase == "removed" and known:
            self._require([grace_is_over(known, self.now)])
        for last in (False, False, True):
            since = self._fill(table) if phase in ("both", "removed") else None
            rules = self._rules(table) if phase == "removed" else ()
            try:
                enter(table, migration, phase, self.now, run_id=self.into.run.run_id, since=since, rules=rules)
                break
            except Conflict:
                if last:
                    raise
        self.applied = True

    def result(self, most_fields: int) -> WriteResult:
        """Return the state of the migration after the steps, with a report."""
        table = self.table
        state = table.ledger.state()
        known = stored(table.name, state, self.migration)
        assert isinstance(known, Stored)  # noqa: S101 - declared is the first step of all
        reason = f"{self.migration.name}: {known.phase} since {known.at[known.phase]}"
        until = f", until {known.deadline}" if known.deadline and known.phase != "removed" else ""
        seen = {finding.name: finding for finding in (nobody_reads(self.migration, self.readers), *self.findings)}
        judged = (*seen.values(), *report(table, state, self.migration, known, self.now, most_fields))
        return WriteResult(
            table.name, state.version, self.applied, self.changed, reason + until, findings=judged, figures=self.figures
        )

    def _fill(self, table: Table) -> int:
        seen = fill(table, self.migration, self.into.run, self.into.audits)
        self.findings += seen.findings
        filled = self.figures.get("filled_partitions", 0) + len(seen.filled)
        self.figures |= {**seen.counts, "filled_partitions": filled}
        self.changed |= any(each.changed for each in seen.filled)
        return seen.version

    def _rules(self, table: Table) -> tuple[str, ...]:
        """List the constraints that name an old column, and note a warning."""
        state = table.ledger.state()
        left = as_version(table.read(version=state.version), migration=self.migration, version="new").schema
        # Over rows of its own: a filter after a selection would find the columns that the selection left out.
        rows = table.session.createDataFrame([], left)
        stated = {key: rule for key, rule in state.properties.items() if key.startswith(CONSTRAINT)}
        gone = tuple(key.removeprefix(CONSTRAINT) for key, rule in stated.items() if not _holds(rows, rule))
        note = f"{', '.join(gone)} named an old column, and went with it: declare the rule of the new one"
        figures = {"constraints": len(gone)}
        self.findings.append(Finding("constraints_stay", not gone, "warn", figures, note if gone else ""))
        return gone

    def _require(self, judged: list[Finding]) -> None:
        """Refuse a step while a finding stands against the step."""
        judged = list(overrule(judged, self.into.run.approval))
        if refused := [finding.note for finding in judged if finding.refuses]:
            raise NotReady(f"{self.into.name}: {self.migration.name} has to wait: {'; '.join(refused)}")
        self.findings += judged


def _holds(rows: DataFrame, rule: str) -> bool:
    """Return whether a predicate can be evaluated over the columns of the rows."""
    try:
        return rows.filter(truth(rule)).isStreaming in (True, False)
    except AnalysisException:
        return False
