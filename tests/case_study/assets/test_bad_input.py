"""Damaged deliveries: each record ends in silver or as a dead letter with a reason, and none is lost or invented."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from datetime import datetime

import pytest

from dedp_assets.patterns.ingestion.readiness_marker import delivering
from tests.case_study.assets.conftest import day, visits_of, world_in

SOUND = [json.loads(line) for line in visits_of(0, count=300)]
TODAY = day(0)
GOLD = ("gold/daily_visitors", "gold/daily_page_views")


def event(**changes):
    """A sound visit with some fields changed; ``None`` removes one."""
    made = {**SOUND[0], "visit_id": f"changed-{sorted(changes)}-{list(changes.values())}", **changes}
    return json.dumps({name: value for name, value in made.items() if value is not None}).encode()


REFUSED = {
    "malformed JSON": (b'{"visit_id": "cut-off", "event_time": "2026-', "malformed JSON"),
    "not JSON at all": (b"HELLO", "malformed JSON"),
    "log line that is not an event": (b'1.2.3.4 - - [05/Jan/2026:10:00:00 +0000] "\\x16\\x03" 400 0', "malformed JSON"),
    "blank line": (b"   ", "blank line"),
    "two records glued together": (event() + event(), "malformed JSON"),
    "two records with a comma": (event() + b"," + event(), "more than one JSON value"),
    "an array": (b"[1, 2]", "not a JSON object"),
    "JSON null": (b"null", "not a JSON object"),
    "invalid UTF-8": (event(page="/caf?").replace(b"?", b"\xff\xfe"), "the line is not valid UTF-8"),
    "missing column": (event(user_id=None), "user_id is missing"),
    "empty key": (event(visit_id="  "), "visit_id is missing"),
    "JSON null as key": (event(user_id=0).replace(b'"user_id": 0', b'"user_id": null'), "user_id is missing"),
    "wrong type": (event(bytes="many"), "bytes is not a BIGINT"),
    "time that is no time": (event(event_time="HELLO"), "event_time is not a TIMESTAMP"),
    "time of no day": (event(event_time="2026-01"), "event_time is not a TIMESTAMP"),
    "missing time": (event(event_time=None), "event_time is missing"),
    "far future": (event(event_time="2099-01-01T00:00:00Z"), "event_time is in the future of its landing"),
    "1970": (event(event_time="1970-01-01T00:00:00Z"), "event_time is more than 30 days before it landed"),
    "older than retention": (event(event_time="2025-11-01T10:00:00Z"), "event_time is more than 30 days before"),
    "impossible status": (event(status=99), "status is not an HTTP status"),
    "negative size": (event(bytes=-1), "bytes is negative"),
    "several at once": (event(bytes=-1, status=1), "status is not an HTTP status; bytes is negative"),
}
TOLERATED = {
    "unknown column": event(campaign="winter", visit_id="unknown-column"),
    "optional column missing": event(referrer=None, bytes=None, visit_id="optional-missing"),
    "number where text is expected": event(user_id=77, visit_id="number-as-text"),
    "carriage return": event(visit_id="carriage-return") + b"\r",
    "another time zone": event(visit_id="zoned", event_time=f"{TODAY}T23:30:00+02:00"),
    "half-written last line that is whole JSON": event(visit_id="no-newline"),
}


def deliver(world, files):
    with delivering(world.landing / "visits" / TODAY) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def damaged(spark, tmp_path_factory):
    """One landing day that holds every kind of damage among sound records, loaded to gold."""
    with world_in(tmp_path_factory.mktemp("damaged")) as world:
        sound = b"".join(json.dumps(e).encode() + b"\n" for e in SOUND)
        files = {
            "a-sound.jsonl": sound,
            "b-sound-again.jsonl": sound,
            "c-refused.jsonl": b"".join(line + b"\n" for line, _ in REFUSED.values()),
            "d-tolerated.jsonl": b"\n".join(TOLERATED.values()),
            "e-half.jsonl": event(visit_id="whole") + b"\n" + event(visit_id="half")[:40],
            "f-empty.jsonl": b"",
        }
        deliver(world, files)
        assert world.react()
        world.files = files
        yield world


def letters(world, file):
    return {row["line_number"]: row for row in world.rows("silver/visits_dead_letter", source_file=file)}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_record_that_cannot_be_processed_is_a_dead_letter_with_its_reason(damaged, kind):
    """It keeps the reason, the untouched line, its file and line number, and who refused it when."""
    number = list(REFUSED).index(kind) + 1
    line, reason = REFUSED[kind]
    letter = letters(damaged, "c-refused.jsonl")[number]
    assert reason in letter["reason"]
    assert (letter["raw_bytes"] or letter["raw"].encode()) == line
    assert (letter["job"], letter["code_version"]) == ("silver/visits", "2")
    assert letter["run_id"]
    assert letter["dead_lettered_at"]
    assert str(letter["landed_on"]) == TODAY


@pytest.mark.parametrize("kind", TOLERATED)
def test_what_is_only_unusual_is_tolerated(damaged, kind):
    """Unknown columns, missing optional ones, numbers as text, other line ends and zones reach silver."""
    number = list(TOLERATED).index(kind) + 1
    found = damaged.rows("silver/visits", source_file="d-tolerated.jsonl", line_number=str(number))
    assert [row["visit_id"] for row in found] == [json.loads(TOLERATED[kind])["visit_id"]]
    assert str(found[0]["event_date"]) == TODAY


def test_a_half_written_last_line_is_a_dead_letter(damaged):
    """The torn record leaves by the other exit; the whole one before it is kept."""
    assert damaged.ids("silver/visits", source_file="e-half.jsonl") == ["whole"]
    assert letters(damaged, "e-half.jsonl")[2]["reason"] == "malformed JSON"


def test_dead_letters_are_counted_by_class_where_they_can_be_plotted(damaged):
    """Numbers with a unit in the metadata of the date: the share of the records read, and how many of each class."""
    kept = damaged.rows("silver/visits_dead_letter", filed_under=TODAY)
    shown = damaged.materialization("silver/visits_dead_letter", TODAY)
    classes = Counter(letter["error_class"] for letter in kept)
    assert {name: shown[name] for name in shown if name.startswith("letters: ")} == {
        f"letters: {name.replace('_', ' ')} [records]": count for name, count in classes.items()
    }
    assert classes >= Counter({"malformed JSON": 5, "wrong type": 3, "user_id is missing": 2, "blank line": 1})
    assert shown["open letters [records]"] == len(kept)
    read = damaged.last("silver/visits", event_date=TODAY).record.rows["read"]
    share = damaged.materialization("silver/visits", TODAY)["dead letters [%]"]
    assert share == round(100 * len(kept) / read, 3)


def test_a_letter_keeps_the_time_of_its_event_where_it_can_be_read(damaged):
    """Of a visit with a wrong size it is the visit's time, of a torn line nobody knows."""
    sizes = letters(damaged, "c-refused.jsonl")[list(REFUSED).index("negative size") + 1]
    torn = letters(damaged, "c-refused.jsonl")[list(REFUSED).index("malformed JSON") + 1]
    assert sizes["occurred_at"] == datetime.fromisoformat(SOUND[0]["event_time"].replace("Z", "+00:00"))
    assert (torn["occurred_at"], torn["error_stage"], sizes["error_stage"]) == (None, "parse", "validate")


