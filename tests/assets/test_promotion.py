"""Which audits a day of gold has to pass: none compares a day that is not over with whole ones."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from dedp_assets.defs.gold import daily_page_views, daily_visitors, promotion
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.delta.log import Ledger
from dedp_assets.reporting import pin
from tests.helpers import a_record, write_log

NOON = datetime(2026, 1, 6, 12, tzinfo=timezone.utc)
DAY = {"event_date": "2026-01-05"}


@pytest.mark.parametrize(("day", "is_open"), [("2026-01-05", False), ("2026-01-06", True), ("2026-01-07", True)])
def test_a_day_is_open_until_it_is_over(day, is_open):
    """In UTC."""
    assert promotion._is_open(day, NOON) == is_open
    assert not promotion._is_open("2026-01-05", datetime(2026, 1, 6, tzinfo=timezone.utc))
    assert promotion._is_open("2026-01-05", datetime(2026, 1, 5, 23, 59, 59, tzinfo=timezone.utc))


@pytest.mark.parametrize("audits", [daily_visitors.AUDITS, daily_page_views.AUDITS])
@pytest.mark.parametrize("counted", [1, 900])
def test_on_an_open_day_an_unusual_volume_warns_and_nothing_else_is_lenient(audits, counted):
    """A visit that is not counted refuses the rows today as on any other day."""
    figures = {"views": counted, "visits": counted, "usual": 100, "read": counted + 1}
    verdicts = {audit.name: audit.judge(figures).refuses for audit in audits}
    lenient = {a.name: a.judge(figures) for a in map(promotion._lenient, audits)}
    assert verdicts == {"every_visit_is_counted": True, "volume_is_usual": True}
    assert {name: finding.refuses for name, finding in lenient.items()} == verdicts | {"volume_is_usual": False}
    assert not lenient["volume_is_usual"].passed


def upstream(tmp_path, *commits):
    write_log(tmp_path / "silver/x", {"id": "long", "event_date": "date"}, ["event_date"], list(commits))
    return Ledger(tmp_path / "silver/x", name="silver/x")


def test_a_day_that_upstream_wrote_without_a_row_is_there(tmp_path):
    """It changed nothing, and is no reason to wait."""
    empty = {"record": a_record("silver/x", DAY)}
    pinned = pin(upstream(tmp_path, empty), "2026-01-05", DAY, written=DAY)
    assert (pinned.identities, pinned.versions, pinned.sequence) == ({"silver/x": 1}, {"silver/x": 1}, 1)


def test_the_newest_change_is_pinned_and_not_the_newest_commit_about_the_day(tmp_path):
    """A rerun that wrote the same rows makes nothing new to read."""
    rerun, other = {"record": a_record("silver/x", DAY)}, {"changed": [{"event_date": "2026-01-06"}]}
    ledger = upstream(tmp_path, {"changed": [DAY], "record": a_record("silver/x", DAY)}, rerun, other)
    assert pin(ledger, "2026-01-05", DAY, written=DAY).sequence == 1


@pytest.mark.parametrize("commits", [[], [{"changed": [{"event_date": "2026-01-06"}]}]], ids=["no table", "other days"])
def test_a_day_that_upstream_knows_nothing_of_is_not_ready(tmp_path, commits):
    """In one sentence that names it."""
    ledger = upstream(tmp_path, *commits) if commits else Ledger(tmp_path, name="silver/x")
    with pytest.raises(NotReady, match=r"silver/x (holds nothing of 2026-01-05 yet|does not exist yet)"):
        pin(ledger, "2026-01-05", DAY, written=DAY)
