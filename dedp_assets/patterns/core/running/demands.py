"""Demands of a pattern on the written table and on the runs, known before a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec

__all__ = ["Demands", "demanding", "demands_of"]

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__demands__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """Demands of a pattern on the written table.

    Attributes:
        replaces: what one write may change: a ``partition`` or the table (``any``), a partition alone, the whole
            ``table``, the table by an ``execution`` alone, or the table with or without executions
            (``table or execution``).
        columns: columns that the pattern fills, and the table has to declare.
        key: whether the table has to declare a key.
        as_is: whether the rows are written as they are, with the columns of the table and no others.
        of_options: refuses a table that does not fit the options, by ``ConfigError``; takes the declaration and each
            option of the pattern by name.
    """

    replaces: Literal["any", "partition", "table", "execution", "table or execution"] = "any"
    columns: Mapping[str, Column] = field(default_factory=dict)
    key: bool = False
    as_is: bool = False
    of_options: Callable[..., object] | None = None

    def require(self, pattern: str, table: TableSpec, *, partitioned: bool) -> None:
        """Refuse a table that the pattern cannot write with any options.

        Args:
            pattern: name of the pattern.
            table: the declaration.
            partitioned: whether a run computes one partition.

        Raises:
            ConfigError: says what the table or its runs must be.
        """
        if why := self._of_runs(pattern, table, partitioned=partitioned) or self._of_table(pattern, table):
            raise ConfigError(f"{table.name}: {why}")

    def columns_at_fault(self, table: TableSpec, rows: Collection[str]) -> str:
        """Return missing columns of rows, and columns that the table does not declare; empty for fitting rows.

        Args:
            table: the declaration.
            rows: names of the columns of the rows.
        """
        if not self.as_is:
            return ""
        held, there = ({name.lower(): name for name in names} for names in (table.columns, rows))
        # The bucket of declared buckets is added by the write.
        lack = [name for low, name in held.items() if low not in there and not table.adds(name)]
        lacking = [f"{name} is declared and not there" for name in lack]
        return ", ".join([*lacking, *(f"{name} is not declared" for low, name in there.items() if low not in held)])

    def require_options(self, table: TableSpec, options: Mapping[str, Any]) -> None:
        """Refuse options that do not fit the table.

        Raises:
            ConfigError: as a run of the pattern.
        """
        if self.of_options is not None:
            self.of_options(table, **options)

    def _of_runs(self, pattern: str, table: TableSpec, *, partitioned: bool) -> str:
        executed = bool(table.executed_by)
        if self.replaces == "execution" and not (executed and partitioned):
            return f"executed_by must name the executions that {pattern} tells apart, with partitions of the runs"
        if self.replaces == "partition" and not partitioned:
            return f"partitions must be those of the table, as {pattern} replaces one: full_loader replaces the table"
        if self.replaces == "table" and partitioned:
            return f"partitions must be left out of the runs, as {pattern} changes the whole table"
        if self.replaces == "table or execution" and partitioned and not executed:
            return (
                f"partitions must be left out of the runs, as {pattern} changes the whole table; or executed_by must "
                "name what the partitions stand for"
            )
        return ""

    def _of_table(self, pattern: str, table: TableSpec) -> str:
        lacking = {n: c for n, c in self.columns.items() if n not in table.columns or table.columns[n].type != c.type}
        if lacking:
            named = ", ".join(f"{name}: {{type: {column.type}}}" for name, column in lacking.items())
            return f"columns must have those that {pattern} fills: {named}"
        return f"key must name the columns that tell rows apart for {pattern}" if self.key and not table.key else ""


def demanding(**demands: Any) -> Callable[[F], F]:  # noqa: ANN401 - the attributes of `Demands`
    """Decorate a pattern with demands on the written table, by the attributes of :class:`Demands`."""

    def decorated(function: F) -> F:
        vars(function)[_ATTRIBUTE] = Demands(**demands)
        return function

    return decorated


def demands_of(function: Callable[..., Any]) -> Demands:
    """Return the demands of a pattern; of any other function, demands that every table meets."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Demands) else Demands()
