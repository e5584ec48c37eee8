"""Stores of secrets: what all of them promise, and the encrypted file."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dedp_assets.laptop.servers import bao, ports
from dedp_assets.laptop.servers.attached import attached, await_answer
from dedp_assets.patterns.connectors.secrets.key_files import key_in
from dedp_assets.patterns.connectors.secrets.role_login import HeldToken, RoleLogin
from dedp_assets.patterns.connectors.secrets.sealed_file import SealedFile
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.security.secrets_pointer import SecretPointers, read_secret

pytestmark = pytest.mark.budget(40, "a server of secrets starts in ten seconds")

CANARY = "canary-p4ssword"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A real OpenBao of this file: its folder and its port."""
    folder, port = tmp_path_factory.mktemp("bao"), ports.free()
    log = folder / "log"
    with attached(bao.command(folder, port=port), log=log) as process:
        await_answer("OpenBao", process, lambda: bao.is_ready(folder, port=port), log=log)
        yield folder, port


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.slow)])
def store(request, tmp_path):
    """A store of each kind, as its owner sees it."""
    if request.param == "file":
        return SealedFile(tmp_path / "secrets")
    folder, port = request.getfixturevalue("served")
    return VaultServer(bao.url(port), folder / "administrator")


def test_a_secret_has_versions_and_the_newest_one_is_read(store):
    """Each with its fields; an older one by its number."""
    assert [store.write("shop/db", {"user": "ada", "password": word}) for word in ("first", "second")] == [1, 2]
    assert store.read("shop/db").values == {"user": "ada", "password": "second"}
    assert store.read("shop/db", 1).values == {"user": "ada", "password": "first"}
    assert "shop/db" in store.paths()


def test_what_is_not_there_is_named_with_the_command_that_stores_it(store):
    """Unknown names and versions, and none of another name in their place."""
    store.write("some/mail", {"value": CANARY})
    for path, version in (("some/nothing", None), ("some", None), ("some/mail", 7)):
        with pytest.raises(ConfigError, match=rf"has no secret {path} .*`dedp secret put {path}`"):
            store.read(path, version)


def test_a_removed_secret_is_refused_and_comes_back(store):
    """Soft, as the values of a mistake."""
    store.write("old/api", {"value": CANARY})
    store.remove("old/api")
    with pytest.raises(ConfigError, match="has no secret old/api"):
        store.read("old/api")
    store.restore("old/api")
    assert store.read("old/api").values == {"value": CANARY}
    with pytest.raises(ConfigError, match="has no secret old/unknown"):
        store.restore("old/unknown")


@pytest.mark.parametrize("path", ["", "../x", "a b", "a#b", "a//b", "a/", "?version=1"])
def test_what_is_no_name_is_refused(store, path):
    """No name leaves the place of the secrets."""
    for use in (store.read, store.remove, lambda name: store.write(name, {"value": CANARY})):
        with pytest.raises(ConfigError, match="name of a secret"):
            use(path)


def test_the_file_holds_no_value_and_is_for_its_owner_alone(tmp_path):
    """Neither it nor the folder shows a name or a value; key and file are 0600."""
    store = SealedFile(tmp_path / "secrets")
    store.write("shop/db", {"password": CANARY})
    held = {path.name: path for path in (tmp_path / "secrets").iterdir()}
    assert {"secrets.sealed", "secrets.key"} <= held.keys()
    for path in held.values():
        assert path.stat().st_mode & 0o077 == 0
        assert CANARY.encode() not in path.read_bytes()
        assert b"shop" not in path.read_bytes()


def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(tmp_path):
    """Both the file and its key."""
    store = SealedFile(tmp_path)
    store.write("shop/db", {"password": CANARY})
    for name in ("secrets.sealed", "secrets.key"):
        (tmp_path / name).chmod(0o644)
        with pytest.raises(ConfigError, match=rf"not open to others \(044\): chmod 600 .*{name}"):
            store.read("shop/db")
        (tmp_path / name).chmod(0o600)
    assert store.read("shop/db").values == {"password": CANARY}


