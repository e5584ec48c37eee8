"""Allowed values of columns, derived from CHECK constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dedp_assets.patterns.core.parsing.json_checks import limits_of
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types.ddl import LENGTH, field
from dedp_assets.patterns.governance._contracts import Contract

__all__ = ["with_allowed"]


def with_allowed(contract: Contract) -> Contract:
    """Return a contract with allowed values in place of the checks that list the values of one column.

    Read are ``status IN ('open', 'closed')`` of a required column, and ``status IS NULL OR status IN (...)``. A check
    stays a check if it says more than that, or that a column that may be NULL must not be.

    Args:
        contract: the contract.
    """
    allowed, checks = {**contract.quality.allowed}, dict[str, str]()
    for name, check in contract.quality.checks.items():
        column, values = _listed(check, contract.columns)
        if column and column not in allowed:
            allowed[column] = values
        else:
            checks[name] = check
    return replace(contract, quality=replace(contract.quality, checks=checks, allowed=allowed))


def _listed(check: str, columns: Mapping[str, Column]) -> tuple[str, tuple[str, ...]]:
    """Return the column and the values that a check lists; empty for a check that says something else."""
    limits = limits_of(check, {name: _kind(column.type) for name, column in columns.items()}) or ()
    if len(limits) != 1 or limits[0].keywords.keys() != {"enum"}:
        return "", ()
    (limit,) = limits
    exact = limit.nullable or columns[limit.column].required
    return (limit.column, tuple(dict.fromkeys(map(str, limit.keywords["enum"])))) if exact else ("", ())


def _kind(kind: str) -> Any:  # noqa: ANN401 - a type in the log's form
    """Return the stored type of a text or a number; empty for a padded or an unknown type."""
    found = field("value", kind)
    return found["type"] if found and not found["metadata"].get(LENGTH) else ""
