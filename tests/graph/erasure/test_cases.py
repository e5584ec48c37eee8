"""Cases of erasure: sealed ids, and signed reports without a person."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from threading import Barrier, Thread

import pytest

from dedp_assets.graph.erasure import cases as cases_of_a_home
from dedp_assets.graph.erasure.cases import Case, CasePlace, Cases
from dedp_assets.patterns.core.errors import ConfigError, NotReady

NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
IDS = {"user": ["ada.lovelace"], "email": ["ada@example.com"]}


@pytest.fixture
def cases(tmp_path):
    return Cases(tmp_path / "erasures", tmp_path / "keys")


def test_ids_are_sealed_until_the_end(cases):
    """A run after a crash reads them; nobody else does, and the end removes them."""
    case = cases.keep(Case("T-1", NOW.isoformat(), approved_by="legal"), IDS)
    assert cases.ids(case) == IDS
    assert not any(b"ada" in file.read_bytes() for file in cases.folder.iterdir())
    ended = cases.end(case, now=NOW)
    assert cases.ids(ended) == {}
    assert [file.name for file in cases.folder.iterdir()] == ["T-1.json"]


def test_ids_of_one_case_do_not_open_as_those_of_another(cases):
    """A file that is moved is refused."""
    cases.keep(Case("T-1", NOW.isoformat()), IDS)
    other = cases.keep(Case("T-2", NOW.isoformat()), {"user": ["x"]})
    (cases.folder / "T-1.sealed").replace(cases.folder / "T-2.sealed")
    with pytest.raises(ConfigError, match="the ids of T-2 must lie as this home sealed them"):
        cases.ids(other)


def test_a_report_that_was_changed_is_no_longer_genuine(cases):
    """Whatever was changed in it."""
    places = (CasePlace("silver/visits", "table", 12, "erased", figures={"version": 7}),)
    ended = cases.end(cases.keep(Case("T-1", NOW.isoformat(), places=places), IDS), now=NOW)
    read = cases.case("T-1")
    assert read == ended
    assert cases.is_genuine(read)
    changed = [replace(read, ended=""), replace(read, signature="00"), replace(read, signature="no digits")]
    changed.append(replace(read, places=(replace(places[0], found=13),)))
    assert not any(map(cases.is_genuine, changed))


def test_a_case_says_what_is_open_and_until_when(cases):
    """Thirty days after the request."""
    states = ("erased", "open", "held", "owed", "nothing")
    case = Case("T-1", NOW.isoformat(), places=tuple(CasePlace(state, "table", 1, state) for state in states))
    assert [place.name for place in case.open] == ["open", "held"]
    assert case.due == NOW + timedelta(days=30)
    assert case.erased == 1


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", "a b", "x" * 65])
def test_a_name_that_no_file_can_have_is_refused(cases, name):
    """With an example."""
    with pytest.raises(ConfigError, match=r"request must be up to 64 letters, .* such as GDPR-17, not"):
        cases.case(name)


def test_an_unknown_request_is_refused_with_the_known_ones(cases):
    """In one sentence."""
    cases.keep(Case("T-1", NOW.isoformat()))
    with pytest.raises(ConfigError, match=r"request must be one of the known ones \(T-1\), not T-2"):
        cases.case("T-2")
    assert json.loads((cases.folder / "T-1.json").read_text())["request"] == "T-1"


def test_a_request_is_asked_planned_approved_and_ended_in_that_order(cases):
    """Its approval is one of a plan, by one name; the deadline counts from when it was asked."""
    asked = cases.ask("T-1", IDS, now=NOW)
    assert (asked.state, asked.due, cases.ids(asked)) == ("asked", NOW + timedelta(days=30), IDS)
    with pytest.raises(ConfigError, match="T-1 must be planned first"):
        cases.approve("T-1", "legal")
    planned = cases.keep(replace(asked, places=()), {**IDS, "device": ["d-1"]})
    assert planned.state == "planned"
    approved = cases.approve("T-1", " legal ")
    assert (approved.state, approved.approved_by) == ("approved", "legal")
    with pytest.raises(ConfigError, match="T-1 was approved already, by legal"):
        cases.approve("T-1", "me")
    with pytest.raises(ConfigError, match="T-1 was approved: `dedp erase --because T-1` goes on"):
        cases.keep(planned, {"user": ["other"]})
    assert cases.ids(cases.end(approved, now=NOW)) == {}
    assert cases.case("T-1").state == "ended"
    with pytest.raises(ConfigError, match="T-1 ended on 2026-01-05: state a new name"):
        cases.ask("T-1", IDS, now=NOW)


def test_requests_of_the_same_name_at_once_are_one(cases):
    """Of two with other ids, one is kept and the other is refused, whichever is first."""
    ready, said = Barrier(8), []

    def ask(number):
        ready.wait()
        try:
            said.append((number % 2, cases.ask("T-1", {"user": [f"person-{number % 2}"]}, now=NOW).request))
        except ConfigError as error:
            said.append((number % 2, str(error)))

    threads = [Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (kept,) = cases.ids(cases.case("T-1"))["user"]
    refused = "T-1 is a request about other ids: state a name that no request has yet"
    assert {*said} == {(each, "T-1" if kept == f"person-{each}" else refused) for each in (0, 1)}


def test_a_name_that_holds_an_id_is_refused(cases):
    """In any case of letters, of the request and of who approves; short numbers stand there by chance."""
    for ids, request in ((["u-17"], "GDPR-U-17"), (["12345"], "T-12345"), (["ada"], "ada")):
        with pytest.raises(ConfigError, match="the name of a request must hold no id") as refused:
            cases.ask(request, {"user": ids}, now=NOW)
        assert request not in str(refused.value)
    case = cases.ask("GDPR-17", {"user": ["17", "ada"]}, now=NOW)
    cases.keep(replace(case, places=()))
    with pytest.raises(ConfigError, match="by must hold no id"):
        cases.approve("GDPR-17", "Ada")
    assert [file.name for file in sorted(cases.folder.iterdir())] == ["GDPR-17.json", "GDPR-17.sealed"]


def test_the_reason_against_a_plan_stands_in_the_case_until_the_next(cases):
    """The newest one; the request stays asked."""
    cases.ask("T-1", IDS, now=NOW)
    cases.note("T-1", "a first reason")
    told = cases.note("T-1", "a second reason")
    assert (told.state, [place.note for place in told.open][1:]) == ("asked", ["a second reason"])


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"request": "T-1", "at": "x", "places": []}', "\xff"])
def test_a_file_that_is_no_case_is_refused_and_hides_no_other(cases, content):
    """In a sentence with its request."""
    for request in ("T-1", "T-2"):
        cases.ask(request, IDS, now=NOW)
    (cases.folder / "T-1.json").write_text(content, encoding="latin-1")
    found, faults = cases.read()
    assert [case.request for case in found] == ["T-2"]
    assert faults == {"T-1": "the case of T-1 must be a file as this home wrote it: restore it"}


def test_requests_that_nobody_approved_are_bounded(cases, monkeypatch):
    """Asked and planned ones; a known request, one of the command, an approved and an ended one are not refused."""
    monkeypatch.setattr(cases_of_a_home, "MOST_WAITING", 3)
    cases.end(cases.ask("T-0", IDS, now=NOW), now=NOW)
    cases.keep(replace(cases.ask("T-1", IDS, now=NOW), places=()))
    cases.approve("T-1", "legal")
    asked = [cases.ask(f"T-{number}", IDS, now=NOW) for number in (2, 3, 4)]
    said = "at most 3 requests may wait for an approval, and {} do: `dedp erase` lists all"
    with pytest.raises(NotReady, match=said.format(3)):
        cases.ask("T-5", IDS, now=NOW)
    assert not cases.knows("T-5")
    assert [*cases.folder.glob("T-5*")] == []
    assert cases.ask("T-4", IDS, now=NOW) == asked[-1]
    cases.keep(Case("T-6", NOW.isoformat()), IDS)
    cases.keep(replace(asked[0], places=()))
    with pytest.raises(NotReady, match=said.format(4)):
        cases.ask("T-5", IDS, now=NOW)
    for planned in ("T-2", "T-6"):
        cases.approve(planned, "legal")
    assert cases.ask("T-5", IDS, now=NOW).state == "asked"


def test_requests_at_once_keep_the_bound(cases, monkeypatch):
    """Of eight for two places, two are kept."""
    monkeypatch.setattr(cases_of_a_home, "MOST_WAITING", 2)
    ready, refused = Barrier(8), []

    def ask(number):
        ready.wait()
        try:
            cases.ask(f"T-{number}", IDS, now=NOW)
        except NotReady:
            refused.append(number)

    threads = [Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(refused), len(cases.names())) == (6, 2)
