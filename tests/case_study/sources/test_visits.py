"""The visits generator: the same bytes everywhere, and deliveries that can be repeated."""

from __future__ import annotations

import hashlib
import json
from datetime import date

import pytest

from dedp_assets.case_study.sources import visits
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at

DAY = date(2026, 1, 5)
LINES = visits.visits_of(DAY, count=20)


def content(folder):
    """Every file of a folder with its bytes and its time of change."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_the_same_seed_and_day_give_the_same_bytes():
    """Also on another machine: the digest of a known day is fixed here."""
    assert visits.visits_of(DAY, count=20) == LINES
    digest = hashlib.sha256("\n".join(LINES).encode()).hexdigest()
    assert digest[:16] == "0709b5b8177e9473"


@pytest.mark.parametrize(("day", "seed"), [(DAY, 2), (date(2026, 1, 6), 1)])
def test_another_seed_or_day_gives_other_visits(day, seed):
    """No visit of one is a visit of the other."""
    assert not set(visits.visits_of(day, count=20, seed=seed)) & set(LINES)


def test_visits_lie_on_their_day_in_order_and_each_once():
    """Event times are UTC times of the day, ascending; ids do not repeat."""
    events = [json.loads(line) for line in visits.visits_of(DAY, count=500)]
    times = [event["event_time"] for event in events]
    assert all(time.startswith("2026-01-05T") and time.endswith("Z") for time in times)
    assert times == sorted(times)
    assert len({event["visit_id"] for event in events}) == 500


def test_a_delivery_is_complete_and_marked(tmp_path):
    """Two files and a marker hold every line that was given, late, broken and repeated ones included."""
    late = visits.visits_of(date(2026, 1, 3), count=2)
    visits.deliver(tmp_path, DAY, LINES, late=late, broken=visits.BROKEN, repeat=3)
    delivery = delivery_at(tmp_path / "2026-01-05").require_ready()
    assert [file.name for file in delivery.files] == ["part-000.jsonl", "part-001.jsonl"]
    landed = "".join((tmp_path / "2026-01-05" / file.name).read_text() for file in delivery.files).splitlines()
    assert sorted(landed) == sorted([*LINES, *late, *visits.BROKEN, *LINES[:3]])


def test_the_same_delivery_twice_touches_nothing(tmp_path):
    """Neither a file nor the marker changes its time, so nobody reads the day again."""
    for _ in range(2):
        visits.deliver(tmp_path, DAY, LINES)
        before = content(tmp_path / "2026-01-05")
    visits.deliver(tmp_path, DAY, LINES)
    assert content(tmp_path / "2026-01-05") == before


def test_another_delivery_replaces_files_and_marker(tmp_path):
    """The marker's manifest states what lies there now."""
    visits.deliver(tmp_path, DAY, LINES)
    visits.deliver(tmp_path, DAY, LINES[:10])
    delivery = delivery_at(tmp_path / "2026-01-05").require_ready()
    assert delivery.manifest == {file.name: file.size_bytes for file in delivery.files}
    assert sum(len((tmp_path / "2026-01-05" / f.name).read_text().splitlines()) for f in delivery.files) == 10


def test_a_late_file_comes_after_the_marker_and_leaves_it_alone(tmp_path):
    """That is what late means; dropping the same file again changes nothing."""
    visits.deliver(tmp_path, DAY, LINES)
    marker = content(tmp_path / "2026-01-05")["_SUCCESS"]
    visits.drop_late_file(tmp_path, DAY, LINES[:1])
    after = content(tmp_path / "2026-01-05")
    assert after["_SUCCESS"] == marker
    assert [file.name for file in delivery_at(tmp_path / "2026-01-05").late] == ["late-000.jsonl"]
    visits.drop_late_file(tmp_path, DAY, LINES[:1])
    assert content(tmp_path / "2026-01-05") == after


def test_broken_records_are_no_events():
    """None of them has both an identity and a readable time."""
    for line in visits.BROKEN:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        assert "T" not in event.get("event_time", "")
