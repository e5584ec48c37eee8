"""Comparison of old and new columns over all rows, and backfill of partitions without either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, Conflict
from dedp_assets.patterns.core.names import RESERVED, identifier, select_list
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.delta import StagedWrite, Table, TableState
from dedp_assets.patterns.quality._migration.forms import completed
from dedp_assets.patterns.quality._migration.moves import Migration

__all__ = ["Compared", "fill"]

_FIELDS = ("rows", "incomplete", "differing", "refused")
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Compared:
    """The forms of all rows, compared at one version.

    Attributes:
        version: the version of the table.
        counts: ``rows``; rows that are ``incomplete`` (a form is missing), ``differing`` (both are there, and disagree)
            and ``refused`` (a value has no counterpart, which refuses it); ``unparsable`` values by column.
        incomplete: partitions with incomplete rows.
        filled: the writes of partitions that lacked a form before.
    """

    version: int
    counts: Mapping[str, int]
    incomplete: tuple[Mapping[str, object], ...] = ()
    filled: tuple[WriteResult, ...] = field(default=())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdicts on the rows."""
        wrong = self.counts["differing"] + self.counts["refused"] + self.counts["incomplete"]
        agree = Finding("both_forms_are_equal_on_all_rows", not wrong, figures=self.counts)
        unparsable = {name: count for name, count in self.counts.items() if name not in _FIELDS}
        if not unparsable:
            return (agree,)
        note = ", ".join(f"{name}: {count}" for name, count in unparsable.items() if count)
        return agree, Finding("every_value_has_a_counterpart", not note, "warn", unparsable, note)


def fill(table: Table, migration: Migration, run: Provenance, audits: Sequence[Audit]) -> Compared:
    """Backfill the partitions without old or new values, one commit each, and compare all rows.

    Returns:
        The comparison at the newest version, in which no row is incomplete or differs.

    Raises:
        AuditFailed: if a row has both forms and they disagree, or a value refuses its row; names the counts.
        Conflict: if others wrote a partition meanwhile, or keep writing one form alone.
    """
    filled: list[WriteResult] = []
    for _ in range(_ROUNDS):
        state = table.ledger.state()
        seen = _compare(table, state, migration)
        if seen.counts["differing"] or seen.counts["refused"]:
            text = ", ".join(f"{name}={count}" for name, count in seen.counts.items())
            raise AuditFailed(f"{table.name}: the forms of {migration.name} disagree ({text})", findings=seen.findings)
        if not seen.incomplete:
            return Compared(seen.version, seen.counts, filled=tuple(filled))
        for partition in _fillable(table, state, seen.incomplete):
            version = table.ledger.version()
            rows = completed(table.read(*filter(None, [partition]), version=version), migration)
            noted = {**run.notes, "migration": migration.name}
            ours = Provenance(asset=run.asset, run_id=run.run_id, pattern=run.pattern, cause="migration", notes=noted)
            staged = table.stage(rows, partition=partition, provenance=ours, audits=[*migration.audits, *audits])
            filled.append(_judged_before(staged, table, version).publish(since=version))
    raise Conflict(f"{table.name}: rows in one form alone keep coming: let each write give both_forms first")


def _judged_before(staged: StagedWrite, table: Table, version: int) -> StagedWrite:
    """Return the write with the verdicts that the partition's rows were published with.

    The rows are the same, so that a gate downstream finds the audits that it asks for.
    """
    commit = table.ledger.latest(staged.record.partition, until=version)
    before, record = commit.record if commit else None, staged.record
    if before is None or before.partition != record.partition:
        return staged
    judged = {finding["name"] for finding in record.findings}
    kept = tuple(finding for finding in before.findings if finding["name"] not in judged)
    verdict = before.verdict if before.verdict in ("warned", "approved") else record.verdict
    return replace(staged, record=replace(record, findings=(*record.findings, *kept), verdict=verdict).stored())


def _compare(table: Table, state: TableState, migration: Migration) -> Compared:
    """Count rows by partition in one Spark job, over the columns of the moves alone."""
    forms, keys, flags = [form for form in migration.forms if form.pairs], list(state.partition_columns), {}
    for number, form in enumerate(forms):
        flags[f"{RESERVED}differs{number}"] = form.differs
        flags[f"{RESERVED}alone{number}"] = f"({form.no_new}) OR ({form.no_old})"
        flags[f"{RESERVED}unparsable{number}"] = form.unparsable or "false"
    places = range(len(forms))
    sums = {
        "rows": "count(1)",
        "incomplete": _count(f"{RESERVED}differs{n} AND {RESERVED}alone{n}" for n in places),
        "differing": _count(f"{RESERVED}differs{n} AND NOT {RESERVED}alone{n}" for n in places),
        "refused": _count(f"{RESERVED}unparsable{n}" for n in places if forms[n].refuses),
        **{forms[n].label: _count([f"{RESERVED}unparsable{n}"]) for n in places if forms[n].unparsable},
    }
    # Each flag is a column of its own, so that an expression is computed once and not in each sum. The read comes
    # before any expression: in a new process the read starts the engine.
    flagged = table.read(version=state.version).selectExpr(*map(identifier, keys), *select_list(flags))
    measured = [F.expr(sql).alias(f"{RESERVED}{number}") for number, sql in enumerate(sums.values())]
    grouped = flagged.groupBy(*map(identifier, keys)).agg(*measured).collect()
    counts = {name: sum(row[len(keys) + number] for row in grouped) for number, name in enumerate(sums)}
    lacking = [dict(zip(keys, row, strict=False)) for row in grouped if row[len(keys) + 1]]
    return Compared(state.version, counts, tuple(sorted(lacking, key=str)))


def _fillable(
    table: Table, state: TableState, lacking: Sequence[Mapping[str, object]]
) -> Sequence[Mapping[str, object]]:
    """List the partitions to write; an empty mapping, the whole table, if no partition can be named."""
    named = all(value is not None for partition in lacking for value in partition.values())
    keyed = not table.spec.key or {*state.partition_columns} <= {*table.spec.key}
    return lacking if state.partition_columns and named and keyed else [{}]


def _count(predicates: Iterable[str]) -> str:
    found = " OR ".join(f"({each})" for each in predicates)
    return f"count_if({found or 'false'})"
