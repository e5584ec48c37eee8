"""Visits that partners report, from landing to silver: common columns, and each record as it came."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime, timedelta, timezone

import pytest

from dedp_assets.case_study.sources import partner_visits as partners
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.resources.clock import Clock
from tests.case_study.assets.conftest import MONDAY, day, world_in

pytestmark = pytest.mark.spark
TABLE = "silver/partner_visits"
VISIT = {"at": "2026-01-05T11:00:00.5Z", "user": "agent", "page": "/"}
TIME = '"at": "2026-01-05T10:00:00Z"'
ODD = {
    "magazine": {
        "not JSON at all": "the line is no JSON, or has a key twice",
        '{"id": "m1", "id": "m2"}': "the line is no JSON, or has a key twice",
        f'{{"id": "m3", {TIME}, "user": "u", "page": "/"': "the line is no JSON, or has a key twice",
        f'{{"id": "m4", {TIME}, "user": null, "page": "/"}}': "user_id cannot be read",
        '{"id": "m5", "at": "yesterday", "user": "u", "page": "/"}': "event_time cannot be read",
        '{"id": "m6", "at": "2019-01-05T10:00:00Z", "user": "u", "page": "/"}': "event_time is not plausible",
        b'{"id": "\xff"}': "the line is not valid UTF-8",
        "": "the line is no JSON, or has a key twice",
    },
    "radio": {
        '{"visit": {"uuid": "r1", "time_ms": 9223372036854775807}, "u_id": 1, "url": "x/embed/"}': "event_time cannot",
        '{"visit": "r2", "u_id": 1, "url": "https://radio.example/"}': "visit_id cannot be read; event_time cannot",
    },
    "tv": {f'{{"id": "t1", {TIME}, "user": "u", "page": "/"}}': "the partner is unknown"},
}
PROGRAMS = {
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5)": ("macOS", "desktop"),
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X)": ("iOS", "phone"),
    "Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X)": ("iOS", "tablet"),
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) Mobile": ("Android", "phone"),
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64)": ("Windows", "desktop"),
    "Mozilla/5.0 (X11; Linux x86_64)": ("Linux", "desktop"),
    "crawler/2.1": ("unknown", "unknown"),
    "": ("unknown", "unknown"),
    None: ("unknown", "unknown"),
}
ODDLY_WRITTEN = f'{{"id": 1.10e2,\t{TIME}, "user": 12345678901234567890123.10, "page": "/" }}  '
AGENTS = [
    json.dumps({"id": f"a{number}", **VISIT, **({} if agent is None else {"agent": agent})})
    for number, agent in enumerate(PROGRAMS)
]
MAGAZINE, RADIO = partners.magazine_visits(MONDAY, count=40), partners.radio_visits(MONDAY, count=40)
EVERYTHING = [*MAGAZINE, ODDLY_WRITTEN, *RADIO, *AGENTS, *(line for lines in ODD.values() for line in lines)]


def as_read(partner, line):
    """What a person reads in a record of either shape."""
    visit = json.loads(line)
    if partner == "magazine":
        at = datetime.fromisoformat(visit["at"].replace("Z", "+00:00"))
        return (visit["id"], at, visit["user"], visit["page"], visit["agent"])
    at = datetime.fromtimestamp(visit["visit"]["time_ms"] / 1000, timezone.utc)
    page = visit["url"].partition("/embed")[2]
    return (visit["visit"]["uuid"], at, str(visit["u_id"]), page, visit["browser"])


def in_silver(row):
    return tuple(row[name] for name in ("visit_id", "event_time", "user_id", "page", "user_agent"))


def as_bytes(line):
    return line if isinstance(line, bytes) else line.encode()


def landed(row):
    """The bytes of a record, as they were delivered."""
    return row["raw"]["line_bytes"] or row["raw"]["line"].encode()


def deliver(world, landed_on, **files):
    folder = world.landing / "partner_visits"
    partners.deliver(folder, date.fromisoformat(landed_on), {n.replace("_", "-"): v for n, v in files.items()})


@pytest.fixture(scope="module")
def reported(spark, tmp_path_factory):
    """A day that two partners reported, with records that nobody can read and one of a stranger; a story in order."""
    with world_in(tmp_path_factory.mktemp("reported")) as world:
        odd = {partner: [*lines] for partner, lines in ODD.items()}
        deliver(
            world,
            day(0),
            magazine=[*MAGAZINE, ODDLY_WRITTEN, *odd["magazine"], *AGENTS],
            radio=[*RADIO, *odd["radio"]],
            tv=odd["tv"],
        )
        assert world.react() == [("daily_partner_visits", day(0))]
        yield world


@pytest.mark.promise("every-record-stays-as-it")
def test_every_record_stays_as_it_landed(reported):
    """Byte by byte: what is no JSON, no UTF-8, has a key twice or is empty, and what no parser would write back so."""
    rows = reported.rows(TABLE, event_date=day(0))
    assert Counter(map(landed, rows)) == Counter(map(as_bytes, EVERYTHING))
    problems = {landed(row): row["problem"] for row in rows if row["problem"]}
    assert problems.keys() == {as_bytes(line) for lines in ODD.values() for line in lines}
    for line, said in (pair for lines in ODD.values() for pair in lines.items()):
        assert said in problems[as_bytes(line)], line


def test_two_shapes_become_one(reported):
    """Each column as a person reads it in either shape; the visitor's program by its text, or unknown."""
    rows = [row for row in reported.rows(TABLE, event_date=day(0)) if row["problem"] is None]
    read = {in_silver(row) for row in rows if row["user_id"] != "agent" and landed(row) != ODDLY_WRITTEN.encode()}
    assert read == {*(as_read("magazine", line) for line in MAGAZINE), *(as_read("radio", line) for line in RADIO)}
    found = {row["user_agent"]: (row["os_name"], row["device_type"]) for row in rows if row["user_id"] == "agent"}
    assert found == PROGRAMS


