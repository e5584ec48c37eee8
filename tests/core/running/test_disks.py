"""Full and read-only disks: one sentence with the place, the reason and the remedy, for whatever writes there."""

from __future__ import annotations

import errno
import os

import pytest

from dedp_assets import cli
from dedp_assets.commands import setup
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.running.disks import NoRoom, Unwritable, refused_write
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import LocalStore, Table, table_lock

REFUSALS = {
    errno.ENOSPC: (NoRoom, "the disk is full: make room, and run again"),
    errno.EDQUOT: (NoRoom, "the disk is full: make room"),
    errno.EIO: (NoRoom, "the disk does not work"),
    errno.EROFS: (Unwritable, "the disk is read-only: mount it for writing, or name another"),
    errno.EACCES: (Unwritable, "this user may not write there: give the right to write"),
    errno.EPERM: (Unwritable, "this user may not write there"),
}
WRITES = {
    "put": (lambda store: store.put("a/b", b"x"), "open"),
    "put over": (lambda store: store.put("old", b"x"), "replace"),
    "put if absent": (lambda store: store.put_if_absent("a/b", b"x"), "link"),
    "make a folder": (lambda store: store.make_folder("c"), "makedirs"),
    "create": (lambda store: store.create("a/d"), "open"),
    "share": (lambda store: store.within("other").share("old", store), "link"),
    "show": (lambda store: store.show("link", "a"), "symlink"),
    "lock": (lambda store: table_lock(store).__enter__(), "open"),
    "claim": (lambda store: store.claim("claimed"), "open"),
}


@pytest.mark.parametrize("number", REFUSALS, ids=errno.errorcode.get)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_the_system_refuses_is_one_sentence(write, number, tmp_path, monkeypatch):
    """An error of the library that may pass or not; and still one of the system, for who goes on without the write."""
    store = LocalStore(str(tmp_path / "table"))
    store.put("old", b"x")
    act, call = WRITES[write]

    def refuses(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(
        "builtins.open" if (write, call) in (("put", "open"), ("create", "open")) else f"os.{call}", refuses
    )
    kind, text = REFUSALS[number]
    with pytest.raises(kind) as refused:
        act(store)
    assert text in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert isinstance(refused.value, OSError)
    assert isinstance(refused.value, NotReady if kind is NoRoom else ConfigError)


def test_what_a_caller_asks_about_stays_what_it_is(tmp_path):
    """A file that is there, one that is not, a file in the place of a folder."""
    store = LocalStore(str(tmp_path))
    store.put("a", b"x")
    with pytest.raises(FileExistsError):
        store.put_if_absent("a", b"x")
    with pytest.raises(NotADirectoryError):
        store.put("a/b", b"x")
    assert refused_write("x", FileNotFoundError(errno.ENOENT, "none")) is None
    assert refused_write("x", RuntimeError("[DIVIDE_BY_ZERO] Division by zero")) is None
    source = "java.io.FileNotFoundException: /landing/1.json (Permission denied)"
    assert refused_write("/lake/silver/x", RuntimeError(source)) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Task failed ... Caused by: java.io.IOException: No space left on device\n\tat java.io", NoRoom),
        (
            "java.io.IOException: Mkdirs failed to create file:/lake/silver/x/staged-1/_temporary (exists=false)",
            Unwritable,
        ),
        ("java.io.FileNotFoundException: /lake/silver/x/1.parquet (Read-only file system)", Unwritable),
        ("java.io.FileNotFoundException: /lake/silver/x/1.parquet (Permission denied)", Unwritable),
        ("java.io.IOException: Disk quota exceeded", NoRoom),
    ],
)
def test_an_error_of_spark_quotes_the_system(text, kind):
    """Whatever Hadoop puts around it."""
    found = refused_write("/lake/silver/x", RuntimeError(text))
    assert type(found) is kind
    assert str(found).startswith("/lake/silver/x cannot be written, as ")


def test_a_table_on_a_read_only_file_system_is_refused_in_a_sentence():
    """Of the system's own, where nobody may write: the first write that tries says so."""
    table = Table(TableSpec("silver/x", {"id": Column("INT")}), LocalStore("/sys/dedp/silver/x"), None)
    with pytest.raises(Unwritable, match=r"/sys/dedp.* cannot be written, as .*: (mount|give|name)"):
        table.ensure()


def test_a_command_says_it_in_the_same_words(monkeypatch, capsys):
    """Of a file that it writes itself."""

    def refuses(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "/home/ada/project/defs.yaml")

    monkeypatch.setattr(setup, "run", refuses)
    assert cli.main(["setup"]) == 3
    told = "dedp setup: /home/ada/project/defs.yaml cannot be written, as the disk is full: make room, and run again\n"
    assert capsys.readouterr().err == told


def test_a_refusal_of_a_server_keeps_its_own_words():
    """A bucket that is read without keys is no write that failed, and its answer names the missing right."""
    words = "the server refuses it (AccessDenied): look at AWS_ACCESS_KEY_ID"
    said = refused_write("s3://lake/orders", PermissionError(errno.EACCES, words, "s3://lake/orders"))
    assert (type(said), str(said)) == (Unwritable, f"s3://lake/orders: {words}")
    plain = refused_write("/lake", PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/lake"))
    assert "this user may not write there" in str(plain)
