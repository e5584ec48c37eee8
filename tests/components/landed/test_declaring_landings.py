"""Mistakes in the declaration of a landing: each is one fault, at its line, with the nearest right name."""

from __future__ import annotations

import copy
import re
from dataclasses import fields
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from dedp_assets.cli import main
from dedp_assets.components.checking import checked, files_below
from dedp_assets.components.landed.landed_columns import LandedColumn
from dedp_assets.components.landed.landings import LandingSpec
from dedp_assets.components.landing import LandingComponent
from dedp_assets.graph.declare import OnDelivery
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.connectors.encoding.formats import Csv
from dedp_assets.patterns.core.errors import ConfigError
from tests.components.chains.test_declaring import line_of, parts, yaml_of
from tests.components.declarations import faults_in
from tests.components.test_checking import edited_texts, edited_values, require_faults_or_a_table

GOOD = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/trips
  bronze: bronze/trips_landed
  comment: One row per trip.
  folder: trips
  format:
    csv: {header: true, delimiter: ;, quote: "'", escape: "|", encoding: windows-1252, nulls: [NA], multiline: true}
  columns:
    trip_id: {type: STRING, comment: identity, required: true, classification: personal, replica: pseudonym}
    picked_up: {type: TIMESTAMP, called: Pickup Time, format: M/d/yyyy H:mm}
    fare: {type: DOUBLE, may_lack: true, technical: true}
    places: {type: 'ARRAY<STRING>'}
  partitions: {daily: {start: 2026-01-05}}
  event_time: picked_up
  marker: _DONE
  settled_minutes: 1.5
  keys: [trip_id]
  order_by: [fare]
  keep: last
  rules: {fare is negative: fare >= 0}
  new_columns: ignore
  layout: {sort_by: [fare], curve: z-order, keep_days: 400}
  gates:
    audits:
      - {name: trips_are_many, of: written, warn_below: 10}
    if_empty: Warns of a day without trips.
  about:
    owner: team:web
    used_by: dashboards
    fresh_hours: 26.5
  code_version: "2"
