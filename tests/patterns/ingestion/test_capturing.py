"""DDL behind a capture: the copy equals its source, or the capture refuses; a model of the tables, a real server."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from random import Random
from types import SimpleNamespace

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.postgres import PostgresTable, connected
from dedp_assets.patterns.core.errors import (
    ConfigError,
    Conflict,
    ContractError,
    PatternError,
    SchemaMismatch,
)
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.ingestion import _history
from dedp_assets.patterns.ingestion._capturing import Capture
from dedp_assets.patterns.ingestion._current_rows import require_columns
from tests.helpers import a_run

LATEST = TableSpec(
    "bronze/users",
    {c: Column("STRING") for c in ("user_id", "name", "nick", "mood", "place", "credit")},
    comment="The rows of the source as texts.",
)
TABLES = (
    "CREATE TYPE mood AS ENUM ('glad', 'sad')",
    "CREATE TYPE place AS (city TEXT, street TEXT)",
    "CREATE TABLE users (user_id BIGINT PRIMARY KEY, name TEXT, nick TEXT, mood mood, place place, unused TEXT)",
    "ALTER TABLE users ADD COLUMN credit INT DEFAULT 7",
    "ALTER TABLE users REPLICA IDENTITY FULL",
    "INSERT INTO users SELECT n, 'n' || n, 'k' || n, 'sad', '(Rome,Via)', 'x', n FROM generate_series(1, 4) AS n",
)


LATER = datetime(2100, 1, 1, tzinfo=timezone.utc)


class Stored:
    """A history of changes in memory: what :class:`Capture` needs of a table."""

    name, session = "bronze/users_changes", None

    def __init__(self):
        self.commits, self.changes = [], []
        self.ledger = self

    def transactions(self):
        return self

    def applied(self, name, partition):  # noqa: ARG002 - as the ledger's
        return self.commits[-1].record.sequence if self.commits else None

    def last(self, holds, *, until=None):
        found = [each for each in self.commits if until is None or each.version <= until]
        return next(filter(holds, reversed(found)), None)

    def version(self):
        return len(self.commits) - 1

    def commit(self, version):
        return self.commits[version]

    def mark(self, *, provenance):
        self.commits.append(SimpleNamespace(version=len(self.commits), record=provenance, timestamp=LATER))

    def stage(self, rows, *, provenance, append):  # noqa: ARG002 - as the table's
        def publish(*, after=None):
            self.changes += rows
            self.mark(provenance=provenance)
            return WriteResult(self.name, self.version(), applied=True, changed=True, reason="")

        return SimpleNamespace(publish=publish)


class World:
    """A source, its history, and what a test does to them."""

    def __init__(self, address, monkeypatch):
        monkeypatch.setattr(_history, "frame", lambda _, rows: list(rows))
        self.address, self.history = address, Stored()
        self.source = PostgresTable("public.users", "dedp_users", connect=address.connect)

    def sql(self, *statements):
        """Run statements at the source, each in a transaction of its own; the rows of the last one."""
        found = None
        with self.address.connect(autocommit=True) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall() if found and found.description else []

    def capture(self, *, anew=False):
        """One capture, without the merge: the columns are judged as the copy judges them."""
        capture = Capture(self.source, self.history, ("user_id",), a_run("bronze/users"))
        if anew or not self.history.commits:
            capture.begin(replace_slot=anew)
        with connected(self.source) as connection:
            slot, definition = capture.resume(connection)
            for _ in capture.follow(connection, definition, until=slot.newest, max_messages=1_000):
                pass
        require_columns(SimpleNamespace(spec=LATEST, name=LATEST.name), ["user_id"], self.noted(), self.history)

    def noted(self):
        """What the newest commit notes about the source."""
        return _history.noted(self.history)

    def copied(self):
        """The rows that the history adds up to, by the rule of ``latest_rows``."""
        images, start = {}, tuple(self.noted()["reset"])
        for change in self.history.changes:
            at = (change["commit_lsn"], change["position"])
            for step, name in enumerate(("before", "after")):
                image = change.get(name)
                if at > start and change.get("key") and image:
                    row = json.loads(image)
                    key = row["user_id"]
                    images[key] = max(images.get(key, ((0, 0, 0), None)), ((*at, step), row), key=lambda seen: seen[0])
        rows = [row for (*_, step), row in images.values() if step == 1]
        return sorted((tuple(row.get(c) for c in LATEST.columns) for row in rows), key=str)

    def rows(self):
        """The source's rows as texts."""
        query = f"COPY (SELECT {', '.join(LATEST.columns)} FROM users) TO STDOUT"
        with self.address.connect() as connection, connection.cursor().copy(query) as copy:
            return sorted(copy.rows(), key=str)


