"""Landings of three public shapes, from files to valid records and gold, held against plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.components.landed_project import Project, csv_of

pytestmark = pytest.mark.spark
TRIPS = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/trips
  folder: trips
  format: {csv: {}}
  partitions: {daily: {start: 2026-01-01}}
  event_time: picked_up
  keys: [trip_id]
  rules: {fare is negative: fare IS NULL OR fare >= 0}
  gates: {audits: [{name: dead_letters_are_few, of: dead, per: read, fail_above: 0.5, approvable: true}]}
  about: {owner: "team:data"}
"""
TRIP_COLUMNS = """
columns:
  trip_id: {type: STRING, required: true}
  picked_up: {type: TIMESTAMP, called: Pickup Time, format: M/d/yyyy H:mm}
  zone: {type: STRING, comment: 'name, with commas and quotes'}
  passengers: {type: BIGINT}
  fare: {type: DOUBLE}
  tip: {type: DOUBLE, may_lack: true}
"""
FARES = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/fares
    columns:
      event_date: {type: DATE, required: true}
      zone: {type: STRING}
      trips: {type: BIGINT, required: true}
      fares: {type: DOUBLE}
    partition_by: [event_date]
  reads: {tables: {silver/trips: {same: {column: event_date}}}}
  runs: {partitions: {daily: {start: 2026-01-01}}}
  gates: {audits: [{name: trips_are_counted, of: trips, sql: sum(trips), per: read, fail_below: 1}]}
  about: {owner: "team:data"}
  code_version: "1"
  steps:
    - tally: {identity: [trip_id]}
    - sql: SELECT event_date, zone, count(*) AS trips, sum(fare) AS fares FROM {rows} GROUP BY event_date, zone
    - account: {represented: trips}
    - quality.audit_write_audit_publish: {allow_empty: true}
