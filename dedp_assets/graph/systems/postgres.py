"""The operational database: any PostgreSQL by URL, or the laptop's own server by the announced URL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import dagster as dg
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.graph.resources.announced import announced
from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.patterns.connectors.postgres import (
    BEHIND_POLICY,
    READING,
    PostgresTable,
    connected,
    is_behind_policy,
    peek,
    slot_state,
    table_identifier,
)
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import psycopg
    from psycopg import conninfo
else:
    psycopg, conninfo = optional("psycopg"), optional("psycopg.conninfo")

__all__ = [
    "FOLDER", "HISTORY", "OWN", "Address", "OperationalDatabase", "address", "history_url", "lacking", "parsed",
    "translating",
]  # fmt: skip

FOLDER = "postgres"
"""Folder of the home in which the laptop's own server keeps everything."""

OWN = "own"
"""``DEDP_HISTORY``: the run history is in the laptop's own server."""
HISTORY = "run_history"
"""The database of the run history in the laptop's own server."""

_REPORTED = re.compile(r"PSQLException: ([^\n]+)")
_REFUSED = re.compile(r"authentication failed|no password|does not exist|permission denied|no pg_hba")
_FETCHED = 10_000
_DEFAULTS = {"connect_timeout": 10, "application_name": "dedp"}
_VERSIONS, _OLD = ("ssl_min_protocol_version", "ssl_max_protocol_version"), ("TLSv1", "TLSv1.1")
_SHARED_WITH_JDBC = ("sslmode", "sslrootcert", "sslcert", "sslkey")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a database with user and password; the representation hides secrets.

    Attributes:
        more: further settings of libpq, e.g. ``sslmode``.
    """

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    more: Mapping[str, str] = field(default_factory=dict, repr=False)

    def connect(self, **settings: Any) -> psycopg.Connection[Any]:  # noqa: ANN401 - what libpq takes
        """Open a connection; ``settings`` are further settings of libpq or psycopg."""
        who = {"host": self.host, "port": self.port, "dbname": self.database, "user": self.user}
        return psycopg.connect(**{**_DEFAULTS, **who, "password": self.password, **self.more, **settings})

    def jdbc(self) -> dict[str, str]:
        """Return the options of Spark's JDBC reader, password included; the URL holds no secret.

        Its sessions are those of every reader: they write times in UTC, and show all rows or none.
        """
        query = urlencode({name: value for name, value in self.more.items() if name in _SHARED_WITH_JDBC})
        url = f"jdbc:postgresql://{self.host}:{self.port}/{self.database}{'?' if query else ''}{query}"
        who = {"url": url, "user": self.user, "password": self.password}
        return {**who, "driver": "org.postgresql.Driver", "sessionInitStatement": READING}


class OperationalDatabase(dg.ConfigurableResource[Any]):
    """The database of the case study's applications; without fields, so that run configs hold no secret."""

    def connect(self, **more: Any) -> psycopg.Connection[Any]:  # noqa: ANN401 - what libpq takes
        """Open a connection; ``more`` are further settings of libpq or psycopg.

        Raises:
            NotReady: if the laptop's own server is not running.
        """
        return address(settings()).connect(**more)

    def prepare(self, statements: str) -> None:
        """Run statements that create missing objects, in one transaction.

        Raises:
            NotReady: if the database does not answer; the text names no secret.
        """
        self.require_answer()
        with self.connect() as connection:
            connection.execute(statements)

    def require_answer(self) -> None:
        """Refuse a database that does not answer or rejects the login.

        Raises:
            NotReady: if it does not answer, or refuses the login; the text names no secret.
        """
        if text := self.lacks():
            raise NotReady(text)

    def lacks(self) -> str:
        """Return the reason, without secrets, that the database cannot be used now; empty if usable."""
        try:
            self.connect().close()
        except NotReady as error:
            return str(error)
        except psycopg.OperationalError:
            return "the operational database does not answer: start it, or correct DEDP_POSTGRES"
        return ""

    def jdbc(self) -> dict[str, str]:
        """Return the options of Spark's JDBC reader, password included; not for logs or output."""
        return address(settings()).jdbc()

    def table(self, name: str, *, slot: str) -> PostgresTable:
        """Name a table (``schema.table``) to capture changes from, through the replication slot ``slot``."""
        return PostgresTable(name, slot, connect=self.connect)

    def waiting(self, name: str, *, slot: str) -> str:
        """Return the position of a table's replication slot if changes are pending; empty without changes.

        Raises:
            NotReady: if the database does not answer.
            Conflict: if the slot is being read right now.
            ContractError: if the slot is lost.
        """
        source = self.table(name, slot=slot)
        with connected(source) as connection:
            state = slot_state(connection, source)
            if state is None:
                return "no snapshot yet"
            return state.at if peek(connection, source, until=state.newest, limit=1) else ""

    @contextmanager
    def rows(
        self, session: SparkSession, name: str, *, column: str, window: tuple[datetime, datetime], connections: int = 2
    ) -> Iterator[DataFrame]:
        """Read a table's rows, lazily, within the block.

        Args:
            session: reads them.
            name: ``schema.table``.
            column: TIMESTAMP column by which the connections share the table.
            window: where most of the wanted rows lie; what lies outside is read as well unless it is filtered out.
            connections: how many read at once.

        Raises:
            NotReady: if the database does not answer, or stops to; what is read within the block included.
            ConfigError: if it refuses user, password or table.
        """
        lower, upper = (f"{bound:%Y-%m-%d %H:%M:%S}" for bound in window)
        shares: dict[str, Any] = {
            "partitionColumn": column,
            "lowerBound": lower,
            "upperBound": upper,
            "numPartitions": connections,
            # Without it the driver holds all rows of a connection in memory before the first one is used.
            "fetchsize": _FETCHED,
        }
        named = table_identifier(name).as_string(None)
        with translating(name):
            yield session.read.format("jdbc").options(**self.jdbc(), dbtable=named, **shares).load()


