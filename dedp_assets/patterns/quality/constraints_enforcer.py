"""Constraints Enforcer: one broken rule refuses the batch, and all broken rules are named.

Problem: a producer sends NULL where a user is required, or the id of a page that does not exist. Checks in each job's
    code differ, and a store that stops at the first error is repaired and asked error by error.
Solution: the declaration has the rules (type, NOT NULL, CHECK, key), references add foreign keys, and one pass counts
    every broken rule of every row. NULL satisfies no CHECK; `now()` is the time of the write.
Consequences: one bad row of a million refuses all. Foreign keys hold for the pinned parent: what is deleted from it
    later shows at the next run. An orphan in quarantine, or with the unknown member, is repaired by a rerun.
Choose instead: Audit-Write-Audit-Publish, if rules are about a whole batch; Dead-Letter, if the others shall go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit, not_empty
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict
from dedp_assets.patterns.core.measuring.observing import computing
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import counted, quoted
from dedp_assets.patterns.core.sql.sql_options import naming_options, require_of_one_row, require_repeatable, truth
from dedp_assets.patterns.delta import StagedWrite, Table, Target, require_partition, same_run
from dedp_assets.patterns.quality._compatibility.references import References, bound, is_unknown
from dedp_assets.patterns.quality._compatibility.violations import VIOLATION, Marked, mark, samples

__all__ = ["enforce_constraints", "mark_violations", "add_constraint", "References", "VIOLATION"]

_PATTERN = "quality.constraints_enforcer"
_NONE: Mapping[str, DataFrame] = {}


@typed
def enforce_constraints(
    rows: DataFrame,
    into: Target,
    parents: Mapping[str, DataFrame] = _NONE,
    quarantine: Target | None = None,
    *,
    references: Sequence[References] = (),
    allow_empty: bool = False,
) -> WriteResult:
    """Publish a partition only if no row breaks a rule of the table or a foreign key.

    Args:
        rows: the rows of the partition, with the table's columns. A text for another scalar type is read exactly
            (:mod:`~dedp_assets.patterns.core.types.exact`): ``ABC`` for an INT is a violation and no lost value.
        into: target of the write; its audits may judge the figure of a foreign key, by its name.
        parents: name of a foreign key -> rows of the parent at a pinned version, which the run names among its inputs.
        quarantine: target for the orphans of references with ``orphans="quarantine"``, of the same run: a table with
            the same columns and those of :data:`VIOLATION`. Each run replaces its partition.
        references: the foreign keys.
        allow_empty: whether no rows may replace the partition, with a warning; if orphans are all there is, the
            partition stays as it was unless this is true.

    Returns:
        The result; each rule is among ``findings``, with its number of rows, and orphans that were published with the
        unknown member are a warning.

    Raises:
        AuditFailed: names every broken rule with the number of rows and samples; nothing is published.
        ConfigError: for a quarantine without a reference that uses it, or the other way round, and for a rule that
            says something else each time.
        Conflict: if another run wrote the partition of the target or of ``quarantine`` meanwhile, where one is given.
        ContractError: for a rule that cannot be computed of a value, such as a division by zero.
        SchemaMismatch: for missing and unknown columns, and other types than texts that do not fit.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> pages = frame("page INT", (1,), (2,))
        >>> known = References("every_visit_has_a_page", keys={"page": "page"})
        >>> parents = {known.name: pages}
        >>> visits = table("visits", {"id": Column("INT", required=True), "page": Column("INT")}, (1, 2))
        >>> wrong, right = frame("id INT, page INT", (None, 2), (3, 9)), frame("id INT, page INT", (1, 1), (3, None))
        >>> enforce_constraints(right, visits.target(run), parents, references=[known]).reason
        '2 rows published'
        >>> enforce_constraints(wrong, visits.target(run), parents, references=[known])
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.AuditFailed: visits all: nothing published. id_is_not_null: above 0 ...
        >>> rows(visits)
        [(1, 1), (3, None)]
    """
    _require_used(references, quarantine)
    keys = bound(references, parents)
    into = into.by(_PATTERN, "partition", "audits", "rows_read")
    aside = quarantine and _aside(quarantine, into)
    state = into.table.ensure()
    # The rows of a run lie in two tables: another run in between would leave those of one run here, of the other there.
    since = (state.version, aside.table.ensure().version) if aside else (None, None)
    marked = mark(rows, into.table, state, keys, require_partition(into.name, state, into.owned))
    audits = (*_audits(marked, references), not_empty("read", allow_empty=allow_empty))
    try:
        staged = into.with_audits(*audits).stage(marked.split, also=("violations",))
    except AuditFailed as error:
        raise _with_samples(error, into.table, marked) from None
    if aside is None:
        return staged.publish()
    return _publish_both(staged, aside, since=since, allow_empty=allow_empty)


@typed
def mark_violations(
    rows: DataFrame,
    table: Table,
    parents: Mapping[str, DataFrame] = _NONE,
    *,
    references: Sequence[References] = (),
) -> Split:
    """Split rows into ``valid`` and ``violations``, the latter with all broken rules of a row; lazy.

    Args:
        rows: rows with the table's columns, new ones or its own: those that another writer put there are reported so.
        table: the table, which has to exist.
        parents: name of a foreign key -> rows of the parent.
        references: the foreign keys; an orphan gets the unknown member where that is the policy.

    Returns:
        ``valid``: the table's columns. ``violations``: these and the columns of :data:`VIOLATION`.

    Raises:
        ConfigError: for a rule that says something else each time.
        SchemaMismatch: as :func:`enforce_constraints`.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> visits = table("visits", {"id": Column("INT", required=True), "page": Column("INT")}, (1, 2))
        >>> split = mark_violations(frame("id INT, page STRING", (1, "2"), (None, "two")), visits)
        >>> rows(split["valid"]), rows(split["violations"].select("violations"))
        ([(1, 2)], [(['page_is_a_INT', 'id_is_not_null'],)])
    """
    return mark(rows, table, table.ledger.state(), bound(references, parents), {}).split


@typed
def add_constraint(table: Table, *, name: str, check: str) -> WriteResult:
    """Add a CHECK constraint to a table whose rows all satisfy the constraint.

    Whoever writes the table by its declaration has to declare the constraint, too.

    Args:
        table: the table, which has to exist.
        name: name of the constraint, a sentence that can be true, in snake case.
        check: SQL predicate that every row must satisfy; NULL does not satisfy it.

    Raises:
        AuditFailed: names the number of rows that break it, with samples; the table is as it was.
        ConfigError: for a predicate that cannot be evaluated, says something else each time, or reads other rows.
        ContractError: for a predicate that cannot be computed for a stored row; the table is as it was.
        SchemaMismatch: if the table has another constraint of that name.

    Example:
        >>> orders = table("orders", "id INT, price INT", (1, 5), (2, -1), (3, None))
        >>> add_constraint(orders, name="price_is_positive", check="price > 0")
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.AuditFailed: orders: price_is_positive was not added, 2 of 3 rows break ...
        >>> add_constraint(orders, name="id_is_positive", check="id > 0").applied
        True
    """
    require_of_one_row("check of constraint", {name: check})
    before = table.ledger.state().version
    stored = table.read(version=before)
    uncomputed = f"{table.name}: {name} was not added: {check}"
    with (
        naming_options(stored, "check of constraint", {name: check}),
        computing(uncomputed, "write it for all values (try_divide)"),
    ):
        require_repeatable(stored, "check of constraint", {name: check})
        refused = stored.filter(f"NOT {truth(check)}").select("*", F.array(F.lit(name)).alias("violations"))
        offenders = counted(refused)
    if offenders:
        shown = samples(refused, table.spec, {})
        raise AuditFailed(
            f"{table.name}: {name} was not added, {offenders} of {counted(stored)} rows break it. For example {shown}",
            findings=(Audit(name=name, of=name, fail_above=0).judge({name: offenders}),),
        )
    spec = replace(table.spec, checks={**table.spec.checks, name: check})
    after = Table(spec, table.store, table.session).ensure().version
    reason = f"{name} holds for all rows" if after > before else f"{name} is there already"
    return WriteResult(table.name, after, applied=after > before, changed=False, reason=reason)


def _require_used(references: Sequence[References], quarantine: Target | None) -> None:
    """Refuse a quarantine without a reference that uses the table, and the other way round."""
    names = [each.name for each in references if each.orphans == "quarantine"]
    if bool(names) != (quarantine is not None):
        raise ConfigError(
            f"quarantine must be a target exactly if orphans are put there, not {quarantine and quarantine.name} for "
            f"{', '.join(names) or 'no reference'}"
        )


def _aside(quarantine: Target, into: Target) -> Target:
    """Return the quarantine target with the run of ``into``."""
    quarantine = quarantine.by(_PATTERN, "partition")
    same_run(into, quarantine)
    return replace(quarantine, run=into.run)


def _audits(marked: Marked, references: Sequence[References]) -> Iterator[Audit]:
    """Make an audit of each rule, over the number of rows that break the rule."""
    policies: Mapping[str, str] = {each.name: each.orphans for each in references}
    for name in marked.rules:
        refuses = policies.get(name, "refuse") == "refuse"
        sql = f"count_if({OUTCOME} = 'violations' AND array_contains(violations, {quoted(name)}))"
        yield Audit(name=name, sql=sql, fail_above=0 if refuses else None, warn_above=None if refuses else 0)
    for each in references:
        if each.orphans == "unknown":
            yield Audit(name=each.name, sql=f"count_if({OUTCOME} = 'valid' AND {is_unknown(each)})", warn_above=0)


def _with_samples(error: AuditFailed, table: Table, marked: Marked) -> AuditFailed:
    """Add samples of each broken rule, from the staged rows."""
    if error.stage is None:
        return error
    staged = table.session.read.format("delta").load(error.stage)
    shown = samples(staged, table.spec, marked.shown)
    message = f"{error}. For example {shown}" if shown else str(error)
    return AuditFailed(message, findings=error.findings, stage=error.stage)


def _publish_both(
    staged: StagedWrite, aside: Target, *, since: tuple[int | None, int | None], allow_empty: bool
) -> WriteResult:
    """Publish the orphans into quarantine first, then the other rows: a crash in between loses no row."""
    rows = staged.record.rows
    if rows["filtered"]:
        put = aside.stage(staged.part("violations")).publish(since=since[1])
    elif aside.table.ledger.state().holds(aside.partition):
        # Parents have come: what was put aside before is in the target now.
        put = aside.table.clear(partition=aside.partition, provenance=aside.run, since=since[1])
    else:
        put = None
    beside = (put,) if put else ()
    if not (rows["written"] or allow_empty):
        staged.stage.discard()
        version = staged.table.ledger.version()
        reason = f"all {rows['filtered']} rows are orphans and went to {aside.name}"
        return WriteResult(staged.table.name, version, False, False, reason, findings=staged.findings, beside=beside)  # noqa: FBT003
    try:
        result = staged.publish(since=since[0])
    except Conflict:
        if put:
            with suppress(Conflict):  # another run has put rows of its own in their place
                aside.table.clear(partition=aside.partition, provenance=aside.run, since=put.version)
        raise
    return replace(result, beside=beside)
