"""Cases of erasure: sealed ids, and signed reports without a person."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.graph.erasure.cases import Case, CasePlace, Cases
from dedp_assets.patterns.core.errors import ConfigError

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
    with pytest.raises(Exception, match=r"^$"):
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
