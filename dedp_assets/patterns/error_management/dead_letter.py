"""Dead-Letter: records that cannot be processed go aside with a reason and can be replayed.

Problem: one corrupt record stops the whole job, or disappears where a function quietly returns NULL.
Solution: every conversion is error-safe and compared with its input; a record that fails gets a reason and leaves by
    the other exit of the same pass. After a fix the same records run again with a mark that they were dead letters.
Consequences: consumers go on without the bad records, so a replay changes partitions they already read. A share of dead
    letters above a bound is a failure of the step: let an audit stop it.
Choose instead: failing fast, if a batch without these records is worth nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.conversion import MISFITS, SYNTAX, convert_columns, convert_json
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Plan, Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead, quoted, require_columns, require_free
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.patterns.error_management._letters import LETTER, filed, mark_replayed

__all__ = ["divert_unprocessable", "route", "plan_replay", "LETTER"]

_NAMED = 20
"""Places of one record that a reason names; a list may have thousands that do not fit."""


def divert_unprocessable(  # noqa: PLR0913 - what a record is takes many words
    rows: DataFrame,
    earlier: DataFrame | None = None,
    *,
    schema: Mapping[str, str],
    identity: Sequence[str],
    payload: str = "",
    carry: Sequence[str] = (),
    raw: Sequence[str] = (),
    rules: Mapping[str, str] | None = None,
    lenient: Collection[str] = (),
) -> Split:
    """Convert records and split them into ``valid`` and ``dead``; lazy, computed once.

    Args:
        rows: raw records.
        earlier: dead letters that these records may have been, so that a replay marks the records it saves.
        schema: output column -> SQL type. A value that is there but is not exactly a value of that type, at whatever
            depth, is a reason that names its path; STRING takes any JSON value as its text. What a text has to look
            like is listed in :mod:`~dedp_assets.patterns.core.exact`.
        identity: columns that identify one record.
        payload: column that holds one JSON object per record; empty if ``rows`` has the schema's columns already.
        carry: further columns to hand on to both parts.
        raw: columns of the untouched input to keep with a dead letter beside the payload.
        rules: reason -> SQL predicate over all converted and handed-on columns that a valid record satisfies;
            ``<column> text`` is what a value was that did not fit.
        lenient: columns of the schema whose texts Spark's cast may convert where they are not exact: rounded, trimmed,
            completed.

    Returns:
        ``valid``: the schema's columns, identity, ``carry`` and ``was_dead_lettered``. ``dead``: the payload (the whole
        record as JSON in a column ``raw`` if there is none), the raw columns, identity, ``carry`` and ``reason``.

    Raises:
        ConfigError: if an option names a column the rows do not have, one column twice, or one that is added here.

    Example:
        >>> lines = frame("n INT, line STRING", (1, '{"id": 7}'), (2, '{"id": "seven"}'))
        >>> split = divert_unprocessable(lines, payload="line", identity=["n"], schema={"id": "BIGINT"})
        >>> rows(split["valid"].select("n", "id"))
        [(1, 7)]
        >>> rows(split["dead"].select("n", "line", "reason"))
        [(2, '{"id": "seven"}', 'id is not a BIGINT')]
    """
    handed = list(dict.fromkeys([*identity, *carry]))
    require_columns(rows, [*handed, *raw, *([payload] if payload else schema)])
    added = ("reason", "was_dead_lettered", *([] if payload else ["raw"]))
    taken = {c.lower() for c in (*handed, *raw, payload, *added)}
    if (met := [c for c in schema if c.lower() in taken]) or not schema or not identity:
        raise ConfigError(f"schema and identity must each name a column, and schema no column that is handed on: {met}")
    require_free(rows, *added)
    if not payload:
        payload = "raw"
        record = F.to_json(F.struct(*[identifier(c) for c in rows.columns]))
        marked = mark_replayed(rows.withColumn(payload, record), earlier, identity, payload)
        converted = convert_columns(marked, schema, lenient=lenient)
    else:
        converted = convert_json(mark_replayed(rows, earlier, identity, payload), payload, schema, lenient=lenient)
    broken = [f"CASE WHEN NOT coalesce({rule}, false) THEN {quoted(why)} END" for why, rule in (rules or {}).items()]
    places = f"slice({MISFITS}, 1, {_NAMED}), if(size({MISFITS}) > {_NAMED}, 'and more', NULL)"
    reason = f"coalesce({SYNTAX}, nullif(concat_ws('; ', {', '.join([places, *broken])}), ''))"
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
    rows_read: RowsRead = RowsRead(),  # noqa: B008 - frozen
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
        rows_read: what is known about the rows read, to account for them.

    Raises:
        AuditFailed: if an audit refuses the step; neither table is touched.
    """
    provenance = provenance.by("error_management.dead_letter")
    staged = valid.stage(
        split, partition=partition, provenance=provenance, audits=audits, rows_read=rows_read, also=("dead",)
    )
    present = dead.ensure()
    known = present.holds(filed_under)
    if staged.record.rows["dead"] or known:
        letters, before = staged.part("dead"), dead.read(filed_under, version=present.version) if known else None
        processed = staged.stage.read().filter("was_dead_lettered").select(*map(identifier, split.identity))
        written = filed(letters, before, processed, dead, filed_under, provenance)
        noted = replace(provenance, notes={**provenance.notes, "open": staged.record.rows["dead"]})
        letters_written = dead.overwrite(written, partition=filed_under, provenance=noted)
    else:
        letters_written = dead.clear(partition=filed_under, provenance=provenance)
    return replace(staged.publish(), beside=(letters_written,))


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
