"""What a stranger meets first: unusual locations, declarations, rules and rows work, or are refused in one sentence."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Ledger, Merge, Table, store_at
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate, deduplicate_stream
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.ingestion.incremental_loader import load_increment, load_partition
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish, require_pass
from tests.helpers import EVENTS, a_run, read_back, write_log

DAY = {"event_date": "2026-01-05"}
PLAIN = TableSpec("silver/plain", {"id": Column("BIGINT"), "note": Column("STRING")})


def nobody():
    """A session that must not be asked for."""
    pytest.fail("Spark was started")


def refused(call, *words, error=ConfigError):
    """The one sentence of the refusal, which names what is wrong."""
    with pytest.raises(error) as met:
        call()
    assert "\n" not in str(met.value)
    for word in words:
        assert word in str(met.value)


# --- where a table lies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["gs://bucket/t", "abfss://c@a/t", "hdfs://n:1/t", "file://host/lake/t", "dbfs:/t", Path("gs://b/t")],
)
def test_an_address_is_no_location(address):
    """Nothing is written into a folder that happens to be called ``gs:``."""
    for use in (lambda: Table(EVENTS, address, nobody), lambda: Ledger(address)):
        refused(use, "is an address", str(address)[:5])


@pytest.mark.parametrize("name", ["a%20b", "50%", "[x]", "{a,b}", "a*", "a?", "a\\b", "a`b", "a:b", "a\nb", "a\x00b"])
@pytest.mark.parametrize("below", ["", "t"])
def test_characters_that_engines_read_in_their_own_way_are_refused(tmp_path, name, below):
    """In the folder's name and in that of a folder above."""
    odd = next(c for c in name if c in "%[{*?\\`:\n\x00")
    refused(lambda: Table(EVENTS, tmp_path / name / below, nobody), repr(odd))
    assert list(tmp_path.iterdir()) == []


def test_every_spelling_of_a_folder_is_one_location(tmp_path, monkeypatch):
    """Path or URI, relative, with a slash or dots, by a link above it; a link that is the table itself stays one."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    (tmp_path / "lake" / "shown").symlink_to(tmp_path / "lake" / "t")
    monkeypatch.chdir(tmp_path)
    paths = ("lake/t", "lake/t/", "./lake//t", "lake/../lake/t", "link/t", Path("lake") / "t")
    uris = [f"{scheme}{tmp_path}/l%61ke/t" for scheme in ("file://", "file:", "FILE://localhost")]
    for spelling in (*paths, *uris, f"file://{tmp_path}/link/t/", Path(f"file://{tmp_path}") / "lake" / "t"):
        table = Table(EVENTS, spelling, nobody)
        assert (table.location, table.store.uri) == (tmp_path / "lake" / "t", f"file://{tmp_path}/lake/t")
    assert Ledger("lake/shown").location == tmp_path / "lake" / "shown"
    monkeypatch.chdir("lake")
    assert store_at("t").address == str(tmp_path / "lake" / "t")
    refused(lambda: store_at("/"), "'/'")


def test_a_folder_with_other_files_becomes_no_table(tmp_path):
    """A folder of Parquet, a file, or a parent that cannot be one; what lies there stays."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "part-0.parquet").write_bytes(b"PAR1")
    refused(Table(EVENTS, tmp_path / "old", nobody).ensure, "silver/events", "part-0.parquet", "no Delta log")
    (tmp_path / "file").write_text("x")
    refused(Table(EVENTS, tmp_path / "file", nobody).ensure, "silver/events", "is a file")
    refused(Table(EVENTS, tmp_path / "file" / "t", nobody).ensure, "cannot be written", str(tmp_path / "file"))
    refused(Table(EVENTS, "/proc/nowhere/t", nobody).ensure, "cannot be written", "/proc/nowhere")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "old", "part-0.parquet"]


# --- what a table declares --------------------------------------------------------------------------------------------


ID = {"id": Column("BIGINT")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("", ID), ["''"]),
        (("../elsewhere", ID), ["../elsewhere"]),
        (("silver//t", ID), ["silver//t"]),
        (("/silver/t", ID), ["/silver/t"]),
        (("s/t", {"id": Column("INT"), "ID": Column("INT")}), ["'id'", "'ID'", "case"]),
        (("s/t", {**ID, "day": Column("DATE")}, ("day", "day")), ["partition columns", "'day'"]),
        (("s/t", {"day": Column("DATE")}, ("day",)), ["all its columns"]),
        (("s/t", {**ID, "day": Column("DATE")}, ("id", "day")), ["all its columns"]),
        (("s/t", ID, (), {"ok": "id > 0", "OK": "id > 1"}), ["'ok'", "'OK'"]),
        (("s/t", ID, (), {}, "", "", {"delta.appendOnly": True}), ["delta.appendOnly", "True"]),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(arguments, words):
    """At once, and without Spark."""
    refused(lambda: TableSpec(*arguments), *words)