"""
VALUE: dict[str, Any] = yaml.load(GOOD.replace("2026-01-05", "'2026-01-05'"), yaml.SafeLoader)
CSV = GOOD.partition("  format:\n    ")[2].partition("\n")[0]
FREE = ("columns", "rules")
ALL = [(path, value) for path, value in parts(VALUE) if path[0] == "attributes" and len(path) > 1]
OPTIONS = [path for path, _ in ALL if isinstance(path[-1], str) and path[-2] not in FREE]
IDS = [".".join(map(str, path[1:])) for path in OPTIONS]
REQUIRED = ("table", "folder", "format", "about", "columns.fare.type", "gates.audits.0.name")


def changed(path, change):
    """The declaration with the mapping or list above a path changed."""
    value = copy.deepcopy(VALUE)
    above: Any = value
    for key in path[:-1]:
        above = above[key]
    change(above, path[-1])
    return yaml_of(value)


def test_the_declaration_is_valid():
    """Before it is changed; and after YAML wrote it anew."""
    assert faults_in(GOOD) == []
    assert faults_in(yaml_of(VALUE)) == []
    assert len(OPTIONS) > 40


@pytest.mark.parametrize("path", OPTIONS, ids=IDS)
def test_a_misspelt_option_is_one_fault_with_its_line_and_the_right_name(path):
    """At every level: of the landing, its format, its columns and its records."""
    key = str(path[-1])

    def rename(above: dict[str, Any], _: str) -> None:
        pairs = [(f"{key}zz" if each == key else each, value) for each, value in above.items()]
        above.clear()
        above.update(pairs)

    text = changed(path, rename)
    (fault,) = faults_in(text)
    assert fault.line == line_of(text, rf"{re.escape(key)}zz['\"]?:")
    assert fault.message.endswith(f"did you mean {key}?"), fault


@pytest.mark.parametrize("path", [p for p, _ in ALL], ids=[".".join(map(str, p[1:])) for p, _ in ALL])
def test_a_value_of_another_type_is_one_fault_with_its_line(path):
    """Of every part: a text for a number and the other way round, and a number for a list or a mapping."""
    wrong = "three_zz" if type(dict(ALL)[path]) in (int, float) else 987654
    text = changed(path, lambda above, key: above.__setitem__(key, wrong))
    (fault,) = faults_in(text)
    assert fault.line == line_of(text, "987654|three_zz"), fault


@pytest.mark.parametrize("path", OPTIONS, ids=IDS)
def test_an_empty_value_is_one_fault_with_its_line(path):
    """An option is left out, and never empty."""
    text = changed(path, lambda above, key: above.__setitem__(key, None))
    (fault,) = faults_in(text)
    assert fault.line == line_of(text, r"[: ] ?null$"), fault


def test_a_landing_without_an_owner_is_one_fault():
    """Where the folder has no layer that states one."""
    (path,) = [path for path, _ in ALL if path[1:] == ("about", "owner")]
    (fault,) = faults_in(changed(path, lambda above, key: above.pop(key)))
    assert "about.owner must be the team or person that answers for the table" in fault.message


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_required_option_is_one_fault(name):
    """Named, at the mapping that lacks it."""
    (path,) = [path for path, _ in ALL if ".".join(map(str, path[1:])) == name]
    (fault,) = faults_in(changed(path, lambda above, key: above.pop(key)))
    assert fault.message == f"{path[-1]} is missing"
    assert fault.path == f"attributes.{name}"


WHEN = "format: M/d/yyyy H:mm"
WORDS = [
    ("keys: [trip_id]", "keys: [trip_ids]", "unknown column trip_ids: did you mean trip_id?"),
    ("order_by: [fare]", "order_by: [fares]", "unknown column fares: did you mean fare?"),
    ("event_time: picked_up", "event_time: pickd_up", "unknown column pickd_up: did you mean picked_up?"),
    ("event_time: picked_up", "event_time: trip_id", "must be a column of type TIMESTAMP or DATE, not trip_id"),
    ("type: DOUBLE", "type: DOUBEL", "type must be an SQL type, not 'DOUBEL': did you mean DOUBLE?"),
    ("type: DOUBLE", "type: TEXT", "type must be an SQL type, not 'TEXT'"),
    ("    places: {type", "    raw: {type", "raw must have another name, with called: raw, as the tables"),
    ("called: Pickup Time", "called: fare", "fare is the name of picked_up in the files already"),
    ("type: DOUBLE,", "type: DOUBLE, format: yyyy,", "format must be left out of a DOUBLE"),
    ("classification: personal", "may_lack: true", "may_lack must be left out, as trip_id is required"),
    ("classification: personal", "personal: true", "personal is a class now: write classification: personal"),
    ("classification: personal", "classification: pii", "'free text' or 'secret', not 'pii'"),
    ("classification: personal", "classification: secret", "replica must be left out of a secret, not 'pseudonym'"),
    ("classification: personal", "purpose: [billing, fraud]", ""),
    ("csv: {", "csvs: {", "unknown option csvs: did you mean csv?"),
    (CSV, "avro: {}", "format must be left out of a column of Avro files"),
    (CSV, "parquet: {}", "format must be left out of a column of Parquet files"),
    ("delimiter: ;", "delimiter: ;;", "delimiter must be one character, not ';;'"),
    ("quote: \"'\"", "quote: ;", "quote must be another character than delimiter, not ';'"),
    ('escape: "|"', "escape: ;", "escape must be another character than delimiter"),
    ("encoding: windows-1252", "encoding: latin1", "encoding must be 'utf-8', 'iso-8859-1' or 'windows-1252'"),
    ("keep: last", "keep: lst", "keep must be 'first' or 'last', not 'lst': did you mean last?"),
    ("new_columns: ignore", "new_columns: drop", "new_columns must be 'quarantine', 'ignore', 'report' or 'refuse'"),
    ("daily: {start: 2026-01-05}", "weekly: {}", "partitions must be daily or hourly, or be left out"),
    ("  partitions: {daily: {start: 2026-01-05}}\n", "", "event_time must be left out without partitions"),
    ("marker: _DONE", "marker: a/b", "marker must be the name of a file, not 'a/b'"),
    ("settled_minutes: 1.5", "settled_minutes: -1", "settled_minutes must be a number from 0 to 100000, not -1"),
    ("table: silver/trips", "table: trips", "table must be layer/dataset, not 'trips'"),
    ("bronze: bronze/trips_landed", "bronze: a/b/c", "bronze must be layer/dataset, not 'a/b/c'"),
    ("bronze: bronze/trips_landed", "bronze: silver/trips", "bronze must be another table than silver/trips"),
    ("folder: trips", "folder: ../trips", "folder must be a path of a folder, not '../trips'"),
    ("folder: trips", "folder: '{partition}/trips'", "folder must have {partition} in the last name, and partitions"),
    ("owner: team:web", "owner: the web team", "the web team"),
    ("name: trips_are_many", "name: dead_letters_are_few", ""),
    ("fare >= 0}", "fares >= 0}", "rule fare is negative names an unknown column fares: did you mean fare?"),
    ("fare >= 0}", "fare >=}", "rule fare is negative is no SQL after 'fare >='"),
    ("fare >= 0}", "fare}", "rule fare is negative must be true or false of a row, not fare, a DOUBLE"),
    ("fare >= 0}", "fare + 1}", "rule fare is negative must be true or false of a row"),
    ("fare >= 0}", "'`fare text` IS NULL'}", ""),
    ("type: TIMESTAMP, called: Pickup Time, format: M/d/yyyy H:mm", "type: DATE", ""),
    ("type: TIMESTAMP, called: Pickup Time, format: M/d/yyyy H:mm", "type: STRING",
     "must be a column of type TIMESTAMP or DATE, not picked_up, a STRING: declare type: TIMESTAMP, with the format"),
    ("type: TIMESTAMP, called: Pickup Time, format: M/d/yyyy H:mm", "type: TIMESTAMP_NTZ",
     "must be a column of type TIMESTAMP or DATE, not picked_up, a TIMESTAMP_NTZ: declare type: TIMESTAMP"),
    *[(WHEN, f'format: "{pattern}"', f"format must be a date pattern of Spark's, not {pattern!r}: ") for pattern in (
        "dd/mm/yyyy", "MM/dd", "YYYY", "YYYY-MM-dd", "DD/MM/YYYY", "yyyy-MM-ddTHH:mm:ss", "%Y-%m-%d", "iso8601",
        "ISO-8601", "epoch_micros", "unix", "yyyy-mm-dd HH:MM:ss", "yyyy-MM-dd hh:mm", "yyyy", "dd/MM[/yyyy]", "MMM dd",
        "yyyyMMd",
    )],
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "said"), WORDS, ids=[wrong.strip() for _, wrong, _ in WORDS])
def test_a_wrong_name_or_value_is_one_fault(right, wrong, said):
    """With what is right; an audit of a name that is there by default replaces that one."""
    assert right in GOOD
    found = faults_in(GOOD.replace(right, wrong, 1))
    if not said:
        assert found == []
        return
    (fault,) = found
    assert said in fault.message, fault


def test_each_wrong_format_is_a_fault_of_its_own():
    """At its line, beside the faults of rules; and the hours of a landing take a time, not a day."""
    wrong = GOOD.replace(WHEN, "format: MM/dd").replace("fare >= 0", "far >")
    wrong = wrong.replace("type: DOUBLE", "type: DATE, format: YYYY")
    assert [fault.path for fault in sorted(faults_in(wrong))] == [
        "attributes.columns.picked_up.format",
        "attributes.columns.fare.format",
        "attributes.rules.fare is negative",
    ]
    by_hour = GOOD.replace("type: TIMESTAMP, called: Pickup Time, format: M/d/yyyy H:mm", "type: DATE")
    (fault,) = faults_in(by_hour.replace("daily: {start: 2026-01-05}", "hourly: {start: 2026-01-05}"))
    assert "event_time must be a column of type TIMESTAMP, not picked_up, a DATE" in fault.message


@pytest.mark.parametrize("pattern", ["dd/mm/yyyy", "epoch_micros", "%Y-%m-%d"])
def test_a_column_in_python_is_judged_as_in_a_file(pattern):
    """By the same sentence, when it is made."""
    with pytest.raises(ConfigError, match=f"format must be a date pattern of Spark's, not '{pattern}'"):
        LandedColumn("DATE", format=pattern)


@given(edited_texts(GOOD.strip("\n").split("\n")))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_an_edited_text_is_faults_or_tables(text):
    """Whatever was cut, repeated or moved."""
    require_faults_or_a_table(text)


@given(edited_values(VALUE))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_an_edited_value_is_faults_or_tables(text):
    """Whatever stands in the place of a part."""
    require_faults_or_a_table(text)


WITHOUT = re.sub(r"  columns:\n(    .*\n)+", "", GOOD)
COLUMNS = "columns:\n" + "".join(
    f"{line}\n" for line in GOOD.splitlines() if line.startswith("    ") and ": {type" in line
)
READS = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/trips
    columns: {event_date: {type: DATE, required: true}, trips: {type: BIGINT}}
    partition_by: [event_date]
  reads: {tables: {silver/trips: {same: {column: event_date}}}}
  gates: {audits: [{name: trips_are_counted, of: trips, sql: sum(trips), fail_below: 0}]}
  runs: {partitions: {daily: {start: 2026-01-05}}}
  about: {owner: "team:data"}
  code_version: "1"
  steps:
    - tally: {identity: [trip_id]}
    - sql: SELECT event_date, count(*) AS trips FROM {rows} GROUP BY event_date
    - account: {represented: trips}
    - quality.audit_write_audit_publish: {allow_empty: true}
"""
PAGE = (CHECKOUT / "docs" / "own_files_in_yaml.md").read_text()


