"""Erasure of rows from a table of a PostgreSQL, and from the files of the server.

A deleted row stays in the table's file until that is written anew, its values in the planner's statistics, and both in
the write-ahead log for as long as that is kept or its files are used again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.postgres.errors import naming_write_errors
from dedp_assets.patterns.connectors.postgres.keyed_write import writing
from dedp_assets.patterns.connectors.postgres.sessions import schema_and_table, table_identifier
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["ErasableTable"]


@dataclass(frozen=True, slots=True)
class ErasableTable:
    """A table of persons in a PostgreSQL, whose rows can be erased.

    From the first erasure on the planner keeps no statistics of the key and of the personal columns: in them, values
    outlive their rows. The user owns the table, and is a superuser, as statistics and log are the server's.

    Attributes:
        table: ``schema.table``.
        key: column with the person's id.
        personal: columns with personal values.
        connect: opens a connection; takes further libpq settings as keywords.
    """

    table: str
    key: str
    personal: Sequence[str]
    connect: Callable[..., psycopg.Connection[Any]] = field(repr=False)

    @property
    def name(self) -> str:
        """The table."""
        return self.table

    def erase(self, ids: Collection[str]) -> None:
        """Delete the rows of persons, by ids in a temporary table and in no statement.

        Raises:
            ConfigError: for a table or columns that are not there, or a user without the rights.
            ContractError: if the key cannot be one of the ids.
            NotReady: if the server does not answer.
        """
        with self._open() as connection:
            table, key = table_identifier(self.table), sql.Identifier(self.key)
            for column in (self.key, *self.personal):
                unmeasured = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET STATISTICS 0")
                connection.execute(unmeasured.format(table, sql.Identifier(column)))
            named = "CREATE TEMPORARY TABLE dedp_erased AS SELECT {} AS id FROM {} WITH NO DATA"
            connection.execute(sql.SQL(named).format(key, table))
            with connection.cursor().copy("COPY dedp_erased FROM STDIN") as into:
                for each in ids:
                    into.write_row([each])
            connection.execute(
                sql.SQL("DELETE FROM {} t USING dedp_erased gone WHERE t.{} = gone.id").format(table, key)
            )

    def purge(self, ids: Collection[str]) -> None:  # noqa: ARG002 - as of each copy
        """Rewrite the files of table and statistics, and overwrite the log; the table is locked meanwhile.

        What backups, and replicas that are behind, hold stays there.

        Raises:
            ConfigError: if the user may do neither.
            NotReady: if the reader of a replication slot is behind, for which the server keeps the log.
        """
        with self._open() as connection:
            connection.execute(sql.SQL("VACUUM (FULL) {}").format(table_identifier(self.table)))
            # Statistics of before stay, as none are taken any more.
            schema, table = schema_and_table(self.table)
            taken = (
                "DELETE FROM pg_statistic USING pg_attribute a, pg_class t, pg_namespace n WHERE starelid = a.attrelid "
                "AND staattnum = a.attnum AND t.oid = a.attrelid AND n.oid = t.relnamespace AND n.nspname = %s "
                "AND t.relname = %s AND a.attname = ANY(%s)"
            )
            connection.execute(taken, [schema, table, [self.key, *self.personal]])
            connection.execute("VACUUM (FULL) pg_statistic")
            newest = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchall()[0][0]
            behind = "SELECT slot_name FROM pg_replication_slots WHERE restart_lsn < %s ORDER BY 1"
            if slots := [name for (name,) in connection.execute(behind, [newest])]:
                raise NotReady(
                    f"{self.table}: the server keeps its log for the replication slots {', '.join(slots)}, and erased "
                    "rows with it: let their readers go on, or drop the slots, and repeat the request"
                )
            # Files of the log that are done with are used again: each of those is written over, from end to end.
            _next_log_files(connection, 1)
            (files,) = connection.execute("SELECT count(*) FROM pg_ls_waldir()").fetchall()[0]
            _next_log_files(connection, files + 1)

    @contextmanager
    def _open(self) -> Iterator[psycopg.Connection[Any]]:
        with writing(self.connect) as connection, naming_write_errors(self.table):
            yield connection


def _next_log_files(connection: psycopg.Connection[Any], files: int) -> None:
    """Go on to later files of the write-ahead log, and let the server release the earlier files."""
    for _ in range(files):
        connection.execute("SELECT pg_logical_emit_message(false, 'dedp', '')")
        connection.execute("SELECT pg_switch_wal()")
    connection.execute("CHECKPOINT")
