"""Secrets Pointer."""

from __future__ import annotations

import logging
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.graph.resources.masking import shown
from dedp_assets.patterns.connectors.secrets.sealed_file import SealedFile
from dedp_assets.patterns.connectors.secrets.store import StoredSecret
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.secret import HIDDEN
from dedp_assets.patterns.security.secrets_pointer import SecretPointers, read_secret, using_secret
from tests.contracts.known_calls import known_calls

PASSWORD, USER, ROTATED = "canary/p4ss w0rd+1", "canary_reporter", "canary-r0tated-2"
BOTH = {"user": USER, "password": PASSWORD}
POINTER = "prod/db#password"


class Counted:
    """A store that counts the reads, and can be out of order."""

    def __init__(self, inner):
        self.inner, self.reads, self.is_down, self.name = inner, 0, False, "the counted store"

    def read(self, path, version=None):
        self.reads += 1
        if self.is_down:
            raise NotReady("the counted store does not answer")
        return self.inner.read(path, version)


class Clock:
    """Seconds that pass when the test says so."""

    at = 0.0

    def __call__(self):
        return self.at


@pytest.fixture
def file(tmp_path):
    made = SealedFile(tmp_path / "secrets")
    made.write("prod/db", BOTH)
    return made


@pytest.fixture
def store(file):
    return Counted(file)


def pointers_to(store, granted=("prod/db",), **more):
    patience = Backoff(attempts=4, first_seconds=1, longest_seconds=2, jitter=0)
    return SecretPointers(store, "gold/report", granted, **{"backoff": patience, "sleep": lambda _: None, **more})


def revealed(pointers, pointer=POINTER):
    return read_secret(pointers, pointer=pointer).secret.reveal()


def logs_in(pointers, expected):
    """Log in at a system that expects a password, and says as other systems do who was refused by what."""
    with using_secret(pointers, pointer=POINTER) as access:
        given = access.secret.reveal()
        if given != expected:
            raise psycopg.OperationalError(
                f'connection to postgresql://{USER}:{given}@db failed: password authentication failed for user "{USER}"'
            )
        return access.version


