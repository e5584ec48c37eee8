"""Staging: production's tables for tests, byte for byte or without what is personal in them."""

from __future__ import annotations

import json

from dedp_assets.case_study.sources import devices
from dedp_assets.graph.outcomes.run_tags import APPROVED_AUDITS, APPROVED_BECAUSE, APPROVED_BY
from tests.case_study.assets.conftest import day, visits_of


def contents(world, table):
    """Bytes of every file of a table, by its path."""
    store = world.ledger(table).store
    return {file.path: store.read(file.path) for file in store.files()}


def test_visits_reach_staging_without_what_is_personal_in_them(world):
    """The same visits under the same pseudonyms each time; no user and no program of theirs is in any file."""
    world.land(day(0), visits_of(0))
    world.react()
    for _ in range(2):
        assert world.compute("staging/visits", day(0)).failure == ""
    original, replica = world.rows("silver/visits"), world.rows("staging/visits")
    assert sorted(row["visit_id"] for row in replica) == sorted(row["visit_id"] for row in original)
    assert "user_agent" not in replica[0]
    users = {row["user_id"] for row in original}
    pseudonyms = {row["user_id"] for row in replica}
    assert len(pseudonyms) == len(users)
    assert not pseudonyms & users
    files = contents(world, "staging/visits").values()
    assert files
    assert not any(user.encode() in content for user in users for content in files)
    assert world.checks("staging/visits")["no_personal_value_crossed"]
    record = world.last("staging/visits", event_date=day(0)).record
    assert (record.figures["altered"], record.figures["unaltered"]) == (len(original), 0)


def test_a_false_positive_reaches_staging_under_the_name_of_a_person(world):
    """A program that is called as a page is: refused, also under a blanket approval, and published once it is named."""
    first, *others = visits_of(0)
    page = {"page": "/pricing", "user_agent": "pricing"}
    world.land(day(0), [json.dumps(json.loads(first) | page), *others])
    world.react()
    person, audit = {APPROVED_BY: "Ada", APPROVED_BECAUSE: "a page"}, "no_personal_value_crossed"
    for tags in ({}, person):
        assert f"{audit}: above 0" in world.compute("staging/visits", day(0), **tags).failure
        assert not [path for path in contents(world, "staging/visits") if path.endswith(".parquet")]
    assert world.compute("staging/visits", day(0), **person, **{APPROVED_AUDITS: audit}).failure == ""
    record = world.last("staging/visits", event_date=day(0)).record
    assert (record.verdict, record.approval) == ("approved", {"by": "Ada", "because": "a page"})
    assert len(world.rows("staging/visits")) == len(world.rows("silver/visits"))


def test_devices_reach_staging_byte_for_byte(world):
    """Versions, history and files are production's own; unchanged, nothing is copied again."""
    devices.deliver(world.landing / "devices", devices.devices())
    world.react()
    for _ in range(2):
        assert world.compute("staging/devices").failure == ""
    assert world.rows("staging/devices") == world.rows("bronze/devices")
    assert world.versions()["staging/devices"] == world.versions()["bronze/devices"]
    production, staging = (contents(world, f"{layer}/devices") for layer in ("bronze", "staging"))
    assert staging
    assert staging.items() <= production.items()
