"""The PostgreSQL server from the wheel: starts, stops, survives a kill, and lets nobody in without the password."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems import postgres
from dedp_assets.laptop.servers import postgres as server
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.core.errors import NotReady
from tests.faults.processes import living, wait_until


@pytest.fixture
def home():
    """Settings with a home of their own; a server that was started in it is stopped."""
    # Not in pytest's folder, which every other pytest that starts closes to the server's user.
    with tempfile.TemporaryDirectory(prefix="dedp-") as folder:
        chosen = replace(settings(), home=Path(folder) / "home", postgres=None)
        yield chosen
        server.stop(chosen)


def process(chosen):
    """The server's process, as its process file names it."""
    return int((chosen.home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


@pytest.fixture
def reaper():
    """This process takes in the orphans of its children, as the first process of a machine does, and reaps them."""
    adopts = 36
    ctypes.CDLL(None).prctl(adopts, 1)
    yield lambda orphan: os.waitpid(orphan, 0)
    ctypes.CDLL(None).prctl(adopts, 0)


@pytest.mark.slow
def test_our_own_server_starts_answers_stops_and_keeps_what_it_holds(home):
    """It listens where it was told to, is the same one for a second start, and its data outlive a stop."""
    port = free_port()
    made = server.start(home, port=port)
    first = psutil.Process(process(home))
    assert (made.port, made.host, server.start(home), process(home)) == (port, "127.0.0.1", made, first.pid)
    with made.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.info.dbname == "operational"
    server.stop(home)
    server.stop(home)
    assert wait_until(lambda: not living({first}), seconds=10)
    with pytest.raises(NotReady, match=r"not running.*make up.*DEDP_POSTGRES"):
        postgres.address(home)
    with server.start(home).connect() as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (1,)


@pytest.mark.slow
def test_a_server_that_was_killed_starts_again(home, reaper):
    """A process file that a crash left behind is not taken for a running server."""
    server.start(home)
    killed = process(home)
    os.kill(killed, signal.SIGKILL)
    reaper(killed)
    with pytest.raises(NotReady):
        postgres.address(home)
    again = server.start(home)
    assert process(home) != killed
    with again.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
def test_a_port_in_use_is_one_clear_error(home, own_postgres):
    """It names the folder and says what the server said; nothing is left running."""
    taken = postgres.address(own_postgres).port
    with pytest.raises(server.PostgresError, match=r"(?s)pg_ctl in .*Address already in use"):
        server.start(home, port=taken)
    with pytest.raises(NotReady):
        postgres.address(home)


def test_the_server_listens_on_the_loopback_interface_and_asks_for_the_password(own_postgres):
    """No socket file, no other address, and nobody gets in without the password, which only its user may read."""
    own = postgres.address(own_postgres)
    with own.connect() as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed") as refused:
        replace(own, password="wrong-one").connect()
    assert "wrong-one" not in str(refused.value)
    password = own_postgres.home / "postgres" / "password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert password.read_text() == own.password
    log = (own_postgres.home / "postgres" / "log").read_text()
    assert own.password not in log


def test_two_homes_have_two_servers(own_postgres, home):
    """Each with its own data, port and password."""
    one, other = postgres.address(own_postgres), server.start(home)
    assert one.port != other.port
    assert one.password != other.password
