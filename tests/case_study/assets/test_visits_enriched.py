"""Enriched visits: users as of the visit, devices, and the places of addresses, from landing on."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import count
from math import ceil

import pytest

from dedp_assets.case_study.defs.silver.devices import DEVICES_CURRENT
from dedp_assets.case_study.defs.silver.users import BOUND, CONTACTS, USERS, USERS_CURRENT
from dedp_assets.case_study.defs.silver.visits_hot import VISIT_CONTEXTS, VISITS_HOT
from dedp_assets.case_study.sources import devices
from dedp_assets.case_study.sources.ip_locations import MOST, location_of
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import encrypt, join_parts
from dedp_assets.patterns.delta.maintenance import expire_partitions
from tests.case_study.assets.conftest import MONDAY, day, visits_of, world_in
from tests.helpers import a_run

pytestmark = [pytest.mark.spark, pytest.mark.budget(75, "a platform with a service, whose answers several tables read")]

PLACES, ENRICHED = "bronze/ip_locations", "silver/visits_enriched"
FORCE = {"dedp/force": "true"}
RUNS = count(1)
NAMES = {(d["type"], d["version"]): d["full_name"] for d in map(json.loads, devices.devices())}


@pytest.fixture(scope="module")
def world(spark, served, tmp_path_factory):
    """A world that asks the services of the tests, which tell one story in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEDP_SERVICES", served)
        with world_in(tmp_path_factory.mktemp("enriched")) as made:
            yield made


def at(hour, number=0):
    """An hour of a day of the test week."""
    return datetime.combine(MONDAY + timedelta(days=number), datetime.min.time(), timezone.utc) + timedelta(hours=hour)


def store(world, spec, rows, **notes):
    """Let a table hold some rows, whoever else would write it."""
    table = lake_of(world.settings).table(spec)
    contacts = dict.fromkeys(CONTACTS, "STRING") if spec in (USERS, USERS_CURRENT) else {}
    schema = ", ".join(f"{name} {contacts.get(name, column.type)}" for name, column in spec.columns.items())
    frame = table.session.createDataFrame(rows, schema)
    if contacts:
        frame = encrypt(frame, Secrets().key_ring(spec.name), columns=CONTACTS, bound=BOUND)
    table.overwrite(frame, provenance=a_run(spec.name, run_id=f"run-{next(RUNS)}", notes=notes))


def know(world, *versions, **notes):
    """Let silver/users hold versions: user, whether active, since, until."""
    rows = [(u, f"{u}@login", None, None, active, a, b, b is None, False, []) for u, active, a, b in versions]
    store(world, USERS, rows, **notes)


def joined(world, number=0):
    """Visit -> whether its user was active, device, country of a day's rows."""
    rows = world.rows(ENRICHED, event_date=day(number))
    found = {r["visit_id"]: (r["active"], r["device_name"], r["country"], r["region"]) for r in rows}
    assert len(found) == len(rows)
    return found


def expected(lines, versions):
    """The same by a model, in plain Python."""
    found = {}
    for visit in map(json.loads, lines):
        seen = datetime.fromisoformat(visit["event_time"].replace("Z", "+00:00"))
        active = [v[1] for v in versions if v[0] == visit["user_id"] and v[2] <= seen and (v[3] is None or seen < v[3])]
        device = NAMES.get((visit["device_type"], visit["device_version"]))
        place = location_of(visit["ip"])
        found[visit["visit_id"]] = (*(active or [None]), device, place["country"], place["region"])
    return found


def react(world):
    """Let the sensors do their work; table and day of what was computed here, in order."""
    computed = [(table, key) for job, key in world.react() for table in job.split(", ")]
    return [each for each in computed if each[0] in (PLACES, ENRICHED)]


MONDAYS, LATE = visits_of(0), visits_of(0, count=3, seed=9)
TOLD = [("u1", True, at(-99), at(12)), ("u1", False, at(12), None), ("u2", True, at(0, 3), None)]
SINCE = [TOLD[0], ("u1", False, at(12), at(0, 2)), ("u1", True, at(0, 2), None), TOLD[2]]
LATELY = [*SINCE[:3], ("u2", False, at(9, 1), at(0, 3)), TOLD[2]]


def addresses(lines):
    """The addresses that visits came from."""
    return {json.loads(line)["ip"] for line in lines}


