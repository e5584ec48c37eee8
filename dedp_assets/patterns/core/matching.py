"""Matches of facts and reference rows: equal keys, and validity at the time of a fact."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.columns import FLAG, fields_of, require_columns
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.types.meeting import equal

__all__ = ["VALID", "living", "matching"]

VALID = ("valid_from", "valid_to")
"""Start and end column of a version's validity; the end is NULL for the current version."""

_DELETED = "is_deleted"


def living(reference: DataFrame) -> DataFrame:
    """Leave out versions that state a deletion, where a reference has a column ``is_deleted``; lazy."""
    deleted = next((c for c in reference.columns if c.lower() == _DELETED), None)
    if deleted is None:
        return reference
    require_columns(reference, [deleted], FLAG)
    return reference.filter(f"NOT coalesce({identifier(deleted)}, false)")


def matching(
    facts: DataFrame,
    reference: DataFrame,
    *,
    keys: Mapping[str, str],
    at: str = "",
    valid: tuple[str, str] = VALID,
    sides: tuple[str, str] = ("the facts", "the reference"),
) -> str:
    """Return SQL for the match of facts ``f`` and reference rows ``r``, without casts.

    A text ``'1'`` differs from a number ``1.0``.

    Args:
        facts: the facts.
        reference: what is known by key, or its versions.
        keys: column of the facts -> key column of the reference.
        at: column of the facts that says when one happened; empty for rows that meet by key alone.
        valid: columns of the reference that say from when a version holds, and until when.
        sides: names of both for a refusal.

    Raises:
        ConfigError: for a column that is not there.
        SchemaMismatch: for columns whose types do not meet.
    """

    def meet(pairs: Mapping[str, str]) -> list[str]:
        partners = zip(fields_of(facts, pairs), fields_of(reference, pairs.values()), strict=True)
        return [equal(f, r, (f"f.{identifier(f.name)}", f"r.{identifier(r.name)}"), sides=sides) for f, r in partners]

    conditions = meet(keys)
    if at:
        for column in valid:
            meet({at: column})
        moment, (begin, end) = f"f.{identifier(at)}", (f"r.{identifier(column)}" for column in valid)
        conditions += [f"{moment} >= {begin}", f"({end} IS NULL OR {moment} < {end})"]
    return " AND ".join(conditions)
