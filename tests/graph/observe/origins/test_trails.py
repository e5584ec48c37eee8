"""Trails of rows to the lines of landing files, and endings of rows that are missing."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dedp_assets.graph.observe.origins.endings import Endings
from dedp_assets.graph.observe.origins.trails import Line, Trails
from dedp_assets.graph.observe.origins.tree import Origins
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.delta import SuppressionList
from dedp_assets.patterns.delta.log.commit_info import EXPIRED
from tests.graph.observe.origins.hand_written_lake import (
    DAY,
    EVENTS,
    LETTERS,
    LINES,
    NEXT,
    PAGES,
    HandWritten,
    declared,
    line,
)
from tests.helpers import NOW, a_record

TORN = '{"id": "torn", "user_'
LANDED = f"landing/lines/{DAY}"


@pytest.fixture
def lake(tmp_path):
    """A landing with a repeat, a torn line and an undelivered page; events, their letter, and counts."""
    written = HandWritten(tmp_path)
    lines = [line("v1"), line("v2", "u2", "/b"), TORN, line("v1", "u1", "/again"), line("v4", "u4")]
    read = written.land(DAY, *lines)
    rows = {"read": 5, "written": 2, "dead": 1, "duplicates": 1, "filtered": 1}
    valid = written.validate(DAY, read, ("v1", "u1", "/", 1), ("v2", "u2", "/b", 2), rows=rows)
    written.letter(DAY, read, TORN, 3, "malformed JSON")
    written.count(DAY, valid, {"/": 1, "/b": 1})
    return written


def trails(lake):
    return Trails(Origins(lake.lake, declared()))


def trail(lake, spec, **wanted):
    return trails(lake).of(spec.name, [{"day": DAY}], lake.lake.ledger(spec.name).version(), [wanted])


def endings(lake, spec, day=DAY, **wanted):
    return Endings(trails(lake)).of(spec.name, {"day": day}, wanted)


def test_a_row_of_gold_is_followed_to_file_and_line(lake):
    """By the page to the event, and by the place of the event to the landed line, with the run of each table."""
    pages = trail(lake, PAGES, page="/b")
    (events,) = pages.upstream
    (lines,) = events.upstream
    assert [(each.table, each.by, each.count) for each in (pages, events, lines)] == [
        (PAGES.name, ("page",), 1),
        (EVENTS.name, ("page",), 1),
        (LINES.name, ("landed_on", "source_file", "line_number"), 1),
    ]
    assert lines.lines == (Line(LANDED, "a.jsonl", 2),)
    assert [made.run for each in (pages, events, lines) for made in each.brought_by] == ["run-4", "run-2", "run-1"]
    assert not any(each.ends for each in (pages, events, lines))


def test_a_duplicate_is_named_with_the_line_that_stays(lake):
    """At the row, and when somebody asks for the line."""
    assert trail(lake, EVENTS, id="v1").repeats == (Line(LANDED, "a.jsonl", 4, repeats="a.jsonl line 1"),)
    assert trail(lake, EVENTS, id="v2").repeats == ()
    (ending,) = endings(lake, EVENTS, source_file="a.jsonl", line_number="4")
    assert (ending.kind, ending.where) == ("duplicate", "a.jsonl line 4")
    assert ending.why == "a.jsonl line 1 has the same id and stays, as the first one"


def test_values_are_shown_by_the_classes_of_columns(lake):
    """A personal value is a shape, wherever a row of it is shown, and a public one is itself."""
    events = trail(lake, EVENTS, id="v2")
    assert (events.rows[0]["user_id"], events.rows[0]["id"], events.rows[0]["landed_on"]) == ("a9", "v2", DAY)
    assert "u2" not in str(events)
    (letter,) = endings(lake, EVENTS, id="torn")
    assert "torn" not in str(letter.row)


def test_a_row_that_a_merge_copied_is_of_the_commit_before(lake):
    """The oldest commit since which a row is as it is; a row that the merge changed is its own."""
    before = trail(lake, EVENTS, id="v2").brought_by
    rows = [{"id": "v3", "user_id": "u3", "page": "/", "source_file": "a.jsonl", "line_number": 3}]
    merged = [{**row, "landed_on": date.fromisoformat(DAY), "day": date.fromisoformat(DAY)} for row in rows]
    lake.commit(EVENTS, merged, {"day": DAY}, {LETTERS.name: 0}, append=True, cause="replay of 1")
    assert trail(lake, EVENTS, id="v2").brought_by == before
    replayed = trail(lake, EVENTS, id="v3")
    assert [made.cause for made in replayed.brought_by] == ["replay of 1"]
    (letter,) = replayed.upstream
    assert (letter.table, letter.upstream[0].lines) == (LETTERS.name, (Line(LANDED, "a.jsonl", 3),))


def test_a_trail_ends_where_no_column_holds_the_key(lake):
    """With the column and the table above; the counts of a page are of no event."""
    ended = trail(lake, PAGES, views="1")
    assert [each.ends for each in ended.upstream] == [
        "no column of silver/events holds views of gold/pages: the key ends here"
    ]


def test_a_commit_without_a_record_ends_the_trail(lake):
    """Another writer names no input."""
    DeltaTable(lake.lake.ledger(PAGES.name).store.address).update(updates={"views": "7"})
    assert (
        trail(lake, PAGES, page="/b").ends
        == "version 1 of gold/pages was written by another engine, whose commit names no input"
    )


def test_a_torn_line_is_found_in_its_letter(lake):
    """By the text of the key, which a torn record still holds, from silver and by its place."""
    for wanted in ({"id": "torn"}, {"source_file": "a.jsonl", "line_number": "3"}):
        (ending,) = endings(lake, EVENTS, **wanted)
        assert (ending.kind, ending.where) == ("dead letter", f"{LETTERS.name} filed_under={DAY}, a.jsonl line 3")
        assert ending.why == "malformed JSON (malformed JSON, open since 2026-01-07)"


def test_a_landed_row_that_is_nowhere_was_left_out_by_the_run(lake):
    """Which read it, and counts what it left out."""
    (ending,) = endings(lake, EVENTS, id="v4")
    assert (ending.kind, ending.where) == ("left out", "a.jsonl line 5")
    assert ending.why == (
        "the row was read by run run-2, and is in no row of silver/events; "
        "that run counts 1 dead, 1 duplicates, 1 filtered"
    )


def test_a_row_that_landed_since_waits_for_a_run(lake):
    """The partition was computed from an earlier version."""
    lake.land(NEXT, line("v9"), of=DAY)
    (ending,) = endings(lake, EVENTS, id="v9")
    assert (ending.kind, ending.why) == (
        "not read yet",
        "the row came after version 0, which the partition was computed from",
    )


def test_a_row_of_another_day_is_found_there(lake):
    """In the table, or where it landed and no run of that day has read it yet."""
    read = lake.land(NEXT, line("w1"), line("w2"))
    lake.validate(NEXT, read, ("w1", "u1", "/", 1))
    assert [(each.kind, each.where) for each in endings(lake, EVENTS, id="w1")] == [
        ("other partition", f"silver/events day={NEXT}")
    ]
    (ending,) = endings(lake, EVENTS, id="w2")
    assert (ending.kind, ending.where) == (
        "other partition",
        f"bronze/lines day={NEXT}/landed_on={NEXT}, a.jsonl line 2",
    )


def test_an_erased_person_is_the_reason(lake, monkeypatch):
    """Without a value of the person."""
    key = MaskingKey("home", b"32 random bytes, which these are not")
    listed = SuppressionList(lake.lake.suppression().store, key)
    listed.add("case-7", {"user": ["u4"]}, at=NOW, because="request")
    monkeypatch.setattr("dedp_assets.graph.resources.lake.masking_key", lambda _: key)
    (ending,) = endings(lake, EVENTS, id="v4")
    assert (ending.kind, ending.why) == (
        "suppressed",
        "the user was erased by request: no write brings rows of the user back",
    )
    (ending,) = endings(lake, EVENTS, user_id="u4")
    assert (ending.kind, ending.row) == ("suppressed", {})


def test_a_missing_row_of_gold_ended_above(lake):
    """A page that only a dead letter names is found there."""
    lake.letter(DAY, 0, line("v7", page="/lost"), 3, "id is missing")
    (ending,) = endings(lake, PAGES, page="/lost")
    assert (ending.kind, ending.why.partition(" (")[0]) == ("dead letter", "id is missing")


def test_a_row_that_nobody_has_seen_says_what_was_read(lake):
    """With the versions, for a person to look on."""
    (ending,) = endings(lake, PAGES, page="/never")
    assert ending.kind == "unknown"
    assert ending.why.endswith("the partition was computed from silver/events 0")


def test_a_row_that_was_removed_by_age_is_expired(lake):
    """With the version that removed the partition."""
    ledger = lake.lake.ledger(EVENTS.name)
    ((file, _),) = ledger.state().keyed_files()
    record = a_record(EVENTS.name, {}, notes={EXPIRED: 30}).to_json()
    info = {"timestamp": 1796028694692, "operation": "EXPIRE PARTITIONS", "userMetadata": record}
    gone = {"path": file["path"], "partitionValues": {"day": DAY}, "deletionTimestamp": 1, "dataChange": True}
    log = "\n".join(map(json.dumps, [{"commitInfo": info}, {"remove": gone}]))
    ledger.store.put(f"_delta_log/{1:020d}.json", log.encode())
    (ending,) = endings(lake, EVENTS, id="v1")
    assert (ending.kind, ending.why) == ("expired", "the partition was removed by age at version 1, on 2026-11-30")


def test_a_version_that_is_gone_is_followed_in_the_newest_one(lake):
    """After a purge nobody can read what the run read; the landed line is there all the same."""
    lake.land(NEXT, line("w1"))
    ledger = lake.lake.ledger(LINES.name)
    DeltaTable(ledger.store.address).create_checkpoint()
    (Path(lake.lake.root) / LINES.name / "_delta_log" / f"{0:020d}.json").unlink()
    (lines,) = trail(lake, EVENTS, id="v2").upstream
    assert (lines.version, lines.gone, lines.rows[0]["line_number"]) == (1, 0, "2")
    assert lines.ends == "the log of bronze/lines no longer names the commit that brought the row"
