"""Dead-Letter: the good records go on, the bad ones go aside with a reason and come back after a fix."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import RowCounts
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import StagedWrite
from dedp_assets.patterns.error_management.checkpointer import append_checkpointed
from dedp_assets.patterns.error_management.dead_letter import LETTER, Field, as_letters, divert_unprocessable, route
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.budget(60, "every type of a record, and letters over several runs")

DAY, NEXT = "2026-01-05", "2026-01-06"
READINGS = TableSpec(
    "silver/readings",
    {
        "id": Column("BIGINT", required=True),
        "at": Column("TIMESTAMP"),
        "name": Column("STRING"),
        "version": Column("STRING"),
        "day": Column("DATE", required=True),
        "line": Column("BIGINT", required=True),
        "was_dead_lettered": Column("BOOLEAN"),
    },
    partition_by=("day",),
)
LETTERS = TableSpec(
    "silver/readings_dead_letter",
    {
        "raw": Column("STRING", required=True),
        "day": Column("DATE"),
        "line": Column("BIGINT"),
        **LETTER,
        "filed_under": Column("DATE", required=True),
    },
    partition_by=("filed_under",),
)
LINES = {"line": Column("BIGINT"), "raw": Column("STRING"), "day": Column("DATE")}
SCHEMA = {"id": "BIGINT", "at": Field("TIMESTAMP", event_time=True), "name": "STRING", "version": "STRING"}
IDENTITY = ["day", "line"]
LABEL = {"label is lost": "concat(name, version) IS NOT NULL OR name IS NULL AND version IS NULL"}
RULES = {"id is missing": "id IS NOT NULL OR `id text` IS NOT NULL", **LABEL}
FEW = Audit(name="dead_letters_are_few", of="dead", per="read", warn_above=0, fail_above=0.3)

CORRUPT = {
    3: ('{"id": 3, "at": "2026-01-', "malformed JSON"),
    77: ("  no JSON \tat all, größe ☃ ", "malformed JSON"),
    150: ('{"id": 150, "at": "HELLO"}', "at is not a TIMESTAMP"),
    333: ('{"at":"2026-01-05T10:00:00Z",   "name": null}', "id is missing"),
    500: ('{"version": null, "id": 500, "name": "n\\u00e9"}', "label is lost"),
    640: ('{"id": 640} {"id": 641}', "malformed JSON"),
    999: ("", "blank line"),
}


def good(number):
    return json.dumps({"id": number, "at": f"{DAY}T10:{number % 60:02d}:00Z", "name": "n", "version": "1"})


THOUSAND = {n: CORRUPT[n][0] if n in CORRUPT else good(n) for n in range(1000)}
TEN = {**{n: good(n) for n in range(10)}, 3: "cut {", 7: '{"id": 7, "at": "2026-01-05T10:07:00Z", "name": "n"}'}


def lines(spark, texts, day=DAY):
    return spark.createDataFrame(list(texts.items()), "line BIGINT, raw STRING").selectExpr("*", f"DATE '{day}' AS day")


def diverted(rows, earlier=None, **options):
    chosen = {"payload": "raw", "schema": SCHEMA, "identity": IDENTITY, "rules": RULES, **options}
    return divert_unprocessable(rows, earlier, **chosen)


@pytest.fixture
def step(spark, make_table):
    """One step of a pipeline: convert, split, write both tables."""
    valid, dead = make_table(READINGS), make_table(LETTERS)

    def run(texts, *, day=DAY, rules=RULES, audits=(), filed="filed_under", allow_empty=False, **fields):
        rows = texts if isinstance(texts, DataFrame) else lines(spark, texts, day)
        rows, seen = tally(rows, identity=IDENTITY)
        return route(
            diverted(rows, dead.read() if dead.ledger.exists() else None, rules=rules),
            valid.target(
                a_run(**{"asset": READINGS.name, "inputs": {"bronze": 1}, "sequence": 1, **fields}),
                partition={"day": day},
                audits=audits,
                rows_read=RowsRead(tally=seen),
            ),
            dead.target(
                a_run(**{"asset": READINGS.name, "inputs": {"bronze": 1}, "sequence": 1, **fields}),
                partition={filed: day},
            ),
            allow_empty=allow_empty,
        )

    return SimpleNamespace(run=run, valid=valid, dead=dead)


def ids(table):
    return {row["line"] for row in read_back(table)}


def letters(table):
    return {row["line"]: row for row in read_back(table)}


def still_dead(table):
    return {line for line, letter in letters(table).items() if letter["replayed_by"] is None}


@pytest.mark.both
def test_a_thousand_records_become_993_and_7_by_record_and_stay_so_on_a_rerun(step):
    """Every record is in exactly one table under its own identity, and a rerun doubles none."""
    runs = [{"run_id": "run-1"}, {"run_id": "run-2"}, {"run_id": "run-3", "sequence": 2, "inputs": {"bronze": 2}}]
    results = [step.run(THOUSAND, **run) for run in runs]
    assert [result.rows for result in (results[0], results[2])] == [RowCounts(read=1000, written=993, dead=7)] * 2
    assert [result.applied for result in results] == [True, False, True]
    assert sorted(row["line"] for row in read_back(step.valid)) == sorted(set(THOUSAND) - set(CORRUPT))
    assert sorted(row["line"] for row in read_back(step.dead)) == sorted(CORRUPT)


def test_a_letter_keeps_the_untouched_record_its_reason_and_where_it_came_from(step):
    """The payload is the input byte for byte, and whoever looks into it knows why, when, where and by what."""
    step.run(THOUSAND)
    kept = letters(step.dead)
    assert {line: (row["raw"].encode(), row["reason"]) for line, row in kept.items()} == {
        line: (raw.encode(), reason) for line, (raw, reason) in CORRUPT.items()
    }
    context = {(str(r["day"]), r["job"], r["code_version"], r["run_id"], r["replayed_by"]) for r in kept.values()}
    assert context == {(DAY, READINGS.name, "1", "run-1", None)}
    assert {row["dead_lettered_at"] for row in kept.values()} == {NOW}
    assert {row["status"] for row in kept.values()} == {"open"}


def test_a_letter_has_a_class_a_stage_and_its_event_time(step):
    """The first thing that is wrong names class and stage; a time that can be read is kept, whatever else is broken."""
    result = step.run(THOUSAND)
    kept = {
        line: (row["error_class"], row["error_stage"], row["occurred_at"]) for line, row in letters(step.dead).items()
    }
    assert kept == {
        3: ("malformed JSON", "parse", None),
        77: ("malformed JSON", "parse", None),
        150: ("wrong type", "convert", None),
        333: ("id is missing", "validate", datetime(2026, 1, 5, 10, tzinfo=timezone.utc)),
        500: ("label is lost", "validate", None),
        640: ("malformed JSON", "parse", None),
        999: ("blank line", "parse", None),
    }
    (counted,) = result.beside
    by_class = {name: count for name, count in counted.figures.items() if name.startswith("letters: ")}
    assert by_class == {
        "letters: malformed JSON [records]": 3,
        "letters: blank line [records]": 1,
        "letters: id is missing [records]": 1,
        "letters: label is lost [records]": 1,
        "letters: wrong type [records]": 1,
    }
    assert (counted.figures["open"], result.figures["dead letters [%]"]) == (7, 0.7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "malformed JSON"),
        ("  ", "blank line"),
        ("[1, 2]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ('{"id": 1', "malformed JSON"),
        ('{"id": 1}]', "malformed JSON"),
        ('{"id": 1},{"id": 2}', "more than one JSON value"),
        ('{"id": 1},null] and more', "malformed JSON"),
        ('{"id": "one"}', "id is not a BIGINT"),
        ("{}", "id is missing"),
        ('{"id": "one", "name": "n"}', "id is not a BIGINT; label is lost"),
        ('{"id": 1, "at": null}', None),
        ('{"id": 1, "name": {"nested": true}, "version": 2}', None),
    ],
)
def test_every_broken_rule_is_named_and_a_legitimate_null_breaks_none(spark, text, reason):
    """A record that is one object with fitting or absent values is valid; of any other all reasons are known."""
    rows = diverted(lines(spark, {1: text})).rows.select(OUTCOME, "reason").collect()
    assert [tuple(row) for row in rows] == [("dead" if reason else "valid", reason)]


def test_both_entries_refuse_the_same_fields_by_their_path(spark):
    """A record and the same record as columns, nested ones typed or as text: one verdict, one reason."""
    schema = {"id": "BIGINT", "s": "STRUCT<a: BIGINT>", "tags": "ARRAY<DATE>"}
    record = '{"id": 1.0, "s": {"a": "oops"}, "tags": ["2026-01-05", "2026"]}'
    reason = "id is not a BIGINT; s.a is not a BIGINT; tags[1] is not a DATE"
    options = {"schema": schema, "identity": ["n"]}
    texts = spark.sql(f"SELECT 1 AS n, '{record}' AS raw")
    typed = spark.sql("""SELECT 1 AS n, 1.0D AS id, named_struct('a', 'oops') AS s, '["2026-01-05", "2026"]' AS tags""")
    for split in (divert_unprocessable(texts, payload="raw", **options), divert_unprocessable(typed, **options)):
        (dead,) = split["dead"].collect()
        assert sorted(dead["reason"].split("; ")) == sorted(reason.split("; "))


def test_raw_bytes_that_are_no_text_stay_with_the_letter(spark):
    """A column of the input named as raw comes out unchanged beside the payload, of dead letters only."""
    broken = b'{"id": 2, "name": "\xff"}'
    rows = spark.createDataFrame(
        [(1, '{"id": 1}', None), (2, '{"id": 2}', broken)], "line BIGINT, raw STRING, raw_bytes BINARY"
    )
    split = diverted(rows, identity=["line"], raw=["raw_bytes"], rules={"it's not UTF-8": "raw_bytes IS NULL"})
    assert [(r["line"], bytes(r["raw_bytes"]), r["reason"]) for r in split["dead"].collect()] == [
        (2, broken, "it's not UTF-8")
    ]
    assert [row["line"] for row in split["valid"].collect()] == [1]


def test_error_safe_columns_die_where_an_input_is_there_and_the_output_is_not(spark):
    """Without a payload: one NULL input of a concatenation or a failed cast is a reason, all NULL is not."""
    devices = [
        (1, "phone", "7", "3"),
        (2, "phone", None, "3"),
        (3, None, "7", "3"),
        (4, None, None, "3"),
        (5, "phone", "7", "HELLO"),
        (6, "phone", "7", None),
    ]
    rows = spark.createDataFrame(devices, "n INT, name STRING, version STRING, sold STRING")
    schema = {"name": "STRING", "version": "STRING", "sold": "INT"}
    split = divert_unprocessable(rows, schema=schema, identity=["n"], rules=LABEL)
    assert sorted(tuple(r) for r in split["valid"].select("n", "name", "version", "sold").collect()) == [
        (1, "phone", "7", 3),
        (4, None, None, 3),
        (6, "phone", "7", None),
    ]
    dead = {row["n"]: row for row in split["dead"].collect()}
    assert {n: row["reason"] for n, row in dead.items()} == {
        2: "label is lost",
        3: "label is lost",
        5: "sold is not a INT",
    }
    assert json.loads(dead[5]["raw"]) == {"n": 5, "name": "phone", "version": "7", "sold": "HELLO"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"payload": "nothing"}, "no column nothing"),
        ({"carry": ["nowhere"]}, "no column nowhere"),
        ({"identity": []}, "must each name a column"),
        ({"schema": {}}, "must each name a column"),
        ({"schema": {"line": "BIGINT"}}, "no column that is handed on"),
        ({"schema": {"id": "nope"}}, "schema must give id an SQL type, not 'nope'"),
        ({"schema": {"id": "INT, b INT"}}, "schema must give id an SQL type, not 'INT, b INT'"),
        ({"schema": {"": "INT"}}, "schema must give each column a name"),
        (
            {"schema": dict.fromkeys("ab", Field("TIMESTAMP", event_time=True))},
            "schema must have one event_time, not a, b",
        ),
        ({"identity": "line"}, "identity must be a list of texts, not 'line'"),
    ],
)
def test_options_that_can_never_work_are_refused(spark, options, words):
    """A missing column, no identity, or one column twice is a mistake in the call."""
    with pytest.raises(ConfigError, match=words):
        diverted(lines(spark, TEN), **options)


def test_a_column_called_raw_is_refused_where_the_record_itself_is_kept_under_that_name(spark):
    """Without a payload the letter's column raw must not overwrite a column of the schema."""
    rows = spark.createDataFrame([(1, "text")], "n INT, raw STRING")
    with pytest.raises(ConfigError, match="no column that is handed on"):
        divert_unprocessable(rows, schema={"raw": "STRING"}, identity=["n"])


