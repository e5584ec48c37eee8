"""Opened tables: rows as policies show, with watermarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.policies import Policy, secured
from dedp_assets.patterns.core.sql.sql_options import naming_options, truth
from dedp_assets.patterns.delta import Table

__all__ = ["names_of", "opened_by"]


def names_of(tables: Sequence[Table]) -> list[str]:
    """List the names of tables that are opened together.

    Raises:
        ConfigError: without a table, and for one that is named twice.
    """
    names = [table.name for table in tables]
    if not names:
        raise ConfigError("tables must name at least one table, not none")
    require_distinct("tables", names)
    return names


def opened_by(
    policies: Mapping[str, Policy],
    tables: Sequence[Table],
    key: MaskingKey | None,
    where: Mapping[str, str],
    watermarks: Mapping[str, str],
    mark: str,
) -> dict[str, DataFrame]:
    """Open tables by their policies, with the smallest row limit of all; lazy.

    Args:
        policies: dataset -> policy.
        tables: the tables.
        key: key of masks by hash.
        where: dataset -> SQL predicate over the shown values.
        watermarks: dataset -> name of a further column.
        mark: value of these columns.

    Raises:
        ConfigError: for policies and predicates that do not fit, and a watermark that is a column of the table.
    """
    opened, limits = dict[str, DataFrame](), set[int]()
    for table in tables:
        rows, name = table.read(), table.name
        policy = _present(policies[name], rows)
        opened[name] = secured(rows, policy, key, of=name)
        limits |= set() if policy.max_rows is None else {policy.max_rows}
        if predicate := where.get(name):
            with naming_options(opened[name], "where", {name: truth(predicate)}):
                opened[name] = opened[name].where(truth(predicate))
        if column := watermarks.get(name):
            opened[name] = _marked(opened[name], column, mark, name)
    return {name: rows.limit(min(limits)) for name, rows in opened.items()} if limits else opened


def _present(policy: Policy, rows: DataFrame) -> Policy:
    """Return a policy without the columns that rows do not have yet."""
    there = {name.lower() for name in rows.columns}
    masks = {name: mask for name, mask in policy.masks.items() if name.lower() in there}
    return replace(policy, columns=[name for name in policy.columns if name.lower() in there], masks=masks)


def _marked(rows: DataFrame, column: str, mark: str, of: str) -> DataFrame:
    """Return rows with a watermark as last column."""
    if column.lower() in (name.lower() for name in rows.columns):
        raise ConfigError(f"watermark must be no column of {of}, not {column}: state another name for its tier")
    return rows.select("*", F.lit(mark).alias(column))
