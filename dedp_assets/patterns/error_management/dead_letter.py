"""Dead-Letter: records that cannot be processed go aside with a reason and can be replayed.

Problem: one corrupt record stops the whole job, or disappears where a function quietly returns NULL.
Solution: every conversion is error-safe and compared with its input; a record that fails gets a reason and leaves by
    the other exit of the same pass. After a fix the same records run again with a mark that they were dead letters.
Consequences: consumers go on without the bad records, so a replay changes partitions they already read. A share of dead
    letters above a bound is a failure of the step: let an audit stop it.
Choose instead: failing fast, if a batch without these records is worth nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.columns import COMPARED, RECORD, require_columns, require_free, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import OUTCOME, identifier, reserved, select_list
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.parsing.field_counting import with_undeclared
from dedp_assets.patterns.core.parsing.json_texts import MICROSECONDS
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.types.conversion import convert_columns, convert_json, texts_of
from dedp_assets.patterns.delta import Target, require_partition, same_run
from dedp_assets.patterns.error_management._letters import (
    LETTER,
    as_letters,
    filed,
    judged,
    judgement,
    mark_replayed,
    publish_letters,
    require_fitting,
)

__all__ = ["divert_unprocessable", "route", "as_letters", "Field", "LETTER"]

_PATTERN = "error_management.dead_letter"
_REST = "MAP<STRING,STRING>"
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_ADDED = ("reason", "error_class", "error_stage", "occurred_at", "was_dead_lettered")


class _ConversionArguments(TypedDict):
    """Keyword arguments of the conversion functions."""

    lenient: Sequence[str]
    formats: Mapping[str, str]
    special: Sequence[str]


@dataclass(frozen=True, slots=True)
class Field:
    """Type and conversion options of a column in a record's schema.

    Attributes:
        type: SQL type.
        lenient: whether Spark's cast may convert texts that are not exactly a value of the type: rounded, trimmed,
            completed.
        event_time: whether the column says when the record happened: a dead letter keeps it as ``occurred_at``, where
            it can be read. A TIMESTAMP, of one column of a schema.
        rest: whether the column takes the fields of the payload that the schema does not name, at any depth: path ->
            text, or NULL if there are none. A MAP<STRING, STRING>, of one column of a schema. A rule such as
            ``rest IS NULL`` makes dead letters of records that have such fields.
        format: of a DATE or a time, Spark's date pattern of the texts, or ``epoch_seconds`` or ``epoch_millis``; ISO
            8601 if empty. A text of another form is no value.
        special: whether NaN, Infinity and -Infinity are values of a DOUBLE or FLOAT, as in sources with types.
    """

    type: str
    lenient: bool = False
    event_time: bool = False
    rest: bool = False
    format: str = ""
    special: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if self.format and (self.lenient or self.type.strip().upper() not in _TIMES):
            raise ConfigError(f"format must be of an exact {', '.join(_TIMES)}, not of {self.type}")
        if self.rest and (self.lenient or self.event_time or "".join(self.type.split()).upper() != _REST):
            raise ConfigError(f"rest must be of a plain {_REST}, not of {self.type}")


@typed
def divert_unprocessable(
    rows: DataFrame,
    earlier: DataFrame | None = None,
    *,
    schema: Mapping[str, str | Field],
    identity: Sequence[str],
    payload: str = "",
    carry: Sequence[str] = (),
    raw: Sequence[str] = (),
    rules: Mapping[str, str] | None = None,
) -> Split:
    """Convert records and split the result into ``valid`` and ``dead``; lazy, computed once.

    Args:
        rows: raw records.
        earlier: dead letters that these records may have been, so that a replay marks the records it saves.
        schema: output column -> SQL type, or a :class:`Field` that says more of it. A value that is there but is not
            exactly a value of that type, at whatever depth, is a reason that names its path; STRING takes any JSON
            value as its text. What a text has to look like is listed in :mod:`~dedp_assets.patterns.core.types.exact`.
            Other fields of the payload are left out unless a column takes the rest; ``tally_fields`` counts them
            (:mod:`~dedp_assets.patterns.core.parsing.field_counting`).
        identity: columns that identify one record.
        payload: column that holds one JSON object per record; empty if ``rows`` has the schema's columns already.
        carry: further columns to hand on to both parts.
        raw: columns of the untouched input to keep with a dead letter beside the payload.
        rules: reason -> SQL predicate over all converted and handed-on columns that a valid record satisfies;
            ``<column> text`` is what a value was that did not fit.

    Returns:
        ``valid``: the schema's columns, identity, ``carry`` and ``was_dead_lettered``. ``dead``: the payload (the whole
        record as JSON in a column ``raw`` if there is none), the raw columns, identity, ``carry``, ``reason``,
        ``error_class``, ``error_stage`` and ``occurred_at``.

    Raises:
        ConfigError: if an option names a column that is not there, cannot be used so, is named twice or is added here,
            or for a rule that Spark cannot evaluate.

    Example:
        >>> lines = frame("n INT, line STRING", (1, '{"id": 7}'), (2, '{"id": "seven"}'))
        >>> split = divert_unprocessable(lines, payload="line", identity=["n"], schema={"id": "BIGINT"})
        >>> rows(split["valid"].select("n", "id"))
        [(1, 7)]
        >>> rows(split["dead"].select("n", "line", "reason"))
        [(2, '{"id": "seven"}', 'id is not a BIGINT')]
    """
    (kinds, options, event_time, rest), rules = _fields(schema), rules or {}
    for option, names in (("identity=", identity), ("carry=", carry), ("raw=", raw), ("schema=", schema)):
        require_distinct(option, names)
    _require_usable(rows, identity, payload, [*carry, *raw, *([] if payload else kinds)], rest)
    identity, carry, raw = (spelled_as(rows.columns, named) for named in (identity, carry, raw))
    handed = list(dict.fromkeys([*identity, *carry]))
    added = (*_ADDED, *([] if payload else ["raw"]))
    met = _named_twice([*handed, *raw, payload, *schema], [*added, *texts_of(kinds).values()])
    if met or not kinds or not identity:
        raise ConfigError(
            "schema and identity must each name a column, each option others than are named elsewhere or added here, "
            f"and schema no column that is handed on: {met}"
        )
    require_free(rows, *added, *([rest] if rest else []))
    converted = _converted(rows, earlier, identity, payload, kinds, options, rest)
    payload = payload or "raw"
    happened = identifier(event_time) if event_time else "NULL"
    found = {**judgement(rules), "occurred_at": f"if(reason IS NULL, NULL, CAST({happened} AS TIMESTAMP))"}
    # Only dead letters carry their raw input on: the others would pay for it in every later step.
    stored = {c: f"if(reason IS NULL, NULL, {identifier(c)})" for c in (payload, *raw)}
    made = {**found, **stored, OUTCOME: "if(reason IS NULL, 'valid', 'dead')"}
    shown = (*handed, *schema, "was_dead_lettered")
    flagged = judged(converted, rules, [*select_list(made), *map(identifier, shown)])
    parts = {"valid": (*schema, *handed, "was_dead_lettered"), "dead": (payload, *raw, *handed, *found)}
    return Split(flagged, parts, identity=tuple(identity))


def _converted(
    rows: DataFrame,
    earlier: DataFrame | None,
    identity: Sequence[str],
    payload: str,
    kinds: Mapping[str, str],
    options: _ConversionArguments,
    rest: str,
) -> DataFrame:
    """Convert the payload, or the columns without one, in records with a mark of earlier dead letters."""
    if payload:
        marked = mark_replayed(rows, earlier, identity, payload)
        marked = with_undeclared(marked, payload, kinds, rest) if rest else marked
        return convert_json(marked, payload, kinds, **options)
    record = F.to_json(F.struct(*[identifier(c) for c in rows.columns]), MICROSECONDS)
    marked = mark_replayed(rows.withColumn("raw", record), earlier, identity, "raw")
    return convert_columns(marked, kinds, **options)


def _require_usable(rows: DataFrame, identity: Sequence[str], payload: str, others: Sequence[str], rest: str) -> None:
    """Refuse missing columns, incomparable identities, an unfit payload column, and a rest of no payload."""
    if rest and not payload:
        raise ConfigError(f"payload must name a column whose rest {rest} takes, not none")
    require_columns(rows, others)
    require_columns(rows, identity, COMPARED)
    require_columns(rows, [payload], RECORD)


def _fields(schema: Mapping[str, str | Field]) -> tuple[dict[str, str], _ConversionArguments, str, str]:
    """Return types, options of the conversion, event time column and column of the rest (empty if absent)."""
    fields = {name: each if isinstance(each, Field) else Field(each) for name, each in schema.items()}
    single = dict[str, str]()
    for option in ("event_time", "rest"):
        found = [name for name, each in fields.items() if getattr(each, option)]
        if len(found) > 1:
            raise ConfigError(f"schema must have one {option}, not {', '.join(found)}")
        single[option] = next(iter(found), "")
    options: _ConversionArguments = {
        "lenient": [name for name, each in fields.items() if each.lenient],
        "formats": {name: each.format for name, each in fields.items() if each.format},
        "special": [name for name, each in fields.items() if each.special],
    }
    kinds = {name: each.type for name, each in fields.items() if not each.rest}
    return kinds, options, single["event_time"], single["rest"]


def _named_twice(named: Sequence[str], added: Sequence[str]) -> list[str]:
    """List the columns that are named more than once, are added here, or have a name of the library's own."""
    times = Counter(c.lower() for c in (*named, *added) if c)
    return [c for c in dict.fromkeys(named) if times[c.lower()] > 1 or reserved([c])]


