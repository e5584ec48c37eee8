"""Dead-Letter: records that cannot be processed go aside with a reason and can be replayed.

Problem: one corrupt record stops the whole job, or disappears where a function quietly returns NULL.
Solution: every conversion is error-safe and compared with its input; a record that fails gets a reason and leaves by
    the other exit of the same pass. After a fix the same records run again with a mark that they were dead letters.
Consequences: consumers go on without the bad records, so a replay changes partitions they already read. A share of dead
    letters above a bound is a failure of the step: let an audit stop it.
Choose instead: failing fast, if a batch without these records is worth nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.conversion import convert_columns, convert_json, misfits
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Plan, Split, WriteResult
from dedp_assets.patterns.core.rows import Reading, quoted, require_columns, require_free
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.tables import Table

__all__ = ["divert_unprocessable", "route", "plan_replay", "LETTER"]

_SAVED = f"{RESERVED}saved"
LETTER: Mapping[str, Column] = {
    "reason": Column("STRING", "every rule the record broke", required=True),
    "job": Column("STRING", "what tried to process it"),
    "code_version": Column("STRING", "version of the code that refused it last"),
    "replayed_by": Column("STRING", "code version that could process it; NULL while it is a dead letter"),
    "run_id": Column("STRING", "run that refused it last", technical=True),
    "dead_lettered_at": Column("TIMESTAMP", "when it was refused first", technical=True),
}
"""Columns a dead-letter table adds to the raw record; declare them in its spec, and leave them to :func:`route`."""


def divert_unprocessable(
    rows: DataFrame,
    earlier: DataFrame | None = None,
    *,
    schema: Mapping[str, str],
    identity: Sequence[str],
    payload: str = "",
    carry: Sequence[str] = (),
    raw: Sequence[str] = (),
    rules: Mapping[str, str] | None = None,
) -> Split:
    """Convert records and split them into ``valid`` and ``dead``; lazy, computed once.

    Args:
        rows: raw records.
        earlier: dead letters of the same partition from before, so that a replay marks the records it saves.
        schema: output column -> SQL type. A value that is there but cannot become that type is a reason; STRING takes
            any JSON value as its text.
        identity: columns that identify one record.
        payload: column that holds one JSON object per record; empty if ``rows`` has the schema's columns already.
        carry: further columns to hand on to both parts.
        raw: columns of the untouched input to keep with a dead letter beside the payload.
        rules: reason -> SQL predicate over all converted and handed-on columns that a valid record satisfies.

    Returns:
        ``valid``: the schema's columns, identity, ``carry`` and ``was_dead_lettered``. ``dead``: the payload (the whole
        record as JSON in a column ``raw`` if there is none), the raw columns, identity, ``carry`` and ``reason``.

    Raises:
        ConfigError: if an option names a column the rows do not have, one column twice, or one that is added here.

    Example:
        >>> divert_unprocessable(lines, payload="line", identity=["n"], schema={"id": "BIGINT"})  # doctest: +SKIP
    """
    handed = list(dict.fromkeys([*identity, *carry]))
    require_columns(rows, [*handed, *raw, *([payload] if payload else schema)])
    added = ("reason", "was_dead_lettered", "syntax", *[f"{c} text" for c in schema], *([] if payload else ["raw"]))
    taken = {c.lower() for c in (*handed, *raw, payload, *added)}
    if (met := [c for c in schema if c.lower() in taken]) or not schema or not identity:
        raise ConfigError(f"schema and identity name at least one column each, and none that is handed on: {met}")
    require_free(rows, *added)
    marked = _mark_replayed(rows, earlier, identity)
    if payload:
        converted = convert_json(marked, payload, schema)
    else:
        payload, whole = "raw", F.to_json(F.struct(*map(identifier, rows.columns)))
        converted = convert_columns(marked.withColumn(payload, whole), schema)
    required = {**misfits(schema), **(rules or {})}
    broken = [f"CASE WHEN NOT coalesce({rule}, false) THEN {quoted(why)} END" for why, rule in required.items()]
    reason = f"coalesce(syntax, nullif(concat_ws('; ', {', '.join(broken)}), ''))" if broken else "syntax"
    kept = [payload, *raw]
    named = [F.col(identifier(column)) for column in (*handed, *schema)]
    judged = converted.select(*named, *map(identifier, kept), "was_dead_lettered", F.expr(reason).alias("reason"))
    # Only dead letters carry their raw input on: the others would pay for it in every later step.
    stored = [F.expr(f"if(reason IS NULL, NULL, {identifier(c)})").alias(c) for c in kept]
    outcome = F.expr("if(reason IS NULL, 'valid', 'dead')").alias(OUTCOME)
    flagged = judged.select(*named, *stored, "was_dead_lettered", "reason", outcome)
    parts = {"valid": (*schema, *handed, "was_dead_lettered"), "dead": (*kept, *handed, "reason")}
    return Split(flagged, parts, identity=tuple(identity))


def route(
    split: Split,
    valid: Table,
    dead: Table,
    *,
    partition: Mapping[str, str],
    filed_under: Mapping[str, str],
    provenance: Provenance,
    audits: Sequence[Audit] = (),
    reading: Reading = Reading(),  # noqa: B008 - frozen
) -> WriteResult:
    """Write both parts of a split, staged in one Spark job: dead letters first, so that no crash loses one.

    A run replaces its partition's dead letters. Those whose record reached ``valid`` stay as history, with
    ``replayed_by``; those that turned out to be repeats, or are no longer delivered, go with their record.

    Args:
        split: what :func:`divert_unprocessable` returned, refined by further steps or not.
        valid: table for the valid part, identity columns and ``was_dead_lettered`` included.
        dead: table for the dead letters, with the columns of :data:`LETTER`.
        partition: partition of ``valid`` to replace.
        filed_under: partition of ``dead`` to replace.
        provenance: who writes, from what, and why; its time is when new dead letters were refused first.
        audits: rules over the valid rows and over the share of dead letters.
        reading: what is known about the rows read, to account for them.

    Raises:
        AuditFailed: if an audit refuses the step; neither table is touched.
    """
    provenance = provenance.by("error_management.dead_letter")
    staged = valid.stage(
        split, partition=partition, provenance=provenance, audits=audits, reading=reading, also=("dead",)
    )
    present = dead.ensure()
    if staged.record.rows["dead"] or present.holds(filed_under):
        letters, before = staged.part("dead"), dead.read(filed_under, version=present.version)
        processed = staged.stage.read().filter("was_dead_lettered").select(*map(identifier, split.identity))
        filed = _filed(letters, before, processed, dead, filed_under, provenance)
        noted = replace(provenance, notes={**provenance.notes, "open": staged.record.rows["dead"]})
        dead.overwrite(filed, partition=filed_under, provenance=noted)
    else:
        dead.clear(partition=filed_under, provenance=provenance)
    return staged.publish()


def plan_replay(open_letters: Mapping[str, int], refused_by: Mapping[str, str], *, code_version: str) -> Plan:
    """Choose the partitions whose dead letters were refused by other code than the present one, oldest first.

    Args:
        open_letters: partition -> dead letters that nothing could process yet, in records.
        refused_by: partition -> code version that refused them last.
        code_version: version of the code that would process them now.

    Example:
        >>> plan_replay({"2026-01-05": 3, "2026-01-06": 0}, {"2026-01-05": "1"}, code_version="2").partitions
        ('2026-01-05',)
    """
    waiting = [key for key, count in sorted(open_letters.items()) if count]
    causes = {key: f"replay of {open_letters[key]}" for key in waiting if refused_by.get(key) != code_version}
    held = {key: f"{open_letters[key]} dead letters of this very code" for key in waiting if key not in causes}
    reason = f"{len(causes)} partitions to replay, {len(held)} wait for a fix"
    return Plan(tuple(causes), reason, causes, held, cursor=dict.fromkeys(causes, f"code-{code_version}"))


def _mark_replayed(rows: DataFrame, earlier: DataFrame | None, identity: Sequence[str]) -> DataFrame:
    if earlier is None:
        return rows.withColumn("was_dead_lettered", F.lit(False))  # noqa: FBT003
    known = earlier.select(*map(identifier, identity)).distinct().withColumn(_SAVED, F.lit(True))  # noqa: FBT003
    marked = rows.join(F.broadcast(known), list(identity), "left")
    return marked.withColumn("was_dead_lettered", F.expr(f"{_SAVED} IS NOT NULL")).drop(_SAVED)


def _filed(
    letters: DataFrame,
    before: DataFrame,
    processed: DataFrame,
    dead: Table,
    filed_under: Mapping[str, str],
    provenance: Provenance,
) -> DataFrame:
    """The partition's dead letters: those of now, with the time they were refused first, and those processed since."""
    columns, keys = list(dead.spec.columns), processed.columns
    now = F.current_timestamp() if provenance.at is None else F.lit(provenance.at).cast("timestamp")
    refused = before.select(*keys, F.col("dead_lettered_at").alias("refused_before"))
    stamps = {
        "dead_lettered_at": F.coalesce("refused_before", now),
        "job": F.lit(provenance.asset),
        "code_version": F.lit(provenance.code_version),
        "replayed_by": F.lit(None).cast("string"),
        "run_id": F.lit(provenance.run_id),
        **{c: F.lit(v).cast(dead.spec.columns[c].type) for c, v in filed_under.items()},
    }
    open_now = letters.join(F.broadcast(refused), keys, "left").withColumns(stamps).select(*columns)
    saved = before.join(F.broadcast(processed), keys, "left_semi")
    saved = saved.withColumn("replayed_by", F.coalesce("replayed_by", F.lit(provenance.code_version)))
    return open_now.unionByName(saved.select(*columns))
