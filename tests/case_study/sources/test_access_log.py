"""A web server log as events: every line lands once, as an event or as it is, on the day it belongs to."""

from __future__ import annotations

import bz2
import gzip
import json

import pytest

from dedp_assets.case_study.sources import access_log
from dedp_assets.case_study.sources.access_log import land_logs
from dedp_assets.case_study.sources.log_formats import LoggedRequest, LogParser
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at
from dedp_assets.patterns.core.errors import ContractError

AGENT = "Mozilla/5.0 (X11; Linux x86_64)"


def line(
    time="05/Jan/2026:10:05:03 +0000", request="GET /a?b=1 HTTP/1.1", size="1234", referrer="-", agent=AGENT, host="h"
):
    """A line in Apache combined format."""
    return f'{host} - - [{time}] "{request}" 200 {size} "{referrer}" "{agent}"'


def visit_of(raw):
    """The event of a line with the number 7, or None."""
    _, found = LogParser().read(raw)
    return access_log._visit(found, 7, "") if isinstance(found, LoggedRequest) else None


def event(**fields):
    """The event of such a line."""
    return json.loads(visit_of(line(**fields)))


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
        ({"agent": r"say \"hi\" (x)"}, {"user_agent": 'say "hi" (x)'}),
        ({"referrer": r"https://example.org/?q=\"x\""}, {"referrer": 'https://example.org/?q="x"'}),
        ({"request": r"GET /s?q=\"x y\" HTTP/1.1"}, {"page": '/s?q="x y"'}),
        ({"request": "GET /annual report 2025.pdf HTTP/1.1"}, {"page": "/annual report 2025.pdf"}),
        ({"request": "GET /annual report"}, {"page": "/annual report"}),
        ({"request": "GET /HTTP/1.1 HTTP/1.1"}, {"page": "/HTTP/1.1"}),
        ({"request": "M-SEARCH * HTTP/1.1"}, {"page": "*"}),
        ({"request": "X_Y.z / HTTP/2"}, {"page": "/"}),
        ({"request": r"GET /caf\xc3\xa9 HTTP/1.1"}, {"page": "/café"}),
        ({"request": r"GET /caf\xe9 HTTP/1.1"}, {"page": r"/caf\xe9"}),
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
    assert visit_of(raw) is None


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
    counts = {day: len(held) for each in land_logs([log], tmp_path / "landing") for day, held in each.days.items()}
    landed = {}
    for day, count in counts.items():
        folder = tmp_path / "landing" / day.isoformat()
        delivery_at(folder).require_ready()
        landed[day.day] = (folder / "access.jsonl").read_bytes().split(b"\n")
        assert landed[day.day].pop() == b""
        assert len(landed[day.day]) == count
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
    dated = line(time=tuesday)[:-1]
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
        land_logs([tmp_path / "missing"], tmp_path / "landing")
    assert list(tmp_path.iterdir()) == []


def pages(tmp_path):
    """The pages of everything that lies in the landing zone, by day; each visit's id is there once."""
    found, ids = {}, []
    for path in sorted(tmp_path.glob("landing/*/*.jsonl")):
        delivery_at(path.parent).require_ready()
        events = [json.loads(raw) for raw in path.read_text().splitlines()]
        found.setdefault(int(path.parent.name[-2:]), []).extend(event["page"] for event in events)
        ids += [event["visit_id"] for event in events]
    assert len(ids) == len({*ids})
    return {day: sorted(on_it) for day, on_it in found.items()}


def written(path, *lines):
    """A file of these lines, compressed as its name says."""
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pack("".join(f"{each}\n" for each in lines).encode()))
    return path


def rotated(tmp_path):
    """Two days of a server in New York, a file each: 24 requests of three UTC days."""
    return [
        written(
            tmp_path / f"access.log.{number}",
            *[
                line(time=f"0{day}/Jan/2026:{hour:02}:00:01 -0500", request=f"GET /{day}/{hour:02} HTTP/1.1")
                for hour in range(0, 24, 2)
            ],
        )
        for number, day in ((2, 5), (1, 6))
    ]


