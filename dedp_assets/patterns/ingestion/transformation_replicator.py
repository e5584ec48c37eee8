"""Transformation Replicator: a replica without personal values, by rules of the source's declaration.

Problem: a job has to be tested on real data, and real data holds personal values that may not leave production.
Solution: every column is dropped, altered or kept as the source declares it, and rows are published only if none of
    them still shows a personal value it had, however it is written (_crossing). What nobody declared stops the
    replica. Column grants do not apply: files know no reader, so the replica holds what everybody may read.
Consequences: a new tag rebuilds the whole replica and removes its former files. Equal values get equal pseudonyms, so
    rows still join, and a person may still be recognised by harmless columns together. What coincides by nature
    (dates of birth, truth values) cannot be proven: the finding lists it, and a person may approve a false positive.
Choose instead: Passthrough Replicator, if nothing in it is personal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.leaving import require_classified
from dedp_assets.patterns.core.masking import MaskingKey, pseudonym
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import BY_NAME, WriteResult
from dedp_assets.patterns.core.rows import Tally, count_where, tally
from dedp_assets.patterns.core.schema import TableSpec, require_declared
from dedp_assets.patterns.core.sql.sql_options import one_value, reason_of
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.ingestion._crossing import MEASURES, NothingCrossed, compared, unprovable
from dedp_assets.patterns.ingestion._replica_rebuild import remake, rules_of

__all__ = ["replicate_transformed", "declare_transformed", "NOTHING_CROSSED"]

NOTHING_CROSSED = NothingCrossed(name="no_personal_value_crossed", of="crossed", fail_above=0, approvable=BY_NAME)
"""No row of the replica shows a personal value of its source row. Chance makes false positives, so a person may approve
one, if the approval names this audit: one of everything in a run does not cover it."""

_PSEUDONYM = "pseudonym"
_INSTEAD = f"{RESERVED}instead_of_"


@typed
def replicate_transformed(
    source: Table,
    into: Target,
    *,
    key: MaskingKey | None = None,
    version: int | None = None,
    allow_empty: bool = False,
) -> WriteResult:
    """Replace a replica, or a partition, by source rows without personal values, in one commit.

    If the declaration (or the key) is not the one the replica was made by, all partitions it holds are made again from
    this version of the source, and the former files and their history are gone when the new ones are swapped in.

    Args:
        source: the table to replicate.
        into: target of the write: the replica, declared by :func:`declare_transformed`; a partition is of columns that
            are kept as they are. Audits judge the replica's rows, as a pattern that no text may have.
        key: the key of the pseudonyms, if the source declares any.
        version: version of the source to read; the newest one now, if ``None``.
        allow_empty: whether a source without rows may empty the replica, or the partition, with a warning.

    Raises:
        SchemaMismatch: if the source holds anything that it does not declare.
        AuditFailed: if a personal value would have crossed and nobody approved that; the rows are removed, the former
            replica stays.
        ConfigError: for a replica declared otherwise, a rule that cannot be computed, or a missing key.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> email = Column("STRING", classification="personal")
        >>> key, plan = Column("INT", classification="public"), Column("STRING", classification="public")
        >>> columns = {"id": key, "plan": plan, "email": email}
        >>> users = table("silver/users", columns, (1, "free", "ada@example.org"), (2, "paid", "bob@example.org"))
        >>> staging = table(declare_transformed(users.spec, name="staging/users"))
        >>> _ = replicate_transformed(users, staging.target(run))
        >>> rows(staging)
        [(1, 'free'), (2, 'paid')]
    """
    into = into.by("ingestion.transformation_replicator", "partition", "audits")
    declared, owned = source.spec, dict(into.partition)
    kept = _require_possible(declared, into.table.spec, key, owned)
    pinned = source.ledger.version() if version is None else version
    run = replace(
        into.run,
        inputs={source.name: pinned, **into.run.inputs},
        sequence=pinned if into.run.sequence is None else into.run.sequence,
    )
    own = tuple(audit for audit in into.audits if audit != NOTHING_CROSSED)

    def write(replica: Table, parts: Sequence[Mapping[str, str | None]], part: Mapping[str, str]) -> WriteResult:
        originals = source.read(*parts, version=pinned)
        rows, seen = _transformed(originals, declared, key, kept)
        proof = replace(NOTHING_CROSSED, unproven=unprovable(originals, declared.withheld("replica")))
        gated = Target(replica, run, part, own).with_audits(proof, not_empty(allow_empty=allow_empty))
        return gated.reading(seen).stage(rows).publish()

    return remake(into.table, write, rules=rules_of(declared, key), kept=kept, owned=owned)


@typed
def declare_transformed(source: TableSpec, *, name: str) -> TableSpec:
    """Derive a replica's declaration from the declaration of the source.

    A new tag at the source changes the replica's declaration.

    Args:
        source: what the source declares.
        name: ``layer/dataset`` of the replica.

    Raises:
        ConfigError: if a column has no class.
    """
    require_classified(source.name, source.columns, to=name)
    columns = {
        c: replace(column, type="STRING" if column.replica == _PSEUDONYM else column.type, replica="")
        for c, column in source.columns.items()
        if column.replica or column.shows("replica")
    }
    others = [c for c, column in source.columns.items() if column.replica or not column.shows("replica")]
    spelled = {text for c in others for text in (c, identifier(c)[1:-1])}
    touches = re.compile("|".join(rf"(?<!\w){re.escape(c)}(?!\w)" for c in spelled) or r"\b\B", re.IGNORECASE)
    return TableSpec(
        name,
        columns,
        partition_by=tuple(c for c in source.partition_by if c in columns),
        event_time=source.event_time if source.event_time in columns else "",
        checks={c: predicate for c, predicate in source.checks.items() if not touches.search(predicate)},
        comment=f"{source.comment} Replica of {source.name} without its personal values.".strip(),
    )


def _require_possible(
    declared: TableSpec, target: TableSpec, key: MaskingKey | None, owned: Mapping[str, str]
) -> tuple[str, ...]:
    """List the columns that a replica keeps unchanged; refuse an impossible replica."""
    kept = tuple(c for c, column in declared.columns.items() if column.shows("replica") and not column.replica)
    derived = declare_transformed(declared, name=target.name)
    if (target.columns, target.partition_by) != (derived.columns, derived.partition_by):
        raise ConfigError(f"{target.name} is not what {declared.name} makes of it: declare it by declare_transformed")
    if not kept:
        raise ConfigError(f"{declared.name} has no column that its replica may keep: there is nothing to replicate")
    if masked := [c for c, column in declared.columns.items() if column.replica == _PSEUDONYM and key is None]:
        raise ConfigError(f"{declared.name} declares pseudonyms of {masked}: give the key they are made with")
    if altered := [c for c in owned if c not in kept]:
        raise ConfigError(f"{target.name} does not keep {altered} as it is: name a partition by what it keeps")
    return kept


def _transformed(
    rows: DataFrame, declared: TableSpec, key: MaskingKey | None, kept: Sequence[str]
) -> tuple[DataFrame, Tally]:
    """Return the replica's rows, and a tally that proves the absence of original values."""
    require_declared(declared, rows)
    altered = {c: column.replica for c, column in declared.columns.items() if column.replica}
    made = [pseudonym(c, key) if key and rule == _PSEUDONYM else F.expr(one_value(rule)) for c, rule in altered.items()]
    try:
        both = rows.select("*", *[value.alias(f"{_INSTEAD}{c}") for c, value in zip(altered, made, strict=True)])
        both.schema  # noqa: B018 - Spark analyses the rules when it is asked for their types
    except AnalysisException as error:
        raise ConfigError(f"{declared.name} declares a rule that fails: {reason_of(error)}") from error
    names = {c: f"{_INSTEAD}{c}" if c in altered else c for c in (*kept, *altered)}
    pairs = {c: (_as_text(c), _as_text(names[c])) for c in altered}
    differs = " OR ".join(f"NOT ({was} <=> {now})" for was, now in pairs.values()) or "false"
    measures = {"altered": count_where(differs), "unaltered": count_where(f"NOT ({differs})"), **MEASURES}
    # A keyed hash shows nothing, and its digits would meet short numbers by chance.
    shown = [names[c] for c in names if altered.get(c) != _PSEUDONYM]
    quiet = declared.withheld("replica")
    instead = {c: names[c] for c in quiet if c in altered}
    judged = compared(both, originals=quiet, shown=shown, instead=instead)
    counted, seen = tally(judged, identity=kept, measures=measures)
    return counted.select(*[F.col(identifier(name)).alias(c) for c, name in names.items()]), seen


def _as_text(column: str) -> str:
    return f"CAST({identifier(column)} AS STRING)"
