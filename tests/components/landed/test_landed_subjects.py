"""Persons in landed records: the id in a record as it landed is the value that a reader of the format reads."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.components.landed.landed_subjects import with_subject
from dedp_assets.patterns.connectors.encoding.formats import Csv, JsonLines
from dedp_assets.patterns.core.schema import Column

RAW = Column("STRING", classification="personal")
COLUMNS = {"n": Column("INT"), "who": Column("STRING", subject="user"), "mail": Column("STRING", subject="email")}
HEADER = ["n", 'the "who\'s"', "mail"]
VALUES = st.text(alphabet="a,;\"' ü|é\\", max_size=6)


def read(spark, form, lines):
    """The ids that the expression finds in lines."""
    found = with_subject(RAW, COLUMNS, HEADER, form)
    assert found.subject == "user"
    rows = spark.createDataFrame(
        [(n, line, json.dumps(HEADER)) for n, line in enumerate(lines)], "n INT, raw STRING, header STRING"
    )
    return [row[1] for row in sorted(rows.selectExpr("n", f"{found.subject_by} AS id").collect())]


@settings(max_examples=10)
@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=20), st.sampled_from([",", ";", "|", "\t"]))
def test_a_value_of_csv_is_what_a_reader_of_csv_reads(spark, records, delimiter):
    """Whatever delimiters and quotes the values have, with a header and without."""
    lines = []
    for record in records:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter, lineterminator="").writerow(record)
        lines.append(out.getvalue())
    expected = [value for _, value, _ in records]
    for header in (True, False):
        assert read(spark, Csv(delimiter=delimiter, header=header), lines) == expected


def test_a_value_of_json_is_that_of_the_field(spark):
    """A number as its text; NULL where there is none."""
    name = HEADER[1]
    lines = [json.dumps({name: value}) for value in ("ada", 7, None)] + ["{}", "not JSON"]
    assert read(spark, JsonLines(), lines) == ["ada", "7", None, None, None]


def test_a_short_line_has_no_id(spark):
    """And fails no job."""
    assert read(spark, Csv(), ["1", "", '1,"open']) == [None, None, '"open']


def test_records_without_a_declared_person_stay_as_they_are():
    """Nothing is declared in their place."""
    assert with_subject(RAW, {"n": Column("INT")}, ["n"], Csv()) is RAW
