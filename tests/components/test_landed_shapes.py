"""Landings of files as strangers write them: records of several lines, dates by a pattern, and any writer's Parquet."""

from __future__ import annotations

import io
import math
from datetime import date, datetime, timezone

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.components.landed_project import Project

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "two landings, of which one has three deliveries")]
NOTES = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/notes
  folder: notes
  format: {csv: {multiline: true}}
  partitions: {daily: {start: 2026-01-01}}
  event_time: at
  about: {owner: "team:data"}
"""
NOTE_COLUMNS = """
columns:
  id: {type: BIGINT}
  text: {type: STRING, called: "te\\nxt"}
  at: {type: TIMESTAMP, format: "yyyy-dd-MM HH:mm"}
  due: {type: DATE, format: d.M.yyyy}
  share: {type: DOUBLE}
"""
MEASURES = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/measures
  folder: measures
  format: {parquet: {}}
  partitions: {daily: {start: 2026-01-01}}
  gates: {audits: [{name: dead_letters_are_few, of: dead, per: read, fail_above: 1.0}]}
  about: {owner: "team:data"}
"""
MEASURE_COLUMNS = """
columns:
  id: {type: BIGINT}
  x: {type: DOUBLE, may_lack: true}
  l: {type: ARRAY<FLOAT>, may_lack: true}
  s: {type: STRING, may_lack: true}
  t: {type: TIMESTAMP, may_lack: true}
  other: {type: BIGINT, called: ID, may_lack: true}
"""
HEADER = 'id,"te\nxt",at,due,share\n'
DAY = "2026-05-01 09:07"
"""5 January by its pattern, 1 May by ISO 8601."""


@pytest.fixture(scope="module")
def project(spark, tmp_path_factory):
    return Project(
        tmp_path_factory.mktemp("shapes"),
        {
            "notes/defs.yaml": NOTES, "notes/columns.yaml": NOTE_COLUMNS,
            "measures/defs.yaml": MEASURES, "measures/columns.yaml": MEASURE_COLUMNS,
        },
    )  # fmt: skip


def test_records_of_several_lines_are_the_readers_and_times_their_patterns(project):
    """A header over two lines, a stray quote, numbers of a database; a date in ISO 8601 is a letter, and undated."""
    lines = [f"{n},x{n},{DAY},5.1.2026,.5" for n in range(100)]
    lines[40] = f'40,5" pipe,{DAY},5.1.2026,+5'
    lines[41] = f'41,"two\nlines ""quoted""",{DAY},5.1.2026,5.'
    lines[42] = f"42,x,{DAY},2026-01-05,-.25"
    lines[43] = "43,x,2026-01-05T09:07:00Z,5.1.2026,-.25"
    project.land("notes/2026-01-05", {"a.csv": HEADER + "\n".join(lines) + "\n"})
    project.react()
    rows = {row["id"]: row for row in project.rows("silver/notes")}
    assert rows.keys() == set(range(100)) - {42, 43}
    at = datetime(2026, 1, 5, 9, 7, tzinfo=timezone.utc)
    assert {(row["at"], row["due"], row["event_date"]) for row in rows.values()} == {(at, at.date(), at.date())}
    assert [(rows[n]["text"], rows[n]["share"]) for n in (40, 41)] == [('5" pipe', 5.0), ('two\nlines "quoted"', 5.0)]
    assert [rows[n]["line_number"] for n in (0, 41, 44)] == [3, 44, 48]
    letters = project.rows("silver/notes_dead_letter", "line_number", "reason", "event_date")
    assert letters == [(46, "due is not a DATE", date(2026, 1, 5)), (47, "at is not a TIMESTAMP", None)]


def test_a_quote_that_nothing_ends_refuses_the_partition_by_its_lines(project):
    """It is one letter among fifty, and half of the lines."""
    lines = [f"{n},x,{DAY.replace('01 ', '02 ')},5.1.2026,1" for n in range(100)]
    lines[50] = lines[50].replace("x", '"x')
    project.land("notes/2026-02-05", {"a.csv": HEADER + "\n".join(lines) + "\n"})
    assert project.run("bronze/notes", "2026-02-05")["lines_keep_their_numbers"]
    with pytest.raises(dg.Failure, match=r"dead_letters_are_few: above 0\.1 \(dead_lines=50, lines_read=100"):
        project.run("silver/notes", "2026-02-05")
    assert len(project.rows("silver/notes")) == 98


def parquet(columns, **options):
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made, **options)
    return made.getvalue()


def test_what_pyarrow_opens_is_read_or_refused_by_the_footer(project):
    """Types, codecs and names of other writers in one delivery; text that is no UTF-8 is a letter with its bytes."""
    at = datetime(2026, 1, 5, 10, 0, 0, 123456, tzinfo=timezone.utc)
    odd = [math.nan, math.inf, -math.inf, 1.5]
    project.land("measures/2026-01-05", {
        "a.parquet": parquet({"id": [1, 2, 3, 4], "x": odd, "l": pa.array([[v] for v in odd], pa.list_(pa.float16()))}),
        "b.parquet": parquet({"id": [5], "t": [at.replace(tzinfo=None)]}, use_deprecated_int96_timestamps=True),
        "c.parquet": parquet({"id": [6], "s": pa.array([b"ab\xff"]).view(pa.string())}, compression="BROTLI"),
        "d.parquet": parquet({"id": [7], "ID": [8]}),
    })  # fmt: skip
    for layer in ("bronze", "silver"):
        project.run(f"{layer}/measures", "2026-01-05")
    rows = {row["id"]: row for row in project.rows("silver/measures")}
    assert [str(rows[n]["x"]) for n in (1, 2, 3, 4)] == ["nan", "inf", "-inf", "1.5"]
    assert [str(rows[n]["l"][0]) for n in (1, 2, 3, 4)] == ["nan", "inf", "-inf", "1.5"]
    assert (rows[5]["t"], rows[7]["other"], sorted(rows)) == (at, 8, [1, 2, 3, 4, 5, 7])
    (letter,) = project.rows("silver/measures_dead_letter")
    assert (letter["source_file"], letter["reason"]) == ("c.parquet", "the record is not valid UTF-8")
    assert (letter["raw"], letter["raw_bytes"]) == ('{"id":6,"s":"ab\ufffd"}', b'{"id":6,"s":"ab\xff"}')
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["id", "id"])
    project.land("measures/2026-01-06", {"e.parquet": parquet(twice)})
    with pytest.raises(dg.Failure, match=r"e\.parquet has two columns called id") as refused:
        project.run("bronze/measures", "2026-01-06")
    assert not refused.value.allow_retries
