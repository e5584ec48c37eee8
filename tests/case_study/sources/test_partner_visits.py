"""The generators of what partners report: deterministic, each in its own shape."""

from __future__ import annotations

import json
from datetime import date

from dedp_assets.case_study.sources.partner_visits import deliver, magazine_visits, radio_visits
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at

MONDAY = date(2026, 1, 5)


def test_the_same_seed_and_day_give_the_same_records_and_others_give_others():
    """On any machine, in either shape."""
    for visits in (magazine_visits, radio_visits):
        assert visits(MONDAY, count=5) == visits(MONDAY, count=5)
        assert not {*visits(MONDAY, count=5)} & {*visits(MONDAY, count=5, seed=2)}
    assert json.loads(magazine_visits(MONDAY, count=1)[0]).keys() == {"id", "at", "user", "page", "agent"}
    assert json.loads(radio_visits(MONDAY, count=1)[0]).keys() == {"visit", "u_id", "url", "browser"}


def test_a_delivery_is_complete_and_left_alone_if_it_is_there(tmp_path):
    """Bytes that are no text land as they are; the same call changes no file, another one its own."""
    files = {"magazine": magazine_visits(MONDAY, count=2), "radio": [b"\xff"]}
    deliver(tmp_path, MONDAY, files)
    first = delivery_at(tmp_path / "2026-01-05")
    assert first.refusal() == ""
    assert (tmp_path / "2026-01-05/radio.jsonl").read_bytes() == b"\xff\n"
    deliver(tmp_path, MONDAY, files)
    assert delivery_at(tmp_path / "2026-01-05").identity == first.identity
    deliver(tmp_path, MONDAY, {**files, "radio": []})
    assert delivery_at(tmp_path / "2026-01-05").identity != first.identity
