"""Transactions of PostgreSQL, without Spark: what others see, and what is left after every kind of end."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.postgres import Changed, Incoming
from dedp_assets.patterns.core.errors import (
    AmbiguousKeys,
    ConfigError,
    Conflict,
    ContractError,
    NotReady,
    SchemaMismatch,
)
from dedp_assets.patterns.idempotency import _transactions
from dedp_assets.patterns.idempotency._transactions import Written, write_sets
from tests.two_runs import two_runs_of

pytestmark = pytest.mark.slow

TABLES = """
    CREATE SCHEMA dedp;
    CREATE TABLE dedp.devices (
        day date, id bigint, type varchar(6) NOT NULL, size int DEFAULT 7, PRIMARY KEY (day, id));
    CREATE TABLE dedp.totals (day date PRIMARY KEY, devices bigint CHECK (devices >= 0));
"""
DAY = "2026-01-05"


@pytest.fixture
def made(database):
    with database.connect() as connection:
        connection.execute(TABLES)
    return database


def devices(*rows, day=DAY):
    values = [(day, *row) for row in rows]
    return Incoming("dedp.devices", ["day", "id", "type"], ["day", "id"], values, {"day": day}, may_be_empty=True)


def totals(count, day=DAY):
    return Incoming("dedp.totals", ["day", "devices"], ["day"], [(day, count)])


def write(sequence, content="", partition=DAY, generation=0):
    return Written("devices", partition, generation, sequence, content or str(sequence), f"run-{sequence}")


def rows_of(number):
    """The devices of a version, of which each has another number."""
    return [(str(key), f"v{number}") for key in range(1, number + 2)]


def apply(database, number, **more):
    sets = [devices(*rows_of(number)), totals(str(number + 1))]
    return write_sets(sets, write(number), connect=database.connect, **more)


def seen(connection):
    """What one statement sees of both tables."""
    query = (
        "SELECT (SELECT count(*) FROM dedp.devices), (SELECT count(DISTINCT type) FROM dedp.devices), "
        "(SELECT max(devices) FROM dedp.totals)"
    )
    return connection.execute(query).fetchone()


def held(database, query="SELECT id, type, size FROM dedp.devices ORDER BY id"):
    with database.connect() as connection:
        return connection.execute(query).fetchall()


def test_a_write_replaces_its_part_by_key_once(made):
    """Rows come, change, go and stay; other days stay; a retry, and a stale run, change nothing; a replay writes."""
    apply(made, 2)
    other = devices(("1", "other"), day="2026-01-06")
    write_sets([other], write(1, partition="2026-01-06"), connect=made.connect)
    with made.connect() as connection:
        connection.execute("UPDATE dedp.devices SET size = 9 WHERE id = 1")
    changed = write_sets([devices(("1", "v2"), ("3", "new"), ("5", "v5"))], write(3), connect=made.connect)
    assert changed == [Changed(inserted=1, updated=1, deleted=1)]
    left = [(1, "v2", 9), (3, "new", 7), (5, "v5", 7)]
    assert held(made, f"SELECT id, type, size FROM dedp.devices WHERE day = '{DAY}' ORDER BY id") == left
    assert held(made, "SELECT type FROM dedp.devices WHERE day = '2026-01-06'") == [("other",)]
    assert write_sets([devices()], write(3), connect=made.connect) is None
    with pytest.raises(Conflict, match="already holds upstream version 3"):
        apply(made, 2)
    assert write_sets([devices(("5", "v5"))], write(3), connect=made.connect, again=True) == [Changed(0, 0, 2)]
    assert write_sets([devices(("5", "code"))], write(3, "other code"), connect=made.connect) == [Changed(0, 1, 0)]
    assert write_sets([devices(("5", "anew"))], write(1, generation=1), connect=made.connect) == [Changed(0, 1, 0)]
    assert write_sets([devices()], write(4, generation=1), connect=made.connect) == [Changed(0, 0, 1)]


WRITES = st.tuples(
    st.sampled_from([DAY, "2026-01-06"]),
    st.integers(1, 4),  # upstream version
    st.dictionaries(st.integers(1, 4), st.sampled_from(["", "a", "\\N", "ä\t\n"]), max_size=4),
)


@given(writes=st.lists(WRITES, max_size=8))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_writes_leaves_what_a_dictionary_holds(made, writes):
    """Each day holds the rows of the newest version that came for it; what is older or comes again changes nothing."""
    with made.connect() as connection:
        connection.execute("TRUNCATE dedp.devices; DROP TABLE IF EXISTS dedp.dedp_transactions")
    model, newest = {}, {}
    for day, version, rows in writes:
        incoming = [devices(*[(str(key), text) for key, text in rows.items()], day=day)]
        with suppress(Conflict):
            write_sets(incoming, write(version, partition=day), connect=made.connect)
        if version > newest.get(day, 0):
            newest[day] = version
            model[day] = rows
    expected = sorted((day, key, text) for day, rows in model.items() for key, text in rows.items())
    assert held(made, "SELECT day::text, id, type FROM dedp.devices ORDER BY 1, 2") == expected


BAD = {
    "too long": ([devices(("1", "a very long text"))], ContractError, "dedp.devices: column type: value too long"),
    "null": ([devices(("1", None))], ContractError, 'dedp.devices: null value in column "type"'),
    "no number": ([devices(("a very long text", "v"))], ContractError, "dedp.devices: column id: invalid input"),
    "check": ([totals("-1")], ContractError, "dedp.totals: .*violates check constraint"),
    "nul": ([devices(("1", "a\0"))], ContractError, "dedp.devices: .*NUL"),
    "twice": ([devices(("1", "a"), ("1", "b"))], AmbiguousKeys, "keep one row for each key"),
    "no key": ([replace(totals("1"), rows=[(None, "1")])], ContractError, 'null value in column "day"'),
    "outside": ([replace(devices(), rows=[("2026-01-07", "1", "a")])], ContractError, "1 rows lie outside of"),
    "no table": ([replace(totals("1"), table="dedp.none")], ConfigError, "create the table"),
    "no column": ([Incoming("dedp.totals", ["day", "x"], ["day"], [(DAY, "1")])], SchemaMismatch, "leave it out"),
    "no index": ([replace(devices(("1", "v9")), keys=["id"])], ConfigError, "primary key of the table"),
}


@pytest.mark.parametrize("sets", BAD.values(), ids=BAD)
def test_one_invalid_row_leaves_every_table_as_it_was(made, sets):
    """The valid table comes first; the text names table and column, and shows no value; corrected, both are written."""
    bad, kind, said = sets
    apply(made, 1)
    before = held(made), held(made, "SELECT * FROM dedp.totals")
    with pytest.raises(kind, match=said) as raised:
        write_sets([devices(("7", "valid")), *bad], write(2), connect=made.connect)
    assert "a very long text" not in str(raised.value)
    assert (held(made), held(made, "SELECT * FROM dedp.totals")) == before
    assert apply(made, 2) == [Changed(1, 2, 0), Changed(0, 1, 0)]


def die(database, point, number):
    """Write in a process that kills itself at a point of the write."""
    real = {name: getattr(_transactions, name) for name in ("receive", "exchange", "_mark")}

    def killing(name, after):
        def called(*args):
            if not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real[name](*args)
            if after and args[-1] in (1, name):
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return called

    if point == "after commit":
        real_writing = postgres.writing

        def writing(connect):
            return Killing(real_writing(connect))

        _transactions.writing = writing
    else:
        name, _, after = point.partition(" ")
        setattr(_transactions, name, killing(name, after == "after"))
    apply(database, number)


class Killing:
    """A connection whose process dies once everything is committed, before anybody is told."""

    def __init__(self, opened):
        self.opened = opened

    def __enter__(self):
        return self.opened.__enter__()

    def __exit__(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.promise("a-killed-write-is-whole")
def test_a_killed_write_is_whole_or_not_there_and_its_retry_ends_it(made):
    """Killed while rows arrive, between arrival and transaction, inside of it, and between commit and answer."""
    points = {
        "receive before": "old",
        "receive after": "old",
        "exchange before": "old",
        "exchange after": "old",
        "_mark before": "old",
        "after commit": "new",
    }
    apply(made, 1)
    context = get_context("fork")
    for number, (point, what) in enumerate(points.items(), start=2):
        with made.connect() as connection:
            before = seen(connection)
        process = context.Process(target=die, args=(made, point, number))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, point
        assert seen_soon(made) == (before if what == "old" else (number + 1, 1, number + 1)), point
        assert (apply(made, number) is None) == (what == "new"), point
        assert seen_soon(made) == (number + 1, 1, number + 1), point
    assert held(made, "SELECT count(*) FROM pg_class WHERE relname LIKE 'received%'") == [(0,)]


def seen_soon(database):
    """What is seen once the server has noticed which connections are dead."""
    with database.connect(autocommit=True) as connection:
        while connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        ).fetchone():
            time.sleep(0.01)
        return seen(connection)


def mixes(database, done):
    """What a reader in a loop sees that is no whole version."""
    found = set()
    with database.connect(autocommit=True) as connection:
        while not done.is_set():
            count, types, total = seen(connection)
            if (count, types) != (total, 1):
                found.add((count, types, total))
    return found


def apply_all(database, numbers):
    """The versions that this writer wrote, of those that another one writes at the same time."""
    wrote = []
    for number in numbers:
        with suppress(Conflict):
            wrote += [number] if apply(database, number) is not None else []
    return wrote


@two_runs_of("write_transaction")
def test_two_writers_at_once_and_a_reader_in_a_loop(made):
    """The same versions by two writers: each is written once, none goes back; readers see whole versions only."""
    apply(made, 1)
    done = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        reader = pool.submit(mixes, made, done)
        writers = [pool.submit(apply_all, made, range(2, 12)) for _ in range(2)]
        wrote = [number for writer in writers for number in writer.result()]
        done.set()
        assert reader.result() == set()
    assert len(wrote) == len(set(wrote))
    assert max(wrote) == 11
    assert seen_soon(made) == (12, 1, 12)


def test_whoever_may_write_the_tables_needs_no_other_right(made):
    """Once the table of what was written is there; without the right to write, the text says what to ask for."""
    apply(made, 1)
    with made.connect() as connection:
        connection.execute("CREATE ROLE writer; GRANT USAGE ON SCHEMA dedp TO writer")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dedp TO writer")

    def as_writer(**settings):
        return made.connect(options="-c role=writer", **settings)

    try:
        assert write_sets([totals("5")], write(2), connect=as_writer) == [Changed(0, 1, 0)]
        with made.connect() as connection:
            connection.execute("REVOKE UPDATE ON dedp.totals FROM writer")
        with pytest.raises(ConfigError, match=r"dedp\.totals: permission denied .*grant this user"):
            write_sets([totals("6")], write(3), connect=as_writer)
    finally:
        with made.connect() as connection:
            connection.execute("DROP OWNED BY writer; DROP ROLE writer")


def test_a_database_that_does_not_answer_is_asked_again(database):
    """And a user that may not write is told so."""

    def connect(**_):
        raise psycopg.OperationalError("connection refused")

    with pytest.raises(NotReady, match="run again once the database answers"):
        write_sets([totals("1")], write(1), connect=connect)
    with pytest.raises(ConfigError, match=r"table must be schema\.table, not 'totals'"):
        replace(totals("1"), table="totals")
    with pytest.raises(ConfigError, match=r"missing: \['x'\]"):
        replace(totals("1"), keys=["x"])
