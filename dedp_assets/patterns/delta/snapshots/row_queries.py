"""SQL over rows without Spark: one SELECT, by deltalake's DataFusion, over views of policies.

deltalake reads what Delta's own readers do, deletion vectors and mapped columns among it. A table stands in a query by
a view of its policy, and has no name itself, so that no part of a query meets a value that the policy hides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.errors import ConfigError, ContractError, PatternError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.policies import Policy
from dedp_assets.patterns.core.running.permissions import require_allowed
from dedp_assets.patterns.core.sql.sql_options import require_of_one_row
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.policy_views import BARRIER, in_partition, named, query, select_shown
from dedp_assets.patterns.delta.snapshots.tiers import placed

__all__ = ["QueryRows", "RowQueries", "ShownTable", "UnknownColumn"]

_MOST_TABLES = 100
_UNKNOWN_TABLE = re.compile(r"table 'datafusion\.([^']+)' not found")
_NO_SELECT = re.compile(
    r"Expected: SELECT, VALUES, or a subquery in the query body, found: ([^\s\"]+)|Query (\S+) .*not implemented"
)
_UNKNOWN_COLUMN = re.compile(r"No field named (?:(?:\w+|\"[^\"]+\")\.)*(?:\"((?:[^\"]|\"\")+)\"|(\w+))\.")
_PATH = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)/(\w+)", re.IGNORECASE)
_SEVERAL = "only supports a single SQL statement"
_BEGIN = re.compile(
    r"^(?:(?:External|Arrow|Parquet|Schema|SQL|Compute)\s?[Ee]rror|External|Error during planning|ParserError)[:(] ?\"?"
)
_VALUE = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_LINE = re.compile(r" at Line: \d+, Column: \d+\"?\)?$|\"\)$")
_LONGEST = 300


class UnknownColumn(ConfigError):
    """A column that no table of a query has, or shows.

    Attributes:
        column: its name.
    """

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table at a version, as a policy shows the rows.

    Attributes:
        ledger: the table's ledger.
        state: the version.
        policy: rows, columns and masks.
        key: key of hashes.
        partitions: partitions to read, in the log's spelling; all, if none is named.
    """

    ledger: Ledger
    state: TableState
    policy: Policy
    key: MaskingKey | None = None
    partitions: Sequence[Mapping[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The rows of a query.

    Attributes:
        columns: names of the columns.
        rows: the values of each row, in the order of the columns.
        more: whether there are further rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool = False


@dataclass
class RowQueries:
    """Queries over tables by the names of a lake, each table opened when a query names the table first.

    Attributes:
        opening: opens a table by ``layer/dataset``; raises ConfigError for another name.
    """

    opening: Callable[[str], ShownTable]
    _engine: QueryBuilder = field(default_factory=QueryBuilder)
    _limits: list[int] = field(default_factory=list)
    _planned: int = 0

    def select(self, sql: str, *, most: int) -> QueryRows:
        """Return the first rows of one SELECT.

        Args:
            sql: the query, in the SQL of DataFusion; a table is ``layer.dataset`` or ``"layer/dataset"``.
            most: number of rows to return at most; less, where the policy of a table says so.

        Raises:
            ConfigError: for another statement, names that are not there, and SQL that cannot be evaluated.
            ContractError: if a data file of a table cannot be read.
        """
        return self._select(sql, most, what="sql")

    def rows_of(
        self, table: str, *, columns: Sequence[str], clear: Sequence[str], where: str = "", most: int
    ) -> QueryRows:
        """Return the first rows of one table that satisfy a predicate.

        Args:
            table: the table.
            columns: columns to return.
            clear: columns that the predicate may name.
            where: predicate over one row; empty for all rows.
            most: as of :meth:`select`.

        Raises:
            ConfigError: for a predicate with another column or a query, or one that cannot be evaluated.
            ContractError: as :meth:`select`.
        """
        if where:
            require_of_one_row("predicate", {"where": where})
            # What closes a parenthesis below is no SQL in a CASE.
            over = query(", ".join(map(named, clear)) or "1 AS one", named(table))
            self._require_query(query(f"CASE WHEN\n{where}\nTHEN 1 END AS one", f"({over})"), what="where")
        filtered = ("WHERE", f"(\n{where}\n)") if where else ()
        rows = query(", ".join(map(named, columns)), named(table), *filtered, f"LIMIT {most + 1}")
        return self._select(rows, most, what="where")

    def _select(self, sql: str, most: int, *, what: str) -> QueryRows:
        self._require_query(sql, what=what)
        with _refusing(what):
            return _interruptible(lambda: self._answer(sql, min([most, *self._limits]), what=what))

    def _answer(self, sql: str, most: int, *, what: str) -> QueryRows:
        """Read rows up to a number, and one more, if any."""
        rows = pa.RecordBatchReader.from_stream(self._engine.execute(sql))
        if not rows.schema.names:
            raise ConfigError(f"{what} must be one SELECT that returns rows, not SELECT INTO")
        found = list[tuple[Any, ...]]()
        for batch in rows:
            columns = [_values(column) for column in batch.slice(0, most + 1 - len(found)).columns]
            found += zip(*columns, strict=True)
            if len(found) > most:
                break
        return QueryRows(tuple(rows.schema.names), tuple(found[:most]), more=len(found) > most)

    def _require_query(self, sql: str, *, what: str) -> None:
        """Plan one query, and open the tables in the query; refuse another statement.

        The engine takes a query and nothing else for a view.
        """
        self._planned += 1
        for _ in range(_MOST_TABLES):
            try:
                self._engine.execute(f"CREATE VIEW {named(f'{RESERVED}{self._planned}')} AS\n{sql}")
            except DeltaError as error:
                if not (unknown := _UNKNOWN_TABLE.search(str(error))):
                    raise _refusal(what, str(error), sql) from None
                self._open(unknown[1])
            else:
                return
        raise ConfigError(f"{what} must name at most {_MOST_TABLES} tables")

    def _open(self, name: str) -> None:
        """Make the view of a table, and take the table's own name away."""
        schema, _, dataset = name.partition(".")
        found = self.opening(dataset if schema == "public" else f"{schema}/{dataset}")
        with _refusing(found.ledger.name), self._registered(found) as rows:
            shown = select_shown(found.state, found.policy, found.key, rows=rows, of=found.ledger.name)
            if schema != "public":
                self._engine.execute(f"CREATE SCHEMA IF NOT EXISTS {named(schema)}")
            self._engine.execute(f"CREATE VIEW {named(schema)}.{named(dataset)} AS {shown}")
        if found.policy.max_rows is not None:
            self._limits.append(found.policy.max_rows)

    @contextmanager
    def _registered(self, found: ShownTable) -> Iterator[str]:
        """Give the table, and the partitions on storage tiers, names for a block, with SQL of all rows."""
        require_allowed("read", found.ledger.store.address)
        elsewhere = placed(found.ledger.name, found.state, found.partitions)
        snapshots = [found.state.snapshot, *(part.snapshot(found.ledger.name) for part in elsewhere)]
        names = [f"{RESERVED}rows{number}" for number in range(len(snapshots))]
        parts = [" AND ".join(in_partition(each, found.state)) for each in found.partitions]
        where = ("WHERE", " OR ".join(f"({part})" for part in parts)) if parts else ()
        # deltalake 1.6 takes some filters of partition columns (CASE, IN with NULL) and does not apply them.
        together = " UNION ALL BY NAME ".join(f"({query('*', name, *where, BARRIER)})" for name in names)
        try:
            for name, snapshot in zip(names, snapshots, strict=True):
                self._engine.register(name, snapshot)
            yield f"({together}) AS {RESERVED}rows"
        finally:
            for name in names:
                self._engine.execute(f"DROP TABLE IF EXISTS {name}")


def _interruptible(work: Callable[[], QueryRows]) -> QueryRows:
    """Return the answer of a function in a thread: an interrupt would wait for the engine."""
    done = Future[QueryRows]()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # of the engine, too: whoever waits raises it
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    return done.result()


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column; of years that Python has not, as texts."""
    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        found = column.cast(pa.string()).to_pylist()
    return found


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Raise an error of the engine as a sentence, without values of rows."""
    try:
        yield
    except PatternError:
        raise
    except Exception as error:  # the engine raises what its layers raise
        text = str(error)
        if "not found" in text and ".parquet" in text:
            raise ContractError(
                f"{what}: a data file of the table is missing: `dedp verify` names the file and what repairs it"
            ) from None
        raise _refusal(what, text if isinstance(error, DeltaError) else _VALUE.sub("***", text)) from None


def _refusal(what: str, text: str, sql: str = "") -> ConfigError:
    """Return the refusal of a query that the engine does not take."""
    if "ParserError" in text and (path := _PATH.search(sql)):
        return ConfigError(f'{what} must name a table as {path[1]}.{path[2]} or "{path[1]}/{path[2]}", not bare')
    if _SEVERAL in text:
        return ConfigError(f"{what} must be one SELECT, not several statements")
    if found := _NO_SELECT.search(text):
        return ConfigError(f"{what} must be one SELECT, not {found[1] or found[2]}")
    reason = text.partition("\nValid fields are")[0].replace("\n", " ")
    while reason != (shorter := _BEGIN.sub("", reason)):
        reason = shorter
    sentence = f"{what} cannot be evaluated: {_LINE.sub('', reason)[:_LONGEST]}"
    if column := _UNKNOWN_COLUMN.search(text):
        return UnknownColumn(sentence, (column[1] or column[2]).replace('""', '"'))
    return ConfigError(sentence)
