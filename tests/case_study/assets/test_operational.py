"""Tables of the applications' database in the lake: captured from its log, or loaded by window."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.case_study.defs.bronze import users
from dedp_assets.case_study.sources import operational
from dedp_assets.commands.verify import verify
from dedp_assets.graph.systems import postgres

START = datetime(2026, 1, 5, 23, 59, 57, tzinfo=timezone.utc)
COLUMNS = ("user_id", "login", "email", "biography", "credit", "active", "registered_at", "changed_at")


@pytest.fixture
def applications(world, database, monkeypatch):
    """``applications(3)``: as many steps of the workload around midnight, in the database that the world reads."""
    monkeypatch.setattr(postgres, "address", lambda _: database)

    def steps(count):
        with database.connect() as connection:
            operational.create(connection)
            operational.work(connection, at=START, steps=count)

    return steps


def stored(database, statement):
    with database.connect() as connection:
        return connection.execute(statement).fetchall()


def test_users_are_captured_whenever_something_was_committed(world, applications, database):
    """The sensor starts a capture for new changes and for nothing else; the table equals the source after each."""
    applications(4)
    assert world.react() == [("capture_users", "")]
    for more in (3, 5):
        applications(more)
        assert world.react() == [("capture_users", "")]
        held = sorted(tuple(row[c] for c in COLUMNS) for row in world.rows("bronze/users"))
        assert held == sorted(stored(database, f"SELECT {', '.join(COLUMNS)} FROM users"))
        assert world.materialization("bronze/users")["dagster/row_count"] == len(held)
    operations = {row["operation"] for row in world.rows("bronze/users_history")}
    assert operations == {"snapshot", "read", "insert", "update", "delete"}
    assert all(world.checks("bronze/users_history").values())
    assert {"changes_arrive_in_time", "replication_slot_is_bounded"} <= set(world.checks("bronze/users_history"))
    assert world.react() == []


def test_changes_that_came_too_late_turn_their_check_red_and_are_there(world, applications, database, monkeypatch):
    """The run succeeds, both tables show how long it took, and the check fails as an error."""
    monkeypatch.setattr(users, "MAX_LATENCY_SECONDS", 0)
    applications(1)
    assert world.react() == [("capture_users", "")]
    assert world.checks("bronze/users_history")["changes_arrive_in_time"]
    applications(2)
    assert world.react() == [("capture_users", "")]
    verdict = world.evaluation("bronze/users_history", "changes_arrive_in_time")
    assert (verdict.passed, verdict.severity) == (False, dg.AssetCheckSeverity.ERROR)
    lags = {name: value.value for name, value in verdict.metadata.items()}
    assert world.materialization("bronze/users_history")["latency [s]"] == lags["latency_seconds"] > 0
    assert world.materialization("bronze/users")["latency [s]"] == lags["copy_latency_seconds"]
    assert lags["copy_latency_seconds"] > lags["latency_seconds"]
    held = {row["user_id"] for row in world.rows("bronze/users")}
    assert held == {user for (user,) in stored(database, "SELECT user_id FROM users")}


def test_a_copy_that_differs_from_its_source_is_named_every_morning_and_by_verify(
    world, applications, database, capsys
):
    """The check and the command say the same, at their cost; a new snapshot by a person's word heals it."""
    applications(3)
    world.react()
    assert world.run("check_tables").failure == ""
    assert world.checks("bronze/users")["copy_equals_its_source"]
    shown = {n: v.value for n, v in world.evaluation("bronze/users", "copy_equals_its_source").metadata.items()}
    assert shown["rows"] == shown["rows_of_the_source"] > 0
    assert {"ranges", "seconds", "bytes_read"} <= shown.keys()
    with database.connect(autocommit=True) as connection:
        for statement in (
            "ALTER PUBLICATION dedp_users SET (publish = 'insert')",
            "UPDATE users SET email = 'unseen' WHERE user_id LIKE '%-1'",
            "ALTER PUBLICATION dedp_users SET (publish = 'insert, update, delete, truncate')",
        ):
            connection.execute(statement)
    assert "the publication dedp_users changed after" in world.run("capture_users").failure
    assert world.run("check_tables").failure == ""
    verdict = world.evaluation("bronze/users", "copy_equals_its_source")
    assert not verdict.passed
    assert "rows differ in email" in verdict.description
    assert verify(world.settings, "bronze/users") == 1
    out = capsys.readouterr().out
    assert "bytes read in" in out
    assert "rows differ in email, e.g. a key with md5" in out
    assert "unseen" not in out
    assert world.run("capture_users", **{"dedp/force": "true"}).failure == ""
    assert verify(world.settings, "bronze/users") == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(": equal")


def test_legacy_visits_are_loaded_by_the_day_they_were_ingested(world, applications, database):
    """Rows on both sides of midnight land in one day each; loaded again, a day gains what became visible since."""
    applications(6)
    days = ("2026-01-05", "2026-01-06")
    for day in days:
        assert world.run("load_legacy_visits", day).failure == ""
    loaded = {row["visit_id"]: str(row["ingested_on"]) for row in world.rows("bronze/legacy_visits")}
    source = stored(database, "SELECT visit_id, (ingestion_time AT TIME ZONE 'UTC')::date::text FROM visits")
    assert loaded == dict(source)
    assert set(loaded.values()) == set(days)
    read = {day: world.materialization("bronze/legacy_visits", day)["rows read"] for day in days}
    assert read == Counter(loaded.values())
    with database.connect() as connection:
        late = START - timedelta(minutes=1)
        connection.execute("INSERT INTO visits VALUES (999, %s, 'u', '/', %s)", (late, late))
    assert world.run("load_legacy_visits", days[0]).failure == ""
    assert len(world.rows("bronze/legacy_visits")) == len(loaded) + 1
    shown = world.materialization("bronze/legacy_visits", days[0])["dagster/partition_row_count"]
    assert shown == len(world.rows("bronze/legacy_visits", ingested_on=days[0]))
    assert world.last("bronze/legacy_visits", ingested_on=days[0]).record.figures["late"] == 1


def test_without_the_database_the_sensor_waits_and_a_run_says_what_to_do(world):
    """Nothing fails by itself, and a person who asks for a load is told how to start it."""
    assert world.react() == []
    assert "is not running: start it with `make up`" in world.run("load_legacy_visits", "2026-01-05").failure
    assert "is not running: start it with `make up`" in world.run("capture_users").failure