@typed
def route(split: Split, into: Target, dead: Target, *, allow_empty: bool = False) -> WriteResult:
    """Write both parts of a split, dead letters first, from a single staging job.

    A crash in between loses no letter.

    A run replaces its partition's dead letters. Those whose record reached ``into`` stay as history, with
    ``replayed_by``; those that turned out to be repeats, or are no longer delivered, go with their record.

    Args:
        split: what :func:`divert_unprocessable` returned, refined by further steps or not.
        into: target of the valid part: its table has the identity columns and ``was_dead_lettered``, too. The time of
            its run is when new dead letters were refused first; its audits may judge the share of dead letters.
        dead: target of the dead letters, of the same run: its table has the columns of :data:`LETTER`, too.
        allow_empty: whether the partition of ``into`` may be emptied, with a warning; a source that delivers nothing,
            or nothing valid, is usually broken.

    Raises:
        AuditFailed: if an audit refuses the step; neither table is touched.
        Conflict: if another run wrote one of the partitions meanwhile.
        SchemaMismatch: if values of a column of either part may be none of its table's type.
    """
    into, letters_into = into.by(_PATTERN, "partition", "audits", "rows_read"), dead.by(_PATTERN, "partition")
    same_run(into, letters_into)
    # Another run may write both tables meanwhile: what is decided here holds against both as they are now.
    since, present = into.table.ensure().version, dead.table.ensure()
    require_fitting(split, dead.table)
    staged = into.with_audits(not_empty(allow_empty=allow_empty)).stage(split, also=("dead",))
    dead = replace(letters_into, partition=require_partition(dead.name, present, dead.partition))
    known = present.holds(dead.partition)
    if staged.record.rows["dead"] or known:
        before = dead.table.read(dead.partition, version=present.version) if known else None
        was_letter = known and staged.stage.may_be_true("was_dead_lettered")
        processed = staged.stage.read().filter("was_dead_lettered") if was_letter else None
        written = filed(staged.part("dead"), before, processed, dead, identity=split.identity)
        letters = publish_letters(written, dead, identity=split.identity, since=present.version)
    else:
        letters = dead.table.clear(partition=dead.partition, provenance=dead.run, since=present.version)
    result, rows = staged.publish(since=since), staged.record.rows
    share = {"dead letters [%]": round(100 * rows["dead"] / rows["read"], 3)} if rows["read"] else {}
    return replace(result, figures={**result.figures, **share}, beside=(letters,))