@pytest.mark.parametrize(
    "damage", [lambda held: held[:-1], lambda held: held[:10], lambda held: held[::-1], bytes.lower]
)
def test_a_damaged_file_or_another_key_is_an_error_and_nothing_is_lost(tmp_path, damage):
    """A write over it is refused as well."""
    store, sealed = SealedFile(tmp_path), tmp_path / "secrets.sealed"
    store.write("shop/db", {"password": CANARY})
    sealed.write_bytes(damaged := damage(sealed.read_bytes()))
    for use in (lambda: store.read("shop/db"), lambda: store.write("a", {"value": "b"})):
        with pytest.raises(ConfigError, match=r"damaged or by another key: restore both"):
            use()
    assert sealed.read_bytes() == damaged


def test_a_lost_key_is_named_and_no_other_one_is_made(tmp_path):
    """A new key would hide what is missing."""
    store = SealedFile(tmp_path)
    store.write("shop/db", {"password": CANARY})
    (tmp_path / "secrets.key").unlink()
    with pytest.raises(ConfigError, match=r"its key beside it.*restore both"):
        store.read("shop/db")
    assert not (tmp_path / "secrets.key").exists()


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    """Sixteen names and sixteen versions of one name, and one key though all were first."""
    with ThreadPoolExecutor(8) as several:
        writes = [several.submit(SealedFile(tmp_path).write, f"a/{n}", {"value": str(n)}) for n in range(16)]
        writes += [several.submit(SealedFile(tmp_path).write, "one", {"value": str(n)}) for n in range(16)]
        versions = sorted(each.result() for each in writes[16:])
    assert versions == list(range(1, 17))
    assert SealedFile(tmp_path).paths() == sorted([*(f"a/{n}" for n in range(16)), "one"])


def test_the_latest_ten_versions_are_kept(tmp_path):
    """The file does not grow with each rotation."""
    store = SealedFile(tmp_path)
    for number in range(12):
        store.write("one", {"value": str(number)})
    assert store.read("one", 3).values == {"value": "2"}
    with pytest.raises(ConfigError, match="no version 2"):
        store.read("one", 2)


def test_a_key_of_another_length_is_refused(tmp_path):
    """As left by an interrupted copy."""
    (tmp_path / "key").write_bytes(b"short")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ConfigError, match="a key of 32 bytes, not 5"):
        key_in(tmp_path / "key")


@pytest.mark.parametrize("url", ["http://vault.example:8200", "ftp://127.0.0.1", "http://ada:secret-word@127.0.0.1"])
def test_an_address_without_protection_is_refused(url):
    """Without TLS only on loopback; no password in the address is repeated."""
    with pytest.raises(ConfigError) as refused:
        VaultServer(url, Path("login"))
    assert "secret-word" not in str(refused.value)


def test_a_login_that_others_can_read_is_refused(tmp_path):
    """And one that is not there; the file is named."""
    server = VaultServer("http://127.0.0.1:1", tmp_path / "login")
    with pytest.raises(ConfigError, match=r"login must hold the login for .*, and is not there"):
        server.read("a")
    server.login_file.write_text(CANARY)
    server.login_file.chmod(0o640)
    with pytest.raises(ConfigError, match=r"\(040\): chmod 600"):
        server.read("a")
    server.login_file.chmod(0o600)
    with pytest.raises(NotReady, match=r"http://127.0.0.1:1 does not answer .*: start it") as refused:
        server.read("a")
    assert CANARY not in str(refused.value)


@pytest.mark.slow
def test_a_run_reads_and_changes_nothing(served):
    """The server's own policy, whatever the run's code wants; only the login's file has the login."""
    folder, port = served
    owner, run = VaultServer(bao.url(port), folder / "administrator"), as_run(served)
    owner.write("run/db", {"password": CANARY})
    assert run.read("run/db").values == {"password": CANARY}
    for use in (lambda: run.write("run/db", {"password": "x"}), lambda: run.remove("run/db"), run.paths):
        with pytest.raises(ConfigError, match=r"does not grant secret/.* to this identity"):
            use()
    for name in ("administrator", "login", "role", "unseal"):
        assert (folder / name).stat().st_mode & 0o077 == 0
        login = (folder / name).read_text()
        assert login not in (folder / "log").read_text() + (folder / "server.json").read_text()


