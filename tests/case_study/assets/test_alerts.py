"""Alerts from landing to channel: a refused day is announced, and new data clears it without anybody's help."""

from __future__ import annotations

import json

import pytest

from tests.case_study.assets.conftest import day, visits_of

pytestmark = pytest.mark.spark


def test_a_refused_day_is_announced_once_and_cleared_by_its_next_delivery(world, monkeypatch):
    """The audit with its figures and limit, the day, and the command; gold, which waits for the day, is no trouble."""
    monkeypatch.setenv("DEDP_ALERTS", "file")
    batch = visits_of(0)
    world.land(day(0), batch[:20], broken=[line[: len(line) // 2] for line in batch[20:]])
    assert [bool(ended.failure) for ended in world.platform.react()] == [True]
    assert list(world.platform.react()) == []
    world.land(day(0), batch)
    assert world.react() == [("daily_visits", day(0))]
    assert world.react() == []
    messages = [json.loads(line) for line in (world.settings.home / "alerts.jsonl").read_text().splitlines()]
    found = [(m["event"], m["table"], m["partition"]) for m in messages if m["name"] == "refused"]
    assert found == [("raised", "silver/visits", day(0)), ("cleared", "silver/visits", day(0))]
    raised = next(m for m in messages if m["name"] == "refused")
    assert "dead_letters_are_few: above 0.1 (dead=20, read=40, ratio=0.5)" in raised["reason"]
    assert raised["command"].startswith(f"dedp approve silver/visits {day(0)} ")
    assert not [m for m in messages if m["table"].startswith("gold/") and m["name"] != "stale"]
