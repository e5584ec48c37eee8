"""Holding a captured table and its copy against each other: what differs is named, what is only late is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dedp_assets.patterns.connectors.postgres import comparing
from dedp_assets.patterns.connectors.postgres.comparing import compare_copy
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.ingestion.change_data_capture import apply_changes
from tests.helpers import a_run
from tests.patterns.ingestion.test_change_data_capture import KEYS, LATEST, World

pytestmark = pytest.mark.spark

KINDS = {
    "amount": ("NUMERIC(20, 10)", "DECIMAL(20,10)", ["0", "12.30", "0.0000000012", "-5"]),
    "whole": ("NUMERIC", "DECIMAL(30,0)", ["100", "-100", "0", "7"]),
    "number": ("INT", "INT", ["1", "-1", "0", "2147483647"]),
    "loose": ("TEXT", "BIGINT", ["'1'", "'-1'", "'0'", "'9007199254740993'"]),
    "active": ("BOOLEAN", "BOOLEAN", ["true", "false", "true", "false"]),
    "flag": ("BOOLEAN", "STRING", ["true", "false", "true", "false"]),
    "born": ("DATE", "DATE", ["'1990-02-28'", "'0001-01-01'", "'9999-12-31'", "'2000-02-29'"]),
    "seen": (
        "TIMESTAMPTZ",
        "TIMESTAMP",
        ["'2026-01-05 10:00:00.123456+05:30'", "'1969-12-31'", "now()", "'1900-01-01'"],
    ),
    "local": ("TIMESTAMP", "TIMESTAMP_NTZ", ["'2026-01-05 10:00:00.000001'", "'1969-12-31'", "'0001-01-01'", "now()"]),
    "picture": ("BYTEA", "BINARY", ["'\\x00ff10'", "''", "'\\xAB'", "'\\x31'"]),
    "settings": ("JSON", "STRING", ["""'{"a":  1}'""", "'null'", "'[]'", "'\"5:x\"'"]),
    "odd": ("TEXT", "STRING", ["''", "E'a\\\\b\\n''{0}%s'", "'é𝄞'", "'-'"]),
    "padded": ("CHAR(5)", "STRING", ["'a'", "'a  b'", "''", "'12345'"]),
    "ratio": ("DOUBLE PRECISION", "DOUBLE", ["0.1", "1e20", "'NaN'", "0"]),
}


@pytest.fixture
def world(database, make_table):
    """A source with every kind of value, and NULLs, captured; and rows beside them that a test may change."""
    columns = {"user_id": Column("BIGINT", required=True), "name": Column("STRING", classification="personal")}
    columns |= {name: Column(kind[1]) for name, kind in KINDS.items()}
    made = World(database, make_table, replace(LATEST, columns=columns))
    declared = ", ".join(f"{name} {kind[0]}" for name, kind in KINDS.items())
    rows = [", ".join(kind[2][n] for kind in KINDS.values()) for n in range(4)]
    made.sql(
        f"CREATE TABLE users (user_id BIGINT PRIMARY KEY, name TEXT, {declared})",
        "ALTER TABLE users REPLICA IDENTITY FULL",
        *[f"INSERT INTO users VALUES ({n + 1}, 'n{n}', {row})" for n, row in enumerate(rows)],
        "INSERT INTO users (user_id, name) SELECT n, 'n' || n FROM generate_series(5, 40) AS n",
    )
    made.capture()
    return made


def compared(world):
    """The verdict on the copy."""
    return compare_copy(world.source, world.latest, world.history, keys=KEYS)


def unlogged(world, *statements):
    """Change rows so that the log tells nothing of it."""
    world.sql(
        "ALTER PUBLICATION dedp_users DROP TABLE users", *statements, "ALTER PUBLICATION dedp_users ADD TABLE users"
    )


def test_rows_that_differ_are_named_and_rows_that_are_only_late_are_not(world):
    """Equal, late, applied late, and differing in each way; no slot is left behind or moved, no value is shown."""
    finding = compared(world)
    assert finding.passed, finding.note
    assert (finding.figures["rows"], finding.figures["rows_of_the_source"]) == (40, 40)
    assert finding.figures["columns_not_compared"] == "ratio"
    assert finding.figures["bytes_read"] > 0
    world.sql("UPDATE users SET name = 'late', user_id = 100 WHERE user_id = 5", "DELETE FROM users WHERE user_id = 6")
    world.sql("INSERT INTO users (user_id, name) VALUES (200, 'late')")
    slots = world.sql("SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots")
    finding = compared(world)
    assert (finding.passed, finding.figures["keys_left_out"]) == (True, 4), finding.note
    assert world.sql("SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots") == slots
    unlogged(
        world,
        "UPDATE users SET name = 'secret', number = 5 WHERE user_id = 2",
        "DELETE FROM users WHERE user_id = 3",
        "INSERT INTO users (user_id, name) VALUES (300, 'secret')",
    )
    finding = compared(world)
    assert finding.refuses
    assert finding.figures["differing_ranges"] == 3
    for said in (
        "1 rows differ in name, number, e.g. user_id=2",
        "1 rows are missing in the copy, e.g. user_id=300",
        "1 rows are not in the source, e.g. user_id=3",
        "resnapshot=True",
    ):
        assert said in finding.note
    assert "secret" not in finding.note


def test_what_was_captured_and_not_applied_is_left_out_and_personal_keys_are_hidden(world, monkeypatch):
    """The history tells which keys changed since; of an emptied table it says to capture first."""
    columns = {"user_id": Column("STRING", required=True, classification="personal"), "name": Column("STRING")}
    narrow = world.make_table(replace(LATEST, name="silver/narrow", columns=columns))
    apply_changes(world.history, narrow.target(a_run()), keys=KEYS)
    world.sql("UPDATE users SET name = 'x' WHERE user_id < 4", "DELETE FROM users WHERE user_id = 7")
    world.capture()
    finding = compare_copy(world.source, narrow, world.history, keys=KEYS)
    assert (finding.passed, finding.figures["keys_left_out"]) == (True, 4), finding.note
    unlogged(world, "DELETE FROM users WHERE user_id > 20")
    finding = compare_copy(world.source, narrow, world.history, keys=KEYS)
    assert "are not in the source, e.g. a key with md5 " in finding.note
    assert "there may be more" in finding.note
    monkeypatch.setattr(comparing, "_MOST_CHANGED", 4)
    with pytest.raises(NotReady, match=r"public\.users had 4 changes since its copy"):
        compare_copy(world.source, narrow, world.history, keys=KEYS)
    world.sql("TRUNCATE users")
    with pytest.raises(NotReady, match=r"public\.users was emptied"):
        compare_copy(world.source, world.latest, world.history, keys=KEYS)


def test_a_source_of_other_columns_or_types_is_named_and_no_value_is_shown(world):
    """Also if the slot is lost, so that a copy which nobody keeps up is judged all the same."""
    world.sql("SELECT pg_drop_replication_slot('dedp_users')", "ALTER TABLE users DROP flag")
    assert "column flag is not in the source" in compared(world).note
    world.sql("ALTER TABLE users ALTER number TYPE TEXT USING 'secret' || number")
    with pytest.raises(ContractError, match=r"public\.users holds values of other types") as refused:
        compared(world)
    assert "secret" not in str(refused.value)
    with pytest.raises(NotReady, match="holds nothing yet"):
        compare_copy(world.source, world.make_table(replace(LATEST, name="silver/none")), world.history, keys=KEYS)