@pytest.mark.parametrize("name", ["Reason", "error_class", "occurred_at", "was_dead_lettered", "raw", "__dedp_outcome"])
def test_a_column_that_would_be_overwritten_is_refused(spark, name):
    """Whether the rows bring it or the schema names it: nothing is replaced without a word."""
    rows = spark.sql(f"SELECT 1 AS line, 2 AS id, 'x' AS `{name}`")
    with pytest.raises(ConfigError, match=f"column {name}"):
        divert_unprocessable(rows, schema={"id": "BIGINT"}, identity=["line"])
    if name != "__dedp_outcome":
        with pytest.raises(ConfigError, match=f"no column that is handed on: .*{name}"):
            divert_unprocessable(rows, schema={"id": "BIGINT", name: "STRING"}, identity=["line"])


def test_records_are_converted_once_for_both_tables(step, spark):
    """Rows judged by chance fall apart if each part is computed for itself, and never do in a routed split."""
    chance = "concat('{\"id\": ', if(pmod(hash(reflect('java.util.UUID', 'randomUUID')), 2) = 0, '1}', 'x}')) AS raw"
    rows = spark.range(500).selectExpr("id AS line", chance, f"DATE '{DAY}' AS day")
    apart = diverted(rows)
    twice = [row["line"] for part in ("valid", "dead") for row in apart[part].collect()]
    assert sorted(twice) != list(range(500))
    step.run(rows)
    assert sorted([*ids(step.valid), *ids(step.dead)]) == list(range(500))
    assert {row["raw"] for row in read_back(step.dead)} == {'{"id": x}'}


