"""Dead-Letter Replay: after a fix the letters alone run again, and the partition is as a rebuild would make it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.rows import tally
from dedp_assets.patterns.error_management import dead_letter_replay
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable, route
from dedp_assets.patterns.error_management.dead_letter_replay import open_letters, plan_replay, replay_letters
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.quality.audit_write_audit_publish import require_pass
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.patterns.error_management.test_dead_letter import (
    DAY,
    FEW,
    IDENTITY,
    LETTERS,
    NEXT,
    READINGS,
    SCHEMA,
    filing,
    good,
    routed,
    typed,
)
from tests.two_runs import two_runs

ROUND = {"id is round": "id % 10 <> 0"}
FIXED = {"id is 30": "id <> 30"}
STORY = {
    **{n: good(n) for n in (*range(1, 10), *range(21, 40)) if n % 10},
    11: good(50),  # saved, and before the row of line 12, which came by the wrong rule
    12: '{"id": 51, "at": "2026-01-05T10:00:00Z", "name": "n", "version": "1"}',
    13: good(10),  # saved
    14: good(20),  # saved, line 15 repeats it
    15: good(20),
    16: good(30),  # refused by the fixed rule, too
    17: "cut {",  # nobody saves it
    18: '{"id": 40, "name": "late", "version": null}',  # saved, with values missing
}
"""Line -> record of one day; ids that end in 0 are refused by the code before the fix."""
UNTOLD = {"run_id"}


def judged(rows, earlier=None, *, rules=ROUND):
    split = divert_unprocessable(rows, earlier, payload="raw", schema=SCHEMA, identity=IDENTITY, rules=rules)
    return deduplicate(split, keys=["id"], order_by=IDENTITY)


@pytest.fixture
def world(spark, make_table):
    """A day of readings, how it is loaded, and how its letters are replayed."""
    valid, dead = make_table(READINGS), make_table(LETTERS)

    def load(texts=STORY, *, day=DAY, rules=ROUND, into=(valid, dead), **fields):
        rows = spark.createDataFrame(list(texts.items()), "line BIGINT, raw STRING")
        rows, seen = tally(rows.selectExpr("*", f"DATE '{day}' AS day"), identity=IDENTITY)
        run = a_run(**{"asset": READINGS.name, "inputs": {"bronze": 1}, "sequence": 1, **fields})
        return route(
            judged(rows, into[1].read() if into[1].ledger.exists() else None, rules=rules),
            into[0].target(run, partition={"day": day}, audits=[FEW]).reading(seen),
            into[1].target(run, partition={"filed_under": day}),
        )

    def replay(rules=FIXED, *, code_version="2", keys=("id",), **fields):
        since, filed_under = dead.ledger.version(), {"filed_under": DAY}
        letters = open_letters(dead, filed_under=filed_under, version=since)
        return replay_letters(
            judged(letters, rules=rules),
            valid.target(
                a_run(**{"asset": READINGS.name, "code_version": code_version, "cause": "replay", **fields}),
                partition={"day": DAY},
                audits=[FEW],
            ),
            dead.target(
                a_run(**{"asset": READINGS.name, "code_version": code_version, "cause": "replay", **fields}),
                partition=filed_under,
            ),
            keys=keys,
            since=since,
        )

    return SimpleNamespace(load=load, replay=replay, valid=valid, dead=dead, make_table=make_table)


def held(table):
    """Rows, without what differs from run to run."""
    return [{name: value for name, value in row.items() if name not in UNTOLD} for row in read_back(table)]


def sessions(table):
    """First and last minute of each session of the day: what a consumer makes of it that waits ten minutes for more."""
    found = []
    for minute in sorted(row["at"].minute for row in read_back(table) if str(row["day"]) == DAY and row["at"]):
        if found and minute - found[-1][1] <= 10:
            found[-1] = (found[-1][0], minute)
        else:
            found.append((minute, minute))
    return found


def statuses(world):
    return {row["line"]: row["status"] for row in read_back(world.dead)}


@pytest.mark.promise("a-replay-gives-what-a")
def test_a_replay_gives_what_a_rebuild_gives_and_a_second_one_changes_nothing(world):
    """Rows, marks and letters agree; repeats among the saved are no rows; other partitions are not touched.

    A gate finds a verdict on what was replayed: the share of dead letters that is left, which warns.
    """
    rebuilt = (
        world.make_table(replace(READINGS, name="silver/rebuilt")),
        world.make_table(replace(LETTERS, name="silver/rebuilt_letters")),
    )
    for into in ((world.valid, world.dead), rebuilt):
        world.load(into=into)
        world.load({n: good(n) for n in range(1, 11)}, day=NEXT, into=into)
    world.load(rules=FIXED, into=rebuilt, code_version="2", cause="replay")
    assert sessions(world.valid) == [(0, 9), (21, 39)]
    before = world.valid.ledger.version()
    result = world.replay(run_id="run-2")
    assert result.reason == "4 letters saved, 2 refused again"
    assert held(world.valid) == held(rebuilt[0])
    assert held(world.dead) == held(rebuilt[1])
    assert sessions(world.valid) == [(0, 39), (50, 50)], "computed anew for the changed day, a session is whole"
    _, changed = world.valid.ledger.changes(since=before)
    assert [dict(key) for key in changed] == [{"day": DAY}]
    asked = ["dead_letters_are_few", "rows_are_accounted_for"]
    assert require_pass(world.valid.ledger, {"day": DAY}, version=world.valid.ledger.version(), audits=asked).passed
    record = world.valid.ledger.latest({"day": DAY}).record
    (finding,) = [each for each in record.findings if each["name"] == "dead_letters_are_few"]
    assert (finding["passed"], finding["severity"], record.cause) == (False, "warn", "replay")
    rows, letters = held(world.valid), held(world.dead)
    again = world.replay(run_id="run-3")
    assert (again.applied, again.reason) == (False, "0 letters saved, 2 refused again")
    assert (held(world.valid), held(world.dead)) == (rows, letters)


def test_a_saved_record_comes_before_a_later_one_of_its_key(world):
    """As a rebuild chooses: the first line of a key stays, though the other one was there before."""
    twins = {1: good(60), 2: good(2), 4: good(4), 5: good(5), 3: json.dumps({"id": 60, "name": "x", "version": "y"})}
    hidden = {"id is round": "id % 10 <> 0 OR name = 'x'"}
    world.load(twins, rules=hidden)
    assert {row["line"] for row in read_back(world.valid)} == {2, 3, 4, 5}
    world.replay({})
    rows = {row["line"]: row["was_dead_lettered"] for row in read_back(world.valid)}
    assert rows == {1: True, 2: False, 4: False, 5: False}
    assert statuses(world) == {1: "replayed"}
    with pytest.raises(ConfigError, match="name may be NULL in silver/readings"):
        world.replay({}, keys=["name"])


@pytest.mark.promise("a-replay-that-is-killed")
def test_a_replay_that_is_killed_is_completed_by_the_next(world, monkeypatch):
    """After the rows and before the letters: the next replay finds the rows there, doubles none, and tells it."""
    world.load()
    publish, power = dead_letter_replay.publish_letters, ["cut"]

    def publishing(*rows, **options):
        if power:
            raise RuntimeError(power.pop())
        return publish(*rows, **options)

    monkeypatch.setattr(dead_letter_replay, "publish_letters", publishing)
    with pytest.raises(RuntimeError, match="cut"):
        world.replay()
    assert statuses(world) == {11: "open", 13: "open", 14: "open", 15: "open", 16: "open", 17: "open", 18: "open"}
    rows = held(world.valid)
    world.replay(run_id="run-2")
    assert held(world.valid) == rows
    assert {line for line, status in statuses(world).items() if status == "open"} == {16, 17}
    assert sorted(row["line"] for row in rows if row["was_dead_lettered"]) == [11, 13, 14, 18]


def test_a_rebuild_in_between_is_a_conflict_and_loses_nothing(world, monkeypatch):
    """The run that came first has replaced the letters: the replay gives way, and the next one finds all done."""
    world.load()
    publish = dead_letter_replay.publish_letters

    def late(*rows, **options):
        monkeypatch.setattr(dead_letter_replay, "publish_letters", publish)
        world.load(rules=FIXED, code_version="2", inputs={"bronze": 2}, sequence=2)
        return publish(*rows, **options)

    monkeypatch.setattr(dead_letter_replay, "publish_letters", late)
    with pytest.raises(Conflict, match="run it again"):
        world.replay()
    rows, letters = held(world.valid), held(world.dead)
    world.replay()
    assert (held(world.valid), held(world.dead)) == (rows, letters)


def test_what_a_person_gives_up_waits_for_nothing_and_may_still_be_saved(world):
    """It stays given up through a rebuild, counts as open no more, and a later fix saves it all the same."""
    world.load()
    world.replay(approval=Approval("Ada", "the device is gone"))
    assert {line for line, status in statuses(world).items() if status == "given_up"} == {16, 17}
    record = world.dead.ledger.latest({"filed_under": DAY}).record
    assert (record.figures["open"], record.figures["given_up"], record.approval["by"]) == (0, 2, "Ada")
    world.load(rules=FIXED, code_version="2", inputs={"bronze": 2}, sequence=2)
    assert {line for line, status in statuses(world).items() if status == "given_up"} == {16, 17}
    world.replay({}, code_version="3")
    assert {line: status for line, status in statuses(world).items() if line in (16, 17)} == {
        16: "replayed",
        17: "given_up",
    }


def test_a_replay_plan_names_partitions_refused_by_other_code_oldest_first():
    """Letters of the present code wait for a fix, empty partitions are no matter, and no row is looked at."""
    letters_open = {NEXT: 2, DAY: 3, "2026-01-07": 0, "2026-01-08": 1}
    refused_by = {NEXT: "1", DAY: "1", "2026-01-07": "1", "2026-01-08": "2"}
    plan = plan_replay(letters_open, refused_by, code_version="2")
    assert plan.partitions == (DAY, NEXT)
    assert plan.causes == {DAY: "replay of 3", NEXT: "replay of 2"}
    assert plan.held == {"2026-01-08": "1 dead letters of this very code"}
    assert plan.cursor == {DAY: "code-2", NEXT: "code-2"}


def test_a_replay_plan_is_empty_once_the_code_has_seen_every_letter():
    """After the replay the plan of the same code is empty, so a second replay is never asked for."""
    plan = plan_replay({DAY: 1}, {DAY: "2"}, code_version="2")
    assert (plan.partitions, plan.reason) == ((), "0 partitions to replay, 1 wait for a fix")


def test_of_two_letters_with_one_key_the_first_is_saved_though_no_step_before_told_them_apart(world):
    """A split that is not deduplicated is replayed all the same, with one row of each key."""
    world.load()
    filed_under, since = {"filed_under": DAY}, world.dead.ledger.version()
    letters = open_letters(world.dead, filed_under=filed_under, version=since)
    options = {"payload": "raw", "schema": SCHEMA, "identity": IDENTITY, "rules": FIXED}
    result = replay_letters(
        divert_unprocessable(letters, **options),
        world.valid.target(
            a_run(asset=READINGS.name, code_version="2", cause="replay"), partition={"day": DAY}, audits=[FEW]
        ),
        world.dead.target(a_run(asset=READINGS.name, code_version="2", cause="replay"), partition=filed_under),
        keys=["id"],
        since=since,
    )
    assert result.reason == "4 letters saved, 2 refused again"
    assert [row["line"] for row in read_back(world.valid) if row["id"] == 20] == [14]


@known_calls
def calls_that_work(known):
    replayed = routed(known, "replayed")
    return {
        "open_letters": {"dead": replayed["dead"].table, "filed_under": {"day": "mon"}, "version": 0},
        "plan_replay": {"open_letters": {"mon": 3}, "refused_by": {"mon": "1"}, "code_version": "2"},
        "replay_letters": {**replayed, "keys": ["n"], "since": 0},
    }


@two_runs()
def replayed_at_once(world):
    targets, deliver = filing(world)

    def replay(w):
        since = w["dead"].ledger.version()
        letters = typed(open_letters(w["dead"], filed_under={"day": "mon"}, version=since))
        replay_letters(letters, *targets(w, "r"), keys=["n"], since=since)

    yield replay
    yield lambda w: deliver(w, "2", (1, '{"id": 8}', "mon"), (3, "{", "mon"), positive="id > 0")
