"""The laptop's PostgreSQL with TLS: who gets in, by which certificate, and who does not."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems import postgres
from dedp_assets.laptop.servers import postgres as server
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.laptop.servers.postgres_tls import CERTIFIED, authority
from dedp_assets.patterns.connectors.certificates.authority import Authority
from tests.faults.processes import wait_until

pytestmark = pytest.mark.slow
NOW = Clock().now()
DAY = timedelta(days=1)
REFUSED = re.compile("certificate authentication failed|unsupported certificate")
PASSWORD = "of-the-reporter"  # noqa: S105 - of a role that may not use it


@pytest.fixture(scope="module")
def home():
    """Settings whose own server requires TLS, and runs, with a role that logs in by its certificate."""
    # Not in pytest's folder, which every other pytest that starts closes to the server's user.
    with tempfile.TemporaryDirectory(prefix="dedp-") as folder:
        chosen = replace(settings(), home=Path(folder) / "a home", postgres=None, postgres_tls="required")
        try:
            with server.start(chosen).connect() as connection:
                connection.execute(f"CREATE ROLE reporter LOGIN PASSWORD '{PASSWORD}' IN ROLE {CERTIFIED}")
                connection.execute(f"CREATE ROLE writer LOGIN IN ROLE {CERTIFIED}")
                connection.execute(f"CREATE ROLE copier LOGIN REPLICATION PASSWORD '{PASSWORD}' IN ROLE {CERTIFIED}")
                connection.execute("CREATE ROLE other LOGIN PASSWORD 'of-the-other'")
            yield chosen
        finally:
            server.stop(chosen)


@pytest.fixture
def own(home):
    return postgres.address(home)


@pytest.fixture(scope="module")
def signs(home):
    """The authority that the server trusts."""
    return authority(home.home / "postgres", at=NOW)


def reporter(own, made=None):
    """The address of the reporter, who has a certificate or none, and no password."""
    files = {"sslcert": str(made.path), "sslkey": str(made.key)} if made else {"sslcert": "/none", "sslkey": "/none"}
    return replace(own, user="reporter", password="", more={**own.more, **files})


def who(address):
    """The role, the TLS version, and the certificate's name, as the server tells them."""
    with address.connect() as connection:
        query = "SELECT current_user, version, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        return connection.execute(query).fetchone()


def test_a_client_that_verifies_the_server_gets_in(home, own):
    """By what the server announces, without a further setting; the address shows no password."""
    assert own.more == {"sslmode": "verify-full", "sslrootcert": str(home.home / "postgres" / "tls" / "ca.pem")}
    user, version, name = who(own)
    assert (user, version, name) == ("dedp", "TLSv1.3", None)
    assert who(replace(own, host="localhost"))[1] == "TLSv1.3"
    assert server.start(home) == own
    assert own.password not in repr(own)
    with own.connect() as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)


@pytest.mark.parametrize("user", ["dedp", "reporter", "other", "nobody"])
def test_a_plain_connection_is_refused(own, user):
    """Of every role, with whatever password."""
    plain = replace(own, user=user, more={"sslmode": "disable"})
    with pytest.raises(psycopg.OperationalError, match=r"pg_hba.conf rejects connection .*no encryption"):
        plain.connect()


def test_a_server_that_another_authority_would_have_to_vouch_for_is_refused(own, tmp_path):
    """The client refuses it, by the authorities of the system and by one with the same kind of name."""
    other = Authority.of(tmp_path, at=NOW).path
    for root in ("system", str(other)):
        with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
            replace(own, more={**own.more, "sslrootcert": root}).connect()
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        own.connect(host="database.example", hostaddr="127.0.0.1")


def test_a_role_with_its_certificate_gets_in_without_a_password(own, signs, tmp_path):
    """The certificate's common name is the role."""
    made = signs.issue("reporter", tmp_path, begins=NOW - DAY, ends=NOW + DAY)
    assert who(reporter(own, made)) == ("reporter", "TLSv1.3", "/CN=reporter")


@pytest.mark.parametrize("password", ["", PASSWORD])
def test_a_role_without_its_certificate_is_refused(own, password):
    """Its password does not help."""
    with pytest.raises(psycopg.OperationalError, match="requires a valid client certificate"):
        replace(reporter(own), password=password).connect()


