"""Inspection of stored rows: violations of constraints and keys, whoever wrote the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import functions as F

from dedp_assets.patterns.core.measuring.observing import computing
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.delta.snapshots.definition import constraints
from dedp_assets.patterns.delta.tables import Table

__all__ = ["broken_rules", "repeated_keys"]


def broken_rules(table: Table, partitions: Sequence[Mapping[str, str]] = ()) -> tuple[dict[str, int], int]:
    """Count the stored rows that break each constraint of the table, in one Spark job.

    Args:
        table: the table, which has to exist.
        partitions: the partitions to look at; empty for all.

    Returns:
        Constraint -> rows that break it, without those that hold; and how many rows were looked at.

    Raises:
        ContractError: if a constraint cannot be computed for a stored row.
    """
    state = table.ledger.state()
    rules = constraints(table.name, state)
    rows = table.read(*partitions, version=state.version)
    broken = [f"count_if(NOT coalesce({rule}, false))" for rule in rules.values()]
    counts = [F.expr(sql).alias(f"{RESERVED}{n}") for n, sql in enumerate(["count(1)", *broken])]
    with computing(f"{table.name}: one of {', '.join(rules)}", "correct the rows, or the constraint"):
        (seen,) = rows.agg(*counts).collect()
    return {name: count for name, count in zip(rules, seen[1:], strict=True) if count}, seen[0]


def repeated_keys(table: Table) -> int:
    """Count the keys that several stored rows of the table share, in one Spark job."""
    number = f"{RESERVED}number"
    found = table.read().groupBy(*[F.col(identifier(c)) for c in table.spec.key]).agg(F.count("*").alias(number))
    return found.filter(f"{number} > 1").count()
