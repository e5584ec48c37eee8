"""Contacts of users: encrypted in every file, readable by the key ring, gone with a user's key."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.case_study.defs.bronze.users import HISTORY
from dedp_assets.case_study.defs.silver.users import BOUND, CONTACTS, USERS, USERS_CURRENT
from dedp_assets.cli import main
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems.secrets import WRAPPING, Secrets, store_of
from dedp_assets.patterns import decrypt
from dedp_assets.patterns.delta import store_at
from tests.helpers import a_run

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
STORED = {"u1": "canary@example.org", "u2": None, "u3": "eve@example.org"}
TABLES = {USERS: "is_current", USERS_CURRENT: "NOT is_deleted"}


def capture(world, number, users):
    """Let changes of users be captured at the n-th minute: id and e-mail."""
    table, at, rows = lake_of(world.settings).table(HISTORY), AT + timedelta(minutes=number), []
    for place, (user, mail) in enumerate(users.items()):
        after = {"user_id": user, "login": f"{user}@login", "email": mail, "credit": "1.00", "active": "true"}
        key = json.dumps({"user_id": user})
        rows.append((number, place, "insert", key, None, json.dumps(after), at, at.date()))
    schema = ", ".join(f"{name} {column.type}" for name, column in HISTORY.columns.items())
    table.append(
        table.session.createDataFrame(rows, schema),
        provenance=a_run(HISTORY.name, run_id=f"run-{number}", sequence=number),
    )
    for spec in TABLES:
        assert world.compute(spec.name).failure == ""


def opened(world, spec):
    """User -> login and e-mail, by the ring of the home."""
    rows = lake_of(world.settings).table(spec).read().filter(TABLES[spec])
    shown = decrypt(rows, Secrets().key_ring("support"), columns=dict.fromkeys(CONTACTS, "STRING"), bound=BOUND)
    return {row["user_id"]: (row["login"], row["email"]) for row in shown.collect()}


def test_contacts_are_encrypted_and_a_user_is_erased_by_the_key(world, capsys):
    """From the users to the shredding of one by command and job; a later run brings nothing back."""
    expected = {user: (f"{user}@login", mail) for user, mail in STORED.items()}
    capture(world, 1, STORED)
    capture(world, 2, STORED)
    for spec in TABLES:
        kept = store_at(world.address(spec.name))
        held = [kept.read(file.path) for file in kept.files()]
        assert held
        assert not [content for content in held if b"canary" in content or b"u1@login" in content]
        assert all(world.checks(spec.name).values())
        assert opened(world, spec) == expected
    # A repetition is no version: equal values of a person are equal.
    assert len(world.rows(USERS.name)) == len(STORED)
    # A new wrapping key opens what was wrapped by the former one; the job of the night wraps all anew.
    store_of(world.settings).write(WRAPPING, {"value": "1f" * 32})
    assert opened(world, USERS) == expected
    assert Secrets().key_ring("support").wrapped_by() == {"1"}
    assert main(["keys", "delete", USERS.name, "--person", "u1", "--grace-days", "0"]) == 0
    assert "1 keys of silver/users are deleted, and can be restored until" in capsys.readouterr().out
    erased = {**expected, "u1": (None, None)}
    assert [opened(world, spec) for spec in TABLES] == [erased, erased]
    assert world.run("tend_keys").failure == ""
    assert Secrets().key_ring("support").wrapped_by() == {"2"}
    assert main(["keys", "restore", USERS.name, "--person", "u1"]) == 2
    assert "none were deleted, or their grace is over" in capsys.readouterr().err
    capture(world, 3, {"u1": "canary@example.org", "u3": "eve@new.example"})
    erased["u3"] = ("u3@login", "eve@new.example")
    assert [opened(world, spec) for spec in TABLES] == [erased, erased]