@pytest.fixture
def folder(tmp_path):
    """Write files below a folder."""

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_a_landing_and_a_table_that_reads_it_are_declared(folder):
    """Two tables of a landing, with a job, a sensor's start and a replay; gold over one of them."""
    root = folder({"trips/defs.yaml": WITHOUT, "trips/columns.yaml": COLUMNS, "gold/defs.yaml": READS})
    found = checked(files_below(root))
    assert found.faults == []
    tables = {table.spec.name: table for table in found.tables}
    assert list(tables) == ["gold/trips", "bronze/trips_landed", "silver/trips"]
    bronze, silver = tables["bronze/trips_landed"], tables["silver/trips"]
    (start,) = bronze.runs.of(OnDelivery)
    assert (start.dataset, start.ends.settled_minutes) == ("trips", 1.5)
    assert [spec.name for spec in silver.beside] == ["silver/trips_dead_letter"]
    assert silver.runs.replay
    assert {audit.name for audit in silver.gates.audits} == {
        "dead_letters_are_few", "duplicates_are_few", "trips_are_many"
    }  # fmt: skip
    assert silver.spec.columns["picked_up"].required
    assert "called" not in vars(type(silver.spec.columns["picked_up"]))


def test_the_examples_of_the_page_are_declarations(folder):
    """The landings, the columns of one, and the table over it, as they stand there."""
    landing, columns, orders, events, gold = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    of_orders = "columns:\n  order_id: {type: BIGINT}\n  placed_at: {type: TIMESTAMP}\n"
    ordered = {"orders/defs.yaml": orders, "orders/columns.yaml": of_orders, "events/defs.yaml": events}
    ordered["events/columns.yaml"] = "columns:\n  event_id: {type: STRING}\n  happened_at: {type: TIMESTAMP}\n"
    root = folder({"trips/defs.yaml": landing, "trips/columns.yaml": columns, "gold/defs.yaml": gold, **ordered})
    found = checked(files_below(root))
    assert found.faults == []
    assert [table.spec.name for table in found.tables] == [
        *("bronze/events", "silver/events", "gold/fares"),
        *("bronze/orders", "silver/orders", "bronze/trips", "silver/trips"),
    ]


