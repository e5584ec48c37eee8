"""The dead letters of a partition from run to run: records that were dead letters before, and letters kept as history.

Identities may repeat and be NULL: NULLs are equal here, and what an identity does not tell apart the content does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.delta.tables import Table

__all__ = ["LETTER", "filed", "mark_replayed"]

LETTER: Mapping[str, Column] = {
    "reason": Column("STRING", "every rule the record broke", required=True),
    "job": Column("STRING", "what tried to process it"),
    "code_version": Column("STRING", "version of the code that refused it last"),
    "replayed_by": Column("STRING", "code version that could process it; NULL while it is a dead letter"),
    "run_id": Column("STRING", "run that refused it last", technical=True),
    "dead_lettered_at": Column("TIMESTAMP", "when it was refused first", technical=True),
}
"""Columns a dead-letter table adds to the raw record; declare them in its spec, and leave them to the pattern."""

_CONTENTS, _REFUSED, _OPEN, _DONE, _PLACE, _KNOWN = (
    f"{RESERVED}{name}" for name in ("contents", "refused", "open", "done", "place", "known")
)


def mark_replayed(rows: DataFrame, earlier: DataFrame | None, identity: Sequence[str], payload: str) -> DataFrame:
    """Mark the records that were dead letters: the same identity and, where the letters have it, the same payload."""
    if earlier is None:
        return rows.withColumn("was_dead_lettered", F.lit(False))  # noqa: FBT003
    letter = f"xxhash64({identifier(payload)})" if payload in earlier.columns else "0L"
    known = earlier.groupBy(*[identifier(c) for c in identity]).agg(F.expr(f"collect_set({letter})").alias(_CONTENTS))
    same = f"coalesce(array_contains({_CONTENTS}, {letter}), false)"
    return _looked_up(rows, known, identity, small=False).withColumn("was_dead_lettered", F.expr(same)).drop(_CONTENTS)


def filed(
    letters: DataFrame,
    before: DataFrame | None,
    processed: DataFrame,
    dead: Table,
    filed_under: Mapping[str, str],
    provenance: Provenance,
) -> DataFrame:
    """List the partition's dead letters: today's, with the time of their first refusal, and those processed since.

    Without letters ``before``, nothing is looked up.
    """
    columns, keys = [identifier(c) for c in dead.spec.columns], processed.columns
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
    if before is None:
        return letters.withColumns({**stamps, "dead_lettered_at": now}).select(*columns)
    open_now = _looked_up(letters, before.groupBy(*map(identifier, keys)).agg(first), keys).withColumns(stamps)
    saved = _processed_since(letters, before, processed).withColumn(
        "replayed_by", F.coalesce("replayed_by", F.lit(provenance.code_version))
    )
    return open_now.select(*columns).unionByName(saved.select(*columns))


def _processed_since(letters: DataFrame, before: DataFrame, processed: DataFrame) -> DataFrame:
    """Find earlier letters whose record reached the valid rows, as many letters as there are such records.

    An identity that repeats says of how many letters and not of which: not of one that is a dead letter again.
    """
    keys = processed.columns
    content = [identifier(c) for c in letters.columns if c in before.columns and c not in (*keys, *LETTER)]
    hashed = f"xxhash64({', '.join(content)})" if content else "0L"
    still = letters.groupBy(*map(identifier, keys)).agg(
        F.count("*").alias(_OPEN), F.expr(f"collect_set({hashed})").alias(_CONTENTS)
    )
    counted = _looked_up(before, processed.groupBy(*map(identifier, keys)).agg(F.count("*").alias(_DONE)), keys)
    order = [F.col("replayed_by").isNull(), F.expr(f"coalesce(array_contains({_CONTENTS}, {hashed}), false)")]
    same = Window.partitionBy(*map(identifier, keys))
    place = F.row_number().over(same.orderBy(*order, F.expr(hashed), "dead_lettered_at"))
    placed = _looked_up(counted, still, keys).withColumns({_PLACE: place, _KNOWN: F.count("*").over(same)})
    return placed.filter(f"{_PLACE} <= least(coalesce({_DONE}, 0), {_KNOWN} - coalesce({_OPEN}, 0))")


def _looked_up(rows: DataFrame, known: DataFrame, keys: Sequence[str], *, small: bool = True) -> DataFrame:
    """Add to ``rows`` what a frame says of their keys; NULLs are equal, and no key of ``known`` repeats."""
    named = known.withColumnsRenamed({key: f"{RESERVED}{key}" for key in keys})
    pairs = [F.col(identifier(key)).eqNullSafe(F.col(identifier(f"{RESERVED}{key}"))) for key in keys]
    found = rows.join(F.broadcast(named) if small else named, pairs, "left")
    return found.drop(*[f"{RESERVED}{key}" for key in keys])
