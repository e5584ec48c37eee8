"""Private databases: SQLite files readable by the owner alone, for the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from dedp_assets.patterns.core.errors import ConfigError, NotReady

__all__ = ["private_database"]

_WAIT_SECONDS = 120.0


@contextmanager
def private_database(file: Path, *, of: str, tables: str = "") -> Iterator[sqlite3.Connection]:
    """Open a private database; statements outside of a transaction are committed at once.

    Deleted rows are overwritten in the file.

    Args:
        file: the file, whose folder exists.
        of: the content, for people, such as ``token vault``.
        tables: statements that make the tables, unless they are there; with them, a missing file is made.

    Raises:
        NotReady: if the file cannot be opened, or is missing.
        ConfigError: if the file is no database.
    """
    try:
        if tables:  # SQLite makes a file as the umask says
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        place = f"file:{quote(str(file))}?mode=rw"
        with closing(sqlite3.connect(place, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)) as database:
            database.execute("PRAGMA secure_delete = ON")
            if tables:
                database.executescript(f"BEGIN IMMEDIATE;{tables}COMMIT;")
            yield database
    except (OSError, sqlite3.OperationalError) as error:
        raise NotReady(f"the {of} {file} cannot be used: {error}; nothing was written") from error
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"file must be a {of}, not {file}: {error}") from error
