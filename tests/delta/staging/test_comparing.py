"""Verdicts of a comparison that need no rows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dedp_assets.patterns.delta import FileStats
from dedp_assets.patterns.delta.staging.comparing import removed_rows

OWNED = {"day": "mon"}
MONDAY = tuple(OWNED.items())


@pytest.mark.parametrize(
    ("held", "refuses"),
    [
        ({}, False),
        ({MONDAY: FileStats(files=1, rows=2)}, True),
        ({MONDAY: FileStats(files=1, rows=0)}, False),
        ({MONDAY: FileStats(files=1, rows=0, exact=False)}, True),
    ],
)
def test_a_write_without_rows_is_refused_where_rows_may_be_stored(held, refuses):
    """Also where the log does not count the stored rows."""
    state = SimpleNamespace(holds=lambda _: bool(held), spelled=dict, statistics=lambda: held)
    assert removed_rows(state, OWNED).refuses == refuses
