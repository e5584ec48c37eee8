"""Transformation Replicator: a replica without personal values, made as the source's declaration says.

Problem: a job has to be tested on real data, and real data holds personal values that may not leave production.
Solution: every column is dropped, altered or kept as the source declares it, and rows are published only if none of
    them still shows a personal value it had. What nobody declared stops the replica.
Consequences: a new tag rebuilds the whole replica and removes its former files. Equal values get equal pseudonyms, so
    rows still join, and a person may still be recognised by harmless columns together.
Choose instead: Passthrough Replicator, if nothing in it is personal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.generations import current, next_generation, replacing
from dedp_assets.patterns.core.masking import MaskingKey, pseudonym, shows, text
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import Reading, Tally, tally
from dedp_assets.patterns.core.schema import TableSpec, require_declared
from dedp_assets.patterns.core.staging import Stage
from dedp_assets.patterns.core.tables import Table

__all__ = ["replicate_transformed", "declare_transformed", "NOTHING_CROSSED"]

NOTHING_CROSSED = Audit(name="no_personal_value_crossed", of="crossed", fail_above=0)
"""No row of the replica shows a personal value of its source row; nobody can approve that away."""

_PSEUDONYM = "pseudonym"
_INSTEAD = f"{RESERVED}instead_of_"


def replicate_transformed(
    source: Table,
    target: Table,
    *,
    provenance: Provenance,
    key: MaskingKey | None = None,
    partition: Mapping[str, str] | None = None,
    version: int | None = None,
    audits: Sequence[Audit] = (),
) -> WriteResult:
    """Replace the replica, or one partition of it, by the source's rows without their personal values, in one commit.

    If the declaration (or the key) is not the one the replica was made by, all partitions it holds are made again from
    this version of the source, and the former files and their history are gone when the new ones are swapped in.

    Args:
        source: the table to replicate.
        target: the replica, declared by :func:`declare_transformed`.
        provenance: who replicates, and why.
        key: the key of the pseudonyms, if the source declares any.
        partition: column -> value of the partition to replicate, of columns that are kept as they are.
        version: version of the source to read; the newest one now, if ``None``.
        audits: further rules over the replica's rows, as a pattern that no text may have.

    Raises:
        SchemaMismatch: if the source holds anything that it does not declare.
        AuditFailed: if a personal value would have crossed; the rows are removed, the former replica stays.
        ConfigError: for a replica declared otherwise, a rule that cannot be computed, or a missing key.

    Example:
        >>> replicate_transformed(users, staging, provenance=run, key=key)  # doctest: +SKIP
    """
    declared, owned = source.spec, dict(partition or {})
    kept = _require_possible(declared, target.spec, key, owned)
    pinned = source.ledger.version() if version is None else version
    run = replace(
        provenance.by("ingestion.transformation_replicator"),
        inputs={source.name: pinned, **provenance.inputs},
        sequence=pinned if provenance.sequence is None else provenance.sequence,
    )
    made_by = {"dedp.replica.rules": _rules(declared), "dedp.replica.key": key.id if key else ""}

    def write(into: Table, parts: Sequence[Mapping[str, str | None]], part: Mapping[str, str]) -> WriteResult:
        rows, seen = _transformed(source.read(*parts, version=pinned), declared, key, kept)
        rules, reading = (NOTHING_CROSSED, *audits), Reading(tally=seen)
        return into.stage(rows, partition=part, provenance=run, audits=rules, reading=reading).publish()

    try:
        with replacing(target.location):
            if _is_made_by(made_by, target):
                return write(target, [owned] if owned else [], owned)
            parts = _held(target, kept, owned)
            with next_generation(target.location, keep_former=False) as made:
                spec = replace(target.spec, properties={**target.spec.properties, **made_by})
                fresh = Table(spec, made.files, lambda: target.session)
                return write(fresh, parts, owned if parts == [owned] else {})
    except AuditFailed as refused:
        if refused.stage:
            # Elsewhere refused rows stay for inspection; these must not lie here.
            Stage(Path(refused.stage)).discard()
        raise AuditFailed(str(refused), findings=refused.findings) from None


def declare_transformed(source: TableSpec, *, name: str) -> TableSpec:
    """The declaration of a replica, derived from what the source declares: a new tag there changes it here.

    Args:
        source: what the source declares.
        name: ``layer/dataset`` of the replica.
    """
    columns = {
        c: replace(column, type="STRING" if column.replica == _PSEUDONYM else column.type, replica="")
        for c, column in source.columns.items()
        if column.replica or not column.personal
    }
    others = [c for c, column in source.columns.items() if column.replica or column.personal]
    touches = re.compile("|".join(rf"\b{re.escape(c)}\b" for c in others) or r"\b\B", re.IGNORECASE)
    return TableSpec(
        name,
        columns,
        partition_by=tuple(c for c in source.partition_by if c in columns),
        checks={c: predicate for c, predicate in source.checks.items() if not touches.search(predicate)},
        comment=f"{source.comment} Replica of {source.name} without its personal values.".strip(),
    )


def _require_possible(
    declared: TableSpec, target: TableSpec, key: MaskingKey | None, owned: Mapping[str, str]
) -> tuple[str, ...]:
    """The columns that are kept as they are."""
    kept = tuple(c for c, column in declared.columns.items() if not column.personal and not column.replica)
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


def _rules(declared: TableSpec) -> str:
    """Identity of everything in a declaration that a replica is made by."""
    rules = [[name, c.type, c.required, c.personal, c.replica] for name, c in declared.columns.items()]
    stated = json.dumps([rules, declared.partition_by, dict(declared.checks)])
    return hashlib.sha256(stated.encode()).hexdigest()[:16]


def _is_made_by(rules: Mapping[str, str], target: Table) -> bool:
    """Whether there is a replica, and these rules made it."""
    shown = current(target.location) is not None and target.ledger.exists()
    return shown and rules.items() <= target.ledger.state().properties.items()


def _held(target: Table, kept: Sequence[str], owned: Mapping[str, str]) -> list[Mapping[str, str | None]]:
    """The partitions to make: the named one and those the replica holds already; none of them named means all."""
    if not owned:
        return []
    held = target.ledger.state().statistics() if target.ledger.exists() else {}
    parts: list[Mapping[str, str | None]] = [owned]
    parts += [p for key in held if not owned.items() <= (p := {c: v for c, v in key if c in kept}).items()]
    return parts if all(parts) else []


def _transformed(
    rows: DataFrame, declared: TableSpec, key: MaskingKey | None, kept: Sequence[str]
) -> tuple[DataFrame, Tally]:
    """The rows as the replica has them, and the figures that prove it, observed where originals and replica meet."""
    require_declared(declared, rows)
    altered = {c: column.replica for c, column in declared.columns.items() if column.replica}
    made = [(pseudonym(c, key) if key and rule == _PSEUDONYM else F.expr(rule)) for c, rule in altered.items()]
    try:
        both = rows.select("*", *[value.alias(f"{_INSTEAD}{c}") for c, value in zip(altered, made, strict=True)])
        kinds = dict(both.dtypes)
    except AnalysisException as error:
        raise ConfigError(f"{declared.name} declares a rule that fails: {str(error).splitlines()[0]}") from error
    names = {c: f"{_INSTEAD}{c}" if c in altered else c for c in (*kept, *altered)}
    differs = " OR ".join(f"NOT ({text(c)} <=> {text(names[c])})" for c in altered) or "false"
    same = {c: names[c] for c in declared.personal if c in altered}
    crossed = shows(
        {c: kinds[c] for c in declared.personal}, {name: kinds[name] for name in names.values()}, instead=same
    )
    measures = {
        "altered": f"count_if({differs})",
        "unaltered": f"count_if(NOT ({differs}))",
        "crossed": f"count_if({crossed})",
    }
    counted, seen = tally(both, identity=kept, measures=measures)
    return counted.select(*[F.col(identifier(name)).alias(c) for c, name in names.items()]), seen
