"""``dedp secret`` and ``dedp keys``: values go in and never come out, and a mistyped name changes nothing."""

from __future__ import annotations

import io

import pytest

from dedp_assets.cli import main
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.secrets import WRAPPING, Secrets, store_of

CANARY = "canary-p4ssword"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home with an encrypted file of secrets."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    for name in ("DEDP_SECRETS", "DEDP_SECRETS_LOGIN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def dedp(monkeypatch, capsys):
    """Run a command over lines of input: exit code, output, error output."""

    def run(*words, lines=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        code = main([*words])
        said = capsys.readouterr()
        assert CANARY not in said.out + said.err
        return code, said.out, said.err

    return run


def test_a_secret_is_stored_listed_removed_and_restored_and_never_printed(dedp):
    """Fields in their order, a line each; the list has the names."""
    code, out, _ = dedp("secret", "put", "prod/db", "--field", "user", "--field", "password", lines=f"ada1\n{CANARY}\n")
    assert (code, out.startswith("prod/db has version 1 in the encrypted file of this home")) == (0, True)
    assert store_of(settings()).read("prod/db").values == {"user": "ada1", "password": CANARY}
    assert dedp("secret", "list")[1] == "prod/db\n"
    assert dedp("secret", "remove", "prod/db")[0] == 0
    assert dedp("secret", "list")[1] == ""
    assert dedp("secret", "restore", "prod/db")[0] == 0
    assert dedp("secret", "list")[1] == "prod/db\n"


def test_a_random_key_is_made_and_shown_to_nobody(dedp):
    """64 hexadecimal digits, others each time."""
    assert [dedp("secret", "put", WRAPPING, "--random")[0] for _ in range(2)] == [0, 0]
    store = store_of(settings())
    made = {store.read(WRAPPING, version).values["value"] for version in (1, 2)}
    assert {len(bytes.fromhex(each)) for each in made} == {32}
    assert len(made) == 2


@pytest.mark.parametrize(
    ("words", "lines", "named"),
    [
        (["put", ""], "x", "name of a secret"),
        (["put", "prod/db"], "", "must be a line of the input, not empty"),
        (["put", "prod/db"], "abc\n", "at least 4 characters"),
        (["put", f"postgresql://ada:{CANARY}@db"], "x", "name of a secret"),
        (["remove", "prod/unknown"], "", "has no secret prod/unknown"),
        (["restore", "prod/unknown"], "", "has no secret prod/unknown"),
    ],
)
def test_what_cannot_be_is_one_line_and_stores_nothing(dedp, words, lines, named):
    """Exit code 2."""
    code, _, err = dedp("secret", *words, lines=lines)
    assert (code, len(err.splitlines())) == (2, 1)
    assert named in err
    assert store_of(settings()).paths() == []


def test_keys_are_rotated_deleted_restored_and_shredded(dedp):
    """Each action says what it did; before the end of the grace nothing is shredded."""
    before = Secrets().key_ring("t").current("silver/users", "ada").id.hex()
    code, out, _ = dedp("keys", "rotate", "silver/users", "--person", "ada")
    after = Secrets().key_ring("t").current("silver/users", "ada").id.hex()
    assert (code, after in out, before != after) == (0, True, True)
    assert dedp("keys", "delete", "silver/users", "--person", "ada")[1].startswith("2 keys of silver/users are deleted")
    assert dedp("keys", "shred")[1].startswith("0 keys are shredded")
    assert dedp("keys", "restore", "silver/users", "--person", "ada")[1] == "2 keys of silver/users are back\n"
    dedp("keys", "delete", "silver/users", "--person", "ada", "--grace-days", "0")
    assert dedp("keys", "shred")[1].startswith("2 keys are shredded")
    dedp("secret", "put", WRAPPING, "--random")
    assert dedp("keys", "rewrap")[1] == "1 keys were wrapped again, by version 2 of the wrapping key\n"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["delete", "silver/user"], "silver/user has no keys to delete"),
        (["restore", "silver/users"], "none were deleted, or their grace is over"),
        (["delete"], "the table or the purpose of the keys must be stated: dedp keys delete silver/users"),
        (["delete", "silver/users", "--grace-days", "-1"], "--grace-days must be at least 0, not -1"),
    ],
)
def test_keys_that_are_not_there_are_one_line(dedp, words, named):
    """Exit code 2; the keys stay usable."""
    ring = Secrets().key_ring("t")
    key = ring.current("silver/users")
    code, _, err = dedp("keys", *words)
    assert (code, len(err.splitlines()), named in err) == (2, 1, True)
    assert ring.current("silver/users") == key


def test_a_value_behind_a_token_is_for_those_who_may_ask_and_each_request_is_logged(dedp, monkeypatch):
    """By the setting; nobody may unless one is named, and a refused request is in the log as well."""
    token = Secrets().token_vault("t").tokens("visitor", ["ada@example.org"])["ada@example.org"]
    code, out, err = dedp("token", "reveal", token, "--by", "grace")
    assert (code, out) == (2, "")
    assert "who must be one of the readers of the token vault (nobody), not grace; it is logged" in err
    monkeypatch.setenv("DEDP_VAULT_READERS", "data-protection grace")
    assert dedp("token", "reveal", token, "--by", "grace")[:2] == (0, f"{token} ada@example.org\n")
    code, _, err = dedp("token", "reveal", "tok_none", "--by", "grace")
    assert (code, "no value is behind tok_none" in err) == (1, True)
    assert dedp("token", "reveal", token)[0] == 2
    log = dedp("token", "log")[1]
    assert [word for word in ("refused", "granted", "unknown") if word not in log] == []
    assert "ada@" not in log
    stored = b"".join(file.read_bytes() for file in settings().home.rglob("*") if file.is_file())
    assert b"ada@" not in stored
