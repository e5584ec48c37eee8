"""The generator of ads: the same visits and seed give the same displays, each on the page of a visit and before it."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta

from dedp_assets.case_study.sources.ads import ads_before
from dedp_assets.case_study.sources.visits import visits_of

VISITS = visits_of(date(2026, 1, 5), count=200)


def test_ads_are_shown_on_the_pages_of_visits_and_before_them():
    """A share of the visits has one, at most as long before as is asked for."""
    known = {f"before_{visit['visit_id']}": visit for visit in map(json.loads, VISITS)}
    shown = [json.loads(line) for line in ads_before(VISITS, share=0.5, longest_seconds=60)]
    assert 60 < len(shown) < 140
    for each in shown:
        visit = known[each["display_id"]]
        before = datetime.fromisoformat(visit["event_time"]) - datetime.fromisoformat(each["display_time"])
        assert each["ad_page"] == visit["page"]
        assert timedelta(0) <= before <= timedelta(seconds=61)


def test_the_same_seed_gives_the_same_ads():
    """And another one gives others."""
    assert ads_before(VISITS) == ads_before(VISITS)
    assert ads_before(VISITS) != ads_before(VISITS, seed=2)
