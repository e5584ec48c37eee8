"""A web server log as events: every line lands once, as an event or as it is, on the day it belongs to."""

from __future__ import annotations

import json

import pytest

from dedp_assets.patterns.connectors.deliveries import look_at
from dedp_assets.sources.access_log import land_log, visit_of

AGENT = "Mozilla/5.0 (X11; Linux x86_64)"


def line(
    time="05/Jan/2026:10:05:03 +0000", request="GET /a?b=1 HTTP/1.1", size="1234", referrer="-", agent=AGENT, host="h"
):
    """A line in Apache combined format."""
    return f'{host} - - [{time}] "{request}" 200 {size} "{referrer}" "{agent}"'


def event(**fields):
    """The event of such a line."""
    return json.loads(visit_of(line(**fields), 7))


def test_a_request_becomes_a_visit_with_all_its_fields():
    """Time in UTC, page with its query, status, size, referrer and agent; what is absent is left out."""
    found = event(referrer="https://search.example/?q=a")
    assert len(found.pop("user_id")) == 16
    assert found == {
        "visit_id": "1767607503_7",
        "event_time": "2026-01-05T10:05:03Z",
        "page": "/a?b=1",
        "referrer": "https://search.example/?q=a",
        "user_agent": AGENT,
        "status": 200,
        "bytes": 1234,
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"size": "-"}, {"bytes": None}),
        ({"size": "0"}, {"bytes": 0}),
        ({"referrer": "-"}, {"referrer": None}),
        ({"referrer": ""}, {"referrer": None}),
        ({"agent": r"say \"hi\" (x)"}, {"user_agent": r"say \"hi\" (x)"}),
        ({"agent": ""}, {"user_agent": ""}),
        ({"request": "HEAD / HTTP/1.0"}, {"page": "/"}),
        ({"request": "GET /old"}, {"page": "/old"}),
        ({"time": "05/Jan/2026:23:30:00 -0500"}, {"event_time": "2026-01-06T04:30:00Z"}),
    ],
)
def test_what_logs_look_like_is_understood(fields, expected):
    """Missing sizes and referrers, escaped quotes, old protocols and other time zones."""
    found = event(**fields)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "HELLO",
        line()[:-20],
        line(request="-"),
        line(request=r"\x16\x03\x01"),
        line(time="31/Feb/2026:10:05:03 +0000"),
        line(time="05/Jan/2026 10:05"),
        line(size="many"),
        line() + line(),
    ],
)
def test_what_is_no_request_is_no_visit(raw):
    """No event is invented from a line that cannot be read."""
    assert visit_of(raw, 1) is None


def test_no_address_travels_further():
    """The same host and agent are the same visitor; the host itself is not in the event."""
    same, other = event(host="83.149.9.216"), event(host="83.149.9.217")
    assert same["user_id"] == event(host="83.149.9.216")["user_id"]
    assert same["user_id"] != other["user_id"]
    assert "83.149.9.216" not in json.dumps(same)


def land(tmp_path, *lines):
    """Land a log of these lines; what lies in each day's folder, split at line feeds."""
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(raw if isinstance(raw, bytes) else f"{raw}\n".encode() for raw in lines))
    counts = land_log(log, tmp_path / "landing")
    landed = {}
    for day in counts:
        folder = tmp_path / "landing" / day.isoformat()
        look_at(folder).require_ready()
        landed[day.day] = (folder / "access.jsonl").read_bytes().split(b"\n")
        assert landed[day.day].pop() == b""
        assert len(landed[day.day]) == counts[day]
    return landed


def test_lines_land_on_the_day_of_their_request_with_their_number_in_the_log(tmp_path):
    """Two days are two deliveries; a request of another zone belongs to its UTC day."""
    second = line(time="05/Jan/2026:23:30:00 -0500")
    landed = land(tmp_path, line(), line(), second)
    assert {day: [json.loads(raw)["visit_id"].split("_")[1] for raw in raws] for day, raws in landed.items()} == {
        5: ["1", "2"],
        6: ["3"],
    }


def test_a_malformed_line_lands_as_it_is_on_the_day_around_it(tmp_path):
    """At the start it goes with the first day, later with the day before it; a date of its own comes first."""
    tuesday = "06/Jan/2026:00:00:01 +0000"
    dated = line(time=tuesday, request="-")
    landed = land(tmp_path, "first", line(), "torn {", dated, line(time=tuesday), "last")
    assert [raws[n] for raws, n in ((landed[5], 0), (landed[5], 2), (landed[6], 0), (landed[6], 2))] == [
        b"first",
        b"torn {",
        dated.encode(),
        b"last",
    ]
    assert {day: len(raws) for day, raws in landed.items()} == {5: 3, 6: 3}


def test_bytes_that_are_no_text_are_kept(tmp_path):
    """A line that is no request lands byte for byte, invalid UTF-8, NUL and inner carriage returns included."""
    strange = b"\xff\xfe caf\xe9 \x00 a\rb"
    assert land(tmp_path, line(), strange + b"\n")[5][1] == strange
    assert land(tmp_path, line(), strange + b"\r\n")[5][1] == strange
    assert land(tmp_path, line(), strange)[5][1] == strange


def test_the_last_line_needs_no_line_feed(tmp_path):
    """The request is an event like the others."""
    assert len(land(tmp_path, line(), line().encode())[5]) == 2


def test_the_same_log_twice_touches_nothing(tmp_path):
    """Files and markers keep their times, so no day is loaded again."""
    land(tmp_path, line(), line(time="06/Jan/2026:00:00:01 +0000"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("landing/*/*")}
    land(tmp_path, line(), line(time="06/Jan/2026:00:00:01 +0000"))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("landing/*/*")} == before


@pytest.mark.parametrize("lines", [["HELLO", "no date [here]"], ["31/Feb"], []], ids=["no log", "no date", "empty"])
def test_a_file_without_a_date_is_no_log(tmp_path, lines):
    """The file is named and nothing lands."""
    with pytest.raises(ValueError, match=r"access\.log has no line with a date"):
        land(tmp_path, *lines)
    assert not (tmp_path / "landing").exists()


def test_a_log_that_is_not_there_is_named(tmp_path):
    """A misspelt path is not an empty log."""
    with pytest.raises(FileNotFoundError, match="missing"):
        land_log(tmp_path / "missing", tmp_path / "landing")
    assert list(tmp_path.iterdir()) == []