def test_letters_of_other_partitions_stay(step):
    """A run replaces the dead letters of its own partition and of no other, unlike a plain overwrite."""
    step.run(TEN)
    step.run({1: good(1), 2: "broken"}, day=NEXT)
    step.run({**TEN, 5: "broken, too"}, sequence=2, inputs={"bronze": 2})
    filed = [(str(row["filed_under"]), row["line"]) for row in read_back(step.dead)]
    assert sorted(filed) == [(DAY, 3), (DAY, 5), (DAY, 7), (NEXT, 2)]


def test_a_letter_whose_record_left_the_input_does_not_claim_to_be_processed(step):
    """What was delivered again without the broken record has no letter that says some code could process it."""
    step.run(TEN)
    step.run({n: text for n, text in TEN.items() if n != 3}, sequence=2, inputs={"bronze": 2})
    assert [row["line"] for row in read_back(step.dead) if row["replayed_by"] is not None] == []


def test_letters_are_found_however_their_partition_is_capitalised(step):
    """Their history stays: what was processed since, and when each was refused first."""
    step.run(TEN)
    later = datetime(2026, 1, 9, tzinfo=timezone.utc)
    fixed = {rule: sql for rule, sql in RULES.items() if rule != "label is lost"}
    step.run(TEN, rules=fixed, filed="FILED_UNDER", code_version="2", run_id="run-2", cause="replay", at=later)
    kept = letters(step.dead)
    assert {line: row["status"] for line, row in kept.items()} == {3: "open", 7: "replayed"}
    assert {row["dead_lettered_at"] for row in kept.values()} == {NOW}


