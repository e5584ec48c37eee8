"""The journal of measurements."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.measurements import Measurement
from dedp_assets.resources.journal import Journal

NOW = datetime(2026, 1, 20, 23, 30, tzinfo=timezone.utc)


def measured(verdict="ok", minutes=0, metric="gap", **more):
    return Measurement(
        metric=metric, table="silver/visits", at=NOW + timedelta(minutes=minutes), verdict=verdict, value=1.5, **more
    )


def test_a_measurement_is_written_when_its_verdict_changes_and_once_an_hour(tmp_path):
    """And read back as it was, over midnight and by another process."""
    journal = Journal(folder=str(tmp_path))
    trouble = measured("fail", 61, since=NOW, reason="nothing came", at_most=3600.0, unit="s", partition="2026-01-20")
    assert journal.append([measured(), trouble]) == 2
    assert journal.append([measured(minutes=1)]) == 0
    assert journal.append([measured("warn", 2), measured(minutes=2, metric="rows")]) == 2
    assert journal.append([measured("warn", 63)]) == 1
    again = Journal(folder=str(tmp_path))
    first, second = again.of_day(date(2026, 1, 20)), again.of_day(date(2026, 1, 21))
    assert first == [measured(), measured("warn", 2), measured(minutes=2, metric="rows")]
    assert second == [trouble, measured("warn", 63)]
    assert again.since(date(2026, 1, 20)) == [*first, *second]
    assert again.of_day(date(2025, 1, 1)) == []


def test_a_damaged_line_hides_no_other(tmp_path):
    """A crash in the middle of a line, and a field of a later release."""
    journal = Journal(folder=str(tmp_path))
    journal.append([measured()])
    file = tmp_path / "2026-01-20.jsonl"
    line = file.read_text()
    file.write_text(line[:40] + "\n" + line.replace('"metric"', '"later": 1, "metric"'))
    assert journal.of_day(date(2026, 1, 20)) == [measured()]


def test_old_days_are_removed_when_a_day_begins(tmp_path):
    """After 90 days."""
    for day in ("2025-10-21", "2025-10-22"):
        (tmp_path / f"{day}.jsonl").write_text("")
    Journal(folder=str(tmp_path)).append([measured()])
    assert sorted(file.stem for file in tmp_path.iterdir()) == ["2025-10-22", "2026-01-20"]


LOOKS = st.lists(st.tuples(st.sampled_from(["ok", "warn", "fail"]), st.integers(0, 90)), max_size=20)


@given(looks=LOOKS)
def test_every_change_of_a_verdict_is_in_the_journal(tmp_path_factory, looks):
    """In order, however many rounds say the same."""
    journal, minutes, changes = Journal(folder=str(tmp_path_factory.mktemp("journal"))), 0, []
    for verdict, step in looks:
        minutes += step
        journal.append([measured(verdict, minutes)])
        changes += [verdict] if changes[-1:] != [verdict] else []
    written = [each.verdict for each in journal.since(date(2020, 1, 1))]
    assert [v for n, v in enumerate(written) if n == 0 or written[n - 1] != v] == changes
