"""Change data capture from a real server: nothing lost, nothing doubled, and the copy equals its source."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from threading import Event
from time import sleep

import psycopg
import pytest
from deltalake import DeltaTable

from dedp_assets.case_study.sources import operational
from dedp_assets.laptop.servers import postgres as server
from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.postgres import PostgresTable, slots
from dedp_assets.patterns.connectors.postgres.pgoutput import Change, Relation, Transaction
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady, SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import StagedWrite
from dedp_assets.patterns.ingestion import _capturing as capturing
from dedp_assets.patterns.ingestion import _history, change_data_capture
from dedp_assets.patterns.ingestion._history import cursor
from dedp_assets.patterns.ingestion.change_data_capture import CHANGES, apply_changes, capture_changes, judge_slot
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back
from tests.two_runs import two_runs, two_runs_of

pytestmark = pytest.mark.budget(120, "each test has a database of its own, and captures it several times")

HISTORY = TableSpec("bronze/users_changes", CHANGES, partition_by=("committed_on",), comment="One row per change.")
LATEST = TableSpec(
    "bronze/users",
    {
        "user_id": Column("BIGINT", "key", required=True),
        "name": Column("STRING", "who", classification="personal"),
        "notes": Column("STRING", "a large value"),
    },
    comment="One row per user of the source, as of a position of its log.",
)
KEYS = ["user_id"]
LARGE = "".join(f"{n:06d}" for n in range(2000))


class World:
    """A source table, its history, its copy, and what a test does to them."""

    def __init__(self, address, make_table, latest=LATEST):
        self.address, self.make_table = address, make_table
        self.source = PostgresTable("public.users", "dedp_users", connect=address.connect)
        self.history, self.latest = make_table(HISTORY), make_table(latest)

    def sql(self, *statements):
        """Run statements at the source, each in a transaction of its own; the rows of the last one."""
        found = None
        with self.address.connect(autocommit=True) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall() if found and found.description else []

    def capture(self, **more):
        """One capture."""
        run = a_run("bronze/users")
        into, latest = self.history.target(run), self.latest.target(run)
        return capture_changes(self.source, into, latest, **{"keys": KEYS, **more})

    def rows(self):
        """The source's rows, by key."""
        return sorted(self.sql(f"SELECT {', '.join(self.latest.spec.columns)} FROM users"), key=str)

    def copied(self, table=None):
        """The copy's rows through an independent reader."""
        table = table or self.latest
        return sorted((tuple(row[c] for c in table.spec.columns) for row in read_back(table)), key=str)

    def changes(self, *, since=0):
        """The history in order, images read as JSON."""
        found = [row for row in read_back(self.history) if row["commit_lsn"] > since]
        for row in found:
            row |= {name: row[name] and json.loads(row[name]) for name in ("key", "before", "after")}
        return sorted(found, key=lambda row: (row["commit_lsn"], row["position"]))

    def happened(self, *, since=0):
        """Operations with the key they are about, in order."""
        return [(row["operation"], row["key"] and int(row["key"]["user_id"])) for row in self.changes(since=since)]

    def position(self):
        """How far the source's log was read."""
        return self.history.ledger.transactions().applied(self.history.name, {}) or 0

    def versions(self):
        """Versions of both tables."""
        return self.history.ledger.version(), self.latest.ledger.version()


@pytest.fixture
def world(database, make_table):
    """A world with an empty source table that logs former rows."""
    made = World(database, make_table)
    made.sql(
        "CREATE TABLE users (user_id BIGINT PRIMARY KEY, name TEXT, notes TEXT)",
        "ALTER TABLE users REPLICA IDENTITY FULL",
        "ALTER TABLE users ALTER COLUMN notes SET STORAGE EXTERNAL",
    )
    return made


@pytest.fixture
def begun(world):
    """A world with two users in a first capture."""
    world.sql(f"INSERT INTO users VALUES (1, 'Ann', '{LARGE}'), (2, NULL, NULL)")
    world.capture()
    assert world.copied() == world.rows()
    return world


@contextmanager
def broken(monkeypatch, owner, name, *, calls=0):
    """``owner.name`` fails after so many calls, for the time of a block."""
    real, made = getattr(owner, name), []

    def fails(*arguments, **options):
        made.append(name)
        if len(made) > calls:
            raise OSError("killed")
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fails)
        yield


@pytest.mark.both
def test_every_operation_is_in_the_history_and_the_copy_equals_the_source(world):
    """Inserts, an update with its row before and after, a delete; after each capture the copy is the source."""
    world.sql("INSERT INTO users VALUES (1, 'Ann', NULL)")
    first = world.capture()
    assert (first.applied, first.changed, first.rows.written, first.figures["snapshot"]) == (True, True, 2, True)
    assert world.copied() == world.rows() == [(1, "Ann", None)]
    start = world.position()
    world.sql("INSERT INTO users VALUES (2, 'Bo', 'b'), (3, 'Cy', 'c')", "INSERT INTO users VALUES (4, NULL, '')")
    assert world.capture().rows.written == 3
    assert world.copied() == world.rows()
    world.sql("UPDATE users SET name = 'Bea' WHERE user_id = 2", "DELETE FROM users WHERE user_id = 3")
    result = world.capture()
    assert (result.rows.written, result.figures["snapshot"], result.table) == (2, False, "bronze/users_changes")
    assert world.copied() == world.rows() == [(1, "Ann", None), (2, "Bea", "b"), (4, None, "")]
    changes = world.changes(since=start)
    assert [(c["operation"], c["position"]) for c in changes] == [
        ("insert", 0),
        ("insert", 1),
        ("insert", 0),
        ("update", 0),
        ("delete", 0),
    ]
    assert changes[2]["after"] == {"user_id": "4", "name": None, "notes": ""}
    assert changes[3]["before"] == {"user_id": "2", "name": "Bo", "notes": "b"}
    assert changes[3]["after"] == {"user_id": "2", "name": "Bea", "notes": "b"}
    assert (changes[4]["before"], changes[4]["after"]) == ({"user_id": "3", "name": "Cy", "notes": "c"}, None)
    assert all(change["committed_on"] == change["committed_at"].date() for change in changes)