def test_a_replay_after_a_fix_saves_exactly_the_fixed_records_and_only_once(step):
    """They reach their own partition marked; their letters stay as history; a second replay adds nothing."""
    step.run(THOUSAND)
    fixed = {rule: sql for rule, sql in RULES.items() if rule != "label is lost"}
    replayed = step.run(THOUSAND, rules=fixed, code_version="2", run_id="run-2", at=None, cause="replay")
    assert replayed.rows == RowCounts(read=1000, written=994, dead=6)
    rows = read_back(step.valid)
    assert {row["line"] for row in rows if row["was_dead_lettered"]} == {500}
    assert {str(row["day"]) for row in rows} == {DAY}
    kept = letters(step.dead)
    assert {line for line, row in kept.items() if row["replayed_by"] == "2"} == {500}
    assert still_dead(step.dead) == set(CORRUPT) - {500}
    assert {row["code_version"] for line, row in kept.items() if line != 500} == {"2"}
    assert {row["dead_lettered_at"] for row in kept.values()} == {NOW}
    again = step.run(THOUSAND, rules=fixed, code_version="2", run_id="run-3", cause="replay")
    assert (again.applied, read_back(step.valid), letters(step.dead)) == (False, rows, kept)


def test_a_record_that_breaks_again_is_a_dead_letter_again(step):
    """A fix that is taken back leaves no letter that says it was saved."""
    step.run(TEN)
    step.run(TEN, rules={}, code_version="2")
    assert still_dead(step.dead) == {3}
    step.run(TEN, code_version="3")
    assert still_dead(step.dead) == {3, 7}
    assert ids(step.valid) == set(range(10)) - {3, 7}


