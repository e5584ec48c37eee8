"""Private databases."""

from __future__ import annotations

import os
import stat

import pytest

from dedp_assets.patterns.connectors.secrets.private_database import private_database
from dedp_assets.patterns.core.errors import ConfigError, NotReady

TABLES = "CREATE TABLE IF NOT EXISTS notes (text TEXT);"


def test_a_database_is_made_for_its_owner_alone_and_opened_again(tmp_path):
    """Also under a name that a URI would read otherwise, and whatever the umask allows."""
    file, before = tmp_path / "a b?mode=ro#%41.db", os.umask(0)
    try:
        with private_database(file, of="box", tables=TABLES) as made:
            made.execute("INSERT INTO notes VALUES ('kept')")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with private_database(file, of="box") as again:
        assert again.execute("SELECT text FROM notes").fetchall() == [("kept",)]
        assert again.execute("PRAGMA secure_delete").fetchone() == (1,)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_what_cannot_be_opened_says_so(tmp_path):
    """A missing file or folder may come back; a file of something else never becomes a database."""
    with (
        pytest.raises(NotReady, match=r"the box .*gone.db cannot be used"),
        private_database(tmp_path / "gone.db", of="box"),
    ):
        pass
    assert not (tmp_path / "gone.db").exists()
    text = tmp_path / "text.db"
    text.write_text("no database " * 100)
    with pytest.raises(ConfigError, match="file must be a box, not"), private_database(text, of="box", tables=TABLES):
        pass
