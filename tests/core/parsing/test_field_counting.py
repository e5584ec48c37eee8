"""Fields of records in the pass that reads them: counted, kept, put aside, refused or added as columns."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.parsing.field_census import CENSUS, NEW_FIELDS, DeclaredField, FieldCensus
from dedp_assets.patterns.core.parsing.field_changes import audits_of_fields, with_new_columns
from dedp_assets.patterns.core.parsing.field_counting import tally_fields
from dedp_assets.patterns.core.parsing.json_fields import census_of
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, earlier_fields
from dedp_assets.patterns.error_management.dead_letter import LETTER, Field, divert_unprocessable, route
from tests.helpers import a_run, read_back

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "two tables for each answer to new fields")]

SCHEMA = {"id": "BIGINT", "page": "STRING", "ref": "STRING", "device": "STRUCT<os: STRING, tags: ARRAY<STRING>>"}
REST = {"rest": Field("MAP<STRING, STRING>", rest=True)}
TREE = DeclaredField(
    frozenset({"object"}),
    {
        "id": DeclaredField(frozenset({"integer"})),
        "page": DeclaredField(frozenset({"string"})),
        "ref": DeclaredField(frozenset({"string"})),
        "device": DeclaredField(
            frozenset({"object"}),
            {
                "os": DeclaredField(frozenset({"string"})),
                "tags": DeclaredField(frozenset({"array"}), items=DeclaredField(frozenset({"string"}))),
            },
        ),
    },
)
COLUMNS = {
    **{name: Column(kind) for name, kind in SCHEMA.items()},
    "day": Column("DATE", required=True),
    "line": Column("BIGINT", required=True),
    "was_dead_lettered": Column("BOOLEAN"),
}
VISITS = TableSpec("silver/visits", COLUMNS, ("day",))
LETTERS = TableSpec(
    "silver/visits_dead_letter",
    {"raw": Column("STRING"), "day": Column("DATE"), "line": Column("BIGINT"), **LETTER, "filed": Column("DATE")},
    ("filed",),
)


def texts(count=200, **fields):
    """Write records; a field is a value, or a function of the number (``...``: absent)."""
    usual = {"id": lambda n: n, "page": "/a", "ref": "x", "device": {"os": "ios", "tags": ["a"]}}
    made = []
    for n in range(count):
        values = {name: value(n) if callable(value) else value for name, value in {**usual, **fields}.items()}
        made.append(json.dumps({name: value for name, value in values.items() if value is not ...}))
    return made


def lines(spark, records, day):
    rows = spark.createDataFrame(list(enumerate(records)), "line BIGINT, raw STRING").repartition(3)
    return rows.selectExpr("*", f"DATE '{day}' AS day")


@pytest.fixture
def step(spark, make_table):
    """One step of a pipeline: count the fields, convert, split, write both tables."""
    tables = SimpleNamespace(valid=make_table(VISITS), dead=make_table(LETTERS))

    def run(records, day, *, new_fields="report", schema=SCHEMA, rules=None, valid=None):
        valid = valid or tables.valid
        kinds = {name: kind for name, kind in schema.items() if isinstance(kind, str)}
        rows, seen = tally_fields(lines(spark, records, day), "raw", kinds, identity=["day", "line"])
        split = divert_unprocessable(rows, payload="raw", schema=schema, identity=["day", "line"], rules=rules)
        audits = audits_of_fields(new_fields, earlier_fields(valid.ledger, {"day": day}))
        provenance = a_run(VISITS.name, run_id=f"run-{day}")
        into = valid.target(provenance, partition={"day": day}, audits=audits).reading(seen)
        return route(split, into, tables.dead.target(provenance, partition={"filed": day}))

    return SimpleNamespace(run=run, valid=tables.valid, dead=tables.dead)


def notes(result):
    return {each.name: each.note for each in result.findings if not each.passed}


@pytest.mark.both
def test_three_days_of_a_source_that_changes(step):
    """A field appears, one vanishes, one flips for 2 %: each commit says so, and all good records are there."""
    step.run(texts(400), "2026-01-05")
    calm = step.run(texts(400), "2026-01-06")
    new = step.run(texts(400, mail="ada@x.org", device={"os": "ios", "color": "red"}), "2026-01-07")
    gone = step.run(texts(400, ref=..., id=lambda n: str(n) if n % 50 == 0 else n), "2026-01-08")
    assert notes(calm) == {}
    assert notes(new) == {
        "fields_are_declared": "device.color is not declared: 400 values, string such as aaa; "
        "mail is not declared: 400 values, string such as aaa@a.aaa",
        "fields_are_as_usual": "device.tags is absent in 100.00% of 400, usual is 0.00%",
    }
    assert notes(gone) == {
        "fields_are_as_usual": "id is a string in 2.00% of 400, usual is 0.00%; "
        "ref is absent in 100.00% of 400, usual is 0.00%",
    }
    commits = {c.record.partition["day"]: c.record for c in step.valid.ledger.newest_first() if c.record}
    assert {day: record.verdict for day, record in commits.items()} == {
        "2026-01-05": "passed", "2026-01-06": "passed", "2026-01-07": "warned", "2026-01-08": "warned",
    }  # fmt: skip
    stored = FieldCensus.from_dict(commits["2026-01-07"].figures[CENSUS])
    assert stored == census_of(texts(400, mail="ada@x.org", device={"os": "ios", "color": "red"}), TREE)
    assert commits["2026-01-07"].figures[NEW_FIELDS] == 400
    assert len(read_back(step.valid)) == 1_600


def test_the_first_day_has_too_little_history_and_says_so(step):
    """Without an earlier partition nothing is a change, and nothing is confirmed; a rerun is not its own history."""
    results = [step.run(texts(20, ref=...), "2026-01-05"), step.run(texts(20), "2026-01-05")]
    for result in results:
        (usual,) = [each for each in result.findings if each.name == "fields_are_as_usual"]
        assert (usual.passed, usual.note) == (True, "too little history: no earlier partition")


def test_a_batch_with_a_new_field_is_refused_before_anything_is_written(step):
    """One record in 200 is enough, and no table changes."""
    step.run(texts(20), "2026-01-05")
    before = step.valid.ledger.version()
    with pytest.raises(AuditFailed, match=r"mail is not declared: 1 values, string such as aaa@a[.]aaa"):
        step.run(texts(mail=lambda n: "ada@x.org" if n == 7 else ...), "2026-01-06", new_fields="refuse")
    assert step.valid.ledger.version() == before
    assert not step.dead.ledger.state().files()


def test_new_fields_are_kept_in_a_map_with_their_texts(step, make_table):
    """Values of new fields, nested ones too, stand beside the row, and a record without one has NULL there."""
    kept = make_table(replace(VISITS, name="silver/kept", columns={**COLUMNS, "rest": Column("MAP<STRING, STRING>")}))
    odd = '{"id": 3, "page": "/a", "price": 1.10, "device": {"os": "ios", "`": [1, {"a": null}]}, "a.b": "x", "": true}'
    half = '{"id": 4, "page": "\\ud800", "x": "\\ud800", "\\ud800": 1}'
    step.run([*texts(2), odd, half], "2026-01-05", schema={**SCHEMA, **REST}, valid=kept)
    rest = {row["line"]: row["rest"] for row in read_back(kept)}
    assert {line: dict(found) if found else None for line, found in rest.items()} == {
        0: None,
        1: None,
        2: {"price": "1.10", "device.````": '[1,{"a":null}]', "`a.b`": "x", "``": "true"},
    }
    assert {(row["line"], row["reason"]) for row in read_back(step.dead)} == {(3, "half of a surrogate pair")}


def test_records_with_new_fields_go_to_the_dead_letters_by_a_rule(step, make_table):
    """The others of the batch go on, and the letter has the record."""
    kept = make_table(replace(VISITS, name="silver/kept", columns={**COLUMNS, "rest": Column("MAP<STRING, STRING>")}))
    rules = {"a field is not declared": "rest IS NULL"}
    records = texts(20, Page=lambda n: "/a" if n in (3, 5) else ...)
    result = step.run(records, "2026-01-05", schema={**SCHEMA, **REST}, rules=rules, valid=kept)
    assert (result.rows.written, result.rows.dead) == (18, 2)
    assert {(row["line"], row["raw"], row["reason"]) for row in read_back(step.dead)} == {
        (n, records[n], "a field is not declared") for n in (3, 5)
    }
    assert (
        "Page is not declared, which differs from page in case only: 2 values" in notes(result)["fields_are_declared"]
    )


def test_a_new_field_becomes_a_column_of_the_table(step):
    """The first run tells of the field; with the wider declaration the next one types it, and older rows have NULL."""
    first = step.run(texts(3), "2026-01-05")
    told = step.run(texts(3, age=lambda n: n), "2026-01-06")
    census = FieldCensus.from_dict(told.figures[CENSUS])
    wider = with_new_columns(step.valid.spec, census)
    table = Table(wider, step.valid.location, step.valid.session)
    assert "age" not in table.ledger.state().columns
    table.ensure()
    result = step.run(texts(3, age=lambda n: n), "2026-01-06", schema={**SCHEMA, "age": "BIGINT"}, valid=table)
    assert (notes(first), notes(result)) == ({}, {})
    assert {(str(row["day"]), row["line"], row["age"]) for row in read_back(table)} == {
        *((f"2026-01-0{day}", n, None) for day in (5,) for n in range(3)),
        *(("2026-01-06", n, n) for n in range(3)),
    }


def test_what_is_malformed_mistyped_or_missing_never_becomes_null_in_silence(step):
    """Of 100 records, 97 are good; three are letters with their reasons, and read = written + dead."""
    rules = {"page is missing": "page IS NOT NULL"}
    records = [*texts(97), '{"id": 1, "page": "/', '{"id": "one", "page": "/a"}', '{"id": 1, "page": null}']
    result = step.run(records, "2026-01-05", rules=rules)
    assert (result.rows.read, result.rows.written, result.rows.dead) == (100, 97, 3)
    assert {(row["line"], row["reason"]) for row in read_back(step.dead)} == {
        (97, "malformed JSON"), (98, "id is not a BIGINT"), (99, "page is missing"),
    }  # fmt: skip
    census = FieldCensus.from_dict(result.figures[CENSUS])
    assert (census.records, census.unreadable) == (99, 1)
    assert (census.declared["id"].mistyped, census.declared["page"].types["null"]) == (1, 1)


def test_a_census_of_no_rows_is_empty(spark):
    """Partitions without a record, and a table without one, have fields of no record."""
    for rows in (lines(spark, [], "2026-01-05"), lines(spark, ["{}"], "2026-01-05").filter("line > 5")):
        counted, seen = tally_fields(rows, "raw", SCHEMA, identity=["line"])
        counted.write.format("noop").mode("overwrite").save()
        figures = seen.figures()
        assert (figures["read"], figures[NEW_FIELDS]) == (0, 0)
        assert FieldCensus.from_dict(figures[CENSUS]).records == 0


def test_what_cannot_be_counted_or_kept_is_refused(spark):
    """A payload that is no text, a rest without a payload or of another type, and two of them."""
    rows = spark.range(1).selectExpr("id AS line", "'{}' AS raw", "1 AS n")
    with pytest.raises(ConfigError, match="n"):
        tally_fields(rows, "n", SCHEMA, identity=["line"])
    with pytest.raises(ConfigError, match="payload must name a column whose rest rest takes, not none"):
        divert_unprocessable(rows, schema={"raw": "STRING", **REST}, identity=["line"])
    with pytest.raises(ConfigError, match="rest must be of a plain MAP<STRING,STRING>, not of STRING"):
        Field("STRING", rest=True)
    two = {"id": "BIGINT", **REST, "more": REST["rest"]}
    with pytest.raises(ConfigError, match="schema must have one rest, not rest, more"):
        divert_unprocessable(rows, payload="raw", schema=two, identity=["line"])