def test_a_replay_changes_its_own_partition_in_order_and_notes_what_is_still_open(step):
    """One changed partition, each replayed event at its own time among the others; the ledger says how many wait."""
    step.run(TEN)
    step.run({1: good(1)}, day=NEXT)
    before = step.valid.ledger.version()
    step.run(TEN, rules={}, code_version="2", cause="replay")
    _, changed = step.valid.ledger.changes(since=before)
    assert [dict(key) for key in changed] == [{"day": DAY}]
    of_day = {row["line"]: row for row in read_back(step.valid) if str(row["day"]) == DAY}
    times = {line: f"{row['at']:%Y-%m-%dT%H:%M:%S}" for line, row in of_day.items()}
    assert times == {n: f"{DAY}T10:{n:02d}:00" for n in range(10) if n != 3}
    assert {line for line, row in of_day.items() if row["was_dead_lettered"]} == {7}
    noted = step.dead.ledger.latest({"filed_under": DAY}).record
    assert (noted.figures["open"], noted.figures["replayed"], noted.code_version, noted.pattern) == (
        1,
        1,
        "2",
        "error_management.dead_letter",
    )


def test_too_many_dead_letters_stop_the_step_before_either_table_changes(step):
    """A share above the bound, up to a bug that hits every record, publishes nothing good and nothing bad."""
    step.run(TEN)
    tables = (step.valid, step.dead)
    before = [(table.ledger.version(), read_back(table)) for table in tables]
    for texts, rules in (({**TEN, 1: "x", 2: "x"}, RULES), (TEN, {"code has a bug": "false"})):
        with pytest.raises(AuditFailed, match="dead_letters_are_few"):
            step.run(texts, rules=rules, audits=[FEW], sequence=2, inputs={"bronze": 2})
        assert [(table.ledger.version(), read_back(table)) for table in tables] == before


@pytest.mark.parametrize("texts", [{}, {7: TEN[7]}], ids=["nothing", "nothing valid"])
def test_no_valid_record_empties_a_partition_only_where_it_may(step, texts):
    """A source that delivers nothing, or nothing but noise, is usually broken; both tables stay as they are."""
    step.run(TEN)
    before = (ids(step.valid), ids(step.dead))
    later = {"inputs": {"bronze": 2}, "sequence": 2}
    with pytest.raises(AuditFailed, match=r"input_is_not_empty: below 1 \(written=0\)"):
        step.run(texts, **later)
    assert (ids(step.valid), ids(step.dead)) == before
    step.run(texts, allow_empty=True, **later)
    assert (ids(step.valid), ids(step.dead)) == (set(), set(texts))