"""
HEADER = ["trip_id", "Pickup Time", "zone", "passengers", "fare"]
ZONES = ["Queens", 'JFK, "Terminal 4"', "Ünter den Linden", ""]


def trips(rng, day, count):
    """Valid trips of a day as texts of a file."""
    made = []
    for number in range(count):
        at = datetime(day.year, day.month, day.day) + timedelta(minutes=rng.randrange(24 * 60))
        made.append({
            "trip_id": f"{day:%d}-{number}", "Pickup Time": f"{at.month}/{at.day}/{at.year} {at.hour}:{at.minute:02d}",
            "zone": rng.choice(ZONES), "passengers": str(rng.randrange(6)), "fare": f"{rng.randrange(100, 5000) / 100}",
            "tip": "",
        })  # fmt: skip
    return made


def in_silver(trip):
    """A valid trip as a person reads it."""
    at = datetime.strptime(trip["Pickup Time"], "%m/%d/%Y %H:%M")
    tip = float(trip["tip"]) if trip["tip"] else None
    values = (trip["trip_id"], at.isoformat(), trip["zone"] or None, int(trip["passengers"]), float(trip["fare"]), tip)
    return (*values, at.date())


def found_trips(project):
    rows = project.rows("silver/trips")
    return sorted(
        (
            (
                row["trip_id"],
                row["picked_up"].replace(tzinfo=None).isoformat(),
                row["zone"],
                row["passengers"],
                row["fare"],
                row["tip"],
                row["event_date"],
            )
            for row in rows
        ),
        key=repr,
    )


DIRTY = {
    "fare": ("12.5 USD", "fare is not a DOUBLE"),
    "passengers": ("1.0", "passengers is not a BIGINT"),
    "trip_id": ("", "trip_id is missing"),
    "Pickup Time": ("2026-01-05 10:00", "picked_up is not a TIMESTAMP"),
}


@pytest.fixture(scope="module")
def taxi(spark, tmp_path_factory):
    """Two days of trips, with dirty rows, trips of the day before, another order of columns, and a new column."""
    project = Project(
        tmp_path_factory.mktemp("taxi"),
        {"trips/defs.yaml": TRIPS, "trips/columns.yaml": TRIP_COLUMNS, "fares/defs.yaml": FARES},
    )
    rng = random.Random(7)
    first, second = (trips(rng, date(2026, 1, n), 40) for n in (5, 6))
    late, first = first[:3], first[3:]
    dirty = [{**trip, column: text} for (column, (text, _)), trip in zip(DIRTY.items(), first[:4], strict=True)]
    dirty += [{**first[4], "fare": "-1.0"}]
    good = first[5:]
    project.land("trips/2026-01-05", {
        "a.csv": csv_of(HEADER, good[:20], end="\r\n"),
        "b.csv.gz": csv_of(HEADER, [*good[20:], *dirty, good[0]]) + '17,too few\n"open,1,2,3,4\n',
    })  # fmt: skip
    tipped = [{**trip, "tip": "1.5"} for trip in second[:10]]
    project.land("trips/2026-01-06", {
        "a.csv": csv_of(["fare", "tip", *HEADER[:4]], tipped),
        "b.csv": csv_of(HEADER, [*second[10:], *late]),
        "c.csv": csv_of([*HEADER, "surge"], [{**trip, "surge": "2", "trip_id": "s"} for trip in second[:2]]),
    })  # fmt: skip
    project.ran = project.react()
    project.good, project.late, project.valid = good, late, [*good, *late, *tipped, *second[10:]]
    project.dirty = dirty
    return project


def test_every_line_of_csv_is_in_bronze(taxi):
    """As it landed, with its file and its line; the header is no record."""
    rows = taxi.rows("bronze/trips", "source_file", "line_number", "raw")
    landed = [(name, number) for name, number, _ in rows]
    assert (
        len(landed) == len(set(landed)) + sum(1 for f, n in landed if f in ("a.csv",) and landed.count((f, n)) > 1) / 2
    )
    texts = Counter(raw for _, _, raw in rows)
    assert texts["17,too few"] == texts['"open,1,2,3,4'] == 1
    assert sum(raw.endswith("\r") for raw in texts) == 20


def test_valid_trips_are_typed_once_and_on_their_own_date(taxi):
    """Every value as a person reads it in the file; the trips that came a day late, too."""
    assert found_trips(taxi) == sorted(map(in_silver, taxi.valid), key=repr)
    assert ("silver/trips", "2026-01-05") in taxi.ran
    assert taxi.wants() == []


def test_what_does_not_fit_is_a_dead_letter_with_its_reason(taxi):
    """Of types, of a rule, of a line, and of columns that are not declared."""
    reasons = Counter(reason for (reason,) in taxi.rows("silver/trips_dead_letter", "reason"))
    expected = [reason for _, reason in DIRTY.values()]
    expected += ["fare is negative", "the line has 2 values, and the header 5"]
    expected += ["a quoted value does not end before a delimiter; values with line feeds take the option multiline"]
    expected += ["no declared column is called surge"] * 2
    assert reasons == Counter(expected)


def test_gold_counts_the_trips(taxi):
    """Ten lines more, over the silver table."""
    expected = Counter((in_silver(trip)[6], trip["zone"] or None) for trip in taxi.valid)
    assert Counter({row[:2]: row[2] for row in taxi.rows("gold/fares", "event_date", "zone", "trips")}) == expected


def test_a_declared_column_saves_its_letters(taxi):
    """The file changes, the code version with it, and a replay brings the records into their partition."""
    before = taxi.tables["silver/trips"].code_version
    columns = TRIP_COLUMNS + "  surge: {type: BIGINT, may_lack: true}\n"
    taxi.write({"trips/columns.yaml": columns})
    assert taxi.tables["silver/trips"].code_version != before
    taxi.replay("silver/trips", "2026-01-06")
    saved = [row for row in taxi.rows("silver/trips") if row["surge"] is not None]
    assert [(row["trip_id"], row["was_dead_lettered"]) for row in saved] == [("s", True)]