def test_order_is_kept_per_key_within_and_across_transactions(begun):
    """The last of many changes of a key wins, in one batch and in several; a rolled-back one never happened."""
    start = begun.position()
    with begun.address.connect() as connection:
        for name in ("x", "y", "z"):
            connection.execute("UPDATE users SET name = %s WHERE user_id = 1", (name,))
        connection.execute("INSERT INTO users VALUES (9, 'new', NULL)")
        connection.execute("DELETE FROM users WHERE user_id = 9")
        connection.commit()
        connection.execute("UPDATE users SET name = 'never'")
        connection.rollback()
    begun.sql("DELETE FROM users WHERE user_id = 2", "INSERT INTO users VALUES (2, 'again', NULL)")
    begun.sql("UPDATE users SET name = 'last' WHERE user_id = 2", "INSERT INTO users VALUES (5, 'brief', NULL)")
    begun.sql("DELETE FROM users WHERE user_id = 5")
    begun.capture()
    assert begun.happened(since=start) == [
        *[("update", 1)] * 3,
        *[("insert", 9), ("delete", 9), ("delete", 2), ("insert", 2), ("update", 2), ("insert", 5), ("delete", 5)],
    ]
    assert [c["after"]["name"] for c in begun.changes(since=start)[:3]] == ["x", "y", "z"]
    assert begun.copied() == begun.rows() == [(1, "z", LARGE), (2, "last", None)]


def test_a_key_that_changes_moves_its_row(begun):
    """The row is gone under its former key and there under the new one, also if another row had that key before."""
    begun.sql("UPDATE users SET user_id = 7 WHERE user_id = 1", "UPDATE users SET user_id = 1 WHERE user_id = 2")
    begun.capture()
    assert begun.copied() == begun.rows() == [(1, None, None), (7, "Ann", LARGE)]


def test_a_large_value_that_did_not_change_and_a_null_are_told_apart(begun):
    """The log does not repeat the large value; the history and the copy have it all the same, and NULL is NULL."""
    start = begun.position()
    begun.sql("UPDATE users SET name = 'Anna' WHERE user_id = 1", "UPDATE users SET notes = NULL WHERE user_id = 1")
    begun.sql(f"UPDATE users SET notes = '{LARGE}' WHERE user_id = 2")
    begun.capture()
    unchanged, nulled, filled = begun.changes(since=start)
    assert unchanged["after"] == {"user_id": "1", "name": "Anna", "notes": LARGE}
    assert (nulled["before"]["notes"], nulled["after"]["notes"]) == (LARGE, None)
    assert (filled["before"]["notes"], filled["after"]["notes"]) == (None, LARGE)
    assert begun.copied() == begun.rows() == [(1, "Anna", None), (2, None, LARGE)]


def test_a_truncated_source_empties_the_copy(begun):
    """What comes after it counts, also in the same capture."""
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)", "TRUNCATE users")
    begun.capture()
    assert begun.copied() == begun.rows() == []
    begun.sql("INSERT INTO users VALUES (4, 'Di', NULL)", "TRUNCATE users", "INSERT INTO users VALUES (5, 'Ed', NULL)")
    begun.capture()
    assert begun.copied() == begun.rows() == [(5, "Ed", None)]
    assert [operation for operation, _ in begun.happened()][-4:] == ["truncate", "insert", "truncate", "insert"]