def test_few_dead_letters_are_a_warning(step):
    """Below the bound both parts are published and the ledger says that there was something."""
    result = step.run(TEN, audits=[FEW])
    found = {finding.name: finding for finding in result.findings}["dead_letters_are_few"]
    assert (found.passed, found.severity, found.figures["ratio"]) == (False, "warn", 0.2)
    assert step.valid.ledger.latest({"day": DAY}).record.verdict == "warned"
    assert (len(ids(step.valid)), ids(step.dead)) == (8, {3, 7})


@pytest.mark.parametrize(
    ("name", "committed"),
    [(LETTERS.name, False), (READINGS.name, False), (READINGS.name, True)],
    ids=["before the letters", "between letters and valid rows", "after the valid rows"],
)
def test_a_crash_around_a_publish_loses_nothing_and_a_rerun_completes_it(step, monkeypatch, name, committed):
    """No valid row shows without its partition's letters, and the rerun ends like an undisturbed run."""
    publish = StagedWrite.publish

    def crashing(self, **options):
        if self.table.name == name:
            monkeypatch.setattr(StagedWrite, "publish", publish)
            if committed:
                publish(self, **options)
            raise RuntimeError("power cut")
        return publish(self, **options)

    monkeypatch.setattr(StagedWrite, "publish", crashing)
    with pytest.raises(RuntimeError, match="power cut"):
        step.run(TEN)
    assert not ids(step.valid) or ids(step.dead) == {3, 7}
    step.run(TEN)
    assert sorted(row["line"] for row in read_back(step.valid)) == sorted(set(TEN) - {3, 7})
    assert [row["line"] for row in read_back(step.dead)] == [3, 7]


def test_there_are_as_many_letters_as_records_whatever_their_identity(step, spark):
    """Identities that repeat, or are NULL, double nothing; a rerun changes nothing, and a fix saves the right ones."""
    made = [(1, good(1)), (1, "cut {"), (1, "cut ["), (1, "cut {"), (2, TEN[7]), (2, TEN[7]), (None, "x"), (None, "x")]

    def run(rules=RULES, **options):
        found = spark.createDataFrame(made, "line BIGINT, raw STRING").selectExpr("*", f"DATE '{DAY}' AS day")
        rows, seen = tally(found, identity=IDENTITY)
        split = diverted(rows, step.dead.read() if step.dead.ledger.exists() else None, rules=rules)
        return route(
            split,
            step.valid.target(
                a_run(**{"asset": READINGS.name, "inputs": {"bronze": 1}, "sequence": 1, **options}),
                partition={"day": DAY},
                rows_read=RowsRead(tally=seen),
            ),
            step.dead.target(
                a_run(**{"asset": READINGS.name, "inputs": {"bronze": 1}, "sequence": 1, **options}),
                partition={"filed_under": DAY},
            ),
        )

    dead = sorted(text for _, text in made if text != good(1))
    for number in (1, 2, 3):
        run(inputs={"bronze": number}, sequence=number)
        assert sorted(row["raw"] for row in read_back(step.dead)) == dead
        assert [(row["line"], row["was_dead_lettered"]) for row in read_back(step.valid)] == [(1, False)]
    for number in (4, 5):
        run(inputs={"bronze": number}, sequence=number, rules={}, code_version="2")
        kept = read_back(step.dead)
        assert sorted(row["raw"] for row in kept) == dead
        assert sorted(row["raw"] for row in kept if row["replayed_by"]) == [TEN[7]] * 2
        assert {row["dead_lettered_at"] for row in kept} == {NOW}
        assert [row["was_dead_lettered"] for row in read_back(step.valid)] == [False, True, True]


