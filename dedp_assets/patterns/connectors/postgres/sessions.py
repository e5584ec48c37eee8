"""Sessions of a PostgreSQL: how values are written as text, and which rows a reader is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.parts import calling
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = optional("psycopg")

__all__ = ["READING", "TEXT", "opened"]

# Values are text in the log, in the snapshot and in the tables: always the same text for the same value.
TEXT = (
    "SET datestyle = 'ISO'; SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'; SET bytea_output = 'hex'; "
    "SET extra_float_digits = 1"
)
# A policy would leave rows out of what is read, and the log leaves none out: then reading is an error.
READING = f"{TEXT}; SET row_security = off"


def opened(connect: Callable[..., psycopg.Connection[Any]], what: str, **settings: Any) -> psycopg.Connection[Any]:  # noqa: ANN401
    """Open a connection by an external function, with exceptions translated."""
    with calling(f"{what}: the function that connects", known=psycopg.Error):
        connection = connect(autocommit=True, **settings)
        if not hasattr(connection, "execute"):
            raise TypeError(f"it gives {type(connection).__name__}, which is no connection")
        return connection