def test_values_of_every_kind_arrive_as_what_they_are(database, make_table):
    """Each type by snapshot, insert and update; the text of a value is the same on all three ways."""
    kinds = {
        "amount": ("NUMERIC(10, 2)", "DECIMAL(10, 2)", "12.30", Decimal("12.30")),
        "ratio": ("DOUBLE PRECISION", "DOUBLE", "0.1", 0.1),
        "active": ("BOOLEAN", "BOOLEAN", "true", True),
        "born": ("DATE", "DATE", "'1990-02-28'", date(1990, 2, 28)),
        "seen": (
            "TIMESTAMPTZ",
            "TIMESTAMP",
            "'2026-01-05 10:00:00.123456+05:30'",
            datetime(2026, 1, 5, 4, 30, 0, 123456, tzinfo=timezone.utc),
        ),
        "picture": ("BYTEA", "BINARY", "'\\x00ff10'", b"\x00\xff\x10"),
        "settings": ("JSONB", "STRING", """'{"a": ["ü", null]}'""", '{"a": ["ü", null]}'),
        "odd": (
            "TEXT",
            "STRING",
            """E'tab\\t line\\n "quote" \\\\ ''apostrophe'''""",
            "tab\t line\n \"quote\" \\ 'apostrophe'",
        ),
    }
    columns = {"user_id": Column("BIGINT", required=True), **{c: Column(kind[1]) for c, kind in kinds.items()}}
    world = World(database, make_table, replace(LATEST, columns=columns))
    declared = ", ".join(f"{c} {kind[0]}" for c, kind in kinds.items())
    values = ", ".join(kind[2] for kind in kinds.values())
    world.sql(
        f"CREATE TABLE users (user_id BIGINT PRIMARY KEY, {declared})",
        "ALTER TABLE users REPLICA IDENTITY FULL",
        f"INSERT INTO users VALUES (1, {values})",
    )
    world.capture()
    world.sql(f"INSERT INTO users VALUES (2, {values})", "INSERT INTO users (user_id) VALUES (3), (4)")
    world.sql(f"UPDATE users SET ({', '.join(kinds)}) = ({values}) WHERE user_id = 3")
    world.capture()
    expected = tuple(kind[3] for kind in kinds.values())
    assert world.copied() == [(1, *expected), (2, *expected), (3, *expected), (4, *[None] * len(kinds))]
    full = [change["after"] for change in world.changes() if change["key"] and change["after"]["amount"]]
    assert len({json.dumps({**image, "user_id": ""}) for image in full}) == 1


@contextmanager
def written_to(world):
    """Somebody inserts users 1, 2, 3, ... for the time of a block; yields how many there are by now."""
    done, written = Event(), []

    def write():
        with world.address.connect(autocommit=True) as connection:
            while not done.is_set():
                connection.execute("INSERT INTO users VALUES (%s, 'w', NULL)", (len(written) + 1,))
                written.append(len(written) + 1)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            yield written
        finally:
            done.set()
        writing.result()


def test_snapshot_and_log_meet_without_gap_or_overlap_while_somebody_writes(world):
    """Every row that was ever inserted is in the history exactly once, from the snapshot or from the log."""
    with written_to(world) as written:
        while len(written) < 5:
            pass
        world.capture()
    world.capture()
    happened = world.happened()
    read, inserted = ([key for what, key in happened if what == name] for name in ("read", "insert"))
    assert happened[0] == ("snapshot", None)
    assert len(read) >= 5
    assert len(inserted) > 0
    assert sorted([*read, *inserted]) == written
    assert world.copied() == world.rows()


def test_what_commits_while_the_snapshot_is_read_is_in_the_log(world):
    """A transaction after the slot began and before the rows were read is not in the snapshot, and comes once."""
    world.sql("INSERT INTO users VALUES (1, 'before', NULL)")
    opened = []

    def connect(**settings):
        if opened and "replication" in opened[-1]:
            world.sql(
                "INSERT INTO users VALUES (2, 'meanwhile', NULL)", "UPDATE users SET name = 'x' WHERE user_id = 1"
            )
        opened.append(settings)
        return world.address.connect(**settings)

    world.source = replace(world.source, connect=connect)
    world.capture()
    assert world.happened() == [("snapshot", None), ("read", 1), ("insert", 2), ("update", 1)]
    assert world.changes()[1]["after"]["name"] == "before"
    assert world.copied() == world.rows()


CRASHES = {
    "before the history's commit": (StagedWrite, "publish"),
    "before the slot moves": (postgres, "advance"),
    "before the copy is merged": (change_data_capture, "apply_changes"),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_capture_that_dies_is_finished_by_the_next_one(begun, monkeypatch, crash):
    """Wherever it died: every change is in the history once, and the copy equals the source."""
    start = begun.position()
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)", "UPDATE users SET name = 'Bo' WHERE user_id = 2")
    with broken(monkeypatch, *CRASHES[crash]), pytest.raises(OSError, match="killed"):
        begun.capture()
    begun.sql("DELETE FROM users WHERE user_id = 1")
    begun.capture()
    assert begun.happened(since=start) == [("insert", 3), ("update", 2), ("delete", 1)]
    assert begun.copied() == begun.rows() == [(2, "Bo", None), (3, "Cy", None)]
    assert not begun.capture().applied


def test_a_backlog_is_worked_off_in_batches_and_resumed_in_its_middle(begun, monkeypatch):
    """A commit per batch, a transaction never cut; after a crash between two batches nothing comes twice."""
    start, version = begun.position(), begun.history.ledger.version()
    for number in range(10, 16):
        begun.sql(f"INSERT INTO users VALUES ({number}, 'n', NULL), ({number + 10}, 'n', NULL)")
    with broken(monkeypatch, postgres, "peek", calls=2), pytest.raises(OSError, match="killed"):
        begun.capture(max_messages=4)
    assert begun.happened(since=start) == [("insert", n) for n in (10, 20, 11, 21)]
    assert begun.capture(max_messages=4).rows.written == 8
    assert begun.happened(since=start) == [("insert", n + m) for n in range(10, 16) for m in (0, 10)]
    assert begun.history.ledger.version() == version + 6
    assert begun.copied() == begun.rows()