@pytest.mark.promise("a-transient-error-puts-nothing")
def test_a_transient_error_puts_nothing_into_the_dead_letters(step, spark):
    """A source that fails while it is read fails the write; the retry finds every record."""
    timeout = "if(line = 5, raise_error('read timed out'), raw) AS raw"
    flaky = lines(spark, TEN).selectExpr("line", "day", timeout)
    with pytest.raises(PySparkException, match="read timed out"):
        step.run(flaky)
    assert not step.dead.ledger.exists() or read_back(step.dead) == []
    assert read_back(step.valid) == []
    step.run(TEN)
    assert (len(ids(step.valid)), ids(step.dead)) == (8, {3, 7})


def test_letters_of_a_stream_are_appended_and_counted_like_all_others(spark, make_table, tmp_path):
    """Open, with the job that refused them, and counted in the figures of each micro-batch."""
    source, dead = make_table(replace(READINGS, columns=LINES, partition_by=())), make_table(LETTERS)
    for number, text in enumerate(("cut {", "[1]"), 1):
        source.append(lines(spark, {number: text, 9 * number: good(9)}), provenance=a_run(sequence=number))
        found = diverted(source.stream())["dead"].withColumn("filed_under", F.expr("day"))
        run = a_run(asset=READINGS.name)
        append_checkpointed(
            as_letters(found, run).select(*LETTERS.columns), dead.target(run), checkpoint=str(tmp_path / "c")
        )
    assert sorted((row["raw"], row["status"], row["job"]) for row in read_back(dead)) == [
        ("[1]", "open", READINGS.name),
        ("cut {", "open", READINGS.name),
    ]
    assert [c.record.figures["open"] for c in dead.ledger.newest_first() if c.record and c.record.rows] == [1, 1]


@any_names(handed_on=("user",))
def diverted_lines(n):
    texts = json.dumps({n("amount"): 7}), json.dumps({n("amount"): "seven"}), "{"
    rows = n.frame("id INT, line STRING, user STRING", *[(i, text, "u") for i, text in enumerate(texts)])
    options = {"payload": n("line"), "identity": n.all("id"), "carry": n.all("user"), "schema": {n("amount"): "BIGINT"}}
    split = divert_unprocessable(rows, rows.limit(2), rules={"none": f"{n.q('amount')} > 0"}, **options)
    yield split["valid"]
    yield split["dead"].drop(n("line"), "reason")


@any_names(read_as_json=("list",))
def diverted_columns(n):
    lines = [(1, "7", "[1]", "2026-01-05 10:00:00"), (2, "x", "[y]", None)]
    rows = n.frame("id INT, amount STRING, list STRING, at STRING", *lines)
    schema = {n("amount"): "INT", n("list"): "ARRAY<INT>", n("at"): Field("TIMESTAMP", event_time=True)}
    split = divert_unprocessable(rows, schema=schema, identity=n.all("id"))
    yield split["valid"]
    yield split["dead"].drop("raw", "reason")


@any_names(STORED, handed_on=("note",))
def filed(n):
    valid = n.table(
        "amount INT, id INT, note STRING, day STRING", more={"was_dead_lettered": Column("BOOLEAN")}, by=["day"]
    )
    dead = n.table("line STRING, id INT, note STRING, filed STRING", more=LETTER, by=["filed"])
    options = {"payload": n("line"), "identity": n.all("id"), "schema": {n.declared("amount"): "INT"}}
    options["carry"] = n.all("note")
    for number, text in enumerate(("{", "{}")):
        rows = n.frame("id INT, line STRING, note STRING", (1, "{}", "x"), (2, text, "y"), (3, "[", "z"))
        split = divert_unprocessable(rows, dead.read() if number else None, **options)
        parts = {**split.parts, "valid": (*split.parts["valid"], n.declared("day"))}
        dated = replace(split, rows=split.rows.withColumn(n.declared("day"), F.lit("a/b")), parts=parts)
        run = a_run(at=NOW, sequence=number)
        into, letters = valid.target(run, partition={n("day"): "a/b"}), dead.target(run, partition={n("filed"): "c d"})
        route(dated, into, letters)
    yield valid
    yield dead


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ("a STRING, b INT, `a text` STRING", {"carry": ["a text"]}),
        ("a STRING, b INT, `a text` STRING", {"schema": {"a": "INT", "a text": "STRING"}}),
        ("a STRING, b INT", {"raw": ["b"]}),
        ("a STRING, b INT", {"schema": {"__dedp_misfits": "INT"}, "payload": "a"}),
    ],
)
def test_a_column_that_is_called_as_one_that_is_added_is_refused(spark, columns, options):
    """What a step adds would take the place of the user's own column: the refusal names it, and no row is wrong."""
    with pytest.raises(ConfigError, match=r"a text|\['b'\]|__dedp_"):
        divert_unprocessable(
            spark.createDataFrame([], columns), **{"schema": {"a": "INT"}, "identity": ["b"], **options}
        )


