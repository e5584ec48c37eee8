"""Checks of a captured table's columns and values before changes are merged into current rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.postgres import RESNAPSHOT
from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.ingestion import _history

__all__ = ["require_columns", "require_fit"]


def require_columns(latest: Table, keys: Sequence[str], source: Mapping[str, Any], history: Table) -> None:
    """Refuse declared columns that differ from the columns of the source.

    The log repeats no row when a column changes, so columns that changed since the snapshot are refused, too.

    Raises:
        ConfigError: if a key is not declared.
        SchemaMismatch: names each column that the source dropped, added or retyped.
    """
    if missing := [key for key in keys if key not in latest.spec.columns]:
        raise ConfigError(f"{latest.name} does not declare the key {missing}: rows could not be told apart")
    faults = [f"{c} {source['changed'][c]}" for c in latest.spec.columns if c in source["changed"]]
    faults += [f"{c} is not there" for c in latest.spec.columns if c not in {*source["columns"], *source["changed"]}]
    if faults:
        raise SchemaMismatch(
            f"{latest.name}: columns differ at the source: {'; '.join(faults)}. {history.name} goes on; correct the "
            f"declaration of {latest.name}, and for a column that shall stay {RESNAPSHOT}"
        )


def require_fit(found: DataFrame, latest: Table) -> None:
    """Refuse texts of the source that cannot be converted to the declared types, counted by column.

    Raises:
        SchemaMismatch: names each column with its count.
    """
    wrong = _history.misfits(found, latest.spec)
    if wrong:
        shown = ", ".join(f"{count} of {c} are no {latest.spec.columns[c].type}" for c, count in wrong.items())
        raise SchemaMismatch(f"{latest.name}: values do not fit the declared types ({shown}): correct the declaration")