def test_a_first_capture_that_dies_leaves_nothing_on_the_server(world, monkeypatch):
    """The slot is kept only when the snapshot is about to be published; the next capture begins anew."""
    world.sql("INSERT INTO users VALUES (1, 'Ann', NULL)")
    with broken(monkeypatch, type(world.history), "stage"), pytest.raises(OSError, match="killed"):
        world.capture()
    slots = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    for _ in range(100):  # the server ends a temporary slot once it notices that the client is gone
        if not (left := world.sql(slots)):
            break
        sleep(0.1)
    assert left == []
    world.capture()
    assert world.copied() == world.rows() == [(1, "Ann", None)]


def test_nothing_new_writes_nothing(begun):
    """Neither table gets a commit."""
    before = begun.versions()
    again = begun.capture()
    assert (again.applied, again.changed, again.rows.written, begun.versions()) == (False, False, 0, before)


def test_traffic_of_other_tables_does_not_hold_the_log(begun, monkeypatch):
    """Once enough of it has passed, a commit without rows moves the position, and the slot lets go of the log."""
    monkeypatch.setattr(capturing, "_IDLE_BYTES", 10_000)
    begun.sql("CREATE TABLE other AS SELECT repeat('x', 100) FROM generate_series(1, 2000)")
    version, rows = begun.history.ledger.version(), len(begun.changes())
    with postgres.connected(begun.source) as connection:
        behind = postgres.slot_state(connection, begun.source).behind_bytes
        result = begun.capture()
        assert postgres.slot_state(connection, begun.source).behind_bytes < behind / 10
    assert (result.applied, result.changed, result.rows.written) == (True, False, 0)
    assert (begun.history.ledger.version(), len(begun.changes())) == (version + 1, rows)
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)")
    begun.capture()
    assert begun.copied() == begun.rows()


@two_runs_of("capture_changes")
def test_of_two_captures_that_saw_the_same_changes_one_gives_way(begun, monkeypatch):
    """The one that commits second would double them; it is told to run again, and nothing is there twice."""
    start, real = begun.position(), StagedWrite.publish
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)")

    def overtaken(staged, **options):
        monkeypatch.setattr(StagedWrite, "publish", real)
        begun.sql("INSERT INTO users VALUES (4, 'Di', NULL)")
        begun.capture()
        return real(staged, **options)

    monkeypatch.setattr(StagedWrite, "publish", overtaken)
    with pytest.raises(Conflict, match="run it again"):
        begun.capture()
    assert begun.happened(since=start) == [("insert", 3), ("insert", 4)]
    begun.capture()
    assert begun.copied() == begun.rows()


def test_the_history_rebuilds_the_copy_from_its_beginning(begun):
    """A table that never applied anything, or one that is emptied by a restore, comes out equal."""
    begun.sql("UPDATE users SET name = 'Bo' WHERE user_id = 2", "INSERT INTO users VALUES (3, 'Cy', NULL)")
    begun.capture()
    begun.sql("DELETE FROM users WHERE user_id = 1", "INSERT INTO users VALUES (1, 'new', NULL)")
    begun.capture()
    anew = begun.make_table(replace(LATEST, name="silver/users"))
    apply_changes(begun.history, anew.target(a_run("silver/users")), keys=KEYS)
    assert begun.copied(anew) == begun.copied() == begun.rows()
    again = apply_changes(begun.history, anew.target(a_run("silver/users")), keys=KEYS)
    assert (again.applied, again.reason) == (False, "nothing new")
    begun.latest.restore(1, provenance=a_run())
    assert begun.copied() != begun.rows()
    begun.capture()
    assert begun.copied() == begun.rows()


def test_metadata_stays_in_the_history_and_only_the_new_row_reaches_the_copy(begun):
    """The copy has the source's columns and nothing else."""
    begun.sql("UPDATE users SET name = 'after' WHERE user_id = 1")
    begun.capture()
    copy = DeltaTable(str(begun.latest.location)).schema()
    assert [field.name for field in copy.fields] == ["user_id", "name", "notes"]
    held = {row["operation"]: row for row in begun.changes()}
    assert set(CHANGES) == set(held["update"])
    assert held["update"]["before"]["name"] == "Ann"
    assert "Ann" not in {row[1] for row in begun.copied()}
    assert not [log for log in (begun.history.location / "_delta_log").glob("*.json") if "Ann" in log.read_text()]


def test_maintenance_is_no_change(begun):
    """Compacting the history, and VACUUM FULL and CLUSTER at the source, bring no change and wake nobody."""
    begun.sql("UPDATE users SET name = 'Bo' WHERE user_id = 2")
    begun.capture()
    before, rows = len(begun.changes()), begun.copied()
    begun.history.session.sql(f"OPTIMIZE delta.`{begun.history.location}`")
    begun.sql("VACUUM FULL users", "CLUSTER users USING users_pkey", "ANALYZE users")
    copied = begun.latest.ledger.version()
    assert not begun.capture().changed
    assert (len(begun.changes()), begun.copied(), begun.latest.ledger.version()) == (before, rows, copied)
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)")
    begun.capture()
    assert begun.copied() == begun.rows()