@pytest.mark.parametrize("name", ["contents", "key_contents"])
def test_a_dead_letter_is_found_again_whatever_its_identity_is_called(spark, name):
    """The names by which letters are looked up are no names of columns that are added on the way."""
    lines = spark.createDataFrame([(1, '{"x": 1}')], f"{name} INT, line STRING")
    split = divert_unprocessable(lines, lines, payload="line", schema={"x": "INT"}, identity=[name])
    assert [row["was_dead_lettered"] for row in split["valid"].collect()] == [True]


def typed(lines, earlier=None, **rules):
    """The rows of lines ``n INT, raw STRING, day STRING``, and the letters of the lines that are none."""
    options = {"payload": "raw", "schema": {"id": "BIGINT"}, "identity": ["n"], "carry": ["day"]}
    return divert_unprocessable(lines, earlier, rules=rules, **options)


def routed(known, layer):
    """The arguments of a call that routes a split to its tables in a layer."""
    split = typed(known.frame("n INT, raw STRING, day STRING", (1, "{}", "mon")))
    valid = known.table(f"{layer}/valid", "id BIGINT, n INT!, was_dead_lettered BOOLEAN, day STRING", by=("day",))
    letters = {"raw": Column("STRING"), "n": Column("INT"), **LETTER, "day": Column("STRING")}
    dead, monday = known.table(f"{layer}/dead", letters, by=("day",)), {"day": "mon"}
    return {
        "split": split,
        "into": valid.target(known.run, partition=monday),
        "dead": dead.target(known.run, partition=monday),
    }


@known_calls
def calls_that_work(known):
    routing = routed(known, "silver")
    return {
        "as_letters": {"dead": routing["split"]["dead"], "run": known.run},
        "divert_unprocessable": {
            "rows": known.visits,
            "earlier": None,
            "schema": {"page": "STRING", "at": Field("TIMESTAMP", lenient=True, event_time=True)},
            "identity": ["id"],
            "payload": "",
            "carry": ["day"],
            "raw": [],
            "rules": {"has_a_page": "page IS NOT NULL"},
        },
        "route": routing,
    }


def filing(world):
    """Tables of rows and letters with those of a run, the targets of another one, and how it delivers lines."""
    valid = {"was_dead_lettered": Column("BOOLEAN")}
    world.table("valid", "id BIGINT, n INT!, day STRING", more=valid, by=["day"])
    world.table("dead", "raw STRING, n INT, day STRING", more=LETTER, by=["day"])

    def targets(w, name):
        return [w[table].target(w.run(name, at=NOW), partition={"day": "mon"}) for table in ("valid", "dead")]

    def deliver(w, name, *lines, **rules):
        known = w["dead"].read({"day": "mon"}) if w["dead"].ledger.exists() else None
        route(typed(w.frame("n INT, raw STRING, day STRING", *lines), known, **rules), *targets(w, name))

    deliver(world, "base", (1, '{"id": 7}', "mon"), (2, '{"id": -1}', "mon"), positive="id > 0")
    return targets, deliver


@two_runs()
def filed_at_once(world):
    _, deliver = filing(world)
    yield lambda w: deliver(w, "1", (1, '{"id": 9}', "mon"), (4, "[", "mon"))
    yield lambda w: deliver(w, "2", (1, '{"id": 8}', "mon"), (3, "{", "mon"), positive="id > 0")
