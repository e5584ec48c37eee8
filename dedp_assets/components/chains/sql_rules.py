"""Faults of the SQL in declarations: constraints, audits, options of patterns, rules of landings."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dedp_assets.components.chains.steps import ChainStep
from dedp_assets.components.yaml.documents import Path
from dedp_assets.components.yaml.faults import Fault, Misfit
from dedp_assets.graph.declare import LakeTable
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.sql_faults import Kind, expression_fault
from dedp_assets.patterns.core.sql.sql_options import has_subquery

__all__ = ["in_python", "of_audits", "of_options", "of_rules", "of_table"]

_OPTIONS: Mapping[str, Kind] = {
    "conditions": "predicate",
    "rules": "predicate",
    "computed": "value",
    "measures": "aggregate",
}
"""Options with SQL over the rows that a step takes, under these names in every pattern -> what the SQL is."""
_OWN_WORDS = ("value.distributed_aggregator",)
"""Operations whose measures are words of their own."""
_AS_THEY_ARE = ("", "pseudonym")


def of_table(path: Path, table: TableSpec) -> Iterator[Misfit]:
    """Yield the faults of a table's constraints, and of expressions for a replica's columns."""
    yield from of_rules((*path, "checks"), table.checks, table.columns, what="check")
    for name, check in table.checks.items():
        if has_subquery(check):
            yield Misfit((*path, "checks", name), f"check {name} must be of one row, without a query over other rows")
    for name, column in table.columns.items():
        if column.replica not in _AS_THEY_ARE:
            place = (*path, "columns", name, "replica")
            yield from _misfit(place, "replica", expression_fault(column.replica, table.columns))


def of_rules(
    path: Path, rules: Mapping[str, str], columns: Collection[str] | None, *, what: str = "rule"
) -> Iterator[Misfit]:
    """Yield the faults of SQL predicates by name.

    Args:
        path: path of the mapping.
        rules: name -> predicate.
        columns: columns of the rows; ``None`` if nobody knows them.
        what: what such a predicate is called.
    """
    for name, sql in rules.items():
        yield from _misfit((*path, name), f"{what} {name}", expression_fault(sql, columns, "predicate"))


def of_audits(path: Path, audits: Sequence[Audit], columns: Collection[str] | None) -> Iterator[Misfit]:
    """Yield the faults of audits: of the figure, and of the rows at fault."""
    kinds: Mapping[str, Kind] = {"sql": "figure", "where": "predicate"}
    for number, audit in enumerate(audits):
        for option, kind in kinds.items():
            if (sql := getattr(audit, option)) is not None:
                yield from _misfit((*path, number, option), option, expression_fault(sql, columns, kind))


def of_options(step: ChainStep, columns: Collection[str] | None) -> Iterator[Misfit]:
    """Yield the faults of the SQL in a step's options, over the rows of the step before."""
    for option, kind in _OPTIONS.items() if step.name not in _OWN_WORDS else ():
        stated: Any = step.options.get(option)
        for name, sql in stated.items() if isinstance(stated, Mapping) else ():
            if isinstance(sql, str):
                # Values that are converted on the way have other columns beside them.
                known = None if "schema" in step.options else columns
                meant = "figure" if step.name == "tally" else kind
                place = (*step.path, step.name, option, name)
                yield from _misfit(place, f"{option} {name}", expression_fault(sql, known, meant))


def in_python(tables: Iterable[LakeTable[...]]) -> Iterator[Fault]:
    """Yield the faults of SQL in tables declared in Python, at the functions of the tables."""
    for table in tables:
        code = inspect.unwrap(table.function).__code__
        # What is written beside, or as a split, may have further columns: only the function knows.
        found = [*of_table((table.spec.name,), table.spec), *of_audits((table.spec.name,), table.gates.audits, None)]
        for each in found:
            yield Fault(code.co_filename, code.co_firstlineno, 1, ".".join(map(str, each.path)), str(each))


def _misfit(path: Path, what: str, why: str) -> Iterator[Misfit]:
    if why:
        yield Misfit(path, f"{what} {why}")
