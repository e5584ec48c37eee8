"""Landings of three public shapes, from files to valid records and gold, held against plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.components.landed_project import Project, csv_of

pytestmark = [pytest.mark.spark, pytest.mark.budget(75, "three lakes, of which one has five runs of two tables")]
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
        at = datetime.combine(day, time(), timezone.utc) + timedelta(minutes=rng.randrange(24 * 60))
        made.append({
            "trip_id": f"{day:%d}-{number}", "Pickup Time": f"{at.month}/{at.day}/{at.year} {at.hour}:{at.minute:02d}",
            "zone": rng.choice(ZONES), "passengers": str(rng.randrange(6)), "fare": f"{rng.randrange(100, 5000) / 100}",
            "tip": "",
        })  # fmt: skip
    return made


def in_silver(trip):
    """A valid trip as a person reads it."""
    at = datetime.strptime(f"{trip['Pickup Time']} +0000", "%m/%d/%Y %H:%M %z")
    tip = float(trip["tip"]) if trip["tip"] else None
    values = (trip["trip_id"], at.isoformat(), trip["zone"] or None, int(trip["passengers"]), float(trip["fare"]), tip)
    return (*values, at.date())


def found_trips(project):
    rows = project.rows("silver/trips")
    return sorted(
        (
            (
                row["trip_id"],
                row["picked_up"].isoformat(),
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
    rng = random.Random(7)  # noqa: S311 - seeded rows
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
    rows = taxi.rows("bronze/trips", "landed_on", "source_file", "line_number", "raw")
    assert len({row[:3] for row in rows}) == len(rows) == 20 + 12 + 6 + 2 + 10 + 33 + 2
    assert min(row[2] for row in rows) == 2
    texts = Counter(row[3] for row in rows)
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


EVENTS = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/clicks
  folder: clicks
  format: {json_lines: {}}
  partitions: {hourly: {start: 2026-01-05}}
  event_time: o'clock
  settled_minutes: 0
  keys: [id]
  order_by: [version]
  keep: last
  about: {owner: "team:data"}
  columns:
    id: {type: STRING}
    o'clock: {type: TIMESTAMP, called: at}
    version: {type: INT, called: Version}
    user: {type: "STRUCT<id: BIGINT, tags: ARRAY<STRING>>"}
    amount: {type: "DECIMAL(10,2)", may_lack: true}
"""


def click(number, hour, version=1, **more):
    """A record as a producer writes it."""
    user = {"id": number, "tags": ["new", None] if number % 2 else []}
    at = f"2026-01-05T{hour:02d}:30:00.5Z"
    return {"id": f"c{number}", "at": at, "Version": version, "user": user, "amount": None, **more}