def rendered(error):
    """All that a log shows of an error, with causes."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error.args)


@pytest.mark.parametrize("folder", ["dedp_assets", "resources", "sensors", "docs", "benchmarks"])
def test_no_key_or_login_of_a_known_shape_is_in_the_repository(folder):
    """Acceptance 1: names stand in code, settings and pages, and no value."""
    shapes = ("hvs.", "AKIA", "ghp_", "xoxb-", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN EC PRIVATE KEY-----\n")
    texts = (path.read_text(errors="replace") for path in (CHECKOUT / folder).rglob("*") if path.suffix in SUFFIXES)
    found = [shape for text in texts for shape in shapes if shape in text.replace("AKIA|ASIA|AIza", "")]
    assert found == []


SUFFIXES = {".py", ".md", ".yaml", ".json", ".toml", ".xml", ".properties"}


def test_an_access_shows_the_pointer_and_never_the_value(store):
    """Acceptance 1: what metadata, run config and an event log take of it."""
    pointers = pointers_to(store)
    access = read_secret(pointers, pointer=POINTER)
    assert access.as_dict()["allowed"] == {"read": [POINTER]}
    assert access.as_dict()["secret"] == HIDDEN
    for text in (repr(access), str(access.as_dict()), repr(pointers), repr(store.inner.read("prod/db"))):
        assert PASSWORD not in text
        assert USER not in text


def test_a_refused_value_is_dropped_and_the_next_attempt_reads_the_newest(store, file):
    """Acceptance 2: rotated in mid-run, attempt 1 fails, attempt 2 succeeds, and the store was asked twice in all."""
    pointers = pointers_to(store)
    assert [logs_in(pointers, PASSWORD) for _ in range(10)] == ["1"] * 10
    assert store.reads == 1
    file.write("prod/db", {**BOTH, "password": ROTATED})
    with pytest.raises(
        NotReady, match=r"version 1 of prod/db#password was refused .* the next attempt reads the newest"
    ):
        logs_in(pointers, ROTATED)
    assert [logs_in(pointers, ROTATED) for _ in range(10)] == ["2"] * 10
    assert store.reads == 2


def test_a_newest_value_that_is_refused_twice_is_no_matter_of_patience(store):
    """Acceptance 2: the second refusal of one version asks somebody to store the right value, and ends the retries."""
    pointers = pointers_to(store)
    with pytest.raises(NotReady):
        logs_in(pointers, ROTATED)
    with pytest.raises(
        ConfigError, match=r"version 1 of prod/db#password, the newest .* twice .*dedp secret put prod/db"
    ):
        logs_in(pointers, ROTATED)


@pytest.mark.slow
def test_a_real_database_whose_password_is_rotated(own_postgres, database, store, file):
    """Acceptance 2: PostgreSQL refuses the old password; the next attempt is in; nothing names password or user."""
    with database.connect(autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")
        try:
            pointers = pointers_to(store)

            def ask():
                with using_secret(pointers, pointer=POINTER) as access:
                    user = revealed(pointers, "prod/db#user")
                    with database.connect(user=user, password=access.secret.reveal()) as connection:
                        return connection.execute("SELECT current_user").fetchone()[0]

            assert ask() == USER
            owner.execute(f"ALTER ROLE {USER} PASSWORD '{ROTATED}'")
            file.write("prod/db", {**BOTH, "password": ROTATED})
            with pytest.raises(NotReady, match="password authentication failed") as refused:
                ask()
            assert not {word for word in (PASSWORD, ROTATED, USER) if word in rendered(refused.value)}
            assert ask() == USER
        finally:
            owner.execute(f"DROP ROLE {USER}")


@pytest.mark.parametrize("raised", [ValueError, RuntimeError, ConnectionError, psycopg.OperationalError])
def test_no_log_or_error_holds_secret_or_user_though_the_driver_repeats_its_address(store, caplog, capfd, raised):
    """Acceptance 3: the address with user and password, also as a cause and percent-encoded, leaves as asterisks."""
    encoded = PASSWORD.replace("/", "%2F").replace(" ", "%20").replace("+", "%2B")
    pointers = pointers_to(store)

    def fails():
        with using_secret(pointers, pointer=POINTER) as access:
            print("connecting with", access, access.secret)  # noqa: T201
            logging.getLogger("driver").warning("connecting with %s", access)
            try:
                raise raised(f"no route to postgresql://{USER}:{encoded}@db/shop as {access.secret.reveal()}")  # noqa: TRY301
            except raised as error:
                raise OSError(f"cannot open {USER}@db") from error

    with pytest.raises(NotReady) as failed:
        fails()
    logging.getLogger("run").error("the step failed: %s", failed.value)
    said = rendered(failed.value) + caplog.text + "".join(capfd.readouterr())
    assert not {word for word in (PASSWORD, encoded, USER) if word in said}
    assert "prod/db#password" in str(failed.value)
    assert "no route to" in str(failed.value)


def test_an_error_without_the_secret_stays_what_it_is(store):
    """Acceptance 3: whoever catches a driver's error goes on doing so."""
    with pytest.raises(KeyError, match="column"), using_secret(pointers_to(store), pointer=POINTER):
        raise KeyError("column")


def test_texts_that_leave_the_platform_are_without_what_was_read(store):
    """Acceptance 3: alerts, pages and stored failures mask values that this process read, whoever names them."""
    revealed(pointers_to(store))
    assert shown(f"job failed at {PASSWORD} of {USER}") == f"job failed at {HIDDEN} of {HIDDEN}"


def test_a_missing_secret_is_named_before_anything_happens_and_nothing_takes_its_place(store):
    """Acceptance 4: the block does not begin, so no row is written; no default and no variable is tried."""
    pointers, begun = pointers_to(store, ["prod/*", "prod/db"]), []
    for pointer, fault in {
        "prod/mail": r"has no secret prod/mail \(nobody stored one\): `dedp secret put prod/mail`",
        "prod/db#token": r"prod/db has no field token, but \['password', 'user'\]: .*--field token",
        "prod/db": "prod/db has no field value",
    }.items():
        with pytest.raises(ConfigError, match=fault), using_secret(pointers, pointer=pointer):
            begun.append(pointer)
    assert begun == []