def test_a_copy_says_up_to_which_commit_a_missing_match_is_missing(begun, monkeypatch):
    """Both rows of one transaction: the copy that lacks one is behind its commit by its own cursor, until it has it."""
    begun.sql("CREATE TABLE owners (user_id BIGINT PRIMARY KEY)", "ALTER TABLE owners REPLICA IDENTITY FULL")
    owners = replace(begun.source, name="public.owners", slot="dedp_owners")
    history = begun.make_table(replace(HISTORY, name="bronze/owners_changes"))
    latest = begun.make_table(TableSpec("bronze/owners", {"user_id": Column("BIGINT")}))

    def capture_owners():
        capture_changes(owners, history.target(a_run()), latest.target(a_run()), keys=KEYS)

    def missing(copy, row):
        return row["user_id"] not in {found["user_id"] for found in read_back(copy)}

    capture_owners()
    with begun.address.connect() as connection:
        connection.execute("INSERT INTO owners VALUES (9)")
        connection.execute("INSERT INTO users VALUES (9, 'Zoe', NULL)")
    capture_owners()
    (owner,) = [row for row in read_back(history) if row["operation"] == "insert"]
    (row,) = read_back(latest)
    assert cursor(latest) >= owner["commit_lsn"] > cursor(begun.latest)
    assert missing(begun.latest, row)
    with broken(monkeypatch, change_data_capture, "apply_changes"), pytest.raises(OSError, match="killed"):
        begun.capture()
    assert cursor(begun.history) >= owner["commit_lsn"] > cursor(begun.latest)
    assert missing(begun.latest, row)
    begun.capture()
    assert cursor(begun.latest) >= owner["commit_lsn"]
    assert not missing(begun.latest, row)


def test_how_long_changes_took_is_measured_and_judged(begun, monkeypatch):
    """From commit in the source to commit in either table, by the slowest; a bound that no change can meet fails."""
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)")
    begun.sql("INSERT INTO users VALUES (4, 'Di', NULL)")
    result = begun.capture(max_latency_seconds=0)

    def took(table, *users):
        """From the users' first commit in the source to the table's newest one, by the two logs."""
        inserted = [c["committed_at"] for c in begun.changes() if c["operation"] == "insert" and c["key"] in users]
        return (table.ledger.commit(table.ledger.version()).timestamp - min(inserted)).total_seconds()

    third, fifth, sixth = ({"user_id": str(n)} for n in (3, 5, 6))
    assert result.figures["latency_seconds"] == took(begun.history, third) > 0
    assert result.figures["copy_latency_seconds"] == took(begun.latest, third) > result.figures["latency_seconds"]
    late = {finding.name: finding for finding in result.findings}["changes_arrive_in_time"]
    assert late.refuses
    assert late.note == "latency_seconds, copy_latency_seconds above the 0 s that are allowed"
    begun.sql("INSERT INTO users VALUES (5, 'Ed', NULL)")
    with broken(monkeypatch, change_data_capture, "apply_changes"), pytest.raises(OSError, match="killed"):
        begun.capture()
    begun.sql("INSERT INTO users VALUES (6, 'Fe', NULL)")
    result = begun.capture(max_latency_seconds=1e6)
    assert result.figures["latency_seconds"] == took(begun.history, sixth)
    assert result.figures["copy_latency_seconds"] == took(begun.latest, fifth, sixth) > took(begun.latest, sixth)
    assert all(finding.passed for finding in result.findings)
    idle = begun.capture(max_latency_seconds=0)
    assert (idle.figures["latency_seconds"], idle.figures["copy_latency_seconds"]) == (0, 0)
    assert all(finding.passed for finding in idle.findings)


def test_the_log_that_a_slot_holds_is_measured_and_judged(begun):
    """Within bounds it passes, above the first one it warns, above the second one it fails; asking changes nothing."""
    begun.sql("CREATE TABLE other AS SELECT repeat('x', 100) FROM generate_series(1, 2000)")
    calm = judge_slot(begun.source)
    assert (calm.passed, calm.figures["status"]) == (True, "reserved")
    held = calm.figures["retained_bytes"]
    assert held >= calm.figures["behind_bytes"] > 100_000
    warned = judge_slot(begun.source, warn_above_bytes=held - 1)
    failed = judge_slot(begun.source, warn_above_bytes=1, fail_above_bytes=held - 1)
    assert [(f.passed, f.refuses) for f in (warned, failed)] == [(False, False), (False, True)]
    assert judge_slot(begun.source) == calm
    begun.sql("SELECT pg_drop_replication_slot('dedp_users')")
    lost = judge_slot(begun.source)
    assert lost.refuses
    assert "resnapshot=True" in lost.note


