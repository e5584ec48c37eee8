"""Trees of the commits behind rows, of three layers written by hand."""

from __future__ import annotations

import pytest

from dedp_assets.graph.observe.origins.tree import Origins
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
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


@pytest.fixture
def lake(tmp_path):
    """Two landings with events of one day, valid events, and counts."""
    written = HandWritten(tmp_path)
    written.land(DAY, line("v1"), line("v2", page="/b"))
    read = written.land(NEXT, line("v3"), of=DAY, file="late.jsonl")
    valid = written.validate(DAY, read, ("v1", "u1", "/", 1), ("v2", "u1", "/b", 2))
    written.count(DAY, valid, {"/": 1, "/b": 1})
    return written


def origin_of(lake, spec, day=DAY, tables=None):
    return Origins(lake.lake, declared() if tables is None else tables).of(spec.name, {"day": day}, day)


def test_rows_are_followed_to_the_landing_files_of_all_landings(lake):
    """Each commit names its run and inputs, each input the commits behind it, down to files with their lines."""
    pages = origin_of(lake, PAGES)
    (counted,) = pages.commits
    assert (counted.run, [each.name for each in counted.inputs]) == ("run-4", ["silver/events"])
    events = counted.inputs[0].origin
    lines = events.commits[0].inputs[0].origin
    assert {tuple(sorted(each.items())) for each in lines.partitions} == {
        (("day", DAY), ("landed_on", DAY)),
        (("day", DAY), ("landed_on", NEXT)),
    }
    landed = [(made.run, each.name, each.read, dict(each.files)) for made in lines.commits for each in made.inputs]
    assert landed == [
        ("run-2", f"landing/lines/{NEXT}", f"sha-{NEXT}", {"late.jsonl": 1}),
        ("run-1", f"landing/lines/{DAY}", f"sha-{DAY}", {"a.jsonl": 2}),
    ]
    assert not any(each.ends for each in (pages, events, lines))


def test_without_declarations_the_log_says_which_partitions_were_read(lake):
    """The version that an input names is the one that changed the partitions last."""
    (counted,) = origin_of(lake, PAGES, tables=[]).commits
    events = counted.inputs[0].origin
    assert events.partitions == ({"day": DAY},)
    assert events.commits[0].inputs[0].origin.table == LINES.name


def test_an_input_that_has_changed_since_says_so(lake):
    """The rows of the reader are of the version that was read."""
    lake.validate(DAY, 1, ("v1", "u1", "/", 1))
    events = origin_of(lake, PAGES).commits[0].inputs[0].origin
    assert (events.version, events.changed_since, events.commits[0].run) == (0, 1, "run-3")


def test_a_table_that_two_inputs_read_is_explained_once(lake):
    """Further down a tree would repeat itself with every reader."""
    lake.letter(DAY, 1, "{", 9, "malformed JSON")
    lake.validate(DAY, 1, ("v1", "u1", "/", 1))
    lake.commit(
        EVENTS, [], {"day": DAY}, {LETTERS.name: 0}, append=True, cause="replay of 1", pattern="dead_letter_replay"
    )
    replayed, overwritten = origin_of(lake, EVENTS).commits
    assert (replayed.cause, overwritten.run) == ("replay of 1", "run-6")
    letters = replayed.inputs[0].origin
    assert letters.commits[0].inputs[0].origin.ends == ""
    assert overwritten.inputs[0].origin.ends == "explained above"


def test_audits_approvals_and_people_are_named(lake):
    """An approved audit says by whom, a failed and a warned one why; a rerun that a person asked for says so."""
    findings = (
        {"name": "few_dead", "passed": False, "severity": "fail", "note": "above 0.1", "approved_by": "Ada"},
        {"name": "as_usual", "passed": False, "severity": "warn", "note": "", "approved_by": ""},
        {"name": "complete", "passed": True, "severity": "fail", "note": "", "approved_by": ""},
    )
    approval = {"by": "Ada", "because": "the provider confirmed it"}
    lake.count(DAY, 0, {"/": 3}, findings=findings, approval=approval, verdict="approved", replay=True)
    (made,) = origin_of(lake, PAGES).commits
    assert made.audits == {"few_dead": "approved by Ada: above 0.1", "as_usual": "warned", "complete": "passed"}
    assert (made.verdict, made.approval, made.replay) == ("approved", approval, True)


def test_a_refusal_since_is_named(lake):
    """By the reason and the run, also where the refused table is written beside another one."""
    refusal = Refusal(("7",), "1", "run-9", "silver/events 2026-01-05: too many dead letters")
    Refusals(lake.lake.refused(EVENTS.name)).note(DAY, refusal)
    lake.letter(DAY, 1, "{", 9, "malformed JSON")
    letters = Origins(lake.lake, declared()).of(LETTERS.name, {"filed_under": DAY}, DAY)
    assert origin_of(lake, EVENTS).refused == letters.refused == f"{refusal.reason} (run run-9)"
    assert origin_of(lake, PAGES).refused == ""


def test_a_version_that_is_gone_ends_the_tree(lake):
    """With the reason, and everything else is there."""
    lake.count(DAY, 17, {"/": 3})
    events = origin_of(lake, PAGES).commits[0].inputs[0].origin
    assert events.commits == ()
    assert "17" in events.ends


def test_rows_handed_over_by_the_day_before_are_not_followed_for_ever(lake):
    """A table that reads itself names the command that goes on."""
    lake.commit(PAGES, [], {"day": DAY}, {PAGES.name: 0, EVENTS.name: 0})
    (made,) = origin_of(lake, PAGES).commits
    assert made.inputs[0].origin.ends == f"`dedp explain gold/pages {DAY}` goes on"
    assert made.inputs[1].origin.commits[0].run == "run-3"


def test_a_reference_that_rows_were_looked_up_in_is_an_input(lake):
    """At the version of the run, marked, and followed as any other."""
    lake.letter(DAY, 1, "{", 9, "malformed JSON")
    lake.count(DAY, 0, {"/": 1}, notes={"references": {LETTERS.name: 0}})
    (made,) = origin_of(lake, PAGES).commits
    assert [(each.name, each.read, each.is_reference) for each in made.inputs] == [
        (EVENTS.name, 0, False),
        (LETTERS.name, 0, True),
    ]
    assert [each.run for each in made.inputs[1].origin.commits] == ["run-5"]