def test_a_value_in_place_of_a_name_is_refused_without_being_repeated(store):
    """Acceptance 4: people write the password where the pointer belongs."""
    for wrong in (PASSWORD, "../prod/db", "/prod/db", "prod//db", "prod/db#new#er", "x" * 201, "postgresql://a:b@c"):
        with pytest.raises(ConfigError, match="name of a secret like prod/db#password") as refused:
            read_secret(pointers_to(store), pointer=wrong)
        assert wrong not in str(refused.value)


def test_one_rotation_serves_twenty_consumers(store, file):
    """Acceptance 5: all have the new value once the old one is too old, or refused once; no code changes."""
    clock = Clock()
    pointers = pointers_to(store, clock=clock, cached_seconds=300)
    with ThreadPoolExecutor(20) as consumers:
        start = threading.Barrier(20)

        def consume(_):
            start.wait(30)
            return revealed(pointers)

        assert {*consumers.map(consume, range(20))} == {PASSWORD}
        assert store.reads == 1
        file.write("prod/db", {**BOTH, "password": ROTATED})
        assert {*consumers.map(consume, range(20))} == {PASSWORD}
        clock.at = 300
        assert {*consumers.map(consume, range(20))} == {ROTATED}
    assert store.reads == 2


def test_an_outage_is_borne_for_a_bounded_time(store):
    """Acceptance 6: four attempts with pauses, then an error that may pass; a value in memory serves."""
    pauses = []
    pointers = pointers_to(store, sleep=pauses.append)
    store.is_down = True
    with pytest.raises(NotReady, match="prod/db cannot be read after 4 attempts: the counted store does not answer"):
        revealed(pointers)
    assert (store.reads, pauses) == (4, [1, 2, 2])
    store.is_down = False
    assert revealed(pointers) == PASSWORD
    store.is_down = True
    assert revealed(pointers) == PASSWORD


def test_an_outage_brings_no_value_back_that_is_too_old(store):
    """Acceptance 6: whatever was known before, no fall-back."""
    clock = Clock()
    pointers = pointers_to(store, clock=clock)
    revealed(pointers)
    store.is_down, clock.at = True, 301
    with pytest.raises(NotReady):
        revealed(pointers)


@pytest.mark.parametrize(
    ("granted", "pointer", "allowed"),
    [
        (["prod/db"], POINTER, True),
        (["prod/*"], POINTER, True),
        (["prod/d"], POINTER, False),
        (["pro/*", "prod"], POINTER, False),
        (["prod/db/*"], POINTER, False),
        ([], POINTER, False),
    ],
)
def test_a_pointer_that_was_not_granted_is_refused(store, granted, pointer, allowed):
    """Acceptance 6: by the whole name or a folder, without a question to the store."""
    pointers = pointers_to(store, granted)
    if allowed:
        assert revealed(pointers, pointer) == PASSWORD
    else:
        with pytest.raises(ConfigError, match="prod/db#password is not granted to gold/report, which may read"):
            read_secret(pointers, pointer=pointer)
        assert store.reads == 0


@pytest.mark.parametrize("granted", ["*", "/*", "prod/*/db", "../*", "a b"])
def test_a_grant_of_everything_is_refused(store, granted):
    """Whoever may read everything has no grants."""
    with pytest.raises(ConfigError):
        pointers_to(store, [granted])


def test_an_older_version_is_read_by_its_number(store, file):
    """For what was sealed under it."""
    file.write("prod/db", {**BOTH, "password": ROTATED})
    pointers = pointers_to(store)
    assert read_secret(pointers, pointer=POINTER, version=1).secret.reveal() == PASSWORD
    assert revealed(pointers) == ROTATED
    with pytest.raises(ConfigError, match="no version 3"):
        read_secret(pointers, pointer=POINTER, version=3)


class _Fixed:
    name = "a fixed store"

    def read(self, path, version=None):
        return StoredSecret(path, version or 1, {"value": PASSWORD})


@known_calls
def calls(known):
    pointers = pointers_to(_Fixed())
    return {"using_secret": {"pointers": pointers, "pointer": "prod/db", "refused": "denied"}}