def test_a_repeated_file_adds_nothing(damaged):
    """Of a visit that comes in two files, the line of the first survives."""
    first = damaged.rows("silver/visits", source_file="a-sound.jsonl")
    assert sorted(row["line_number"] for row in first) == list(range(1, 301))
    assert damaged.rows("silver/visits", source_file="b-sound-again.jsonl") == []


def test_every_record_is_accounted_for_by_its_identity(damaged):
    """Lines read are lines kept, dead or repeated: the same file and line numbers, each once."""
    landed = {(name, n) for name, content in damaged.files.items() for n in range(1, len(content.splitlines()) + 1)}
    bronze = [(row["source_file"], row["line_number"]) for row in damaged.rows("bronze/visits")]
    assert sorted(bronze) == sorted(landed)
    kept = [(r["source_file"], r["line_number"]) for r in damaged.rows("silver/visits")]
    dead = [(r["source_file"], r["line_number"]) for r in damaged.rows("silver/visits_dead_letter")]
    assert not set(kept) & set(dead)
    sound = {(name, n) for name in ("a-sound.jsonl", "b-sound-again.jsonl") for n in range(1, 301)}
    repeated = landed - set(kept) - set(dead)
    assert repeated <= sound
    rows = damaged.last("silver/visits", event_date=TODAY).record.rows
    assert (rows["read"], rows["written"], rows["dead"], rows["duplicates"]) == (
        len(landed),
        len(kept),
        len(dead),
        len(repeated),
    )


