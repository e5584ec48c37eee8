"""Dimensions in silver: users from the captured log of their database, devices from their deliveries."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.case_study.defs.silver.users import BOUND, CONTACTS
from dedp_assets.case_study.sources import devices, operational
from dedp_assets.graph.inputs.revisions import TRUE_SINCE
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems import postgres
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import decrypt

START = datetime(2026, 1, 5, 23, 59, 57, tzinfo=timezone.utc)
NAMES = ("user_id", "login", "email", "credit", "active")


def deliver(world, **renamed):
    """Deliver a reference of three devices; a name of ``None`` leaves one out."""
    names = {"a": "Alpha", "b": "Beta", "c": "Gamma", **renamed}
    lines = [json.dumps({"type": "tv", "version": v, "full_name": name}) for v, name in names.items() if name]
    devices.deliver(world.landing / "devices", lines)
    assert world.react() == [("refresh_devices", "")]


def versions(world, version):
    """The versions of a device, in order: name, name now, name before, whether it is current."""
    rows = sorted(world.rows("silver/devices", version=version), key=lambda row: row["valid_from"])
    return [
        tuple(row[c] for c in ("full_name", "current_full_name", "previous_full_name", "is_current")) for row in rows
    ]


@pytest.mark.spark
def test_devices_keep_their_names(world):
    """A renamed one, one that is gone and comes back; forced, the tables are the same; a foreign row is found."""
    deliver(world)
    deliver(world, b="Beta 2", c=None)
    deliver(world, b="Beta 2")
    assert versions(world, "a") == [("Alpha", "Alpha", None, True)]
    assert versions(world, "b") == [("Beta", "Beta 2", None, False), ("Beta 2", "Beta 2", "Beta", True)]
    assert [row[0] for row in versions(world, "c")] == ["Gamma", None, "Gamma"]
    shown = {
        row["version"]: (row["full_name"], row["previous_full_name"]) for row in world.rows("silver/devices_current")
    }
    assert shown == {"a": ("Alpha", None), "b": ("Beta 2", "Beta"), "c": ("Gamma", None)}
    assert world.run("check_tables").failure == ""
    assert world.checks("silver/devices")["versions_are_sound"]
    before = {table: world.rows(table) for table in ("silver/devices", "silver/devices_current")}
    for table, rows in before.items():
        assert world.compute(table, **{"dedp/force": "true"}).failure == ""
        assert sorted(map(str, world.rows(table))) == sorted(map(str, rows))
    assert world.react() == []
    path = world.address("silver/devices")
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 1), mode="append")
    assert world.run("check_tables").failure == ""
    assert not world.checks("silver/devices")["versions_are_sound"]


def stored(database):
    """The users in their database."""
    with database.connect() as connection:
        return set(connection.execute(f"SELECT {', '.join(NAMES)} FROM users").fetchall())


def opened(world, table, where):
    """Some users of a table, with their contacts in the clear."""
    rows = lake_of(world.settings).stored(table).read().filter(where)
    contacts = dict.fromkeys(CONTACTS, "STRING")
    shown = decrypt(rows, Secrets().key_ring("support"), columns=contacts, bound=BOUND)
    return {tuple(row[c] for c in NAMES) for row in shown.collect()}


def capture(world):
    """Capture what was committed; the versions say which day it begins with, all of them anew say none."""
    log = "bronze/users_history"
    known = {row["commit_lsn"] for row in world.rows(log)} if log in world.versions() else set()
    assert world.react() == [("capture_users", "")]
    days = [str(row["committed_on"]) for row in world.rows(log) if row["commit_lsn"] not in known]
    record = world.last("silver/users").record
    assert record.notes.get(TRUE_SINCE) == (min(days) if known and not record.replay else None)


@pytest.mark.slow
def test_users_follow_their_database(world, database, monkeypatch):
    """Every state is in the versions, what is now in both tables; an emptied table ends who was there."""
    monkeypatch.setattr(postgres, "address", lambda _: database)

    def work(number, statement=""):
        with database.connect() as connection:
            operational.create(connection)
            operational.work(connection, at=START + timedelta(seconds=number), steps=2)
            if statement:
                connection.execute(statement)
        capture(world)

    def both():
        assert opened(world, "silver/users", "is_current") == stored(database)
        assert opened(world, "silver/users_current", "NOT is_deleted") == stored(database)

    work(0)
    both()
    work(1, "UPDATE users SET user_id = 'new key' WHERE user_id = (SELECT max(user_id) FROM users)")
    both()
    work(2, "TRUNCATE users")
    work(3)
    both()
    assert opened(world, "silver/users", "NOT is_deleted") > stored(database)
    before = {table: sorted(map(str, world.rows(table))) for table in ("silver/users", "silver/users_current")}
    for table, rows in before.items():
        assert world.compute(table, **{"dedp/force": "true"}).failure == ""
        assert sorted(map(str, world.rows(table))) == rows
