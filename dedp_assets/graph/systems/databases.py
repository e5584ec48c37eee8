"""Tables of PostgreSQL databases that environment variables name: columns, and rows as JSON objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from dedp_assets.graph.resources.environments import is_variable, variable
from dedp_assets.graph.systems import postgres
from dedp_assets.patterns.connectors.postgres import READING, naming_read_errors, schema_and_table, table_identifier
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.ingestion._windows import FOREVER

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
    from pyspark.sql import DataFrame, SparkSession
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["Database", "TableColumn"]

_LONGEST_DELAY = 100_000
_FETCHED = 10_000
_TIMES = ("timestamp with time zone", "timestamp without time zone")
_TYPES = {
    "smallint": "SMALLINT", "integer": "INT", "bigint": "BIGINT", "real": "FLOAT", "double precision": "DOUBLE",
    "boolean": "BOOLEAN", "date": "DATE", "bytea": "BINARY", "text": "STRING", "uuid": "STRING",
    **dict.fromkeys(_TIMES, "TIMESTAMP"),
}  # fmt: skip
_PRECISION = re.compile(r"(?<=^timestamp)\(\d\)")
"""Digits of a second that a column keeps: ``timestamp(3) with time zone``."""
_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")
_MOST_DIGITS = 38
_COLUMNS = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0
  AND NOT a.attisdropped ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a database table.

    Attributes:
        kind: type as the database names it.
        required: whether the database refuses a row without a value.
    """

    kind: str
    required: bool

    @property
    def type(self) -> str:
        """SQL type that holds every value exactly; STRING for a type that has no other."""
        if self.kind.endswith("[]"):
            inner = TableColumn(self.kind.removesuffix("[]"), required=False).type
            return f"ARRAY<{inner}>" if self.is_natural else "STRING"
        if (found := _DECIMAL.fullmatch(self.kind)) and int(found[2]) <= int(found[1]) <= _MOST_DIGITS:
            return f"DECIMAL({found[1]},{found[2]})"
        return _TYPES.get(self.kind, "STRING")

    @property
    def is_natural(self) -> bool:
        """``True`` if the database's JSON has the plain value, ``False`` if a text."""
        kind = self.kind.removesuffix("[]")
        return kind != "bytea" and (kind in _TYPES or TableColumn(kind, required=False).type != "STRING")


