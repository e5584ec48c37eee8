"""Authorities elsewhere: OpenBao's engine of certificates, in front of a real PostgreSQL; files of somebody else."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems import postgres
from dedp_assets.laptop.servers import bao, ports, postgres_tls
from dedp_assets.laptop.servers import postgres as database
from dedp_assets.laptop.servers.attached import attached, await_answer
from dedp_assets.patterns.connectors.certificates.files import facts_of, is_signed_by
from dedp_assets.patterns.connectors.certificates.other_authorities import GivenCertificates, VaultAuthority
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.security.secretless_connector import RoleCertificates, assume_role, using_role

pytestmark = [pytest.mark.slow, pytest.mark.budget(30, "OpenBao and PostgreSQL start")]

now = Clock().now


@pytest.fixture(scope="module")
def home():
    # Not in pytest's folder, which every other pytest that starts closes to the server's user.
    with tempfile.TemporaryDirectory(prefix="dedp-") as made:
        chosen = replace(settings(), home=Path(made) / "home", postgres=None, postgres_tls="required")
        try:
            with database.start(chosen).connect() as connection:
                connection.execute(f"CREATE ROLE reporter LOGIN IN ROLE {postgres_tls.CERTIFIED}")
            yield chosen
        finally:
            database.stop(chosen)


@pytest.fixture(scope="module")
def vault(home):
    """OpenBao's authority, as runs reach it."""
    folder, port = home.home / "bao", ports.free()
    folder.mkdir(parents=True)
    log = folder / "log"
    with attached(bao.command(folder, port=port), log=log) as process:
        await_answer("OpenBao", process, lambda: bao.is_ready(folder, port=port), log=log)
        trusted = postgres_tls.authority(home.home / "postgres", at=now()).path
        yield VaultAuthority(
            VaultServer(bao.url(port), folder / "login", role=(folder / "role").read_text()), folder / "ca.pem", trusted
        )


def roles(authority, folder, **more):
    return RoleCertificates(authority, "gold/report", {"reporter": ["warehouse"]}, folder, now, **more)


def test_postgresql_lets_a_role_in_by_a_certificate_of_openbao(home, vault, tmp_path):
    """Once it trusts the authority; before, the sentence names the authority that it does not trust."""
    held, own = roles(vault, tmp_path / "clients", lasts_seconds=300), postgres.address(home)

    def who():
        with using_role(held, role="reporter", server="warehouse") as proof:
            settings = {**proof.libpq(), "host": own.host, "port": own.port, "dbname": own.database}
            with replace(own, user="reporter", password="", more=settings).connect(password=None) as connection:
                return connection.execute("SELECT current_user").fetchone()[0]

    with pytest.raises((ConfigError, NotReady), match="warehouse refuses role reporter"):
        who()
    signs = postgres_tls.authority(home.home / "postgres", at=now())
    signs.path.write_bytes(signs.path.read_bytes() + vault.path.read_bytes())
    with own.connect() as connection:
        connection.execute("SELECT pg_reload_conf()")
    assert who() == "reporter"


def test_a_certificate_of_openbao_has_the_roles_name_and_minutes(vault, tmp_path):
    """Its serial number is the access's version; the key is the file's owner's alone."""
    access = assume_role(roles(vault, tmp_path / "clients", lasts_seconds=300), role="reporter", server="warehouse")
    (key,) = (tmp_path / "clients").rglob("*.key")
    facts = facts_of(key.with_suffix(".pem"))
    assert (facts.name, facts.serial, facts.ends) == ("reporter", access.version, access.until)
    assert timedelta(seconds=200) < access.until - now() <= timedelta(seconds=301)
    assert is_signed_by(key.with_suffix(".pem"), vault.path)
    assert key.stat().st_mode & 0o077 == 0


def test_a_login_without_the_grant_and_a_server_that_is_gone_are_told(vault, tmp_path):
    """The first at once, the second after some attempts; nothing is written."""
    login = tmp_path / "login"
    login.write_text("s.unknown")
    login.chmod(0o600)
    refused = replace(vault, server=replace(vault.server, login_file=login, role=""))
    with pytest.raises(ConfigError, match=r"does not grant pki/issue/clients to this identity"):
        assume_role(roles(refused, tmp_path / "a"), role="reporter", server="warehouse")
    gone, patience = replace(vault, server=replace(vault.server, url="http://127.0.0.1:9")), Backoff(attempts=2)
    with pytest.raises(NotReady, match=r"role reporter has no certificate after 2 attempts: .* does not answer"):
        assume_role(roles(gone, tmp_path / "b", backoff=patience), role="reporter", server="warehouse")
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".key"]


def test_files_of_somebody_else_are_named_where_they_are_missing(tmp_path):
    """By the path that somebody has to fill."""
    held = roles(GivenCertificates(tmp_path, tmp_path / "ca.pem"), tmp_path)
    with pytest.raises(ConfigError, match=rf"key file {tmp_path / 'reporter.key'} must be there, and is missing"):
        assume_role(held, role="reporter", server="warehouse")