def test_a_slot_that_the_server_gave_up_asks_for_a_new_snapshot(begun):
    """The server keeps no more log than it was told to; the gap is an error, not a silence."""
    begun.sql("INSERT INTO users VALUES (3, 'unseen', NULL)")
    try:
        begun.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
        for _ in range(3):
            begun.sql(
                "SELECT pg_switch_wal()", "CREATE TABLE IF NOT EXISTS filler (n INT)", "INSERT INTO filler VALUES (1)"
            )
        begun.sql("CHECKPOINT")
        assert begun.sql("SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'dedp_users'") == [("lost",)]
        assert judge_slot(begun.source).refuses
        with pytest.raises(ContractError, match=r"public\.users.*dedp_users is lost.*resnapshot=True"):
            begun.capture()
    finally:
        begun.sql("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    begun.capture(resnapshot=True)
    assert begun.copied() == begun.rows()


GAPS = {
    "the slot was dropped": (["SELECT pg_drop_replication_slot('dedp_users')"], "slot dedp_users is lost"),
    "somebody else read from the slot": (
        [
            "SELECT count(*) FROM pg_logical_slot_get_binary_changes('dedp_users', NULL, NULL, 'proto_version', '1', "
            "'publication_names', 'dedp_users')"
        ],
        "somebody moved the slot",
    ),
    "the table was made anew": (
        [
            "DROP TABLE users",
            "CREATE TABLE users (user_id BIGINT PRIMARY KEY, name TEXT, notes TEXT)",
            "ALTER TABLE users REPLICA IDENTITY FULL",
            "ALTER PUBLICATION dedp_users ADD TABLE users",
        ],
        "dropped and made anew",
    ),
    "the publication was dropped": (["DROP PUBLICATION dedp_users"], "publication dedp_users"),
    "the table left the publication for a while": (
        [
            "ALTER PUBLICATION dedp_users DROP TABLE users",
            "UPDATE users SET name = 'x' WHERE user_id = 2",
            "ALTER PUBLICATION dedp_users ADD TABLE users",
        ],
        "the table's place in the publication dedp_users changed after",
    ),
}


@pytest.mark.parametrize("gap", GAPS)
def test_a_gap_is_an_error_that_names_its_remedy_and_a_new_snapshot_heals_it(begun, gap):
    """Nothing is published; with the new snapshot the copy equals the source again, also for rows deleted meanwhile."""
    begun.sql("DELETE FROM users WHERE user_id = 1", "INSERT INTO users VALUES (3, 'unseen', NULL)")
    statements, said = GAPS[gap]
    begun.sql(*statements)
    before, rows = begun.versions(), begun.copied()
    with pytest.raises(ContractError, match=rf"public\.users.*{said}.*resnapshot=True"):
        begun.capture()
    assert (begun.versions(), begun.copied()) == (before, rows)
    begun.capture(resnapshot=True)
    assert begun.copied() == begun.rows()
    begun.sql("INSERT INTO users VALUES (4, 'next', NULL)")
    begun.capture()
    assert begun.copied() == begun.rows()
    assert [operation for operation, _ in begun.happened()].count("snapshot") == 2


def test_a_slot_without_its_snapshot_is_not_taken_over(world):
    """It may be somebody else's; only a person's word replaces it."""
    world.sql("SELECT pg_create_logical_replication_slot('dedp_users', 'pgoutput')")
    with pytest.raises(ContractError, match=r"there is a slot dedp_users.*somebody else's.*resnapshot=True"):
        world.capture()
    world.capture(resnapshot=True)
    assert world.copied() == world.rows() == []


def test_changes_without_their_snapshot_build_no_copy(begun):
    """They alone are not a table; and without a history there is nothing to build from."""
    anew = begun.make_table(replace(LATEST, name="silver/users"))
    some = begun.make_table(replace(HISTORY, name="bronze/some_changes"))
    some.append(begun.history.read().filter("operation = 'read'"), provenance=a_run(sequence=begun.position()))
    with pytest.raises(ContractError, match=r"bronze/some_changes holds changes without the snapshot.*resnapshot=True"):
        apply_changes(some, anew.target(a_run()), keys=KEYS)
    none = begun.make_table(replace(HISTORY, name="bronze/no_changes"))
    none.ensure()
    with pytest.raises(NotReady, match="holds no snapshot yet"):
        apply_changes(none, anew.target(a_run()), keys=KEYS)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER TABLE users DROP COLUMN notes", "notes was dropped"),
        ("ALTER TABLE users RENAME COLUMN notes TO remarks", "notes was dropped"),
        ("ALTER TABLE users ALTER COLUMN notes TYPE INT USING length(notes)", "notes was text, is integer"),
        ("ALTER TABLE users ALTER COLUMN notes TYPE TEXT USING upper(notes)", "notes was rewritten by ALTER TYPE"),
    ],
)
def test_a_declared_column_that_is_dropped_or_retyped_stops_the_copy_and_not_the_history(begun, statement, said):
    """The error names the column; no change is lost or doubled meanwhile, and the copy stays as it was."""
    start, rows = begun.position(), begun.copied()
    insert = "INSERT INTO users (user_id, name) VALUES"
    begun.sql(f"{insert} (3, 'Cy')", statement, f"{insert} (4, 'Di')")
    for number in (5, 6):
        with pytest.raises(SchemaMismatch, match=rf"bronze/users: columns differ at the source: {said}"):
            begun.capture()
        begun.sql(f"{insert} ({number}, 'later')")
    assert begun.copied() == rows
    assert begun.happened(since=start) == [("insert", n) for n in (3, 4, 5)]
    columns = {name: column for name, column in LATEST.columns.items() if name != "notes"}
    begun.latest = begun.make_table(replace(LATEST, name="bronze/users_without_notes", columns=columns))
    begun.capture()
    assert begun.copied() == begun.rows()


