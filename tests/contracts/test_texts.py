"""Texts of users stay texts: references to settings, markers, comments, quotes are never interpreted."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import Insert, Merge, Table, Update
from dedp_assets.patterns.error_management.dead_letter import LETTER, divert_unprocessable, route
from dedp_assets.patterns.error_management.filter_interceptor import filter_measures, intercept_filters
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.value.metadata_decorator import TECHNICAL_KEYS, decorate
from tests.helpers import a_run, read_back

spark_test = pytest.mark.spark

REFERENCES = (
    "${env:HOME}",
    "${spark.app.name}",
    "${x}",
    "${system:user.dir}",
    "a ${env:PATH} b",
    "${",
    "$${env:HOME}}",
)
ODD = (
    *REFERENCES,
    "{}",
    "{x}",
    "{{s}}",
    "%s %(a)s",
    ":a",
    "?",
    "\\",
    "\\\\",
    "\\'",
    "\\u0024{env:HOME}",
    "\\0",
    "--",
    "/* x */",
    "'; DROP TABLE t; --",
    "`",
    '"',
    "''",
    "a\nb\r\tc",
    "\u2019\u201c\u201d",
    "\U0001f600é",
    " blank ",
    "$",
    "%25",
    "x" * 150,
)
HALF = "a\ud800"
PLACES = TableSpec(
    "silver/places",
    {"id": Column("INT", "identity"), "city": Column("STRING", "where"), "note": Column("STRING", "free")},
    partition_by=("city",),
)


@spark_test
@pytest.mark.both
def test_every_text_is_its_own_literal(spark):
    """A literal reads back as the text it was made of, alone and among others, NUL included."""
    texts = [*ODD, "a\0b", *[one + other for one in ODD for other in REFERENCES]]
    told = spark.range(1).select(F.expr(f"array({', '.join(map(quoted, texts))})")).collect()[0][0]
    assert list(told) == texts


def test_a_text_of_half_a_character_is_refused():
    """By one sentence, and not by the encoder of the connection to Spark."""
    with pytest.raises(ConfigError, match=r"whole characters, not .* U\+D800"):
        quoted(HALF)
    with pytest.raises(ConfigError, match=r"a name of whole characters"):
        identifier(HALF)


@pytest.mark.parametrize("name", [text for text in REFERENCES if "${" in text])
def test_a_column_with_a_reference_in_its_name_is_refused(name):
    """Where a name becomes SQL, and in a declaration, a field inside of a type included."""
    with pytest.raises(ConfigError, match="a column must have a name without"):
        identifier(name)
    with pytest.raises(ConfigError, match="a column must have a name without"):
        TableSpec("t", {"id": Column("INT", ""), name: Column("INT", "")})
    with pytest.raises(ConfigError, match="must have names without"):
        TableSpec("t", {"id": Column(f"STRUCT<`{name}`: INT>", "")})


@spark_test
def test_partitions_of_any_value_are_written_read_and_replaced_as_that_value(spark, make_table):
    """Written twice, each holds its row once, and nobody else's: also the values that references would become."""
    cities = [*ODD, "/root", "x"]
    table = make_table(PLACES)
    everything = spark.createDataFrame(
        [(n, city, city) for n, city in enumerate(cities)], "id INT, city STRING, note STRING"
    )
    table.overwrite(everything, provenance=a_run())
    some = [0, len(cities) - 2]
    for attempt in (1, 2):
        for n in some:
            rows = everything.filter(f"id = {n}").withColumn("note", F.lit(f"attempt {attempt}"))
            overwrite_partition(rows, table.target(a_run(inputs={"n": attempt}), partition={"city": cities[n]}))
    expected = {city: "attempt 2" if n in some else city for n, city in enumerate(cities)}
    assert {row["city"]: row["note"] for row in read_back(table)} == expected
    assert len(read_back(table)) == len(cities)
    read = table.read(*[{"city": city} for city in cities[:9]]).collect()
    assert sorted(row["city"] for row in read) == sorted(cities[:9])
    merge = spark.createDataFrame([(99, cities[0], "merged")], "id INT, city STRING, note STRING")
    table.merge(
        merge, Merge(["note"], [Update(), Insert()]), partition={"city": cities[0]}, provenance=a_run(run_id=cities[0])
    )
    table.clear(partition={"city": "/root"}, provenance=a_run())
    held = [(row["id"], row["city"]) for row in read_back(table) if row["city"] in (cities[0], "/root")]
    assert held == [(0, cities[0]), (99, cities[0])]


UPSERT = Merge(["id"], [Update(), Insert()])


