"""The days that commits of a reference are about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.inputs.revisions import TRUE_SINCE, Revisions
from dedp_assets.patterns.delta import Glimpse

DAYS = [f"2026-01-0{number}" for number in range(1, 6)]
WHOLE = frozenset({frozenset[tuple[str, str | None]]()})
commits = st.lists(st.tuples(st.sampled_from(["", *DAYS]), st.booleans()), max_size=8)


@given(commits)
def test_each_day_knows_the_newest_commit_about_it(made):
    """By a model that looks through all of them; one that changed no row is about no day."""
    revisions = Revisions()
    for version, (day, changes) in enumerate(made):
        stated = {"notes": {TRUE_SINCE: day}} if day else {}
        revisions.take_in(Glimpse(version, WHOLE if changes else frozenset(), stated=stated))
    about = {version: day for version, (day, changes) in enumerate(made) if changes}
    for day in DAYS:
        assert revisions.newest(day) == max((v for v, since in about.items() if since <= day), default=0)
    for version in range(-1, len(made)):
        assert revisions.since(version) == min((since for v, since in about.items() if v > version), default="")
