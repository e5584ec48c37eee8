"""Query over a base table and references: checks, rows, and partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.classes import loosened
from dedp_assets.patterns.core.columns import spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.running.digests import digest_of
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.sql.sql_options import reason_of
from dedp_assets.patterns.core.types.partitions import literal, quoted, stored_type
from dedp_assets.patterns.delta import Table, TableState, held_types, without_statistics

__all__ = ["BaseQuery"]

_BASE, _OF = "base", f"{RESERVED}of"
_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|/\*.*?\*/|--[^\n]*""", re.DOTALL)
_SPANNING = re.compile(r"\b(?:WITH|LIMIT|OFFSET|TABLESAMPLE)\b", re.IGNORECASE)
_WINDOW = re.compile(
    r"\bOVER\b(?:\s*\(\s*PARTITION\s+BY\s+(?P<by>.*?)(?=\bORDER\b|\bROWS\b|\bRANGE\b|\)))?", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class BaseQuery:
    """A query over a snapshot of a base table.

    Attributes:
        base: the table.
        state: the snapshot.
        copy: declaration of the table with the result.
        sql: the query.
        references: further rows by name.
        inputs: versions of what the run reads, by name.
    """

    base: Table
    state: TableState
    copy: TableSpec
    sql: str
    references: Mapping[str, DataFrame]
    inputs: Mapping[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """Id of the base table, digest of the query, and versions of the references, as JSON values."""
        columns = {name: [column["type"], name in self.state.kinds] for name, column in self.state.columns.items()}
        read = {name: str(version) for name, version in self.inputs.items() if name != self.base.name}
        return {
            "table": self.state.table_id,
            "query": digest_of(self.sql, columns, [*self.references]),
            "references": read if self.references else {},
        }

    def checked(self) -> dict[str, str]:
        """Check query and declarations, without a Spark job.

        Returns:
            Partition column of the base -> column of the copy's key with its values unchanged.

        Raises:
            ConfigError: names the option, or the column.
        """
        if f"{{{_BASE}}}" not in self.sql:
            raise ConfigError(f"query must read {{base}}, not only {self.sql.strip()}")
        if taken := {_BASE, "args", "sqlQuery"} & {*self.references}:
            raise ConfigError(f"references must have names of their own, not {', '.join(sorted(taken))}")
        if self.references and not {*self.inputs} - {self.base.name}:
            raise ConfigError(
                f"{self.copy.name}: the inputs of the run must name the versions of the references "
                f"{', '.join(self.references)}, not only of {self.base.name}"
            )
        if not self.copy.key:
            raise ConfigError(f"{self.copy.name} must declare a key, by which refreshed rows are told apart, not none")
        rows = self.base.session.createDataFrame([], held_types(self.state))
        tagged = [F.col(identifier(c)).alias(c, metadata={_OF: c}) for c in rows.columns]
        fields = self._over(rows.select(*tagged)).schema.fields
        same = {field.name: field.metadata[_OF] for field in fields if _OF in field.metadata}
        if faults := list(self._dropped(same)):
            raise ConfigError(f"{self.copy.name}: {'; '.join(faults)}")
        kinds, columns = self.state.kinds, self.copy.columns
        return {
            of: name
            for name, of in same.items()
            if of in kinds and name in self.copy.key and stored_type(columns[name].type) == kinds[of]
        }

    def spans(self, by: Iterable[str]) -> str:
        """Return why a row of the result may come from rows of several partitions; empty by default.

        Args:
            by: the partition columns.
        """
        text = _TEXT.sub("''", self.sql)
        if text.count(f"{{{_BASE}}}") > 1:
            return "the query reads {base} more than once"
        if found := _SPANNING.search(text):
            return f"the query has {found[0].upper()}, which may look at rows of several partitions"
        for window in _WINDOW.finditer(text):
            named = {name.strip().strip("`").lower() for name in (window["by"] or "").split(",")}
            if not {name.lower() for name in by} <= named:
                return f"a window of the query is not partitioned by {', '.join(by)}"
        return ""

    def rows(self, *parts: Mapping[str, str]) -> DataFrame:
        """Return the result over the named partitions, over all rows if none is named; lazy."""
        return self._over(self.base.read(*parts, version=self.state.version))

    def keys(self, parts: Sequence[Mapping[str, str]], by: Mapping[str, str]) -> DataFrame:
        """Return partitions as rows, by the names of the copy; lazy."""
        kinds = self.state.kinds
        values = ", ".join(f"({', '.join(literal(part[c], kinds[c]) for c in by)})" for part in parts)
        names = ", ".join(map(identifier, by.values()))
        return self.base.session.sql(f"SELECT * FROM VALUES {values} AS t({names})")  # noqa: S608 - literals and names

    def keyed(self, rows: DataFrame) -> DataFrame:
        """Refuse NULL and repeated keys of the result at the evaluation of the rows; lazy."""
        names = [*map(identifier, self.copy.key)]
        missing = " OR ".join(f"{name} IS NULL" for name in names)
        why = quoted(f"a row of the query has no {', '.join(self.copy.key)} of its own")
        own = f"count(1) OVER (PARTITION BY {', '.join(names)}) = 1 AND NOT ({missing})"
        checked = rows.withColumn(_OF, F.expr(f"if({own}, true, CAST(raise_error({why}) AS BOOLEAN))"))
        return checked.filter(_OF).drop(_OF)

    def _over(self, rows: DataFrame) -> DataFrame:
        """Return the result over some rows of the base, analysed, under the names of the copy."""
        named: dict[str, Any] = {_BASE: rows, **self.references}
        try:
            found = self.base.session.sql(self.sql, **named)
            _ = found.schema
        except (AnalysisException, KeyError, IndexError, ValueError) as error:
            why = reason_of(error) if isinstance(error, AnalysisException) else f"no rows are called {error}"
            raise ConfigError(f"query cannot be evaluated: {why}") from error
        return found.toDF(*spelled_as(self.copy.columns, found.columns))

    def _dropped(self, same: Mapping[str, str]) -> Iterator[str]:
        """Describe the declarations of the base that the copy drops for a column with the same values."""
        spec, columns = self.base.spec, self.copy.columns
        quiet = {*without_statistics(spec, self.state.properties)}
        copied = {*without_statistics(self.copy, self.copy.table_properties())}
        for name, of in same.items():
            ours, theirs = columns.get(name), spec.columns.get(of, Column(""))
            if ours is None:
                continue
            like = f"as {of} of {spec.name}"
            if loosened(theirs.classification, ours.classification):
                found = repr(ours.classification) if ours.classification else "a column that nobody classified"
                yield f"{name} must be {theirs.classification}, {like} is, not {found}"
            elif theirs.replica and ours.replica != theirs.replica and (ours.replica or ours.shows("replica")):
                yield f"{name} must have the replica {theirs.replica!r}, {like} has, not {ours.replica!r}"
            elif of in quiet and name in self.copy.bounded and name not in copied:
                yield f"{name} must be without statistics, {like} is, not one of those in the log"