@pytest.mark.parametrize("together", [True, False])
def test_rotated_logs_that_share_a_day_add_up(tmp_path, together):
    """Landed at once or one after the other, each request is there once, on its UTC day at both ends."""
    logs = rotated(tmp_path)
    for places in [logs] if together else [[log] for log in logs]:
        land_logs(places, tmp_path / "landing")
    assert {day: len(on_it) for day, on_it in pages(tmp_path).items()} == {5: 10, 6: 12, 7: 2}


def test_a_folder_of_compressed_logs_is_landed_and_what_is_none_is_named(tmp_path):
    """Rotated files as a server keeps them; its error log and an empty file are left out, and said so."""
    folder = tmp_path / "nginx"
    for number, name in enumerate(["access.log", "access.log.1", "access.log.2.gz", "access.log.3.bz2"]):
        written(folder / name, line(request=f"GET /{number} HTTP/1.1"))
    written(folder / "error.log", "2026/01/05 10:00:00 [error] 7#7: *1 open() failed")
    written(folder / "new.log")
    found = {log.path.name: log for log in land_logs([folder], tmp_path / "landing")}
    assert pages(tmp_path) == {5: ["/0", "/1", "/2", "/3"]}
    assert {name for name, log in found.items() if log.refusal} == {"error.log", "new.log"}
    assert "error.log has no line with a date" in found["error.log"].sentence()
    assert "line 1 is in the format of nginx's error log" in found["error.log"].sentence()


def test_a_pattern_names_logs_and_a_name_comes_before_a_pattern(tmp_path):
    """A star is one only where no file is called so."""
    written(tmp_path / "a.log", line(request="GET /a HTTP/1.1"))
    written(tmp_path / "[ab].log", line(request="GET /b HTTP/1.1"))
    land_logs([tmp_path / "[ab].log"], tmp_path / "landing")
    assert pages(tmp_path) == {5: ["/b"]}
    land_logs([tmp_path / "?.log"], tmp_path / "landing")
    assert pages(tmp_path) == {5: ["/a", "/b"]}
    with pytest.raises(ValueError, match=r"x\*\.log holds no file"):
        land_logs([tmp_path / "x*.log"], tmp_path / "landing")


def test_a_log_that_has_grown_and_was_renamed_is_the_same_log(tmp_path):
    """Its requests are there once: longer, compressed, with its last line whole, under another name."""
    requests = [line(request=f"GET /{number} HTTP/1.1") for number in range(4)]
    log = written(tmp_path / "access.log", *requests[:2])
    land_logs([log], tmp_path / "landing")
    log.write_bytes(log.read_bytes() + requests[2].encode()[:-9])
    land_logs([log], tmp_path / "landing")
    land_logs([written(tmp_path / "access.log.1.gz", *requests)], tmp_path / "landing")
    land_logs([written(tmp_path / "copy.log", *requests)], tmp_path / "landing")
    assert pages(tmp_path) == {5: ["/0", "/1", "/2", "/3"]}
    assert [path.name for path in tmp_path.glob("landing/*/*.jsonl")] == ["access.jsonl"]


@pytest.mark.parametrize("count", [1, 2, 29, 30])
@pytest.mark.parametrize("together", [True, False])
def test_an_older_copy_of_a_log_adds_nothing(tmp_path, count, together):
    """Its lines have landed with the longer one, whichever comes first; a log that goes on otherwise is another."""
    lines = [line(request=f"GET /{number} HTTP/1.1") for number in range(30)]
    new, old = written(tmp_path / "access.log", *lines), written(tmp_path / "backup.log", *lines[:count])
    for places in [[new, old], [old, new]] if together else [[old], [new], [old]]:
        land_logs(places, tmp_path / "landing")
    assert len(pages(tmp_path)[5]) == 30


def test_a_log_that_goes_on_otherwise_is_another_log(tmp_path):
    """However many lines two logs have in common, none of either is left out."""
    lines = [line(request=f"GET /{number} HTTP/1.1") for number in range(3)]
    for name, last in (("a.log", "/x"), ("b.log", "/y")):
        log = written(tmp_path / name, *lines, line(request=f"GET {last} HTTP/1.1"), *lines[: name == "a.log"])
        land_logs([log], tmp_path / "landing")
    assert len(pages(tmp_path)[5]) == 5 + 4