def test_what_has_no_date_of_its_own_is_filed_under_the_day_it_landed(damaged):
    """Unreadable and implausible times belong to no event date; gold shows only real ones."""
    undated = [row for row in damaged.rows("bronze/visits") if row["event_date"] is None]
    assert len(undated) >= 10
    assert {str(row["filed_under"]) for row in damaged.rows("silver/visits_dead_letter")} == {TODAY}
    assert {str(row["event_date"]) for row in damaged.rows("gold/daily_visitors")} == {TODAY}


@pytest.mark.parametrize(
    ("files", "marked", "sentence"),
    [
        ({"part.jsonl": b"{}\n"}, False, f"{TODAY}: 1 files but no _SUCCESS: the producer has not finished"),
        ({}, False, f"{TODAY}: 0 files but no _SUCCESS: the producer has not finished"),
        (
            {},
            True,
            f"{TODAY}: _SUCCESS is there but no file: deliver the files, or declare the day empty by a manifest",
        ),
        ({"part.jsonl": b""}, True, "input_is_not_empty"),
        (
            {"a.jsonl": b"{}\n", "b.jsonl.lz4": b"\x04\x22\x4d\x18"},
            True,
            f"{TODAY}: b.jsonl.lz4 is a .lz4 file by its name, which is not read: deliver plain text, .gz",
        ),
        (
            {"a.jsonl": b"{}\n", "b.jsonl": b"\x04\x22\x4d\x18"},
            True,
            f"{TODAY}: b.jsonl holds lz4 data, which is not read",
        ),
        ({"10:30:00.jsonl": b"{}\n"}, True, f"{TODAY}: 10:30:00.jsonl has a colon in its name"),
        ({"a.jsonl": b"{}\n", "_b.jsonl": b"{}\n"}, True, f"{TODAY}: _b.jsonl has the name of a hidden file"),
        (
            {"a.jsonl.gz": gzip.compress(b"{}\n")[:-4]},
            True,
            f"{TODAY}: a.jsonl.gz is damaged: its gzip data ends early or is not as written",
        ),
    ],
    ids=[
        "no marker",
        "nothing at all",
        "marker without files",
        "zero bytes",
        "lz4",
        "lz4 by its bytes",
        "colon",
        "hidden",
        "truncated gzip",
    ],
)
def test_a_delivery_that_must_not_be_read_refuses_the_run_in_one_sentence(world, files, marked, sentence):
    """A run that somebody starts by hand fails, says why in one line, and writes nothing."""
    folder = world.landing / "visits" / TODAY
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if marked:
        (folder / "_SUCCESS").touch()
    failure = world.run("daily_visits", TODAY).failure
    assert sentence in failure
    assert "\n" not in failure
    assert not world.ledger("bronze/visits").exists() or not world.rows("bronze/visits")


