"""Persons of a request: all ids, and rows of tables by the ids, which stand in no plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.delta import SuppressionList, Table, subjects_of

__all__ = ["Persons", "is_leading"]

_MOST_IDS = 1000


@dataclass(frozen=True, slots=True)
class Persons:
    """The ids of some persons, for rows of tables that declare columns of persons.

    Attributes:
        ids: kind of person -> ids.
        suppressed: the list whose key hashes ids, so that none stands in a plan.
    """

    ids: Mapping[str, Sequence[str]] = field(repr=False)
    suppressed: SuppressionList

    @classmethod
    def found(
        cls, tables: Sequence[Table], stated: Mapping[str, Sequence[str]], suppressed: SuppressionList
    ) -> Persons:
        """Find all ids of persons: the stated ids, and ids of other kinds in the same rows.

        Args:
            tables: tables that declare columns of persons.
            stated: kind of person -> ids.
            suppressed: the list whose key hashes ids.

        Raises:
            ConfigError: for a kind of person that no table declares.
            ContractError: if the ids lead to more than 1,000 ids of a kind: one of them is nobody's own.
        """
        kinds = sorted({kind for each in tables for kind in subjects_of(each.spec)})
        if unknown := sorted({*stated} - {*kinds}):
            raise ConfigError(
                f"ids must be of a kind that a table declares by Column(subject=...) ({', '.join(kinds) or 'none does'}"
                f"), not {', '.join(unknown)}"
            )
        known = {kind: {*named} for kind, named in stated.items()}
        leading = [each for each in tables if is_leading(each) and each.ledger.exists()]
        before = -1
        while before != (before := sum(map(len, known.values()))):
            persons = cls({kind: sorted(named) for kind, named in known.items()}, suppressed)
            for table in leading:
                for kind, value in persons.beside(table):
                    known.setdefault(kind, set()).add(value)
            if many := [kind for kind, named in known.items() if len(named) > _MOST_IDS]:
                raise ContractError(f"the ids of the request lead to more than {_MOST_IDS} ids of {', '.join(many)}")
        return persons

    def where(self, table: Table) -> Column:
        """Return the predicate of the persons' rows; the ids are closed over as keyed hashes."""
        table.session.version  # noqa: B018 - a column is made in a session
        marks = [
            self.suppressed.listed(F.expr(sql), kind, self.suppressed.hashed(kind, self.ids[kind]))
            for kind, expressions in subjects_of(table.spec).items()
            for sql in expressions
            if self.ids.get(kind)
        ]
        return reduce(or_, marks) if marks else F.expr("false")

    def rows(self, table: Table, of: DataFrame | None = None) -> DataFrame:
        """Select the persons' rows of a table, or of rows that were read from the table; lazy."""
        return (table.read() if of is None else of).filter(self.where(table))

    def beside(self, table: Table) -> Iterator[tuple[str, str]]:
        """Read the ids of all kinds in the persons' rows of a table."""
        pairs = ", ".join(
            f"struct({quoted(kind)} AS kind, CAST({sql} AS STRING) AS id)"
            for kind, expressions in subjects_of(table.spec).items()
            for sql in expressions
        )
        named = self.rows(table).selectExpr(f"inline(array({pairs}))").where("id IS NOT NULL AND trim(id) != ''")
        yield from (tuple(row) for row in named.distinct().limit(_MOST_IDS * 10).collect())


def is_leading(table: Table) -> bool:
    """Return whether rows of a table lead from one id to another."""
    return len(subjects_of(table.spec)) > 1
