"""Times of partition keys."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.measuring.partition_times import utc_span


@pytest.mark.parametrize(
    ("key", "hours"),
    [
        ("2026-01-05", 24),
        ("2026-01-05-13", 1),
        ("2026-01-05T13:00:00.000000Z", 1),
        ("2026-01-05 13:00:00.000000", 1),
        ("2026-01-05-13:00", 1),
        ("9999-12-31", None),
        ("2026-02-30", None),
        ("2026-01-05-24", None),
        ("2026-01-05T13:07", None),
        ("France", None),
        ("", None),
    ],
)
def test_a_key_names_a_day_an_hour_or_neither(key, hours):
    """As the graph spells them, and as logs do."""
    span = utc_span(key)
    assert (span.seconds / 3600 if span else None) == hours
