"""The rule of sessions, in plain Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.sessionizing import SessionRule, cut

RULE = {"entity": ["user"], "event_time": "at", "event_id": "id", "gap_seconds": 60}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.booleans())), st.integers(1, 12))
def test_two_events_share_a_session_if_no_pause_between_them_ends_it(found, gap):
    """For every pair: no longer pause than the gap, and no end, lies between them; no event is lost or doubled."""
    events = sorted(found)
    sessions = cut(events, time=lambda event: event[0], gap=gap, ends=lambda event: event[2])
    assert [event for session in sessions for event in session] == events
    number = [place for place, session in enumerate(sessions) for _ in session]
    for last in range(len(events)):
        for first in range(last + 1):
            between = zip(events[first:last], events[first + 1 : last + 1], strict=True)
            together = all(after[0] - before[0] <= gap and not before[2] for before, after in between)
            assert together == (number[first] == number[last])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"entity": []}, "name the entity"),
        *[({"gap_seconds": gap}, f"a whole number above 0, not .* and {gap!r}") for gap in (0, -1)],
        *[
            ({"gap_seconds": gap}, f"gap_seconds must be a whole number, not {gap!r}")
            for gap in (0.5, "60", None, True)
        ],
        ({"entity": ["Events"]}, "column events cannot be of the entity"),
        ({"entity": ["at"]}, "column at cannot be of the entity"),
        ({"event_id": "at", "keep": ["page"]}, "event_id must be another column than event_time, not 'at'"),
        ({"event_id": "AT"}, "event_id must be another column than event_time, not 'AT'"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(wrong, said):
    """Before anything is computed."""
    with pytest.raises(ConfigError, match=said):
        SessionRule(**{**RULE, **wrong})