def test_a_retyped_column_is_copied_again_after_a_new_snapshot(begun):
    """Rows that did not change since are not in the log, so only a snapshot knows their new values."""
    begun.sql("ALTER TABLE users ALTER COLUMN notes TYPE INT USING length(notes)", "UPDATE users SET name = 'x'")
    with pytest.raises(SchemaMismatch):
        begun.capture()
    result = begun.capture(resnapshot=True)
    assert all(finding.passed for finding in result.findings)
    assert begun.copied() == [(1, "x", str(len(LARGE))), (2, "x", None)]


def test_a_column_that_the_copy_does_not_declare_is_kept_in_the_history(begun):
    """It warns; the copy goes on; declaring it later asks for a snapshot, since older rows may have a value too."""
    begun.sql(
        "ALTER TABLE users ADD COLUMN city TEXT DEFAULT 'Rome'", "INSERT INTO users VALUES (3, 'Cy', NULL, 'Oslo')"
    )
    result = begun.capture()
    (warned,) = [finding for finding in result.findings if not finding.passed]
    assert (warned.severity, list(warned.figures)) == ("warn", ["city"])
    assert begun.copied() == begun.rows()
    assert begun.changes()[-1]["after"]["city"] == "Oslo"
    begun.latest = begun.make_table(replace(LATEST, columns={**LATEST.columns, "city": Column("STRING")}))
    with pytest.raises(SchemaMismatch, match=r"city was added .*resnapshot=True"):
        begun.capture()
    begun.capture(resnapshot=True)
    assert begun.copied() == begun.rows()
    assert {row[3] for row in begun.copied()} == {"Rome", "Oslo"}


def test_a_column_declared_later_is_filled_from_the_history(begun):
    """It was in the snapshot all along, so the copy is built anew with it; one that never was is an error."""
    columns = {name: column for name, column in LATEST.columns.items() if name != "notes"}
    narrow = begun.make_table(replace(LATEST, name="silver/users", columns=columns))
    apply_changes(begun.history, narrow.target(a_run()), keys=KEYS)
    wide = begun.make_table(replace(LATEST, name="silver/users"))
    apply_changes(begun.history, wide.target(a_run()), keys=KEYS)
    assert begun.copied(wide) == begun.rows()
    wrong = begun.make_table(replace(LATEST, name="silver/typo", columns={**columns, "emial": Column("STRING")}))
    with pytest.raises(SchemaMismatch, match="emial is not there"):
        apply_changes(begun.history, wrong.target(a_run()), keys=KEYS)
    keyless = begun.make_table(replace(LATEST, name="silver/keyless", columns={"name": Column("STRING")}))
    with pytest.raises(ConfigError, match=r"silver/keyless does not declare the key \['user_id'\]"):
        apply_changes(begun.history, keyless.target(a_run()), keys=KEYS)


def test_values_that_do_not_fit_the_declared_type_are_refused_without_being_shown(begun):
    """Nothing becomes NULL in silence; the text counts and names the column, and holds no value."""
    columns = {**LATEST.columns, "name": Column("BIGINT")}
    wrong = begun.make_table(replace(LATEST, name="silver/users", columns=columns))
    with pytest.raises(SchemaMismatch, match=r"silver/users: .*1 of name are no BIGINT") as refused:
        apply_changes(begun.history, wrong.target(a_run()), keys=KEYS)
    assert "Ann" not in str(refused.value)


@pytest.mark.parametrize(
    ("statements", "options", "said"),
    [
        (["DROP TABLE users"], {}, r"has no table public\.users"),
        (["ALTER TABLE users REPLICA IDENTITY DEFAULT"], {}, r"ALTER TABLE public\.users REPLICA IDENTITY FULL"),
        (["ALTER TABLE users DROP CONSTRAINT users_pkey"], {}, r"primary key \[\], not \['user_id'\]"),
        ([], {"keys": ["name"]}, r"primary key \['user_id'\], not \['name'\]"),
        (["DROP TABLE users", "CREATE VIEW users AS SELECT 1 AS user_id"], {}, "no ordinary table"),
    ],
)
def test_a_source_that_cannot_be_captured_says_what_to_change(world, statements, options, said):
    """Before anything is created on the server."""
    world.sql(*statements)
    with pytest.raises(ConfigError, match=said):
        world.capture(**options)
    assert world.sql("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
    assert world.sql("SELECT pubname FROM pg_publication") == []


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({"password": "not-the-secret"}, ConfigError, "correct the user or the password"),
        ({"user": "nobody-here"}, ConfigError, "correct the user or the password"),
        ({"database": "no_such_database"}, ConfigError, "correct the database"),
        ({"port": 1}, NotReady, "does not answer.*nothing is lost"),
    ],
)
def test_a_database_that_cannot_be_reached_is_named_with_the_remedy_and_no_secret(begun, changed, kind, said):
    """Neither password is in the error, its cause or its context; nothing was written."""
    right, before = begun.address.password, begun.versions()
    begun.source = replace(begun.source, connect=replace(begun.address, **changed).connect)
    with pytest.raises(kind, match=rf"public\.users.*{said}") as refused:
        begun.capture()
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert not [secret for secret in (right, "not-the-secret") if secret in str(refused.value)]
    assert begun.versions() == before


