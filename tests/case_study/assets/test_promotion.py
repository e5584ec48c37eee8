"""Which audits a day of gold has to pass: none compares a day that is not over with whole ones."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from dedp_assets.case_study.defs.gold import daily_page_views, daily_visitors, promotion

NOON = datetime(2026, 1, 6, 12, tzinfo=timezone.utc)


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