@spark_test
def test_statements_of_delta_keep_texts_as_they_are(spark, make_table):
    """Merge and delete of a table with a change feed: partition, record and transaction, and a retry of both."""
    feed = replace(
        PLACES, properties={"delta.enableChangeDataFeed": "true", "made.by": "${env:HOME}"}, comment="${env:HOME}"
    )
    table = make_table(feed)
    city, run = "${env:HOME}", a_run(run_id="${env:HOME}", cause="${x}", inputs={"${x}": "${env:PATH}"}, sequence=1)
    rows = spark.createDataFrame([(1, city, "it's {} ?"), (2, "/root", "")], "id INT, city STRING, note STRING")
    table.overwrite(rows, provenance=a_run())
    changes = spark.createDataFrame([(1, city, "${env:HOME}")], "id INT, city STRING, note STRING")
    told = {"partition": {"city": city}, "provenance": run}
    first = table.merge(changes, UPSERT, **told)
    again = table.merge(changes, UPSERT, **told)
    assert (first.changed, again.applied) == (True, False)
    assert {(row["id"], row["city"], row["note"]) for row in read_back(table)} == {(1, city, city), (2, "/root", "")}
    record = table.ledger.commit(first.version).record
    assert (record.run_id, record.cause, dict(record.inputs)) == (city, "${x}", {"${x}": "${env:PATH}"})
    assert dict(record.partition) == {"city": city}
    assert table.ledger.state().transaction(next(iter(table.ledger.commit(first.version).transactions))) == 1
    assert table.ledger.state().properties["made.by"] == "${env:HOME}"
    table.delete("note = 'none'", partition={"city": city}, provenance=a_run(run_id=city))
    assert table.ledger.commit(table.ledger.version()).record.run_id == city


@spark_test
def test_conditions_audits_and_runs_are_told_as_they_were_written(spark, make_table):
    """A name that a user gives to a condition, an audit or a run, and who approved, reads back as given."""
    visits = spark.createDataFrame([(1, "a"), (2, None)], "id INT, page STRING")
    conditions = {f"{n} {text}": "page IS NOT NULL" for n, text in enumerate(ODD[:30])}
    split = intercept_filters(visits, conditions=conditions, identity=["id"])
    blamed = [row["filtered_by"] for row in split["filtered"].collect()]
    assert blamed == [next(iter(conditions))]
    kept, seen = tally(split, identity=["id"], measures=filter_measures(conditions))
    table = make_table(TableSpec("silver/kept", {"id": Column("INT", ""), "page": Column("STRING", "")}))
    audits = [Audit.none_where(f"{text} is fine", "id < 0") for text in ODD]
    approval = Approval("${env:HOME}", "${env:HOME}")
    provenance = a_run(run_id="${env:HOME}", notes={"${x}": ["${env:HOME}"]}, approval=approval)
    written = table.stage(kept, provenance=provenance, audits=audits, rows_read=RowsRead(tally=seen)).publish()
    record = table.ledger.commit(written.version).record
    assert {finding["name"] for finding in record.findings} >= {f"{text} is fine" for text in ODD}
    assert record.figures[f"rejected by {next(iter(conditions))}"] == 1
    assert (record.run_id, record.approval["by"], record.notes["${x}"]) == (
        "${env:HOME}",
        "${env:HOME}",
        ["${env:HOME}"],
    )


@spark_test
def test_reasons_and_contexts_are_told_as_they_were_written(spark):
    """A name that a user gives to a rule, and the values of a context, read back as given."""
    visits = spark.createDataFrame([(1, "a"), (2, None)], "id INT, page STRING")
    reasons = dict.fromkeys(ODD, "false")
    letters = divert_unprocessable(visits, schema={"page": "STRING"}, identity=["id"], rules=reasons)["dead"].collect()
    assert {row["reason"] for row in letters} == {"; ".join(ODD)}
    context = {key: ODD[n % len(ODD)] for n, key in enumerate(TECHNICAL_KEYS)}
    decorated = decorate(visits, context=context, storage="column").collect()
    assert all(row["processing_context"] == context for row in decorated)


@spark_test
def test_parts_of_a_split_are_staged_by_any_name(spark, make_table):
    """Each part's rows lie where its table looks for them, and are read back from there."""
    visits = spark.createDataFrame([(1, "a"), (2, None)], "id INT, page STRING")
    parts = dict.fromkeys(("${env:HOME}", "it's", "\\"), ("id",))
    flagged = visits.withColumn("part", F.when(F.col("id") == 1, F.lit("${env:HOME}")).otherwise(F.lit("\\")))
    other = make_table(TableSpec("silver/parts", {"id": Column("INT", "")}))
    staged = other.stage(Split(flagged, parts, outcome="part"), keep="${env:HOME}", also=("\\",), provenance=a_run())
    assert [row["id"] for row in staged.part("\\").collect()] == [2]
    staged.publish()
    assert read_back(other) == [{"id": 1}]