@pytest.mark.slow
def test_a_rotation_in_the_server_reaches_the_next_attempt(served):
    """Secrets Pointer with a real server: two calls for any number of reads and one rotation."""
    folder, port = served
    owner, run = VaultServer(bao.url(port), folder / "administrator"), as_run(served)
    owner.write("rotated/db", {"password": "first word"})
    pointers = SecretPointers(run, "gold/report", ["rotated/db"])
    first = [read_secret(pointers, pointer="rotated/db#password") for _ in range(5)]
    owner.write("rotated/db", {"password": "second word"})
    assert {access.secret.reveal() for access in first} == {"first word"}
    assert not pointers.refuse("rotated/db", 1)
    newest = read_secret(pointers, pointer="rotated/db#password")
    assert (newest.secret.reveal(), newest.version) == ("second word", "2")


@pytest.mark.slow
def test_a_sealed_server_is_waited_for_and_is_unsealed_by_whoever_supervises_it(served):
    """A server that died comes back sealed; reading says so, and the supervisor's question opens it."""
    folder, port = served
    owner = VaultServer(bao.url(port), folder / "administrator")
    owner.write("sealed/db", {"password": CANARY})
    owner.ask("POST", "sys/seal", {})
    with pytest.raises(NotReady, match=r"status 503 .*unseal it"):
        owner.read("sealed/db")
    assert _until_ready(folder, port)
    assert owner.read("sealed/db").values == {"password": CANARY}


def as_run(served, **more):
    """The server as a process of a run sees it, by the role of runs unless another one is named."""
    folder, port = served
    named = {"login_file": folder / "login", "role": (folder / "role").read_text(), **more}
    return VaultServer(bao.url(port), **named)


def logins(monkeypatch):
    """Count the logins by roles from now on."""
    asked, ask = [], VaultServer._sent
    heard = lambda self, method, path, *rest: (asked.append(path), ask(self, method, path, *rest))[1]  # noqa: E731
    monkeypatch.setattr(VaultServer, "_sent", heard)
    return lambda: sum(path.endswith("/login") for path in asked)


@pytest.mark.slow
def test_each_process_logs_in_once_with_a_token_of_its_own(served, monkeypatch):
    """Of minutes, renewable; one that was revoked is exchanged by one further login, and the question is answered."""
    folder, port = served
    owner = VaultServer(bao.url(port), folder / "administrator")
    owner.write("role/db", {"password": CANARY})
    one, other = as_run(served), as_run(served)
    counted = logins(monkeypatch)
    assert [one.read("role/db").values for _ in range(3)] == [{"password": CANARY}] * 3
    assert counted() == 1
    held = one.ask("GET", "auth/token/lookup-self")["data"]
    assert other.ask("GET", "auth/token/lookup-self")["data"]["accessor"] != held["accessor"]
    assert (held["renewable"], 0 < held["ttl"] <= 20 * 60) == (True, True)
    assert {*held["policies"]} == {"default", "dedp-runs"}
    assert one.ask("POST", "auth/token/renew-self", {})["auth"]["renewable"]
    owner.ask("POST", "auth/token/revoke-accessor", {"accessor": held["accessor"]})
    assert (one.read("role/db").values, counted()) == ({"password": CANARY}, 3)
    with pytest.raises(ConfigError, match=r"does not grant secret/.* to this identity"):
        one.write("role/db", {"password": "x"})