@pytest.fixture(scope="module")
def clicks(spark, tmp_path_factory):
    """Two hours of a nested event stream: events repeated, changed, late and of a wrong type."""
    project = Project(tmp_path_factory.mktemp("clicks"), {"clicks/defs.yaml": EVENTS})
    first = [click(n, 10, amount=1.25 if n % 3 else None) for n in range(30)]
    lines = [*first, *first[:4], click(5, 10, version=2), {**click(40, 10), "user": {"id": "x", "tags": 3}}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    project.land("clicks/2026-01-05-10", {"a.jsonl.gz": text + '{"id": "torn", "at"\n'}, marker="")
    late = [click(n, 10) for n in range(50, 53)]
    other = [{k: v for k, v in click(60, 11).items() if k != "amount"}, {**click(61, 11), "url": "/"}]
    inner = {**click(95, 11), "user": {"id": 95, "tags": [], "plan": "gold"}}
    text = "".join(json.dumps(line) + "\n" for line in [*late, *other, *(click(n, 11) for n in range(70, 90)), inner])
    project.land("clicks/2026-01-05-11", {"a.jsonl": text}, marker="")
    project.ran = project.react()
    project.first, project.late = first, late
    return project


def test_nested_events_are_deduplicated_in_their_own_hour(clicks):
    """The last version of each, with nested values; late ones made their hour stale."""
    rows = [row for row in clicks.rows("silver/clicks") if row["event_hour"] == "2026-01-05-10"]
    found = {row["id"]: row for row in rows}
    assert len(rows) == len(found) == 33
    assert found["c5"]["version"] == 2
    assert found["c7"]["user"] == {"id": 7, "tags": ["new", None]}
    assert str(found["c7"]["amount"]) == "1.25"
    assert ("silver/clicks", "2026-01-05-10") in clicks.ran
    assert clicks.wants() == []


def test_events_that_do_not_fit_are_letters(clicks):
    """Of nested types, of a torn line, and of an undeclared member; one that is missing by declaration is none."""
    found = {(row["reason"], row["error_class"]) for row in clicks.rows("silver/clicks_dead_letter")}
    assert found == {
        ("user.id is not a BIGINT; user.tags is not a ARRAY<STRING>", "wrong type"),
        ("malformed JSON", "malformed JSON"),
        ("no declared column is called url", "the columns are not as declared"),
    }
    assert "c60" in {row["id"] for row in clicks.rows("silver/clicks")}


def test_a_new_field_inside_of_a_column_is_told(clicks):
    """The record stays valid without it."""
    record = clicks.lake.ledger("silver/clicks").last(lambda commit: commit.record).record
    (found,) = [each for each in record.findings if each["name"] == "fields_are_declared"]
    assert (found["passed"], found["severity"]) == (False, "warn")
    assert "user.plan is not declared: 1 values, string such as aaaa" in found["note"]
    assert "c95" in {row["id"] for row in clicks.rows("silver/clicks")}


DUMP = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/customers
  folder: customers
  format: {parquet: {}}
  keys: [id]
  about: {owner: "team:data"}
"""


@pytest.fixture(scope="module")
def dump(spark, tmp_path_factory):
    """Two dumps of a database's table as Parquet, whose columns were inferred from the first one."""
    from dedp_assets.components.inference.inferring import infer

    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("dump")
        patch.setenv("DEDP_HOME", str(root))
        project = Project(root, {"customers/defs.yaml": DUMP})
        project.land("customers", {}, marker="")
        project.customers = [
            {
                "id": n, "name": f"Name {n}" if n else None, "balance": Decimal(n) / 4,
                "born": date(1990, 1, 1 + n % 28), "seen": datetime(2026, 1, 5, 10, n % 60, 0, 123456),  # noqa: DTZ001 - as databases write it
                "photo": bytes([n]), "address": {"city": "Köln", "zip": "05000"},
            }
            for n in range(100)
        ]  # fmt: skip
        table = pa.Table.from_pylist(project.customers)
        nanos = table.set_column(4, "seen", table["seen"].cast(pa.timestamp("ns")))
        pq.write_table(table.slice(0, 60), root / "landing" / "customers" / "a.parquet")
        pq.write_table(nanos.slice(60), root / "landing" / "customers" / "b.parquet")
        assert infer(root / "defs" / "customers") == 0
        project.land("customers", {})
        project.ran = project.react()
        yield project


def in_table(row):
    return {**row, "seen": row["seen"].replace(tzinfo=timezone.utc)}


def test_a_dump_is_a_table(dump):
    """Every value of every type, from files that keep times in other units."""
    rows = [{name: row[name] for name in dump.customers[0]} for row in dump.rows("silver/customers")]
    assert sorted(rows, key=lambda row: row["id"]) == list(map(in_table, dump.customers))
    assert dump.ran == [("bronze/customers", ""), ("silver/customers", "")]
    assert dump.rows("silver/customers_dead_letter") == []


def test_a_dump_replaces_the_dump_before(dump):
    """What is gone is gone; another type is a letter; a dump of half the rows is refused."""
    table = pa.Table.from_pylist(dump.customers)
    wrong = table.slice(99).set_column(0, "id", pa.array(["x"]))
    there = dump.root / "landing" / "customers"
    pq.write_table(table.slice(10, 89), there / "a.parquet")
    pq.write_table(wrong, there / "b.parquet")
    (there / "_SUCCESS").touch()
    assert dump.react() == [("bronze/customers", ""), ("silver/customers", "")]
    assert sorted(row["id"] for row in dump.rows("silver/customers")) == list(range(10, 99))
    assert dump.rows("silver/customers_dead_letter", "reason", "line_number") == [("id is not a BIGINT", 1)]
    (there / "b.parquet").unlink()
    pq.write_table(table.slice(10, 20), there / "a.parquet")
    assert dump.run("bronze/customers", refuses=True)["volume_is_plausible"] is False
    assert len(dump.rows("silver/customers")) == 89


def test_letters_of_a_table_without_partitions_are_replayed(dump):
    """A rule that was wrong, and is mended: the records come back, once."""
    (dump.root / "landing" / "customers" / "_SUCCESS").unlink()
    dump.write({"customers/defs.yaml": DUMP + "  rules: {name is known: name <> 'Name 50'}\n"})
    dump.run("silver/customers")
    assert len(dump.rows("silver/customers")) == 88
    dump.write({"customers/defs.yaml": DUMP})
    dump.replay("silver/customers")
    (saved,) = [row for row in dump.rows("silver/customers") if row["was_dead_lettered"]]
    assert (saved["id"], len(dump.rows("silver/customers"))) == (50, 89)
    assert Counter(dump.rows("silver/customers_dead_letter", "status")) == {("open",): 1, ("replayed",): 1}