@dataclass(frozen=True, slots=True)
class Database:
    """A table or view of a PostgreSQL database.

    Attributes:
        table: ``schema.table``; a part with a dot stands in double quotes, as in SQL.
        url: name of the environment variable with the URL of the database; never the URL, which holds a password.
        column: column that says when a row reached the table, a timestamp; each partition is the window of its day or
            hour.
        delay_minutes: longest time until a row is visible, by ``column``: a window is complete that long after its end.
    """

    table: str
    url: str
    column: str = ""
    delay_minutes: float = 15.0

    def __post_init__(self) -> None:
        require_types(self)
        if not is_variable(self.url):
            # Without the value, which may be a URL with a password.
            raise ConfigError("url must be the name of an environment variable, which holds the URL")
        schema_and_table(self.table)
        if not 0 <= self.delay_minutes <= _LONGEST_DELAY:
            raise ConfigError(f"delay_minutes must be a number from 0 to {_LONGEST_DELAY}, not {self.delay_minutes}")

    def address(self) -> postgres.Address:
        """Return the address of the database.

        Raises:
            ConfigError: if the variable is not set, or holds no URL; the text does not repeat the value.
        """
        url = variable(self.url)
        if not url:
            raise ConfigError(f"{self.url} is not set: it must hold the URL of the database with {self.table}")
        return postgres.parsed(url, self.url)

    def lacks(self) -> str:
        """Return the reason, without secrets, that the database cannot be read now; empty if usable."""
        try:
            with self._connected():
                return ""
        except (ConfigError, NotReady) as error:
            return str(error)

    def columns(self) -> Mapping[str, TableColumn]:
        """Return the columns of the table, in order.

        Raises:
            NotReady: if the database does not answer; the text names no secret.
            ConfigError: for an unset variable, and for a table or a column that the database does not have.
        """
        with self._connected() as connection:
            found = connection.execute(_COLUMNS, schema_and_table(self.table)).fetchall()
        columns = {name: TableColumn(_PRECISION.sub("", kind), required) for name, kind, required in found}
        if not columns:
            raise ConfigError(f"the database of {self.url} has no table {self.table}: correct table of this source")
        if self.column and self.column not in columns:
            near = get_close_matches(self.column, columns, 1)
            hint = f"did you mean {near[0]}?" if near else "correct column of this source"
            raise ConfigError(f"{self.table} has no column {self.column}: {hint}")
        if self.column and columns[self.column].kind not in _TIMES:
            kind = columns[self.column].kind
            raise ConfigError(f"column must be a timestamp of {self.table}, not {self.column}, a {kind}")
        return columns

    def left_out(self, first: datetime) -> dict[str, int]:
        """Count the rows that no window shows, by reason.

        Args:
            first: start of the first window.

        Returns:
            ``without_time``: no value of ``column``, or infinity, which no window will ever hold; ``before_start``:
            before the first window.

        Raises:
            NotReady: if the database does not answer, or stops to.
            ConfigError: if it refuses to show all rows to this user.
        """
        counting = sql.SQL(
            "SELECT count(*) FILTER (WHERE ({at} >= {begin} AND {at} < {end}) IS NOT TRUE), "
            "count(*) FILTER (WHERE {at} >= {begin} AND {at} < {first}) FROM {table}"
        )
        bounds = {name: _instant(at) for name, at in zip(("begin", "end"), FOREVER, strict=True)}
        asked = counting.format(
            at=sql.Identifier(self.column), table=table_identifier(self.table), first=_instant(first), **bounds
        )
        with self._connected() as connection:
            ((without_time, before_start),) = connection.execute(asked).fetchall()
        return {"without_time": without_time, "before_start": before_start}

    @contextmanager
    def rows(self, session: SparkSession, window: tuple[datetime, datetime] | None = None) -> Iterator[DataFrame]:
        """Read rows as JSON objects, which the database writes; lazily, within the block.

        Args:
            session: reads them, by one connection.
            window: start and end, which is no part, of the values of ``column``; all rows, if ``None``.

        Returns:
            ``raw`` STRING, ``raw_bytes`` BINARY (always NULL), ``source_file`` STRING (the table) and ``line_number``
            BIGINT: a hash of the row, and of its number among equal rows.

        Raises:
            NotReady: if the database does not answer, or stops to; what is read within the block included.
            ConfigError: as for :meth:`columns`.
        """
        read = {**self.address().jdbc(), "query": self._query(window), "fetchsize": str(_FETCHED)}
        with postgres.translating(self.table):
            found = session.read.format("jdbc").options(**read).load()
            number = f"{RESERVED}number"
            numbered = found.selectExpr("raw", f"row_number() OVER (PARTITION BY raw ORDER BY raw) AS {number}")
            yield numbered.selectExpr(
                "raw",
                "CAST(NULL AS BINARY) AS raw_bytes",
                f"'{self.table.replace(chr(92), chr(92) * 2).replace(chr(39), chr(92) + chr(39))}' AS source_file",
                f"xxhash64(raw, {number}) & 9223372036854775807 AS line_number",
            )

    def _query(self, window: tuple[datetime, datetime] | None) -> str:
        values = sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(_value(sql.Identifier(name), column), sql.Identifier(name))
            for name, column in self.columns().items()
        )
        query = sql.SQL("SELECT {} FROM {}").format(values, table_identifier(self.table))
        if window:
            column = sql.Identifier(self.column)
            start, end = map(_instant, window)
            query += sql.SQL(" WHERE {} >= {} AND {} < {}").format(column, start, column, end)
        # ``r.*`` is the whole row also where a column is called ``r``.
        return sql.SQL("SELECT row_to_json(r.*)::text AS raw FROM ({}) AS r").format(query).as_string(None)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        address = self.address()
        try:
            # In a transaction, the role's limit on an idle one would hold before the session lifts it.
            connection = address.connect(autocommit=True)
        except psycopg.OperationalError:
            raise NotReady(f"the database of {self.url} does not answer, or refuses the login: start it, or correct "
                           f"{self.url}") from None  # fmt: skip
        with connection, naming_read_errors(f"{self.table} in the database of {self.url}"):
            connection.execute(READING)
            yield connection


def _instant(at: datetime) -> sql.Literal:
    return sql.Literal(at.astimezone(timezone.utc).isoformat(sep=" "))


def _value(name: Any, column: TableColumn) -> Any:  # noqa: ANN401 - parts of SQL
    """Write SQL for a value in JSON of the database: as a value, in base 64 or as text."""
    if column.kind == "bytea":
        return sql.SQL("translate(encode({}, 'base64'), E'\\n', '')").format(name)
    return name if column.is_natural else sql.SQL("{}::text").format(name)
