"""Erasure of rows from a PostgreSQL and from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedp_assets.patterns.connectors.postgres import ErasableTable, Incoming, exchange, receive, writing
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from tests.canaries import Canary

pytestmark = pytest.mark.slow

CANARY = Canary("e-mail", b"canary.lovelace@example.org")
MADE = 'CREATE TABLE "user context" (id bigint PRIMARY KEY, "e-mail" text, at int)'
TABLE = "public.user context"


@pytest.fixture
def persons(database):
    with database.connect(autocommit=True) as connection:
        connection.execute(MADE)
    return ErasableTable(TABLE, "id", ["e-mail"], database.connect)


def upsert(database, *rows):
    incoming = Incoming(TABLE, ["id", "e-mail", "at"], ["id"], rows, newest=["at"])
    with writing(database.connect) as connection:
        receive(connection, incoming, 0)
        return exchange(connection, incoming, 0)


def rows_of(database):
    with database.connect() as connection:
        return connection.execute('SELECT * FROM "user context" ORDER BY 1').fetchall()


def test_an_older_row_that_comes_late_changes_nothing(database, persons):
    """One row for each person, the newest, whatever the order of delivery; NULL of a newer row counts."""
    assert upsert(database, ["1", "a@1", "1"], ["2", "b@5", "5"]).inserted == 2
    assert upsert(database, ["1", None, "2"], ["2", "b@4", "4"]).updated == 1
    assert upsert(database, ["1", "a@1", "1"], ["2", "b@5", "5"]).updated == 0
    assert rows_of(database) == [(1, None, 2), (2, "b@5", 5)]
    with pytest.raises(ConfigError, match="newest must be columns beside the key"):
        Incoming(TABLE, ["id", "at"], ["id"], [], newest=["id"])
    with pytest.raises(ConfigError, match="missing: \\['seen'\\]"):
        Incoming(TABLE, ["id", "at"], ["id"], [], newest=["seen"])


def test_the_bytes_of_a_person_are_gone_from_the_data_folder(database, persons):
    """Table, statistics of before and write-ahead log; an unknown id is nobody's, and a person may come again."""
    with database.connect(autocommit=True) as connection:
        (folder,) = connection.execute("SHOW data_directory").fetchall()[0]

    def found():
        files = (file for file in Path(folder).rglob("*") if file.is_file())
        return {str(file.relative_to(folder).parts[0]) for file in files if CANARY.value in file.read_bytes()}

    upsert(database, *[[str(n), CANARY.value.decode() if n == 7 else f"u{n}@example.org", "1"] for n in range(50)])
    with database.connect(autocommit=True) as connection:
        connection.execute('ANALYZE "user context"')
        connection.execute("CHECKPOINT")
        taken = "SELECT count(*) FROM pg_stats WHERE tablename = 'user context' AND attname = 'e-mail'"
        assert connection.execute(taken).fetchall() == [(1,)]
    assert found() == {"base", "pg_wal"}
    persons.erase(["7", "999"])
    assert 7 not in [row[0] for row in rows_of(database)]
    assert found()
    persons.purge(["7", "999"])
    assert found() == set()
    with database.connect(autocommit=True) as connection:
        connection.execute('ANALYZE "user context"')
        assert connection.execute(taken).fetchall() == [(0,)]
    assert len(rows_of(database)) == 49
    persons.erase(["7"])
    upsert(database, ["7", "new@example.org", "9"])
    assert (7, "new@example.org", 9) in rows_of(database)


def test_a_slot_that_is_behind_is_named(database, persons):
    """The server keeps its log for the slot's reader, and the erased row with it."""
    upsert(database, ["1", "a@1", "1"])
    with database.connect(autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('of_somebody', true)")
        try:
            persons.erase(["1"])
            with pytest.raises(NotReady, match="replication slots of_somebody"):
                persons.purge(["1"])
        finally:
            connection.execute("SELECT pg_drop_replication_slot('of_somebody')")
    persons.purge(["1"])


def test_ids_that_no_key_can_be_and_tables_that_are_not_there_are_refused(database, persons):
    """The error names the table, and no id."""
    with pytest.raises(ContractError, match="user context") as raised:
        persons.erase(["canary"])
    assert "canary" not in str(raised.value)
    with pytest.raises(ConfigError, match=r"public\.nowhere"):
        ErasableTable("public.nowhere", "id", [], database.connect).erase(["1"])