def test_another_log_of_the_same_name_adds_its_requests(tmp_path):
    """Two servers call their logs alike, and two requests of one second and one line number are two."""
    for server in ("a", "b"):
        log = written(tmp_path / server / "access.log", line(request=f"GET /{server} HTTP/1.1"))
        land_logs([log], tmp_path / "landing")
    assert pages(tmp_path) == {5: ["/a", "/b"]}


NOISE = [
    line(request=request) for request in ("-", "", r"\x16\x03\x01\x02\x00", r"\x00", "SSH-2.0-Go", "GET  HTTP/1.1")
]


def test_connections_without_a_request_are_counted_apart_and_kept(tmp_path):
    """However many there are, no line of them lands among the visits, and none is lost."""
    log = written(tmp_path / "access.log", *NOISE, line(), "torn {")
    (found,) = land_logs([log], tmp_path / "landing")
    assert found.sentence() == (
        "access.log (combined): 1 requests, and 6 that are no request and 1 that cannot be read"
    )
    assert len((tmp_path / "landing/2026-01-05/access.jsonl").read_bytes().splitlines()) == 2
    assert (tmp_path / "landing_logs/access.noise").read_text().splitlines() == NOISE
    with pytest.raises(ValueError, match=r"only\.log tells of no request: each of its 6 lines"):
        land_logs([written(tmp_path / "only.log", *NOISE)], tmp_path / "landing")


def test_a_line_that_is_cut_off_behind_its_size_is_not_taken_for_another_format(tmp_path):
    """In a log of combined lines a common one is torn: its size may be the beginning of another."""
    torn = line()[: line().index("1234") + 2]
    written(tmp_path / "access.log", line(), torn)
    (found,) = land_logs([tmp_path / "access.log"], tmp_path / "landing")
    assert (found.requests, found.unread) == (1, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "\n".join(["x | 203.0.113.9 | 05-01-2026"] * 3),
            r"line 1 looks like a \| 9\.9\.9\.9 \| 9-9-9; what is read: common",
        ),
        (f"Jan  5 10:00:01 web nginx[3]: {line()}", "line 1 is in the format of syslog"),
        ("[Mon Jan 05 10:00:00.1 2026] [core:error] [pid 1] x", "line 1 is in the format of Apache's error log"),
        ("\n".join([line()] * 11 + ["strange"] * 12), r"line 12 looks like a; .* \(11 of 23 lines can be read\)"),
        (line().encode("utf-16"), "holds UTF-16 data: give it as text in UTF-8"),
        (b"PK\x03\x04", "holds zip data"),
    ],
)
def test_a_log_in_no_format_that_is_read_is_refused_with_the_line_that_was_seen(tmp_path, content, words):
    """By file, line and what it looks like, without the addresses in it; nothing lands."""
    log = tmp_path / "access.log"
    log.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=words) as refused:
        land_logs([log], tmp_path / "landing")
    assert str(log) in str(refused.value)
    assert "203.0.113.9" not in str(refused.value)
    assert list(tmp_path.iterdir()) == [log]


def test_a_damaged_log_among_good_ones_is_named_and_nothing_lands(tmp_path):
    """Half a rotated file is no rotated file."""
    good, bad = written(tmp_path / "a.log", line()), written(tmp_path / "b.log.gz", line())
    bad.write_bytes(bad.read_bytes()[:-9])
    with pytest.raises(ContractError, match=r"b\.log\.gz is damaged: its gzip data ends early"):
        land_logs([good, bad], tmp_path / "landing")
    assert sorted(tmp_path.iterdir()) == [good, bad]


def test_a_log_whose_lines_end_in_carriage_returns_alone_is_refused_by_its_name(tmp_path):
    """It would be one line, of which one request is read."""
    log = tmp_path / "access.log"
    log.write_text("\r".join([line()] * 3))
    with pytest.raises(ValueError, match=r"access\.log.* ends in carriage returns alone"):
        land_logs([log], tmp_path / "visits")