def test_a_user_without_the_right_to_replicate_is_told_whom_to_ask(begun):
    """And the next capture by one who may goes on."""
    begun.sql(
        "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'reading'", "GRANT SELECT ON users TO reader"
    )
    may = begun.source
    begun.source = replace(may, connect=replace(begun.address, user="reader", password="reading").connect)
    try:
        with pytest.raises(ConfigError, match=r"administrator grant SELECT and REPLICATION"):
            begun.capture()
    finally:
        begun.sql("DROP OWNED BY reader", "DROP ROLE reader")
    begun.source = may
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)")
    begun.capture()
    assert begun.copied() == begun.rows()


def test_a_database_that_is_restarted_in_mid_read_loses_and_doubles_nothing(begun, own_postgres, monkeypatch):
    """The capture says that the source does not answer; the next one goes on from the slot."""
    start, real = begun.position(), slots.decode
    for number in range(3, 6):
        begun.sql(f"INSERT INTO users VALUES ({number}, 'n', NULL)")
    port = begun.address.port

    def restart():
        server.stop(own_postgres)
        server.start(own_postgres, port=port)

    def interrupted(messages):
        for number, transaction in enumerate(real(messages)):
            if number == 1:
                restart()
            yield transaction

    with monkeypatch.context() as patched:
        patched.setattr(slots, "decode", interrupted)
        with pytest.raises(NotReady, match=r"public\.users.*does not answer.*nothing is lost"):
            begun.capture()
    begun.sql("DELETE FROM users WHERE user_id = 1")
    begun.capture()
    assert begun.happened(since=start) == [("insert", 3), ("insert", 4), ("insert", 5), ("delete", 1)]
    assert begun.copied() == begun.rows()


def test_a_database_that_is_down_is_waited_for(begun, own_postgres):
    """The error may be retried; once the server is back, the next capture has everything."""
    begun.sql("INSERT INTO users VALUES (3, 'Cy', NULL)")
    server.stop(own_postgres)
    try:
        with pytest.raises(NotReady, match="does not answer") as down:
            begun.capture()
        with pytest.raises(NotReady):
            judge_slot(begun.source)
    finally:
        server.start(own_postgres, port=begun.address.port)
    assert down.value.retryable
    begun.capture()
    assert begun.copied() == begun.rows()


def test_the_seeded_workload_is_captured_step_by_step(database, make_table):
    """Whatever the applications do, after each capture the copy equals their table, and so does one built anew."""
    kinds = {"user_id": "STRING", "login": "STRING", "email": "STRING", "biography": "STRING"}
    kinds |= {"credit": "DECIMAL(10,2)", "active": "BOOLEAN", "registered_at": "TIMESTAMP", "changed_at": "TIMESTAMP"}
    world = World(database, make_table, replace(LATEST, columns={c: Column(kind) for c, kind in kinds.items()}))
    with database.connect() as application:
        operational.create(application)
        for steps in (2, 3, 5):
            operational.work(application, at=NOW, steps=steps)
            application.commit()
            world.capture()
            assert world.copied() == world.rows()
    anew = make_table(replace(world.latest.spec, name="silver/users"))
    apply_changes(world.history, anew.target(a_run()), keys=KEYS)
    assert world.copied(anew) == world.rows()


def test_names_that_cannot_be_are_refused():
    """Before any connection is made."""
    for name, slot in (
        ("users", "dedp_users"),
        ("a.b.c", "s"),
        ("public.users", "Not-A-Slot"),
        ("public.users", "s" * 55),
    ):
        with pytest.raises(ConfigError):
            PostgresTable(name, slot, connect=psycopg.connect)


@known_calls
def calls_that_work(known):
    source = PostgresTable("public.users", "slot", connect=known.begin)
    history = known.table("bronze/history", CHANGES, by=("committed_on",))
    latest = known.at(TableSpec("bronze/users", {"id": Column("INT")})).target(known.run)
    return {
        "apply_changes": {"history": history, "into": latest, "keys": ["id"]},
        "capture_changes": {
            "source": source,
            "into": history.target(known.run),
            "latest": latest,
            "keys": ["id"],
            "max_messages": 10,
        },
        "judge_slot": {"source": source},
    }


@two_runs()
def applied_at_once(world):
    """Two runs bring a copy up to its history, which one of them finds longer."""
    world.specs["log"] = TableSpec("log", CHANGES, ("committed_on",))
    world.table("users", "id INT, name STRING")

    def capture(w, position, *names):
        """Append a transaction that inserts users of these names."""
        source = {"columns": {"id": "integer", "name": "text"}, "changed": {}, "reset": [1, 0]}
        users = Relation(1, "public.users", whole_rows=True, columns={})
        added = [Change("insert", users, None, {"id": str(position + n), "name": name}) for n, name in enumerate(names)]
        rows = _history.of_transactions([Transaction(position, NOW, tuple(added))], ["id"])
        run = w.run(f"log {position}", sequence=position, notes={"source": source})
        w["log"].stage(_history.frame(w.spark, rows), provenance=run, append=True).publish()

    def bring_up(w, name):
        apply_changes(w["log"], w.into("users", name), keys=["id"])

    capture(world, 100, "Ada")
    bring_up(world, "base")
    capture(world, 200, "Bob", "Cy")

    def go_on(w):
        capture(w, 300, "Di")
        bring_up(w, "2")

    yield lambda w: bring_up(w, "1")
    yield go_on