@spark_test
def test_letters_are_filed_under_any_value(spark, make_table):
    """A partition of letters is called as the run says, on the first run and on a rerun."""
    lines = spark.createDataFrame(
        [(1, "no json", "${env:HOME}"), (2, '{"v": 7}', "${env:HOME}")], "n INT, raw STRING, city STRING"
    )
    valid = make_table(
        TableSpec(
            "silver/valid",
            {
                "v": Column("INT", ""),
                "n": Column("INT", ""),
                "city": Column("STRING", ""),
                "was_dead_lettered": Column("BOOLEAN", ""),
            },
            partition_by=("city",),
        )
    )
    columns = {"raw": Column("STRING", ""), "n": Column("INT", ""), "city": Column("STRING", ""), **LETTER}
    dead = make_table(TableSpec("silver/dead", {**columns, "filed": Column("STRING", "")}, partition_by=("filed",)))
    for number in (1, 2):
        split = divert_unprocessable(lines, payload="raw", schema={"v": "INT"}, identity=["n"], carry=["city"])
        told = a_run(run_id="${env:HOME}", code_version="${x}", inputs={"n": number})
        route(
            split,
            valid.target(told, partition={"city": "${env:HOME}"}),
            dead.target(told, partition={"filed": "${env:HOME}"}),
        )
    assert [(row["v"], row["city"]) for row in read_back(valid)] == [(7, "${env:HOME}")]
    (letter,) = read_back(dead)
    assert (letter["filed"], letter["run_id"], letter["code_version"]) == ("${env:HOME}", "${env:HOME}", "${x}")


@spark_test
@pytest.mark.parametrize("value", [HALF, "", "a\0b"])
def test_a_partition_value_that_no_log_can_hold_is_refused_by_name(spark, make_table, value):
    """By the library, naming the column, and not by an encoder."""
    table = make_table(PLACES)
    rows = spark.createDataFrame([(1, "x", "")], "id INT, city STRING, note STRING")
    with pytest.raises(PatternError, match="city"):
        table.overwrite(rows, partition={"city": value}, provenance=a_run())


LIBRARY = sorted((CHECKOUT / "dedp_assets" / "patterns").rglob("*.py"))
MAKES_LITERALS = CHECKOUT / "dedp_assets" / "patterns" / "core" / "types" / "partitions.py"
SQL = re.compile(r"\b(SELECT|CAST|CASE|WHEN|coalesce|concat|array|map|struct|if|TIMESTAMP|DATE)\b")


def quotes_around_values(source: str):
    """The values that a module puts between quotes of its own in a text that reads like SQL."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        parts = node.values
        written = "".join(part.value for part in parts if isinstance(part, ast.Constant))
        for before, value, after in zip(parts, parts[1:], parts[2:], strict=False):
            quoted_here = (
                isinstance(before, ast.Constant)
                and isinstance(value, ast.FormattedValue)
                and isinstance(after, ast.Constant)
                and before.value.endswith("'")
                and after.value.startswith("'")
            )
            if quoted_here and SQL.search(written):
                yield ast.unparse(value.value)


PLAIN = {
    "END",
    "_ROW",
    "_SLASHES",
    "_UNSPACED",
    "BETWEEN_WORDS",
    "_REPEATED",
    "begin",
    "bound.isoformat(sep=' ')",
    "bound.replace(tzinfo=None).isoformat(sep=' ')",
    "letter",
    "moment.isoformat(sep=' ')",
    "n",
    "names.get(type(self.merge.clauses[n]), 'updated')",
    "today",
    "word",
}
"""Values of the library's own: constants, numbers, and times that Python spells."""


def test_one_function_makes_literals():
    """No module but that one puts quotes around a value."""
    others = {module: {*quotes_around_values(module.read_text())} - PLAIN for module in LIBRARY}
    assert [module for module, quoted in others.items() if quoted] == [MAKES_LITERALS]


@spark_test
def test_a_session_in_which_texts_say_something_else_is_refused(spark, make_table):
    """Where a backslash does not escape, `it's` would be another city, and its rows would not be found."""
    setting = "spark.sql.parser.escapedStringLiterals"
    own, table = spark.newSession(), make_table(PLACES)
    table.ensure()
    own.conf.set(setting, "true")
    with pytest.raises(ConfigError, match=f"session setting {re.escape(setting)} must be false, not true"):
        Table(PLACES, table.store.uri, own).read({"city": "it's"})
    assert table.read({"city": "it's"}).collect() == []
