"""Secrets: made up once per home, or set, and shown to nobody."""

from __future__ import annotations

import sys

import dagster as dg
import pytest

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.secrets import Secrets, lacking, store_of
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.security.secrets_pointer import read_secret, using_secret

CANARY = "canary-0f-a-password"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without a key."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.delenv("DEDP_MASKING_KEY", raising=False)
    return tmp_path


def test_a_home_makes_up_its_masking_key_once(home):
    """The same key each time, readable by its owner only, and another one elsewhere."""
    first, second = Secrets().masking_key(), Secrets().masking_key()
    assert first == second
    assert (home / "masking.key").stat().st_mode & 0o077 == 0
    (home / "masking.key").unlink()
    assert Secrets().masking_key() != first


def test_a_key_that_is_set_is_taken(monkeypatch):
    """64 hexadecimal digits."""
    monkeypatch.setenv("DEDP_MASKING_KEY", "0f" * 32)
    assert Secrets().masking_key().secret == bytes([15]) * 32


@pytest.mark.parametrize("key", ["secret", "0f" * 8])
def test_a_key_that_is_none_is_refused_and_not_repeated(monkeypatch, key):
    """Neither a word nor a short key; the message does not show it."""
    monkeypatch.setenv("DEDP_MASKING_KEY", key)
    with pytest.raises(ConfigError) as raised:
        Secrets().masking_key()
    assert key not in str(raised.value)


def test_no_secret_shows_in_the_settings(monkeypatch):
    """Whoever prints them sees none."""
    monkeypatch.setenv("DEDP_MASKING_KEY", "0f" * 32)
    monkeypatch.setenv("DEDP_POSTGRES", "postgresql://u:very-secret@h/d")
    assert "0f0f" not in repr(settings())
    assert "very-secret" not in repr(settings())


@pytest.fixture
def store(monkeypatch):
    """The encrypted file of the home, with a secret."""
    for name in ("DEDP_SECRETS", "DEDP_SECRETS_LOGIN"):
        monkeypatch.delenv(name, raising=False)
    made = store_of(settings())
    made.write("prod/db", {"password": CANARY})
    return made


def test_an_asset_reads_what_its_code_is_granted(store):
    """From the file of the home; another name is refused, and all of an identity share one cache."""
    pointers = Secrets().pointers("gold/report", granted=["prod/db"])
    assert read_secret(pointers, pointer="prod/db#password").secret.reveal() == CANARY
    assert Secrets().pointers("gold/report", granted=["prod/db"]) is pointers
    with pytest.raises(ConfigError, match="prod/mail is not granted to gold/report"):
        read_secret(pointers, pointer="prod/mail")
    assert lacking(settings()) == ""


def test_a_server_is_named_with_a_login_or_runs_here(monkeypatch, home):
    """The own one says how to start it, and no file of the home takes its place; another one needs a login's file."""
    monkeypatch.setenv("DEDP_SECRETS", "bao")
    with pytest.raises(NotReady, match="no server of secrets runs: start it by `make up SECRETS=bao`"):
        store_of(settings())
    monkeypatch.setenv("DEDP_SECRETS", "https://vault.example:8200/")
    with pytest.raises(ConfigError, match=r"DEDP_SECRETS_LOGIN must be a file \(0600\)"):
        store_of(settings())
    monkeypatch.setenv("DEDP_SECRETS_LOGIN", str(home / "login"))
    assert store_of(settings()) == VaultServer("https://vault.example:8200", home / "login")
    assert lacking(settings()).endswith("and is not there: write it")
    monkeypatch.setenv("DEDP_SECRETS_ROLE", "r1")
    assert store_of(settings()) == VaultServer("https://vault.example:8200", home / "login", role="r1")
    assert store_of(settings()) is store_of(settings())  # which holds this process's token
    assert lacking(settings()) == f"{home / 'login'} must hold the role's secret id, and is not there: write it"


@pytest.mark.parametrize("wrong", ["vault", "https://ada:hidden-word@vault.example", "https://vault.example/v1"])
def test_a_place_that_is_none_is_refused_and_not_repeated(monkeypatch, wrong):
    """It may hold a password."""
    monkeypatch.setenv("DEDP_SECRETS", wrong)
    with pytest.raises(ValueError, match="DEDP_SECRETS must be bao or a URL of a server alone") as refused:
        settings()
    assert "hidden-word" not in str(refused.value)


def connecting(secrets):
    """Fail as a driver does, with its address in the text."""
    with using_secret(secrets.pointers("report", granted=["prod/db"]), pointer="prod/db#password") as access:
        raise ConnectionError(f"postgresql://ada:{access.secret.reveal()}@db does not answer")


@pytest.mark.runs
def test_a_run_keeps_the_pointer_and_never_the_value(store, home):
    """Acceptance 1, 3 of Secrets Pointer: in what Dagster stores of runs that succeed and fail, and in their logs."""

    @dg.asset(required_resource_keys={"secrets"})
    def report(context):
        access = read_secret(
            context.resources.secrets.pointers("report", granted=["prod/db"]), pointer="prod/db#password"
        )
        context.log.info("logs in with %s", access)
        sys.stdout.write(f"{access.secret} {access}\n")
        return dg.MaterializeResult(metadata={"access": dg.MetadataValue.json(access.as_dict())})

    @dg.asset(required_resource_keys={"secrets"})
    def failed(context):
        connecting(context.resources.secrets)

    (home / "instance").mkdir()
    with dg.DagsterInstance.local_temp(str(home / "instance")) as instance:
        for asset in (report, failed):
            dg.materialize([asset], resources={"secrets": Secrets()}, instance=instance, raise_on_error=False)
        events = [str(each) for run in instance.get_runs() for each in instance.all_logs(run.run_id)]
    stored = b"".join(path.read_bytes() for path in (home / "instance").rglob("*") if path.is_file())
    assert b"prod/db#password" in stored
    assert "does not answer" in "".join(events)
    assert CANARY.encode() not in stored
    assert CANARY not in "".join(events)