def test_late_records_reach_their_date_and_a_rerun_changes_nothing(reported):
    """By the log: the date is asked for, no other one is touched."""
    late = partners.radio_visits(MONDAY, count=3, seed=9)
    tuesday = partners.magazine_visits(MONDAY + timedelta(days=1), count=5)
    deliver(reported, day(1), magazine=tuesday, radio_late=late)
    assert reported.react() == [("daily_partner_visits", day(1)), (TABLE, day(0))]
    assert Counter(map(landed, reported.rows(TABLE, event_date=day(0)))) == Counter(map(as_bytes, [*EVERYTHING, *late]))
    assert {in_silver(r) for r in reported.rows(TABLE, event_date=day(1))} == {as_read("magazine", x) for x in tuesday}
    before = sorted(map(str, reported.rows(TABLE)))
    assert reported.compute(TABLE, day(0), **{FORCE: "true"}).failure == ""
    assert sorted(map(str, reported.rows(TABLE))) == before
    assert reported.react() == []


def test_visitors_of_a_partner_are_removed_in_one_batch(reported, monkeypatch):
    """The visits of the named ones go in one commit, each request has a status, and a retention later the past goes."""
    before = reported.rows(TABLE)
    named = sorted({row["user_id"] for row in before if row["user_id"]})[:2]
    folder = reported.landing / "partner_removals"
    folder.mkdir(parents=True)
    lines = [json.dumps({"request": f"R-{n}", "id": user}) for n, user in enumerate([*named, "nobody"])]
    (folder / "week.jsonl").write_text("\n".join(lines) + "\n")
    version = reported.ledger(TABLE).version()
    assert reported.run("remove_visitors_of_partners").failure == ""
    assert reported.ledger(TABLE).version() == version + 1
    left = [row for row in before if row["user_id"] not in named]
    assert sorted(map(str, reported.rows(TABLE))) == sorted(map(str, left))
    assert reported.run("remove_visitors_of_partners").failure == ""
    assert reported.ledger(TABLE).version() == version + 1
    later = Clock().now() + timedelta(days=60)
    monkeypatch.setattr(Clock, "now", lambda _: later)
    assert reported.run("remove_visitors_of_partners").failure == ""
    assert reported.ledger(TABLE).begins_at() > version
    (folder / "next.jsonl").write_text(f"{lines[0]}\n{lines[0]}\n\nnot JSON\n[]\n" + '{"ids": "a-canary"}\n')
    refused = reported.run("remove_visitors_of_partners").failure
    assert [number for number in range(1, 7) if f"next.jsonl line {number} must be" in refused] == [4, 5, 6]
    assert "canary" not in refused