def test_the_options_of_the_page_are_those_of_the_record():
    """None that is not there, and none that is left out."""
    named = set(re.findall(r"`(\w+)[:`]", PAGE))
    assert {each.name for each in fields(LandingSpec)} | {each.name for each in fields(Csv)} <= named | {
        "table",
        "columns",
    }


def test_columns_that_are_not_written_down_are_one_fault_that_names_the_command(folder):
    """At the attribute; and the table that reads the landing is told of it."""
    root = folder({"trips/defs.yaml": WITHOUT, "gold/defs.yaml": READS})
    gold, fault = checked(files_below(root)).faults
    assert (
        fault.message
        == f"columns.yaml is missing: run `dedp infer {root}/trips`, which writes the columns of the files"
    )
    assert "silver/trips cannot be read" in gold.message


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("columns:\n  trip_id: {typ: STRING}\n", 2, "unknown option typ: did you mean type?"),
        ("columns:\n  trip_id: {type: STRNG}\n", 2, "type must be an SQL type, not 'STRNG': did you mean STRING?"),
        ("columns: [", 2, "this is no YAML"),
        ("columns: {}\n", 1, "columns"),
        ("- a\n", 1, "this file must be one mapping with columns"),
        ("colums: {}\n", 1, "unknown option colums: did you mean columns?"),
        ("columns:\n  no: {type: STRING}\n", 2, "the key no must be a text: write it in quotes"),
    ],
)
def test_a_fault_of_the_columns_is_at_its_line_there(folder, text, line, said, capsys):
    """As of the declaration, by the command as well; what depends on it is not blamed."""
    root = folder({"trips/defs.yaml": WITHOUT, "trips/columns.yaml": text})
    faults = [fault for fault in checked(files_below(root)).faults if fault.file.endswith("columns.yaml")]
    assert [fault.line for fault in faults][:1] == [line]
    assert said in faults[0].message
    assert main(["check", str(root)]) == 1
    assert said in capsys.readouterr().out