def test_visits_wait_for_users_and_are_enriched_by_what_was_known_at_their_time(world, services):
    """Each visit stays once, unknown users and devices included; addresses cost as few requests as possible."""
    services.requests("locations")
    world.land(day(0), MONDAYS)
    store(world, DEVICES_CURRENT, [(*key, name, at(0), None) for key, name in NAMES.items()])
    assert react(world) == [(PLACES, day(0))]
    assert services.requests("locations") == ceil(len(addresses(MONDAYS)) / MOST)
    assert "silver/users does not exist yet" in world.compute(ENRICHED, day(0)).failure
    know(world, *TOLD)
    assert react(world) == [(ENRICHED, day(0))]
    assert joined(world) == expected(MONDAYS, TOLD)
    assert {found[0] for found in joined(world).values()} == {True, False, None}
    assert "@login" not in str(world.rows(ENRICHED)), "a name to log in with, in the clear"


def test_a_version_that_begins_later_asks_for_nothing_and_late_visits_follow(world, services):
    """Known addresses keep their places although the service says otherwise by now."""
    services.behave("locations", "moved", times=99)
    know(world, *SINCE, true_since=day(2))
    assert world.react() == []
    world.land(day(1), visits_of(1), late=LATE)
    assert (ENRICHED, day(0)) in react(world)
    again, before = joined(world), expected(MONDAYS, TOLD)
    assert {visit: row for visit, row in again.items() if visit in before} == before
    assert len(again) == len(MONDAYS) + len(LATE)
    assert {row["ip"] for row in world.rows(PLACES, event_date=day(0))} == addresses([*MONDAYS, *LATE])


@pytest.mark.promise("a-change-that-was-captured")
def test_a_change_that_was_captured_late_reaches_the_days_that_it_is_about(world):
    """And no other day: the one before it keeps its commit."""
    before = world.last(ENRICHED, event_date=day(0)).version
    know(world, *LATELY, true_since=day(1))
    assert react(world) == [(ENRICHED, day(1))]
    active = {visit: row[0] for visit, row in joined(world, 1).items()}
    assert active == {visit: row[0] for visit, row in expected(visits_of(1), LATELY).items()}
    assert active != {visit: row[0] for visit, row in expected(visits_of(1), SINCE).items()}
    assert world.last(ENRICHED, event_date=day(0)).version == before
    assert react(world) == []


def test_a_replay_says_the_same_while_the_service_is_down(world, services):
    """Nobody is asked; a reference with two rows at a time is refused, and nothing changes."""
    services.behave("locations", "down", times=99)
    services.requests("locations")
    before = joined(world)
    for table in (PLACES, ENRICHED):
        assert world.compute(table, day(0), **FORCE).failure == ""
    assert (services.requests("locations"), joined(world)) == (0, before)
    know(world, *SINCE, ("u2", False, at(0, 4), None), true_since=day(4))
    assert world.checks(ENRICHED)["users_have_one_version_at_a_time"]
    said = world.compute(ENRICHED, day(0), **FORCE).failure
    assert "the reference was refused: 1 keys have overlapping versions, 'u2'" in said
    assert not world.checks(ENRICHED)["users_have_one_version_at_a_time"]
    assert joined(world) == before


def test_without_an_answer_a_day_waits_and_nothing_else_does(world, services):
    """The run of the places says what does not answer; visits are loaded, and are enriched once it answers."""
    services.behave("locations", "down", times=4)
    know(world, *TOLD, true_since=day(3))
    new = [line.replace('"ip": "203.', '"ip": "198.') for line in visits_of(3)]
    world.land(day(3), new)
    ended = [each for each in world.platform.react(rounds=2) if each.partition == day(3)]
    (failed,) = [each for each in ended if each.failure]
    assert PLACES in failed.job
    assert "does not answer after 4 attempts: status 503" in failed.failure
    assert len(world.ids("silver/visits", event_date=day(3))) == len(new)
    assert react(world) == [(PLACES, day(3)), (ENRICHED, day(3))]
    assert joined(world, 3) == expected(new, TOLD)