@pytest.fixture
def world(database, monkeypatch):
    """A world whose source is captured."""
    made = World(database, monkeypatch)
    made.sql(*TABLES)
    made.capture()
    assert made.copied() == made.rows() != []
    return made


CHANGED = "UPDATE users SET name = name || '+' WHERE user_id = 1"
REFUSED = {
    "a column is dropped and added again": ["ALTER TABLE users DROP name", "ALTER TABLE users ADD name TEXT"],
    "the last column is dropped and added again": [
        "ALTER TABLE users DROP credit",
        "ALTER TABLE users ADD credit INT DEFAULT 8",
    ],
    "values are rewritten": ["ALTER TABLE users ALTER name TYPE TEXT USING upper(name)"],
    "values of a column that was added with a default are rewritten": [
        "ALTER TABLE users ALTER credit TYPE INT USING credit + 1"
    ],
    "a type is changed, without a row that follows": ["ALTER TABLE users ALTER name TYPE INT USING length(name)"],
    "a type is changed and changed back": [
        "ALTER TABLE users ALTER name TYPE INT USING length(name)",
        "ALTER TABLE users ALTER name TYPE TEXT",
    ],
    "columns exchange their names": [
        "ALTER TABLE users RENAME name TO other",
        "ALTER TABLE users RENAME nick TO name",
        "ALTER TABLE users RENAME other TO nick",
    ],
    "columns exchange their names for a while": [
        *(
            exchange := [
                "ALTER TABLE users RENAME name TO other",
                "ALTER TABLE users RENAME nick TO name",
                "ALTER TABLE users RENAME other TO nick",
            ]
        ),
        CHANGED,
        *exchange,
    ],
    "a column has another name for a while": [
        "ALTER TABLE users RENAME name TO other",
        "UPDATE users SET other = 'x'",
        "ALTER TABLE users RENAME other TO name",
    ],
    "a value of a type is renamed": ["ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"],
    "a value of a type has another name for a while": [
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
        "UPDATE users SET name = 'x'",
        "ALTER TYPE mood RENAME VALUE 'blue' TO 'sad'",
    ],
    "a type gets another part": ["ALTER TYPE place ADD ATTRIBUTE house INT"],
    "columns are left out for a while": [
        "ALTER PUBLICATION dedp_users SET TABLE users (user_id, name)",
        "ALTER TABLE users REPLICA IDENTITY DEFAULT",
        "UPDATE users SET nick = 'x'",
        "ALTER TABLE users REPLICA IDENTITY FULL",
        "ALTER PUBLICATION dedp_users SET TABLE users",
    ],
    "rows are left out for a while": [
        "ALTER PUBLICATION dedp_users SET TABLE users WHERE (user_id > 2)",
        CHANGED,
        "ALTER PUBLICATION dedp_users SET TABLE users",
    ],
    "the table is not published for a while": [
        "ALTER PUBLICATION dedp_users DROP TABLE users",
        CHANGED,
        "ALTER PUBLICATION dedp_users ADD TABLE users",
    ],
    "only inserts are published for a while": [
        "ALTER PUBLICATION dedp_users SET (publish = 'insert')",
        CHANGED,
        "ALTER PUBLICATION dedp_users SET (publish = 'insert, update, delete, truncate')",
    ],
    "truncations are not published for a while": [
        "ALTER PUBLICATION dedp_users SET (publish = 'insert, update, delete')",
        "TRUNCATE users",
        "ALTER PUBLICATION dedp_users SET (publish = 'insert, update, delete, truncate')",
    ],
    "the publication has another name for a while": [
        "ALTER PUBLICATION dedp_users RENAME TO other",
        "CREATE PUBLICATION dedp_users FOR TABLE users WITH (publish = 'insert')",
        CHANGED,
        "DROP PUBLICATION dedp_users",
        "ALTER PUBLICATION other RENAME TO dedp_users",
    ],
    "the table is not logged for a while": [
        "ALTER PUBLICATION dedp_users DROP TABLE users",
        "ALTER TABLE users SET UNLOGGED",
        CHANGED,
        "ALTER TABLE users SET LOGGED",
        "ALTER PUBLICATION dedp_users ADD TABLE users",
    ],
    "another table takes the name": [
        "CREATE TABLE other (LIKE users INCLUDING ALL)",
        "ALTER TABLE other REPLICA IDENTITY FULL",
        "ALTER TABLE users RENAME TO former",
        "ALTER TABLE other RENAME TO users",
        "ALTER PUBLICATION dedp_users ADD TABLE users",
    ],
    "former rows are not logged for a while": [
        "ALTER TABLE users REPLICA IDENTITY NOTHING",
        "INSERT INTO users (user_id) VALUES (9)",
        "ALTER TABLE users REPLICA IDENTITY FULL",
    ],
    "keys are not unique for a while": [
        "ALTER TABLE users DROP CONSTRAINT users_pkey",
        "INSERT INTO users (user_id, name) VALUES (1, 'second')",
        "DELETE FROM users WHERE user_id = 1 AND name = 'n1'",
        "ALTER TABLE users ADD PRIMARY KEY (user_id)",
    ],
    "keys are unique at the end of a transaction only": [
        "ALTER TABLE users DROP CONSTRAINT users_pkey",
        "ALTER TABLE users ADD PRIMARY KEY (user_id) DEFERRABLE",
        "UPDATE users SET user_id = user_id + 1",
    ],
    "another table inherits from it": [
        "CREATE TABLE special () INHERITS (users)",
        "INSERT INTO special (user_id, name) VALUES (11, 'special')",
    ],
    "the slot is made again": [
        "SELECT pg_drop_replication_slot('dedp_users')",
        CHANGED,
        "SELECT pg_create_logical_replication_slot('dedp_users', 'pgoutput')",
    ],
}
HARMLESS = {
    "a column without a default": ["ALTER TABLE users ADD city TEXT"],
    "a column with a default that is not taken": ["ALTER TABLE users ADD region TEXT DEFAULT 'Lazio'", CHANGED],
    "a column with a default of its own for each row": ["ALTER TABLE users ADD token TEXT DEFAULT random()::text"],
    "a column that is not taken is dropped": ["ALTER TABLE users DROP unused", CHANGED],
    "indexes": ["CREATE INDEX ON users (name)", "REINDEX TABLE users", "REINDEX TABLE CONCURRENTLY users"],
    "comments": ["COMMENT ON TABLE users IS 'x'", "COMMENT ON COLUMN users.name IS 'x'"],
    "housekeeping": ["VACUUM ANALYZE users", "VACUUM FULL users", "CLUSTER users USING users_pkey"],
    "housekeeping of the catalogue": ["VACUUM FULL pg_attribute", "VACUUM FULL pg_publication_rel", "VACUUM FREEZE"],
    "grants": ["GRANT SELECT ON users TO PUBLIC", "GRANT SELECT (name) ON users TO PUBLIC"],
    "settings of a column": [
        "ALTER TABLE users ALTER name SET STATISTICS 50",
        "ALTER TABLE users ALTER name SET STORAGE EXTERNAL",
        "ALTER TABLE users ALTER name SET DEFAULT 'x'",
        "ALTER TABLE users ALTER name SET NOT NULL",
    ],
    "settings of the table": ["ALTER TABLE users SET (fillfactor = 70)", "ALTER TABLE users ADD CHECK (user_id > 0)"],
    "another table": [
        "CREATE TABLE sites (n INT PRIMARY KEY)",
        "ALTER PUBLICATION dedp_users ADD TABLE sites",
        "ALTER TABLE sites RENAME TO another",
        "ALTER TABLE another ALTER n TYPE BIGINT",
    ],
    "the table has another name for a while": [
        "ALTER TABLE users RENAME TO other",
        "UPDATE other SET name = name || '+'",
        "ALTER TABLE other RENAME TO users",
    ],
    "the table is in another schema for a while": [
        "CREATE SCHEMA other",
        "ALTER TABLE users SET SCHEMA other",
        "UPDATE other.users SET name = name || '+'",
        "ALTER TABLE other.users SET SCHEMA public",
    ],
    "another value of a type": ["ALTER TYPE mood ADD VALUE 'calm' BEFORE 'sad'", CHANGED],
    "the table is emptied": ["TRUNCATE users", "INSERT INTO users (user_id) VALUES (9)"],
    "triggers are off": ["ALTER TABLE users DISABLE TRIGGER ALL", CHANGED, "SET session_replication_role = replica"],
    "it is a partition for a while": [
        "CREATE TABLE whole (LIKE users) PARTITION BY LIST (user_id)",
        "ALTER TABLE whole ATTACH PARTITION users DEFAULT",
        "UPDATE whole SET name = name || '+'",
        "ALTER TABLE whole DETACH PARTITION users",
    ],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_ddl_that_the_log_does_not_tell_of_is_refused_until_a_new_snapshot(world, kind):
    """Nothing is published of a change that may hide others; the refusal names the remedy, which heals it."""
    world.sql(*REFUSED[kind])
    for _ in range(2):
        with pytest.raises(PatternError) as refused:
            world.capture()
        assert not refused.value.retryable
        world.sql("INSERT INTO users (user_id) SELECT 100 + count(*) FROM users")
    if not isinstance(refused.value, ContractError):
        return  # a setting of the table that has to be corrected first
    assert "new snapshot (resnapshot=True)" in str(refused.value)
    world.capture(anew=True)
    assert world.copied() == world.rows()


def test_ddl_that_changes_no_row_of_the_copy_is_captured_through(world):
    """What the copy takes arrives before, with and after each kind of it; nobody is asked for a snapshot."""
    for kind, statements in HARMLESS.items():
        world.sql(*statements)
        world.capture()
        assert world.copied() == world.rows(), kind
        world.sql("INSERT INTO users (user_id, name) SELECT max(user_id) + 1, 'later' FROM users", CHANGED)
        world.capture()
        assert world.copied() == world.rows(), kind


def test_a_table_that_is_rewritten_while_its_snapshot_begins_is_read_again_later(world):
    """The snapshot's position is older than the new file, whose rows it could not see."""
    opened = []

    def connect(**settings):
        if opened and "replication" in opened[-1]:
            world.sql("ALTER TABLE users ALTER name TYPE TEXT USING upper(name)")
        opened.append(settings)
        return world.address.connect(**settings)

    usual = world.source
    world.source = replace(usual, connect=connect)
    with pytest.raises(Conflict, match=r"public\.users was rewritten while its snapshot began"):
        world.capture(anew=True)
    world.source = usual
    world.capture(anew=True)
    assert world.copied() == world.rows()


def test_a_reader_from_whom_a_policy_hides_rows_takes_no_snapshot(world):
    """The log hides none, so the copy would lack them; the right to read and to replicate is enough otherwise."""
    world.sql(
        "DROP ROLE IF EXISTS follower",
        "CREATE ROLE follower LOGIN REPLICATION PASSWORD 'following'",
        "GRANT SELECT ON users TO follower",
    )
    world.source = replace(world.source, connect=replace(world.address, user="follower", password="following").connect)
    try:
        world.sql("INSERT INTO users (user_id) VALUES (9)")
        world.capture()
        world.capture(anew=True)
        assert world.copied() == world.rows()
        world.sql("ALTER TABLE users ENABLE ROW LEVEL SECURITY", "CREATE POLICY few ON users USING (user_id < 3)")
        with pytest.raises(ConfigError, match="row-level security policy"):
            world.capture(anew=True)
        world.capture()
        assert world.copied() == world.rows()
    finally:
        world.sql("DROP OWNED BY follower", "DROP ROLE follower")


def test_a_server_that_was_restored_is_another_one(world, monkeypatch):
    """Its timeline differs; positions of its log say nothing of what was captured from the other."""
    begun = "the server or its timeline"
    note = world.history.commits[-1].record.notes["source"]["defined"]["parts"]
    monkeypatch.setitem(note, begun, note[begun].replace("00000001", "00000002"))
    with pytest.raises(ContractError, match=rf"{begun} changed after .*resnapshot=True"):
        world.capture()


def test_a_history_that_remembers_no_definition_takes_the_present_one(world):
    """What an earlier version wrote is captured on; from then on changes are seen."""
    del world.history.commits[-1].record.notes["source"]["defined"]
    world.sql(CHANGED)
    world.capture()
    world.sql("ALTER TABLE users ALTER name TYPE TEXT USING upper(name)")
    with pytest.raises(SchemaMismatch, match="name was rewritten by ALTER TYPE after"):
        world.capture()


AGAIN = ("DROP SCHEMA public CASCADE", "DROP SCHEMA IF EXISTS other CASCADE", "CREATE SCHEMA public", *TABLES)
ROWS = (
    CHANGED,
    "DELETE FROM users WHERE user_id % 3 = 0",
    "UPDATE users SET mood = 'glad' WHERE user_id % 2 = 0",
    "UPDATE users SET user_id = user_id + 50 WHERE user_id = 4",
    "UPDATE users SET nick = 'x', credit = 3",
    "INSERT INTO users (user_id) SELECT max(user_id) + 1 FROM users",
)


@settings(
    max_examples=max(1, settings().max_examples // 30),  # each is thirty captures
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 1 << 32))
def test_any_order_of_ddl_changes_and_captures_leaves_the_copy_right_or_is_refused(world, seed):
    """After each capture that does not refuse, and after each new snapshot, the copy equals the source."""
    random = Random(seed)  # noqa: S311 - test data
    ddl = [statement for kinds in (REFUSED, HARMLESS) for statements in kinds.values() for statement in statements]
    begin_again(world)
    for _ in range(30):
        for statement in [*random.choices(ddl, k=random.randrange(3)), *random.choices(ROWS, k=random.randrange(3))]:
            with suppress(psycopg.Error):  # it may not fit what stands there by now
                world.sql(statement)
        try:
            world.capture(anew=random.random() < 0.1)
        except PatternError:
            if random.random() < 0.5:
                begin_again(world)
        else:
            assert world.copied() == world.rows()


def begin_again(world):
    """The source as it was at first, in a new snapshot."""
    world.sql(*AGAIN)
    world.capture(anew=True)
    assert world.copied() == world.rows() != []
