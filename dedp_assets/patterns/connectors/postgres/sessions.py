"""Sessions of a PostgreSQL: names of tables, spelling of values, and rows that a reader is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.web.parts import calling
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["READING", "SESSION", "opened", "schema_and_table", "table_identifier"]

SESSION = (
    # Values are text in the log, in the snapshot and in the tables: always the same text for the same value.
    "SET datestyle = 'ISO'; SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'; SET bytea_output = 'hex'; "
    "SET extra_float_digits = 1; "
    # The limits of a role are meant for its people; a dump lifts them, too. Older servers lack one of the names.
    "SELECT set_config(name, '0', false) FROM pg_settings "
    "WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')"
)
"""Statements that begin each session."""
READING = f"{SESSION}; SET row_security = off"
"""Statements that begin a session that reads: a policy would leave rows out in silence, so that it is an error here."""
_PART = r'[^\s."](?:[^."]*[^\s."])?|"(?:[^"]|"")+"'
_TABLE = re.compile(rf"({_PART})\.({_PART})")


def schema_and_table(name: str, option: str = "table") -> tuple[str, str]:
    """Return the names of a schema and a table, as PostgreSQL stores both.

    A part with a dot or a quote stands in double quotes, as in SQL; blanks need none.

    Args:
        name: both, with a dot in between.
        option: name of the option, for the error.

    Raises:
        ConfigError: for another form.

    Example:
        >>> schema_and_table("public.order lines"), schema_and_table('public."v1.orders"')
        (('public', 'order lines'), ('public', 'v1.orders'))
    """
    found = _TABLE.fullmatch(name)
    if found is None or "\0" in name:
        raise ConfigError(f"{option} must be schema.table, not {name!r}; a part with a dot stands in double quotes")
    schema, table = (part[1:-1].replace('""', '"') if part.startswith('"') else part for part in found.groups())
    return schema, table


def table_identifier(name: str) -> sql.Identifier:
    """Return a table's name, quoted for SQL."""
    return sql.Identifier(*schema_and_table(name))


def opened(connect: Callable[..., psycopg.Connection[Any]], what: str, **settings: Any) -> psycopg.Connection[Any]:  # noqa: ANN401
    """Open a connection by an external function, with exceptions translated."""
    with calling(f"{what}: the function that connects", known=psycopg.Error):
        connection = connect(autocommit=True, **settings)
        if not hasattr(connection, "execute"):
            raise TypeError(f"it gives {type(connection).__name__}, which is no connection")
        return connection
