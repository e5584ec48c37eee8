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

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.conversion import MISFITS, SYNTAX, convert_columns, convert_json
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Plan, Split, WriteResult
from dedp_assets.patterns.core.rows import Reading, quoted, require_columns
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.tables import Table

__all__ = ["divert_unprocessable", "route", "plan_replay", "LETTER"]

LETTER: Mapping[str, Column] = {
    "reason": Column("STRING", "every rule the record broke", required=True),
    "job": Column("STRING", "what tried to process it"),
    "code_version": Column("STRING", "version of the code that refused it last"),
    "replayed_by": Column("STRING", "code version that could process it; NULL while it is a dead letter"),
    "run_id": Column("STRING", "run that refused it last", technical=True),
    "dead_lettered_at": Column("TIMESTAMP", "when it was refused first", technical=True),
}
"""Columns a dead-letter table adds to the raw record; declare them in its spec, and leave them to :func:`route`."""

_CONTENTS, _REFUSED, _OPEN, _DONE, _PLACE, _KNOWN = (
    f"{RESERVED}{name}" for name in ("contents", "refused", "open", "done", "place", "known")
)
_NAMED = 20
"""Places of one record that a reason names; a list may have thousands that do not fit."""


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
    lenient: Collection[str] = (),
) -> Split:
    """Convert records and split them into ``valid`` and ``dead``; lazy, computed once.

    Args:
        rows: raw records.
        earlier: dead letters of the same partition from before, so that a replay marks the records it saves.
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
        ConfigError: if an option names a column the rows do not have, or one column twice.

    Example:
        >>> divert_unprocessable(lines, payload="line", identity=["n"], schema={"id": "BIGINT"})  # doctest: +SKIP
    """
    handed = list(dict.fromkeys([*identity, *carry]))
    require_columns(rows, [*handed, *raw, *([payload] if payload else schema)])
    if not schema or not identity or set(schema) & {*handed, *raw, payload or "raw"}:
        raise ConfigError("schema and identity name at least one column each, and the schema none that is handed on")
    if not payload:
        payload = "raw"
        record = F.to_json(F.struct(*[identifier(c) for c in rows.columns]))
        marked = _mark_replayed(rows.withColumn(payload, record), earlier, identity, payload)
        converted = convert_columns(marked, schema, lenient=lenient)
    else:
        converted = convert_json(_mark_replayed(rows, earlier, identity, payload), payload, schema, lenient=lenient)
    broken = [
        f"CASE WHEN NOT coalesce({rule}, false) THEN {quoted(reason)} END" for reason, rule in (rules or {}).items()
    ]
    places = f"slice({MISFITS}, 1, {_NAMED}), if(size({MISFITS}) > {_NAMED}, 'and more', NULL)"
    reason = f"coalesce({SYNTAX}, nullif(concat_ws('; ', {', '.join([places, *broken])}), ''))"
    kept = [payload, *raw]
    judged = converted.select(*handed, *schema, *kept, "was_dead_lettered", F.expr(reason).alias("reason"))
    # Only dead letters carry their raw input on: the others would pay for it in every later step.
    flagged = judged.select(
        *handed,
        *schema,
        *[F.expr(f"if(reason IS NULL, NULL, {identifier(c)})").alias(c) for c in kept],
        "was_dead_lettered",
        "reason",
        F.expr("if(reason IS NULL, 'valid', 'dead')").alias("outcome"),
    )
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
        processed = staged.stage.read().filter("was_dead_lettered").select(*split.identity)
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


def _mark_replayed(rows: DataFrame, earlier: DataFrame | None, identity: Sequence[str], payload: str) -> DataFrame:
    """Mark the records that were dead letters: the same identity and, where the letters have it, the same payload."""
    if earlier is None:
        return rows.withColumn("was_dead_lettered", F.lit(False))  # noqa: FBT003
    letter = f"xxhash64({identifier(payload)})" if payload in earlier.columns else "0L"
    known = earlier.groupBy(*[identifier(c) for c in identity]).agg(F.expr(f"collect_set({letter})").alias(_CONTENTS))
    same = f"coalesce(array_contains({_CONTENTS}, {letter}), false)"
    return _looked_up(rows, known, identity).withColumn("was_dead_lettered", F.expr(same)).drop(_CONTENTS)


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
    first = F.min("dead_lettered_at").alias(_REFUSED)
    stamps = {
        "dead_lettered_at": F.coalesce(_REFUSED, now),
        "job": F.lit(provenance.asset),
        "code_version": F.lit(provenance.code_version),
        "replayed_by": F.lit(None).cast("string"),
        "run_id": F.lit(provenance.run_id),
        **{c: F.lit(v).cast(dead.spec.columns[c].type) for c, v in filed_under.items()},
    }
    open_now = _looked_up(letters, before.groupBy(*keys).agg(first), keys).withColumns(stamps)
    saved = _processed_since(letters, before, processed).withColumn(
        "replayed_by", F.coalesce("replayed_by", F.lit(provenance.code_version))
    )
    quoted_columns = [identifier(c) for c in columns]
    return open_now.select(*quoted_columns).unionByName(saved.select(*quoted_columns))


def _processed_since(letters: DataFrame, before: DataFrame, processed: DataFrame) -> DataFrame:
    """Letters of before whose record reached the valid rows, as many as there are such records.

    An identity that repeats says of how many letters and not of which: not of one that is a dead letter again.
    """
    keys = processed.columns
    content = [identifier(c) for c in letters.columns if c in before.columns and c not in (*keys, *LETTER)]
    hashed = f"xxhash64({', '.join(content)})" if content else "0L"
    still = letters.groupBy(*keys).agg(F.count("*").alias(_OPEN), F.expr(f"collect_set({hashed})").alias(_CONTENTS))
    counted = _looked_up(before, processed.groupBy(*keys).agg(F.count("*").alias(_DONE)), keys)
    order = [F.col("replayed_by").isNull(), F.expr(f"coalesce(array_contains({_CONTENTS}, {hashed}), false)")]
    same = Window.partitionBy(*keys)
    place = F.row_number().over(same.orderBy(*order, F.expr(hashed), "dead_lettered_at"))
    placed = _looked_up(counted, still, keys).withColumns({_PLACE: place, _KNOWN: F.count("*").over(same)})
    return placed.filter(f"{_PLACE} <= least({_DONE}, {_KNOWN} - coalesce({_OPEN}, 0))")


def _looked_up(rows: DataFrame, known: DataFrame, keys: Sequence[str]) -> DataFrame:
    """``rows`` with what a small frame says of their keys; NULLs are equal, and no key of ``known`` repeats."""
    named = known.withColumnsRenamed({key: f"{RESERVED}{key}" for key in keys})
    pairs = [F.col(identifier(key)).eqNullSafe(F.col(identifier(f"{RESERVED}{key}"))) for key in keys]
    found = rows.join(F.broadcast(named), pairs, "left")
    return found.drop(*[f"{RESERVED}{key}" for key in keys])