def test_a_replication_needs_the_certificate_too(own, signs, tmp_path):
    """By its password alone, a certified role copies nothing; with its certificate, it may."""
    copier = replace(reporter(own), user="copier")
    with pytest.raises(psycopg.OperationalError, match="requires a valid client certificate"):
        replace(copier, password=PASSWORD).connect(replication="true")
    made = signs.issue("copier", tmp_path, begins=NOW - DAY, ends=NOW + DAY)
    with replace(reporter(own, made), user="copier").connect(replication="true", autocommit=True) as connection:
        assert connection.execute("IDENTIFY_SYSTEM").fetchone()


def test_a_certificate_of_another_name_is_refused(own, signs, tmp_path):
    """A role is no other role, though both are known; and the name of a server is none."""
    for name, hosts in (("writer", ()), ("Reporter", ()), ("server", ("reporter",))):
        made = signs.issue(name, tmp_path / name, begins=NOW - DAY, ends=NOW + DAY, hosts=hosts)
        with pytest.raises(psycopg.OperationalError, match=REFUSED):
            reporter(own, made).connect()


@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [(NOW - 2 * DAY, NOW - DAY, "alert certificate expired"), (NOW + DAY, NOW + 2 * DAY, "alert bad certificate")],
    ids=["expired", "not yet valid"],
)
def test_a_certificate_out_of_its_time_is_refused(own, signs, tmp_path, begins, ends, words):
    """Before its first moment and after its last, though name and authority are right."""
    made = signs.issue("reporter", tmp_path, begins=begins, ends=ends)
    with pytest.raises(psycopg.OperationalError, match=words):
        reporter(own, made).connect()


def test_a_certificate_of_another_authority_is_refused(own, tmp_path):
    """It has the role's name, and is within its time; of any role, one that logs in by password included."""
    made = Authority.of(tmp_path / "ca", at=NOW).issue("reporter", tmp_path, begins=NOW - DAY, ends=NOW + DAY)
    for address in (reporter(own, made), replace(own, more=reporter(own, made).more)):
        with pytest.raises(psycopg.OperationalError, match="unknown ca"):
            address.connect()


def test_nobody_but_its_owner_reads_a_key(home, own):
    """The server's key is its user's; the authority's, which could make any identity, is not the server's."""
    place = home.home / "postgres" / "tls"
    keys = {path.name: path.stat() for path in (*place.glob("*.key"), *place.glob("*.pk8"))}
    assert {"ca.key", "server.key"} <= keys.keys()
    assert {stat.S_IMODE(found.st_mode) for found in keys.values()} == {0o600}
    assert keys["ca.key"].st_uid == os.geteuid()
    assert keys["server.key"].st_uid == (home.home / "postgres" / "data").stat().st_uid
    log = (home.home / "postgres" / "log").read_text()
    assert own.password not in log
    assert "PRIVATE KEY" not in log


def test_the_run_history_is_reached_in_the_same_way(home):
    """Its URL has another database, and verifies the server as well."""
    url = postgres.history_url(replace(home, history="own"))
    found = postgres.parsed(url.replace("+psycopg2", ""), "DEDP_HISTORY")
    assert (found.database, found.more) == (postgres.HISTORY, postgres.address(home).more)


def test_tls_is_switched_on_and_off_over_the_same_data():
    """What a home holds stays, and clients find the server by what it announces; a supervised start is the same."""
    with tempfile.TemporaryDirectory(prefix="dedp-") as folder:
        plain = replace(settings(), home=Path(folder) / "home", postgres=None)
        secured = replace(plain, postgres_tls="required")
        try:
            with server.start(plain).connect() as connection:
                connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
            server.stop(plain)
            assert kept(server.start(secured)) == ("verify-full", 1)
            assert kept(postgres.address(plain)) == ("verify-full", 1)
            server.stop(secured)
            assert kept(server.start(plain)) == ("", 1)
            server.stop(plain)
            with supervised(secured):
                assert wait_until(lambda: server.open_database(secured), seconds=30)
                assert kept(postgres.address(secured)) == ("verify-full", 1)
        finally:
            server.stop(secured)


@contextmanager
def supervised(secured):
    """The server as `make up` starts it, ended with the block."""
    user = server.system_user()
    as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
    command = server.command(secured, port=free_port())
    with subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL, **as_user) as started:
        try:
            yield
        finally:
            started.send_signal(signal.SIGINT)


def kept(address):
    """How the server is verified, and the table's value."""
    with address.connect() as connection:
        return address.more.get("sslmode", ""), connection.execute("SELECT n FROM kept").fetchone()[0]
