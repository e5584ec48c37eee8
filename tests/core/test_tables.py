"""The only writer: staging, audits, publishing, retries, DML."""

from __future__ import annotations

import pytest

from tests.helpers import a_run, active_files, read_back

DAY = {"event_date": "2026-01-05"}


@pytest.mark.both
def test_overwrite_replaces_the_partition_and_only_it(events, event_rows):
    """Rows that are gone from the input are gone from the table; neighbours keep their very files."""
    events.overwrite(event_rows(5), partition=DAY, provenance=a_run(sequence=1))
    events.overwrite(
        event_rows(2, day="2026-01-06"), partition={"event_date": "2026-01-06"}, provenance=a_run(sequence=1)
    )
    neighbours = {path for path in active_files(events) if "2026-01-06" in path}
    result = events.overwrite(event_rows(3, start=1), partition=DAY, provenance=a_run(sequence=2))
    assert (result.applied, result.rows.written) == (True, 3)
    assert sorted(r["id"] for r in read_back(events) if str(r["event_date"]) == "2026-01-05") == [1, 2, 3]
    assert neighbours <= active_files(events)