@pytest.mark.slow
def test_a_role_or_secret_id_that_does_not_fit_is_refused_in_a_sentence(served, tmp_path):
    """A wrong role, a wrong or used up secret id, and a sealed server, which is waited for; no secret id is said."""
    folder, port = served
    owner = VaultServer(bao.url(port), folder / "administrator")
    once = owner.ask("POST", "auth/approle/role/runs/secret-id", {"num_uses": 1})["data"]["secret_id"]
    (tmp_path / "once").write_text(once)
    (tmp_path / "wrong").write_text(CANARY)
    for name in ("once", "wrong"):
        (tmp_path / name).chmod(0o600)
    assert as_run(served, login_file=tmp_path / "once").ask("GET", "auth/token/lookup-self")
    for options, named in (
        ({"role": "another"}, "role another"),
        ({"login_file": tmp_path / "wrong"}, f"the secret id in {tmp_path}/wrong"),
        ({"login_file": tmp_path / "once"}, f"the secret id in {tmp_path}/once at auth/approle, and refuses"),
    ):
        with pytest.raises(ConfigError, match=named) as refused:
            as_run(served, **options).read("role/db")
        assert not [secret for secret in (CANARY, once) if secret in str(refused.value)]
    owner.ask("POST", "sys/seal", {})
    with pytest.raises(NotReady, match="unseal it"):
        as_run(served).read("role/db")
    assert _until_ready(folder, port)


class Roles:
    """The answers of a server to logins and renewals, whose tokens last a minute."""

    def __init__(self, tmp_path, **told):
        self.asked, self.told, self.now = [], {"lease_duration": 60, "renewable": True, **told}, 0.0
        self.held = HeldToken(elapsed=lambda: self.now)
        self.login = RoleLogin("runs", tmp_path / "login")
        self.login.secret_id_file.write_text(CANARY)
        self.login.secret_id_file.chmod(0o600)

    def ask(self, _, path, __=None, *, login=None):
        self.asked.append(path.rpartition("/")[2])
        if path.endswith("renew-self") and login in self.told.get("revoked", ()):
            raise ConfigError("no")
        return {"auth": {"client_token": f"t{len(self.asked)}" if login == "" else login, **self.told}}

    def at(self, seconds, **more):
        self.now = seconds
        return self.held.current(self.ask, self.login, **more)


def test_a_token_is_renewed_in_its_last_third_and_never_used_after_its_end(tmp_path):
    """Without a further login as long as it is renewed; after a pause of more than its time by a login."""
    roles = Roles(tmp_path)
    assert [roles.at(seconds) for seconds in (0, 39, 41, 80, 82, 200)] == ["t1"] * 5 + ["t4"]
    assert roles.asked == ["login", "renew-self", "renew-self", "login"]
    assert CANARY not in repr(roles.held)
    assert "t4" not in repr(roles.held)


def test_a_token_that_cannot_be_renewed_is_exchanged_by_a_login(tmp_path):
    """At the end of its longest lifetime, or where the server says that it is not renewable; so is a refused one."""
    ended, fixed, refused = Roles(tmp_path, revoked=["t1"]), Roles(tmp_path, renewable=False), Roles(tmp_path)
    assert ([ended.at(0), ended.at(41)], ended.asked) == (["t1", "t3"], ["login", "renew-self", "login"])
    assert ([fixed.at(0), fixed.at(41), fixed.at(61)], fixed.asked) == (["t1", "t1", "t2"], ["login", "login"])
    assert ([refused.at(0), refused.at(1, refused="t1"), refused.at(2, refused="t1")]) == ["t1", "t2", "t2"]


def test_a_token_without_an_end_is_kept(tmp_path):
    """As servers say by a lifetime of 0."""
    roles = Roles(tmp_path, lease_duration=0, renewable=False)
    assert {roles.at(seconds) for seconds in (0, 1e9)} == {"t1"}


def _until_ready(folder, port):
    return any(bao.is_ready(folder, port=port) for _ in range(200))


def test_a_lost_key_of_the_server_is_named(tmp_path):
    """It is not started in vain, and no second one is initialized over it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "vault.db").touch()
    with pytest.raises(ConfigError, match=r"must have the file unseal.*restore the file"):
        bao.command(tmp_path, port=1)


def test_the_server_listens_on_loopback_alone(tmp_path):
    """And its command shows neither key nor login."""
    words = bao.command(tmp_path, port=18_200)
    assert json.loads((tmp_path / "server.json").read_text())["listener"]["tcp"]["address"] == "127.0.0.1:18200"
    assert words[1:] == ["server", f"-config={tmp_path / 'server.json'}"]