def test_every_file_of_a_day_is_read_or_the_day_is_refused_by_its_name(world):
    """A file that engines skip holds the day, whoever asks for it; under a format that is read, all lines are there."""
    lines = [line.encode() + b"\n" for line in visits_of(0, count=40)]
    deliver(world, {"a.jsonl": b"".join(lines[:10]), "b.jsonl.lz4": b"\x04\x22\x4d\x18" + bytes(30)})
    (world.landing / "visits" / "c.jsonl").write_bytes(lines[0])
    assert world.react() == []
    assert "b.jsonl.lz4 is a .lz4 file by its name" in world.run("daily_visits", TODAY).failure
    said = world.waiting("bronze/visits")
    assert "b.jsonl.lz4 is a .lz4 file by its name" in said[TODAY, "unusable"]
    assert (TODAY, "refused") not in said, "one cause is one trouble"
    assert "c.jsonl lies in no partition's folder" in said["c.jsonl", "unusable"]
    assert not world.ledger("bronze/visits").exists()
    (world.landing / "visits" / "c.jsonl").unlink()
    (world.landing / "visits" / TODAY / "b.jsonl.lz4").unlink()
    deliver(world, {"b.jsonl.gz": gzip.compress(b"".join(lines[10:]))})
    assert world.react()
    assert len(world.rows("bronze/visits")) == len({*world.ids("silver/visits")}) == 40
    assert world.waiting("bronze/visits") == {}
    grown = world.landing / "visits" / TODAY / "a.jsonl"
    with grown.open("ab") as file:
        file.write(b"{}\n")
    os.utime(grown, (0, 0))  # long ago, so that nobody waits for it to settle
    assert "is complete and not loaded as it is now" in world.waiting("bronze/visits")[TODAY, "behind"]


def test_a_day_declared_empty_by_its_manifest_is_loaded_as_empty(world):
    """A marker that lists no files says that nothing happened; that is no error, and later files are late data."""
    with delivering(world.landing / "visits" / TODAY):
        pass
    assert world.react()
    warned = [name for name, passed in world.checks("bronze/visits").items() if not passed]
    assert (warned, world.last("bronze/visits", landed_on=TODAY).record.verdict) == (["input_is_not_empty"], "warned")
    for table in ("silver/visits", *GOLD):
        assert [name for name, passed in world.checks(table).items() if not passed] == ["input_is_not_empty"]
        assert world.last(table, event_date=TODAY).record.rows["written"] == 0
    assert world.rows("bronze/visits") == []
    deliver(world, {"part.jsonl": b"".join(line.encode() + b"\n" for line in visits_of(0))})
    assert world.react()
    assert world.rows("gold/daily_visitors")[0]["visits"] == len(visits_of(0))


def test_a_day_without_visits_after_a_usual_one_waits_for_a_person(world):
    """Silver says that there were none; gold doubts it until somebody confirms it by name."""
    world.land(day(0), visits_of(0))
    assert world.react()
    with delivering(world.landing / "visits" / day(1)):
        pass
    (ended,) = world.platform.react()
    assert "volume_is_usual: below 0.5 (v" in ended.failure
    approval = {"dedp/approved_by": "Ada", "dedp/approved_because": "the site was closed"}
    assert not world.run("daily_visits", day(1), **approval).failure
    for table in GOLD:
        record = world.last(table, event_date=day(1)).record
        assert (record.verdict, record.rows["written"]) == ("approved", 0)


def test_a_file_shorter_than_its_manifest_states_is_not_read(world):
    """A torn upload is noticed before a line of it is read."""
    deliver(world, {"part.jsonl": b"".join(line.encode() + b"\n" for line in visits_of(0))})
    path = world.landing / "visits" / TODAY / "part.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert "bytes its manifest states" in world.run("daily_visits", TODAY).failure
    assert list(world.platform.react()) == []