def test_visits_are_normalized_and_joined_back(world):
    """Devices and regions of all days lie there once, and a day's visits have their columns again."""
    assert not world.compute("silver/visit_devices").failure
    assert not world.compute("silver/visits_normalized", day(0)).failure
    assert world.checks("silver/visits_normalized")["attributes_follow_from_their_key"]
    flat, taken = world.rows(ENRICHED), world.rows("silver/visits_normalized")
    nothing = {"device_type": None, "device_version": None, "region": None, "country": None}
    devices = {row.pop("device_id"): row for row in world.rows("silver/visit_devices")}
    regions = {row.pop("region_id"): row for row in world.rows("silver/visit_regions")}
    assert len(regions) == len({row["region"] for row in regions.values()}) > 1
    assert len(devices) == len({(row["device_type"], row["device_version"]) for row in flat})
    back = {r["visit_id"]: nothing | devices.get(r["device_id"], {}) | regions.get(r["region_id"], {}) for r in taken}
    assert len(back) == len(taken)
    assert back == {
        row["visit_id"]: {name: row[name] for name in nothing} for row in flat if str(row["event_date"]) == day(0)
    }
    assert not world.compute("silver/countries").failure
    nested = {(row["country"], each["region"]) for row in world.rows("silver/countries") for each in row["regions"]}
    assert nested == {(row["country"], row["region"]) for row in regions.values() if row["country"]}


def test_visits_are_split_and_joined_back(world):
    """A day's visits and contexts are written in one run, and make the rows again; a context is there once."""
    assert not world.compute("silver/visits_hot", day(0)).failure
    parts = [lake_of(world.settings).table(spec) for spec in (VISITS_HOT, VISIT_CONTEXTS)]
    back = join_parts(*parts)
    flat = world.rows(ENRICHED, event_date=day(0))
    contexts = {tuple(row[name] for name in VISIT_CONTEXTS.columns if name != "context") for row in flat}
    assert len(world.rows("silver/visit_contexts")) == len(contexts) < len(flat)
    assert Counter(map(tuple, back.select("visit_id", "country", "device_name").collect())) == Counter(
        (row["visit_id"], row["country"], row["device_name"]) for row in flat
    )


def test_contexts_expire_and_visits_stay(world):
    """After 90 days the maintenance removes what is known of devices and places; visits are read without it."""
    hot, contexts = (lake_of(world.settings).table(spec) for spec in (VISITS_HOT, VISIT_CONTEXTS))
    visits = hot.read().count()
    run = a_run(at=contexts.ledger.commit(contexts.ledger.version()).timestamp)
    assert not expire_partitions(contexts, run, now=at(23, 90)).applied
    assert expire_partitions(contexts, run, now=at(1, 91)).figures["partitions_expired"] == 1
    back = join_parts(hot, contexts).select("visit_id", "country", "device_name").collect()
    assert {(row["country"], row["device_name"]) for row in back} == {(None, None)}
    assert len(back) == visits


def test_a_dashboard_is_materialized_and_refreshed_by_days(world):
    """Every visit is counted; the next refresh has nothing to do, and the check says that the copy shows its base."""
    dashboard, shown = "gold/visits_dashboard", "the_copy_shows_its_base"
    assert not world.compute(dashboard).failure
    flat = Counter(
        (row["event_date"], row["country"] or "unknown", row["device_type"] or "unknown")
        for row in world.rows(ENRICHED)
    )
    found = {(row["event_date"], row["country"], row["device_type"]): row["visits"] for row in world.rows(dashboard)}
    assert found == flat
    assert world.checks(dashboard)[shown]
    version = world.ledger(dashboard).version()
    assert not world.compute(dashboard, **FORCE).failure
    assert world.ledger(dashboard).version() == version


def test_visits_and_users_in_the_same_buckets_are_joined(world):
    """Every visit of the day is counted once: users who may log in, who may not, and strangers, as who is deleted."""
    kinds = {"u1": True, "u2": False, "u3": None}
    rows = [(u, None, None, None, active, u == "u3", (at(0), 1)) for u, active in kinds.items()]
    store(world, USERS_CURRENT, rows)
    for table, key in (("silver/users_by_visitor", ""), ("silver/visits_by_visitor", day(0))):
        assert not world.compute(table, key).failure
    assert world.checks("silver/users_by_visitor")["users_are_found_by_key"]
    assert not world.compute("gold/visits_of_users", day(0)).failure
    users = [json.loads(line)["user_id"] for line in {*MONDAYS, *LATE}]
    expected = Counter(kinds.get(user) for user in users)
    found = {row["active"]: row["visits"] for row in world.rows("gold/visits_of_users", event_date=day(0))}
    assert found == expected
    assert sum(found.values()) == len(world.rows("silver/visits", event_date=day(0)))
