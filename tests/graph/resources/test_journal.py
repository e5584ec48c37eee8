"""The journal of measurements."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.resources.journal import Journal
from dedp_assets.patterns.core.measuring.measurements import Measurement

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


WRONG = st.one_of(
    st.sampled_from(["7", "null", "[]", "{}", '"x"', "true", "1e999", "NaN", "", "{", "\\u0000"]),
    st.text(max_size=20).filter(lambda text: "\n" not in text),
    st.dictionaries(
        st.sampled_from(["metric", "table", "at", "verdict", "value", "partition", "since"]),
        st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=1)),
    ).map(json.dumps),
)


@given(st.lists(st.one_of(WRONG, st.none()), max_size=8), WRONG)
def test_no_line_hides_another_and_none_is_an_error(tmp_path_factory, lines, torn):
    """Whatever stands in the file; what is written after a torn line is read, too."""
    journal = Journal(folder=str(tmp_path_factory.mktemp("journal")))
    journal.append([measured()])
    file = Path(journal.folder) / "2026-01-20.jsonl"
    sound = file.read_text()
    file.write_text("".join(sound if line is None else line + "\n" for line in lines) + torn)
    journal.append([measured("fail", 1)])
    assert journal.of_day(date(2026, 1, 20)) == [*[measured()] * lines.count(None), measured("fail", 1)]


def test_old_days_are_removed_when_a_day_begins(tmp_path):
    """The newest 90 stay, also where a clock is a year ahead for one round."""
    days = [(NOW - timedelta(days=number)).date().isoformat() for number in range(1, 100)]
    for day in days:
        (tmp_path / f"{day}.jsonl").write_text("")
    Journal(folder=str(tmp_path)).append([measured(minutes=400 * 24 * 60)])
    assert sorted(file.stem for file in tmp_path.iterdir()) == [*sorted(days[:89]), "2027-02-24"]


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


@given(st.binary(max_size=30))
def test_damaged_samples_are_text_whatever_bytes_they_are(tmp_path_factory, damage):
    """Whoever reads them refuses their content in a sentence, and begins again."""
    journal = Journal(folder=str(tmp_path_factory.mktemp("journal")))
    (Path(journal.folder) / "samples.json").write_bytes(damage)
    assert len(journal.samples()) <= len(damage)
