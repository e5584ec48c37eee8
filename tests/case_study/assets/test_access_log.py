"""A web server log through the platform: every line ends in silver or as a dead letter, and pages are counted."""

from __future__ import annotations

from collections import Counter

import pytest

from dedp_assets.case_study.sources.access_log import land_logs
from tests.case_study.assets.conftest import day, world_in

TORN = '203.0.113.9 - - [05/Jan/2026:10:00:06 +0000] "GET /posts'
HANDSHAKES = 5 * [r'203.0.113.7 - - [05/Jan/2026:11:00:00 +0000] "\x16\x03\x01" 400 226 "-" "-"']


def request(number, date):
    """A log line; every third one has no size, every fifth a quote in its agent."""
    size, agent = "-" if number % 3 == 0 else number, r"say \"hi\"" if number % 5 == 0 else "Mozilla/5.0"
    return (
        f'203.0.113.{number % 4} - - [{date}:10:00:{number:02} +0000] "GET /posts/{number % 3} HTTP/1.1" 200 {size} '
        f'"-" "{agent}"'
    )


LINES = [
    *[request(number, "05/Jan/2026") for number in range(6)],
    TORN,
    *[request(number, "05/Jan/2026") for number in range(7, 12)],
    *[request(number, "06/Jan/2026") for number in range(12, 20)],
    *HANDSHAKES,
]
SOUND = [number for number in range(20) if number != 6]


@pytest.fixture(scope="module")
def served(spark, tmp_path_factory):
    """Twenty-five lines of two days in two logs that share the first day, landed one after the other, and loaded."""
    with world_in(tmp_path_factory.mktemp("served")) as world:
        for name, lines in (("access.log", LINES[:9]), ("access.log.1", LINES[9:])):
            log = world.settings.home / name
            log.write_text("".join(f"{line}\n" for line in lines))
            land_logs([log], world.landing / "visits")
        assert world.react() == [("daily_visits", day(0)), ("daily_visits", day(1))]
        yield world


def test_silver_holds_exactly_the_requests(served):
    """Each sound line once, typed, with its id, page, size and agent, on its day."""
    rows = {row["event_time"].second: row for row in served.rows("silver/visits")}
    assert sorted(rows) == SOUND
    assert len(served.rows("silver/visits")) == len(SOUND)
    for number, row in rows.items():
        assert str(row["event_date"]) == day(number >= 12)
        assert row["page"] == f"/posts/{number % 3}"
        assert row["bytes"] == (None if number % 3 == 0 else number)
        assert row["user_agent"] == ('say "hi"' if number % 5 == 0 else "Mozilla/5.0")


def test_the_malformed_line_is_a_dead_letter_as_it_was(served):
    """With its text, its file and its line there, filed under the day around it."""
    (letter,) = served.rows("silver/visits_dead_letter")
    assert letter["raw"] == TORN
    assert (letter["source_file"], letter["line_number"]) == ("access.jsonl", 7)
    assert str(letter["filed_under"]) == str(letter["landed_on"]) == day(0)
    assert letter["reason"] == "malformed JSON"


@pytest.mark.parametrize("which", [0, 1])
def test_gold_counts_what_the_log_says(served, which):
    """Views by page, visits, visitors and bytes of each day."""
    numbers = [n for n in SOUND if (n >= 12) == bool(which)]
    views = {row["page"]: row["views"] for row in served.rows("gold/daily_page_views", event_date=day(which))}
    assert views == Counter(f"/posts/{n % 3}" for n in numbers)
    (total,) = served.rows("gold/daily_visitors", event_date=day(which))
    assert total["visits"] == len(numbers)
    assert total["visitors"] == len({(n % 4, n % 5 == 0) for n in numbers})
    assert total["bytes"] == sum(n for n in numbers if n % 3)


def test_the_same_log_again_changes_nothing(served):
    """Landing it a second time wakes nobody."""
    before = served.versions()
    land_logs([served.settings.home], served.landing / "visits")
    assert served.react() == []
    assert served.versions() == before
