"""Dead letters of a partition across runs: replayed records, and letters kept as history.

Identities may repeat and be NULL: NULLs are equal here, and what an identity does not tell apart the content does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.errors import SchemaMismatch
from dedp_assets.patterns.core.names import RESERVED, identifier, select_list
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import count_where, quoted, row_hash, tally
from dedp_assets.patterns.core.schema import Column, require_holds
from dedp_assets.patterns.core.sql.sql_options import naming_options, require_repeatable, truth
from dedp_assets.patterns.core.types.conversion import MISFITS, SYNTAX
from dedp_assets.patterns.core.types.instants import timestamp
from dedp_assets.patterns.core.types.meeting import as_held, equal, held_problems
from dedp_assets.patterns.delta import Table, Target, held_types

__all__ = [
    "LETTER",
    "MEASURES",
    "as_letters",
    "filed",
    "fitted",
    "judged",
    "judgement",
    "mark_replayed",
    "open_by_class",
    "publish_letters",
    "require_fitting",
]

LETTER: Mapping[str, Column] = {
    "reason": Column("STRING", "every rule the record broke", required=True),
    "error_class": Column("STRING", "a fault of syntax, wrong type, or the first broken rule", required=True),
    "error_stage": Column("STRING", "where it failed: parse, convert or validate", required=True),
    "occurred_at": Column("TIMESTAMP", "when the record says that it happened, UTC, if that can be read"),
    "status": Column("STRING", "open, replayed, or given_up by a named person", required=True),
    "job": Column("STRING", "what tried to process it"),
    "code_version": Column("STRING", "version of the code that refused it last"),
    "replayed_by": Column("STRING", "code version that could process it; NULL while it is a dead letter"),
    "run_id": Column("STRING", "run that refused it last", technical=True),
    "dead_lettered_at": Column("TIMESTAMP", "when it was refused first", technical=True),
}
"""Columns a dead-letter table adds to the raw record; declare them in its spec, and leave them to the pattern."""

_STAMPED = ("status", "job", "code_version", "replayed_by", "run_id", "dead_lettered_at")

_CONTENTS, _REFUSED, _OPEN, _DONE, _PLACE, _KNOWN, _GIVEN_UP = (
    f"{RESERVED}{name}" for name in ("contents", "refused", "open", "done", "place", "known", "given_up")
)
_SIDES = ("the records", "their letters")
_NAMED = 20
"""Places of one record that a reason names; a list may have thousands that do not fit."""
_NONE_COUNTED = "CAST(map() AS MAP<STRING, INT>)"
_ONE_MORE = "map_concat(map_filter(m, (k, v) -> k <> c), map(c, coalesce(m[c], 0) + 1))"
MEASURES = {
    **{status: count_where(f"status = '{status}'") for status in ("open", "replayed", "given_up")},
    "classes": "to_json(aggregate(collect_list(if(status = 'open', error_class, NULL)), "
    f"{_NONE_COUNTED}, (m, c) -> {_ONE_MORE}))",
    "oldest": "unix_seconds(min(if(status = 'open', dead_lettered_at, NULL)))",
}
"""Figures of a commit of letters: how many of each status, the open ones by class, and the oldest of these."""


def judgement(rules: Mapping[str, str]) -> dict[str, str]:
    """Write the broken rules of a record, with error class and failed stage: column -> SQL."""
    broken = [f"CASE WHEN NOT {truth(rule)} THEN {quoted(why)} END" for why, rule in rules.items()]
    places = f"slice({MISFITS}, 1, {_NAMED}), if(size({MISFITS}) > {_NAMED}, 'and more', NULL)"
    reason = f"coalesce({SYNTAX}, nullif(concat_ws('; ', {', '.join([places, *broken])}), ''))"
    kinds = [SYNTAX, f"if(size({MISFITS}) > 0, 'wrong type', NULL)", *broken]
    stage = f"CASE WHEN {SYNTAX} IS NOT NULL THEN 'parse' WHEN size({MISFITS}) > 0 THEN 'convert' ELSE 'validate' END"
    return {
        "reason": reason,
        "error_class": f"if(reason IS NULL, NULL, coalesce({', '.join(kinds)}))",
        "error_stage": f"if(reason IS NULL, NULL, {stage})",
    }


def judged(converted: DataFrame, rules: Mapping[str, str], columns: Sequence[str]) -> DataFrame:
    """Select columns of converted records, with the columns of :func:`judgement`.

    Raises:
        ConfigError: for a rule that Spark cannot evaluate, or that says something else each time (``rand()``).
    """
    require_repeatable(converted, "rule", rules)
    with naming_options(converted, "rule", {why: truth(rule) for why, rule in rules.items()}):
        return converted.selectExpr(*columns)


def mark_replayed(rows: DataFrame, earlier: DataFrame | None, identity: Sequence[str], payload: str) -> DataFrame:
    """Mark records that were dead letters, by identity and, where stored, by payload."""
    if earlier is None:
        return rows.withColumn("was_dead_lettered", F.lit(False))  # noqa: FBT003
    letter = f"xxhash64({identifier(payload)})" if payload.lower() in map(str.lower, earlier.columns) else "0L"
    joined = _left_join(rows, earlier, identity, {_CONTENTS: f"collect_set({letter})"}, small=False)
    same = f"coalesce(array_contains({_CONTENTS}, {letter}), false)"
    return joined.selectExpr(*map(identifier, rows.columns), f"{same} AS was_dead_lettered")


@typed
def as_letters(dead: DataFrame, run: Provenance) -> DataFrame:
    """Add the columns of new letters to dead records of a batch or a stream; lazy.

    Args:
        dead: the ``dead`` part of a split, with the columns that the table of letters is partitioned by.
        run: who refused them, and when; without a time it is when they are written.

    Example:
        >>> dead = frame("raw STRING, reason STRING", ("{", "malformed JSON"))
        >>> rows(as_letters(dead, run).select("raw", "reason", "status", "job", "run_id"))
        [('{', 'malformed JSON', 'open', 'example', 'run-1')]
    """
    added = {**_stamps(run), "status": "'open'", "dead_lettered_at": _now(run)}
    return dead.withColumns({column: F.expr(sql) for column, sql in added.items()})


def filed(
    letters: DataFrame,
    before: DataFrame | None,
    processed: DataFrame | None,
    dead: Target,
    *,
    identity: Sequence[str],
) -> DataFrame:
    """List a partition's letters: open letters dated by first refusal, and letters processed since.

    A letter that a person gave up stays given up.

    Args:
        letters: the records that are dead letters now.
        before: the partition's letters; without them, nothing is looked up.
        processed: valid records that were dead letters; without them, no letter before is searched for what was
            processed since, which is half of all work here.
        dead: target of the letters.
        identity: columns of a record's identity.
    """
    letters, spec, run = fitted(letters, dead.table), dead.table.spec, dead.run
    first = {_REFUSED: "min(dead_lettered_at)", _GIVEN_UP: "bool_and(status = 'given_up')"}
    stamps = {
        "dead_lettered_at": f"coalesce({_REFUSED}, {_now(run)})",
        "status": f"if({_GIVEN_UP}, 'given_up', 'open')",
        **_stamps(run),
        **{c: f"CAST({quoted(v)} AS {spec.columns[c].type})" for c, v in dead.partition.items()},
    }

    def stamped(rows: DataFrame, values: Mapping[str, str]) -> DataFrame:
        return rows.selectExpr(*select_list({c: values.get(c, identifier(c)) for c in spec.columns}))

    if before is None:
        return stamped(letters, {**stamps, "dead_lettered_at": _now(run), "status": "'open'"})
    open_now = stamped(_left_join(letters, before, identity, first), stamps)
    if processed is None:
        return open_now
    replayed = {"replayed_by": f"coalesce(replayed_by, {quoted(run.code_version)})", "status": "'replayed'"}
    return open_now.unionByName(stamped(_processed_since(letters, before, processed, identity), replayed))


def _stamps(run: Provenance) -> dict[str, str]:
    return {
        "job": quoted(run.asset),
        "code_version": quoted(run.code_version),
        "replayed_by": "CAST(NULL AS STRING)",
        "run_id": quoted(run.run_id),
    }


def _now(run: Provenance) -> str:
    return "current_timestamp()" if run.at is None else timestamp(run.at)


def fitted(letters: DataFrame, dead: Table) -> DataFrame:
    """Cast letters to the column types of the letter table, except stamped columns.

    Raises:
        SchemaMismatch: if the table has not the columns of a letter, or values of a column may be none of its type.
    """
    return as_held(letters, _held(dead), dead.name)


def require_fitting(split: Split, dead: Table) -> None:
    """Refuse a split whose dead part does not fit the letter table.

    Raises:
        SchemaMismatch: as :func:`fitted`.
    """
    own = {column.lower() for column in split.parts["dead"]}
    held = StructType([field for field in _held(dead).fields if field.name.lower() in own])
    if problems := list(held_problems(split.rows, held)):
        raise SchemaMismatch(f"{dead.name}: {'; '.join(problems)}: cast it")


def _held(dead: Table) -> StructType:
    """Return the stored types of a letter table, except stamped columns."""
    require_holds(dead.spec, LETTER)
    return StructType([field for field in held_types(dead.ensure()).fields if field.name.lower() not in _STAMPED])


def publish_letters(written: DataFrame, dead: Target, *, identity: Sequence[str], since: int) -> WriteResult:
    """Replace the letters of a partition, with counts by status and class from the same pass.

    Raises:
        Conflict: if the partition was written after version ``since``, which the letters were listed from.
    """
    rows, seen = tally(written, identity=identity, measures=MEASURES)
    result = dead.reading(seen).stage(rows).publish(since=since)
    classes = {f"letters: {name} [records]": count for name, count in open_by_class(result.figures).items()}
    return replace(result, figures={**result.figures, **classes})


def open_by_class(figures: Mapping[str, object]) -> dict[str, int]:
    """Return the number of open letters by error class, largest first, from a commit's figures."""
    found: dict[str, int] = json.loads(str(figures.get("classes") or "{}"))
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _processed_since(letters: DataFrame, before: DataFrame, processed: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Find earlier letters whose record reached the valid rows, counted by identity.

    An identity that repeats says of how many letters and not of which: not of one that is a dead letter again.
    """
    content = [c for c in letters.columns if c in before.columns and c not in (*keys, *LETTER)]
    hashed = row_hash(fields_of(letters, content))
    still = {_OPEN: "count(1)", _CONTENTS: f"collect_set({hashed})"}
    counted = _left_join(before, processed, keys, {_DONE: "count(1)"})
    order = [F.col("replayed_by").isNull(), F.expr(f"coalesce(array_contains({_CONTENTS}, {hashed}), false)")]
    same = Window.partitionBy(*map(identifier, keys))
    place = F.row_number().over(same.orderBy(*order, F.expr(hashed), "dead_lettered_at"))
    placed = _left_join(counted, letters, keys, still).withColumns({_PLACE: place, _KNOWN: F.count("*").over(same)})
    return placed.filter(f"{_PLACE} <= least(coalesce({_DONE}, 0), {_KNOWN} - coalesce({_OPEN}, 0))")


def _left_join(
    rows: DataFrame,
    others: DataFrame,
    keys: Sequence[str],
    figures: Mapping[str, str],
    *,
    small: bool = True,
) -> DataFrame:
    """Left-join ``rows`` with aggregates of ``others`` by key, whose columns stay; NULL keys are equal.

    Args:
        rows: the left side.
        others: has the same key columns.
        keys: columns of both.
        figures: column to add, of a name of its own -> SQL aggregate over the others.
        small: whether the aggregates fit into every task.
    """
    theirs = {name: f"{next(iter(figures))}_{number}" for number, name in enumerate(keys)}
    grouped = others.groupBy(*[F.col(identifier(name)).alias(made) for name, made in theirs.items()])
    known = grouped.agg(*[F.expr(sql).alias(name) for name, sql in figures.items()])
    same = [
        equal(one, other, (identifier(one.name), theirs[one.name]), sides=_SIDES, null=True)
        for one, other in zip(fields_of(rows, keys), fields_of(others, keys), strict=True)
    ]
    return rows.join(F.broadcast(known) if small else known, F.expr(" AND ".join(same)), "left")