ODD = """it's "quoted", C:\\new\\temp `x` 50% {y} $z
and a second line; DROP -- 😀 ü"""


@pytest.mark.both
def test_odd_text_and_odd_folders_arrive_as_they_are(spark, tmp_path):
    """Properties and comments as declared, so that nothing is altered again; files where the name says."""
    spec = replace(
        PLAIN,
        columns={"id": Column("BIGINT", ODD), "note": Column("STRING", "'")},
        comment=ODD,
        properties={'owner\'s "note"': ODD, "back\\slash": "\\", "empty": ""},
    )
    table = Table(spec, tmp_path / "Ünü (1) 'q' #+&;=@~$!^,é🎉" / "day=1", spark)
    created = table.ensure()
    metadata = DeltaTable(table.location).metadata()
    assert metadata.description == ODD
    assert {key: metadata.configuration[key] for key in spec.properties} == dict(spec.properties)
    fields = DeltaTable(table.location).schema().fields
    assert [field.metadata["comment"] for field in fields] == [ODD, "'"]
    assert Table(spec, table.location, spark).ensure().version == created.version
    changed = Table(replace(spec, properties={**spec.properties, "new": ODD}), table.location, spark)
    assert changed.ensure().properties["new"] == ODD
    rows = spark.range(3).selectExpr("id", "'x' AS note")
    staged = table.stage(rows, provenance=a_run(sequence=1))
    assert staged.stage.read().count() == 3
    staged.publish()
    table.append(rows, provenance=a_run(sequence=2))
    assert table.read().count() == spark.read.format("delta").load(str(table.location)).count() == 6
    assert [row["id"] for row in read_back(table)] == [0, 0, 1, 1, 2, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["Ünü (1) 'q' #+&;=@~$!^,é🎉"]


@pytest.mark.both
def test_what_spark_cannot_evaluate_is_named_before_there_is_a_table(spark, tmp_path):
    """A constraint, a type, a property, no columns at all; and of a table that is there, a new constraint."""
    cases = {
        "constraint sums_up": replace(PLAIN, checks={"is_fine": "id > 0", "sums_up": "nothing > 0"}),
        "constraint half": replace(PLAIN, checks={"half": "id >"}),
        "constraint number": replace(PLAIN, checks={"number": "id + 1"}),
        "columns": TableSpec("silver/plain", {"id": Column("BIGINTEGER")}),
        "declares no columns": TableSpec("silver/plain", {}),
        "delta.nonsense": replace(PLAIN, properties={"delta.nonsense": "1"}),
    }
    for words, spec in cases.items():
        refused(Table(spec, tmp_path / "t", spark).ensure, "silver/plain", words)
        assert not (tmp_path / "t").exists(), words
    table = Table(PLAIN, tmp_path / "t", spark)
    table.append(spark.sql("SELECT 1L AS id, 'x' AS note"), provenance=a_run(sequence=1))
    before = table.ledger.version()
    later = Table(replace(PLAIN, checks={"fine": "id > 0", "sums_up": "nothing > 0"}), table.location, spark)
    refused(later.ensure, "constraint sums_up")
    broken = Table(replace(PLAIN, checks={"large": "id > 1"}), table.location, spark)
    refused(broken.ensure, "silver/plain", "CHECK constraint", error=ContractError)
    assert table.ledger.version() == before


# --- what is judged ---------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_an_audit_that_is_no_number_or_cannot_be_evaluated_is_named(spark, created_events, event_rows):
    """Whatever is wrong with its SQL, and among others that are right; nothing is left beside the table."""
    fine = Audit.none_where("ids_are_positive", "id < 0")

    def write(sql: str) -> None:
        audit = Audit(name="largest_is_plausible", sql=sql, fail_above=3)
        created_events.overwrite(event_rows(2), partition=DAY, provenance=a_run(), audits=[fine, audit])

    for sql in ("max(user_id)", "max(event_date)", "collect_list(id)", "struct(max(id))"):
        refused(partial(write, sql), "audit largest_is_plausible", "number")
    for sql in ("max(nothing)", "max(", "id", "count(DISTINCT id)", "max(id) OVER ()"):
        refused(partial(write, sql), "largest_is_plausible")
    assert sorted(path.name for path in created_events.location.iterdir()) == ["_delta_log"]
    for sql in ("max(id > 0)", "sum(CAST(id AS DECIMAL(9, 2)))", "avg(id)"):
        audit = Audit(name="a_number", sql=sql, fail_above=3)
        staged = created_events.stage(event_rows(2), partition=DAY, provenance=a_run(), audits=[audit])
        assert staged.findings[-1].passed
        staged.stage.discard()


def test_asked_for_no_partition_a_gate_does_not_open(tmp_path):
    """It says what to name."""
    write_log(tmp_path / "t", {"id": "long"}, [], [])
    refused(lambda: require_pass(Ledger(tmp_path / "t", name="silver/t"), version=0), "silver/t", "no partition")


# --- what is handed over ----------------------------------------------------------------------------------------------


def writes(rows, table):
    """Every function that writes rows."""
    run = a_run(sequence=1)
    day = table.target(run, partition=DAY)
    ready = Plan(("event_date=2026-01-05",), "its marker is there")
    return {
        "overwrite": lambda: table.overwrite(rows, provenance=run),
        "append": lambda: table.append(rows, provenance=run),
        "merge": lambda: table.merge(rows, Merge(["id"], [Insert()]), provenance=run),
        "overwrite_partition": lambda: overwrite_partition(rows, day),
        "audited": lambda: audit_write_audit_publish(rows, day),
        "load_full": lambda: load_full(rows, table.target(run)),
        "load_increment": lambda: load_increment(rows, day, delta="id", window=(0, 1), keys=["id"]),
        "load_partition": lambda: load_partition(rows, day, ready=ready),
    }


def transforms(rows):
    """Every function that takes rows and gives rows."""
    return {
        "divert": lambda: divert_unprocessable(rows, schema={"id": "BIGINT"}, identity=["n"]),
        "deduplicate": lambda: deduplicate(rows, keys=["id"], order_by=["id"]),
        "deduplicate_stream": lambda: deduplicate_stream(rows, keys=["id"], event_time="at", window="1 day"),
        "late": lambda: detect_late_data(rows, event_time="at", watermark=None),
    }


@pytest.mark.parametrize("rows", [pd.DataFrame({"id": [1]}), [{"id": 1}], None], ids=["pandas", "list", "none"])
def test_what_is_no_spark_frame_is_refused_by_every_pattern(rows, tmp_path):
    """In one sentence that says what to do, and before a table is made for it."""
    table = Table(EVENTS, tmp_path / "t", nobody)
    for call in (*writes(rows, table).values(), *transforms(rows).values()):
        refused(call, "Spark DataFrame", type(rows).__name__, "createDataFrame")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.both
def test_a_stream_is_no_batch(spark, tmp_path):
    """Every write says so, before a table is made for it."""
    stream = spark.readStream.format("rate").load().selectExpr("value AS id")
    for call in (*writes(stream, Table(EVENTS, tmp_path / "t", spark)).values(), transforms(stream)["deduplicate"]):
        refused(call, "stream")
    assert list(tmp_path.iterdir()) == []


# --- tables that only grow --------------------------------------------------------------------------------------------


def test_an_append_only_table_says_that_it_is_one(spark, make_table):
    """Rows of it are appended, also by an overwrite where there are none; none are replaced, and a retry is a retry."""
    table = make_table(replace(PLAIN, properties={"delta.appendOnly": "true"}))
    rows = spark.range(2).selectExpr("id", "'x' AS note").coalesce(1)
    first = table.overwrite(rows, provenance=a_run(sequence=1))
    table.append(rows.selectExpr("id + 10 AS id", "note"), provenance=a_run(sequence=2))
    expected = [0, 1, 10, 11]
    other = rows.filter("id = 0")
    refused(lambda: table.overwrite(other, provenance=a_run(sequence=3)), "silver/plain", "append-only")
    refused(lambda: table.clear(partition={}, provenance=a_run(sequence=4)), "silver/plain", "append-only")
    refused(lambda: table.restore(first.version, provenance=a_run(sequence=5)), "silver/plain", "append-only")
    assert sorted(row["id"] for row in read_back(table)) == expected
    staged = {Path(os.path.relpath(file, table.location)).parts[0] for file in DeltaTable(table.location).file_uris()}
    assert {path.name for path in table.location.iterdir()} == {"_delta_log", *staged}