def test_another_writer_of_a_table_of_the_landing_is_refused(folder):
    """Of its valid records or of its bronze table."""
    other = WITHOUT.replace("table: silver/trips", "table: silver/journeys")
    root = folder({n: t for f, text in {"a": WITHOUT, "b": other}.items() for n, t in {f"{f}/defs.yaml": text, f"{f}/columns.yaml": COLUMNS}.items()})  # fmt: skip # noqa: E501
    (fault,) = checked(files_below(root)).faults
    assert fault.message == f"bronze/trips_landed has two writers: {root}/a/defs.yaml:5 is the other"


def test_the_declaration_decides_on_the_code_version(folder):
    """A rule or a type makes another one, a comment does not; of bronze, the format alone and what dates a record."""

    def versions(text, columns=COLUMNS):
        found = checked(files_below(folder({"trips/defs.yaml": text, "trips/columns.yaml": columns})))
        return {table.spec.name: table.code_version for table in found.tables}

    before = versions(WITHOUT)
    assert versions(WITHOUT.replace("One row per trip.", "A trip."), COLUMNS.replace("identity", "key")) == before
    ruled = versions(WITHOUT.replace("fare >= 0", "fare > 0"))
    assert ruled["bronze/trips_landed"] == before["bronze/trips_landed"]
    assert ruled != before
    other = versions(WITHOUT.replace("delimiter: ;", "delimiter: ','"))
    assert other["bronze/trips_landed"] != before["bronze/trips_landed"]


def test_the_schema_and_the_sample_hold_the_landing(capsys):
    """For `dg`, and for an editor."""
    schema = LandingComponent.get_model_cls().model_json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"table", "about"}  # what a folder or a table needs is a rule of `dedp check`
    assert main(["schema"]) == 0
    assert "LandingComponent" in capsys.readouterr().out
