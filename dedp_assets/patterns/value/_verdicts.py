"""Verdicts on a reference: the judged rows, keys and times, and the match with a join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Finding

__all__ = ["about", "require_verdict"]


def about(
    reference: DataFrame, former: DataFrame | None, keys: Sequence[str], valid: tuple[str, str] | None
) -> dict[str, Any]:
    """Return the subject of a verdict: rows, key columns and validity columns of the reference.

    The rows of a table are the rows of a version.
    """
    return {
        "rows": [rows.semanticHash() for rows in (reference, former) if rows is not None],
        "keys": sorted(key.lower() for key in keys),
        "valid": [column.lower() for column in valid or ()],
    }


def require_verdict(judged: Finding, asked: Mapping[str, Any]) -> None:
    """Refuse a verdict on other rows, keys or times.

    Rows that are unique by some keys are unique by more keys, too.

    Raises:
        ConfigError: says what the verdict should be about.
    """
    about = judged.about
    if about.get("rows") != asked["rows"]:
        raise ConfigError("judged must be what judge_reference says of this reference, not a verdict on other rows")
    if not {*about["keys"]} <= {*asked["keys"]} or about["valid"] != asked["valid"]:
        wanted, actual = (f"keys={one['keys']}, valid={one['valid'] or None}" for one in (asked, about))
        raise ConfigError(f"judged must be a verdict by {wanted}, not by {actual}")
