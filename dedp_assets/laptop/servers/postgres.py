"""A PostgreSQL server from a wheel, for a machine without PostgreSQL.

It lives in ``$DEDP_HOME/postgres``: data, log, and the password that was made up when it was first started. It listens
on the loopback interface only, and announces its URL in that folder, so no setting has to repeat its port. Where
``DEDP_POSTGRES_TLS=required`` asks for TLS, the server is another build of the same release, over the same data.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
import shutil
import stat
import subprocess
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from filelock import FileLock
from psycopg import sql

from dedp_assets.graph.resources.announced import announce, listens, withdraw
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems.postgres import FOLDER, HISTORY, OWN, Address
from dedp_assets.laptop.servers import ports, postgres_tls
from dedp_assets.laptop.servers.postgres_programs import PostgresError, programs

__all__ = [
    "PostgresError",
    "command",
    "open_database",
    "server_user",
    "start",
    "stop",
    "system_user",
    "take_new_certificates",
]

_USER = "dedp"
_DATABASE = "operational"
_SYSTEM_USER = "pgserver"
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


def start(chosen: Settings, *, port: int = 0) -> Address:
    """Start the server, unless already running; on the first start, create the data folder.

    Run as root, it works as a user of its own, since PostgreSQL refuses root: the folders above it get the permission
    to be passed through.

    Args:
        chosen: decides the folder.
        port: TCP port on the loopback interface; 0 takes a free one.

    Raises:
        PostgresError: if it does not start; with the end of what it said.
    """
    folder = _made(chosen)
    with FileLock(folder / ".lock"):
        if _own(chosen) is None:
            options = shlex.join(_options(chosen, port or ports.free()))
            _run(chosen, "pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")
        own = open_database(chosen)
        if own is None:
            raise PostgresError(f"the server in {folder} ended right after its start:\n{_tail(folder / 'log')}")
        return own


def command(chosen: Settings, *, port: int) -> list[str]:
    """Create the server's folder, unless present, and return the command that runs the server.

    Raises:
        PostgresError: if the folder cannot be made.
    """
    return [str(programs(chosen) / "postgres"), "-D", str(_made(chosen) / "data"), *_options(chosen, port)]


def open_database(chosen: Settings) -> Address | None:
    """Create missing databases, announce the URL, and return the server's address.

    Returns:
        The address; ``None`` while the server is stopped or starting.
    """
    own = _own(chosen)
    if own is not None:
        for database in (_DATABASE, *([HISTORY] if chosen.history == OWN else [])):
            _make_database(own, database)
        if own.more:
            _make_certified(own)
        url = f"postgresql://{own.user}:{own.password}@{own.host}:{own.port}/{own.database}"
        announce(_folder(chosen), f"{url}?{urlencode(own.more, quote_via=quote)}" if own.more else url)
    return own


def system_user() -> str:
    """Return the name of the server's user if this process runs as root; otherwise empty."""
    user = server_user()
    return user.pw_name if user else ""


def stop(chosen: Settings) -> None:
    """Withdraw the announced URL, stop the server, if running, and wait for the end of the process."""
    withdraw(_folder(chosen))
    if _own(chosen) is not None:
        _run(chosen, "pg_ctl", "-D", "data", "-w", "-m", "fast", "stop")


def take_new_certificates(chosen: Settings, *, at: datetime) -> bool:
    """Issue a new certificate, and let the running server read all certificates under open connections.

    Returns:
        Whether a server with TLS runs.
    """
    own = _own(chosen)
    if own is None or not own.more:
        return False
    postgres_tls.server_certificate(_folder(chosen), at=at, user=server_user())
    with own.connect() as connection:
        connection.execute("SELECT pg_reload_conf()")
    return True


def _folder(chosen: Settings) -> Path:
    return chosen.home / FOLDER


def _own(chosen: Settings) -> Address | None:
    """Return the address of the home's own server, by ``postmaster.pid``.

    Returns:
        The address; ``None`` for a server that is stopped or still starting.
    """
    folder = _folder(chosen)
    try:
        lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < 8 or lines[7].strip() != "ready" or not listens(int(lines[3])):
        return None
    password, more = (folder / "password").read_text(), postgres_tls.client_settings(folder)
    return Address("127.0.0.1", int(lines[3]), _DATABASE, _USER, password, more)


def _made(chosen: Settings) -> Path:
    """Create the server's folder with data, unless present."""
    folder = _folder(chosen)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".making.lock"):
        _let_in(chosen)
        if not (folder / "data").exists():
            _make(chosen)
    return folder


def _options(chosen: Settings, port: int) -> list[str]:
    """Return the options that the server is started with."""
    secured = chosen.postgres_tls == "required"
    tls = postgres_tls.server_options(_folder(chosen), at=Clock().now(), user=server_user()) if secured else []
    return ["-p", str(port), *tls]


def _make(chosen: Settings) -> None:
    """Create the server's data folder atomically, with a new password."""
    folder = _folder(chosen)
    draft, password = folder / "data.partial", folder / "password"
    shutil.rmtree(draft, ignore_errors=True)
    password.unlink(missing_ok=True)
    with os.fdopen(os.open(password, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(24))
    if (user := server_user()) is not None:
        os.chown(password, user.pw_uid, user.pw_gid)
    cluster = ["-U", _USER, "--auth=scram-sha-256", "--pwfile=password", "--encoding=UTF8", "--locale=C"]
    _run(chosen, "initdb", "-D", draft.name, *cluster, *[f"--set={name}={value}" for name, value in _SERVER.items()])
    draft.rename(folder / "data")


def _make_database(own: Address, database: str) -> None:
    with replace(own, database="postgres").connect(autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))


def _make_certified(own: Address) -> None:
    name = postgres_tls.CERTIFIED
    with replace(own, database="postgres").connect(autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))


def _run(chosen: Settings, program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL; a started server keeps no pipe of this process open."""
    user, folder = server_user(), _folder(chosen)
    as_user: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [str(programs(chosen) / program), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            **as_user,
        )
        if done.returncode:
            output.seek(0)
            raise PostgresError(f"{program} in {folder} failed:\n{output.read()[-1000:]}{_tail(folder / 'log')}")


def server_user() -> pwd.struct_passwd | None:
    """Return the server's user if this process runs as root, created if missing; otherwise ``None``."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        subprocess.run(["useradd", "--system", "--no-create-home", _SYSTEM_USER], check=True)  # noqa: S607
        return pwd.getpwnam(_SYSTEM_USER)


def _let_in(chosen: Settings) -> None:
    """Make the server's user the owner of the server's folder, with access to parent folders and programs."""
    if (user := server_user()) is None:
        return
    folder = _folder(chosen)
    os.chown(folder, user.pw_uid, user.pw_gid)
    for parent in {*folder.parents, *programs(chosen).parents}:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXOTH)


def _tail(log: Path) -> str:
    return log.read_text()[-1000:] if log.exists() else ""