@contextmanager
def translating(name: str) -> Iterator[None]:
    """Raise a PostgreSQL error from Spark as a single sentence, without a stack."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if (found := _REPORTED.search(str(error))) is None:
            raise
        if is_behind_policy(found[1]):
            raise ConfigError(f"{name}: {found[1]}: {BEHIND_POLICY}") from None
        if _REFUSED.search(found[1]):
            raise ConfigError(f"{name}: {found[1]}: correct user, password or name of this source") from None
        raise NotReady(f"{name}: {found[1]}: run again once the database answers") from None


def address(chosen: Settings) -> Address:
    """Return the address of the database in ``DEDP_POSTGRES``, otherwise of the laptop's own.

    Raises:
        ConfigError: if the setting is no URL of a PostgreSQL; the text does not repeat it.
        NotReady: if the laptop's own server is not running.
    """
    url = chosen.postgres or announced(chosen.home / FOLDER)
    if not url:
        raise NotReady(
            "the operational database is not running: start it with `make up`, or name another by DEDP_POSTGRES"
        )
    return parsed(url, "DEDP_POSTGRES")


def history_url(chosen: Settings) -> str:
    """Return the URL of the database with Dagster's run history; empty for SQLite files.

    Raises:
        ConfigError: if the setting is neither ``own`` nor the URL of a PostgreSQL; the text does not repeat it.
        NotReady: if the laptop's own server is not running.
    """
    if chosen.history != OWN:
        if chosen.history:
            parsed(chosen.history, "DEDP_HISTORY")
        return _for_dagster(chosen.history or "")
    if chosen.postgres:
        raise ConfigError("DEDP_HISTORY must be a URL where DEDP_POSTGRES is one, not own: no server of ours runs then")
    if url := announced(chosen.home / FOLDER):
        # What may follow the database is how its server is to be verified.
        return _for_dagster(re.sub(r"/\w+(?=\?|$)", f"/{HISTORY}", url, count=1))
    raise NotReady("the run history is in a PostgreSQL (DEDP_HISTORY=own) that is not running: start it with `make up`")


def lacking() -> str:
    """Return the reason that the configured operational database cannot be used now; empty if usable."""
    return OperationalDatabase().lacks()


def _for_dagster(url: str) -> str:
    """Return a URL with the driver of Dagster's storage; SQLAlchemy 2.1 has another default."""
    return re.sub("^postgres(ql)?://", "postgresql+psycopg2://", url)


def parsed(url: str, variable: str) -> Address:
    """Return the address in a URL.

    Raises:
        ConfigError: if it is no URL of a PostgreSQL, or asks for TLS below 1.2; the text names the variable and does
            not repeat the value.
    """
    try:
        parameters = {name: str(value) for name, value in conninfo.conninfo_to_dict(url).items() if value is not None}
        host, user = parameters.pop("host"), parameters.pop("user")
        port, password = int(parameters.pop("port", "5432")), parameters.pop("password", "")
    except (psycopg.Error, ValueError, KeyError):
        raise ConfigError(
            f"{variable} is no PostgreSQL URL: write postgresql://user:password@host:port/database"
        ) from None
    for name in _VERSIONS:
        if (version := parameters.get(name)) in _OLD:
            raise ConfigError(f"{variable} must ask for TLS 1.2 or newer ({name}=TLSv1.2), not for {version}")
    return Address(host, port, parameters.pop("dbname", user), user, password, parameters)
