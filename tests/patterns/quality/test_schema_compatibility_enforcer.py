"""Schema Compatibility Enforcer: modes, tables, real reads by Spark, and what a stored table takes over."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import cycle, islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from dedp_assets.patterns.core.errors import ConfigError, ContractError, SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.quality._compatibility import avro_compatibility as avro
from dedp_assets.patterns.quality.schema_compatibility_enforcer import enforce_compatibility, judge_schema
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run

V1 = '{"type": "record", "name": "V", "fields": [{"name": "a", "type": "int"}]}'
V2 = '{"type": "record", "name": "V", "fields": [{"name": "a", "type": "string"}]}'

# --- modes


def test_the_first_schema_and_any_schema_under_none_pass():
    """Nothing to be compatible with, or nobody asks for it; a text that is no schema is refused all the same."""
    for mode in ("BACKWARD", "FULL_TRANSITIVE", "NONE"):
        assert judge_schema(V1, [], mode=mode).passed
    assert judge_schema(V2, [V1], mode="NONE").figures == {"compared": 0, "incompatibilities": []}
    with pytest.raises(ContractError, match="new is no valid schema"):
        judge_schema('{"type": "visit"}', [V1], mode="NONE")


def test_a_mode_is_read_in_any_case_and_an_unknown_one_is_refused():
    """The registry writes modes in capitals, a configuration file may not."""
    assert judge_schema(V2, [V1], mode="full_transitive") == judge_schema(V2, [V1], mode="FULL_TRANSITIVE")
    for wrong in ("SIDEWARD", "", "NONE_TRANSITIVE", "_TRANSITIVE"):
        with pytest.raises(ConfigError, match="mode must be"):
            judge_schema(V2, [V1], mode=wrong)


def test_full_says_both_directions():
    """With the version that was compared, and one sentence each."""
    found = judge_schema(V2, [V1, V1], mode="FULL")
    assert found.note == (
        "BACKWARD, version 2: a: int cannot be read as string (type_changed); "
        "FORWARD, version 2: a: string cannot be read as int (type_changed)"
    )
    assert found.refuses


def test_a_pair_is_judged_once(monkeypatch):
    """A write that asks again about the same schemas costs no comparison; another pair does."""
    judged = []
    real = avro.problems
    monkeypatch.setattr(avro, "problems", lambda *pair, **options: judged.append(pair) or real(*pair, **options))
    fresh = V1.replace('"V"', '"OnlyHere"')
    first = [judge_schema(fresh.replace("int", "long"), [fresh]) for _ in range(5)]
    assert len(judged) == 1
    assert all(each == first[0] for each in first)
    judge_schema(
        fresh.replace("int", "long"), [fresh, fresh.replace("int", "float"), fresh], mode="BACKWARD_TRANSITIVE"
    )
    assert len(judged) == 2


# --- tables: 11 changes and further ones, by Spark's own schemas


def struct(*fields):
    return T.StructType(list(fields))


def column(name, kind, *, required=False, default=None):
    held = {"CURRENT_DEFAULT": default, "EXISTS_DEFAULT": default} if default else {}
    return T.StructField(name, kind, not required, held)


INT, LONG, TEXT = T.IntegerType(), T.LongType(), T.StringType()
ID = column("id", LONG, required=True)
PLAIN = struct(ID, column("page", TEXT))


def typed(kind, **more):
    return struct(ID, column("x", kind, **more))


def nested(*fields):
    return typed(struct(*fields))


CITY, ZIP = column("city", TEXT), column("zip", TEXT)
CHANGES = {
    # change: (old, new, rules broken backward, rules broken forward)
    "add optional": (PLAIN, struct(*PLAIN, column("ad", TEXT)), set(), set()),
    "add required with default": (PLAIN, struct(*PLAIN, column("n", INT, required=True, default="7")), set(), set()),
    "add required": (PLAIN, struct(*PLAIN, column("n", INT, required=True)), {"column_without_default"}, set()),
    "remove": (PLAIN, struct(ID), set(), {"column_removed"}),
    "rename": (PLAIN, struct(ID, column("path", TEXT)), {"column_renamed"}, {"column_removed"}),
    "int to long": (typed(INT), typed(LONG), set(), {"type_changed"}),
    "long to int": (typed(LONG), typed(INT), {"type_changed"}, set()),
    "decimal precision up": (typed(T.DecimalType(10, 2)), typed(T.DecimalType(12, 2)), set(), {"type_changed"}),
    "decimal precision down": (typed(T.DecimalType(12, 2)), typed(T.DecimalType(10, 2)), {"type_changed"}, set()),
    "nullable to required": (typed(INT), typed(INT, required=True), {"null_forbidden"}, set()),
    "required to nullable": (typed(INT, required=True), typed(INT), set(), {"null_allowed"}),
    "nested: add": (nested(CITY), nested(CITY, ZIP), set(), set()),
    "nested: remove": (nested(CITY, ZIP), nested(CITY), set(), {"column_removed"}),
    "int to text": (typed(INT), typed(TEXT), {"type_changed"}, {"type_changed"}),
    "flat to nested": (typed(TEXT), nested(CITY), {"type_changed"}, {"type_changed"}),
    "order": (PLAIN, struct(*reversed(PLAIN.fields)), set(), set()),
}


def judged(new, *history, **options):
    return judge_schema(new.json(), [old.json() for old in history], dialect="TABLE", **options)


@pytest.mark.parametrize(("old", "new", "backward", "forward"), CHANGES.values(), ids=CHANGES)
def test_each_mode_says_of_a_change_what_its_readers_need(old, new, backward, forward):
    """Eleven changes of the guide and further ones, under four modes, each refusal with field and rule."""
    for mode, broken in (("NONE", set()), ("BACKWARD", backward), ("FORWARD", forward), ("FULL", backward | forward)):
        found = judged(new, old, mode=mode)
        assert ({each["rule"] for each in found.figures["incompatibilities"]}, found.passed) == (broken, not broken)
        assert all(each["path"] and each["path"] in found.note for each in found.figures["incompatibilities"])


@pytest.mark.parametrize(
    ("old", "new", "passed"),
    [
        (T.VarcharType(10), T.VarcharType(20), True),
        (T.VarcharType(20), T.VarcharType(10), False),
        (T.VarcharType(20), TEXT, True),
        (TEXT, T.VarcharType(20), False),
        (T.FloatType(), T.DoubleType(), True),
        (LONG, T.DoubleType(), False),
        (T.DateType(), T.TimestampType(), False),
        (T.ArrayType(INT), T.ArrayType(LONG), True),
        (T.ArrayType(INT, containsNull=True), T.ArrayType(INT, containsNull=False), False),
        (T.MapType(TEXT, LONG), T.MapType(TEXT, INT), False),
    ],
)
def test_types_are_judged_by_their_values(old, new, passed):
    """Lengths of texts, parts of arrays and maps; a long loses digits as a double, and a date is no moment."""
    assert judged(typed(new), typed(old)).passed == passed


def test_names_are_compared_as_spark_compares_them():
    """Another case is the same column; two that differ in case only are no schema."""
    upper = T.StructType([T.StructField(each.name.upper(), each.dataType, each.nullable) for each in PLAIN])
    assert judged(upper, PLAIN, mode="FULL").passed
    with pytest.raises(SchemaMismatch, match="differ in case only"):
        judged(struct(ID, column("ID", LONG)), PLAIN)


def test_a_table_that_is_compatible_with_the_last_version_may_not_be_with_all():
    """A required column without its default reads the rows of version 2, and not those of version 1."""
    v1, v2 = PLAIN, struct(*PLAIN, column("n", INT, required=True, default="7"))
    v3 = struct(*PLAIN, column("n", INT, required=True))
    assert judged(v3, v1, v2).passed
    (found,) = judged(v3, v1, v2, mode="BACKWARD_TRANSITIVE").figures["incompatibilities"]
    assert (found["version"], found["path"], found["rule"]) == (1, "n", "column_without_default")


@pytest.mark.parametrize(
    "text", ["{", "[]", '"id"', '{"type": "struct"}', '{"type": "struct", "fields": [{"name": "a"}]}']
)
def test_a_text_that_is_no_schema_of_a_table_is_refused(text):
    """With the dialect, as for the others."""
    with pytest.raises(ContractError, match=r"new is no valid schema \(TABLE\)"):
        judge_schema(text, [], dialect="TABLE")


VALUES = {
    "integer": [1, 2**31 - 1],
    "long": [1, 2**40],
    "string": ["1", "/é"],
    "decimal(10,2)": [Decimal("0.25"), Decimal("99999999.99")],
    "decimal(12,2)": [Decimal("0.25"), Decimal("9999999999.99")],
}


def values(field):
    """The values of a column that decide whether all of them can be read."""
    kind = field.dataType.jsonValue()
    found = rows_of(field.dataType) if isinstance(field.dataType, T.StructType) else VALUES[kind]
    return [*found, None] if field.nullable else found


def rows_of(schema):
    held = [values(each) for each in schema.fields]
    columns = [list(islice(cycle(some), max(map(len, held)))) for some in held]
    return [dict(zip(schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def written(folder, schema):
    """A file with rows of a schema, as another writer leaves one."""
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows_of(schema), schema=to_arrow_schema(schema)), folder / "part.parquet")
    return str(folder)


def leaves(schema, path=""):
    for each in schema.fields:
        if isinstance(each.dataType, T.StructType):
            yield from leaves(each.dataType, f"{path}{each.name}.")
        else:
            yield f"{path}{each.name}", each


def reads(rows, schema):
    """Whether a query over the columns of a schema gives each row, and no NULL in a required column."""
    try:
        found = rows.selectExpr(
            *[f"CAST({name} AS {each.dataType.simpleString()}) AS c" for name, each in leaves(schema)]
        )
        held = found.collect()
    except (PySparkException, Py4JJavaError):  # the embedded engine raises the latter for a file of another type
        return False
    required = [place for place, (_, each) in enumerate(leaves(schema)) if not each.nullable]
    return all(row[place] is not None for row in held for place in required)


@pytest.mark.spark
@pytest.mark.parametrize(
    "change", [change for change in CHANGES if change not in ("rename", "int to text", "flat to nested", "order")]
)
def test_real_reads_agree(spark, tmp_path, change):
    """New readers read a file of old rows by the new schema; old queries run over the new columns."""
    old, new, backward, forward = CHANGES[change]
    assert reads(spark.read.schema(new).parquet(written(tmp_path / "old", old)), new) == (not backward)
    assert reads(spark.read.schema(new).parquet(written(tmp_path / "new", new)), old) == (not forward)


# --- stored tables

WIDENING = {"delta.enableTypeWidening": "true"}
SPEC = TableSpec(
    "silver/visits",
    {"id": Column("INT", required=True), "page": Column("STRING"), "user": Column("STRUCT<name: STRING>")},
)


def declared(spec=SPEC, *, without=(), properties=None, **columns):
    held = {name: each for name, each in spec.columns.items() if name not in without}
    added = {name: each if isinstance(each, Column) else Column(each) for name, each in columns.items()}
    return replace(spec, columns={**held, **added}, properties=properties or spec.properties)


@pytest.fixture
def visits(tmp_path):
    """A stored table; nothing here starts Spark."""
    table = Table(SPEC, tmp_path / "visits", lambda: pytest.fail("Spark was asked for"))
    table.ensure()
    return table


@pytest.mark.parametrize(
    ("spec", "added"),
    [
        (SPEC, []),
        (declared(ad_id="STRING"), ["ad_id"]),
        (declared(user="STRUCT<name: STRING, age: INT>"), ["user.age"]),
        (replace(SPEC, columns=dict(reversed(SPEC.columns.items()))), []),
    ],
)
def test_a_stored_table_takes_columns_that_may_be_null_if_asked(visits, spec, added):
    """In every mode; without the opt-in a new column is refused by name."""
    for mode in ("NONE", "BACKWARD", "FORWARD", "FULL", "FULL_TRANSITIVE"):
        assert enforce_compatibility(spec, visits, mode=mode, new_columns=True).figures == {
            "added": added,
            "widened": [],
        }
    if added:
        with pytest.raises(SchemaMismatch, match=rf"{added[0]}: the table has no such column; .*\(column_unknown\)"):
            enforce_compatibility(spec, visits)


@pytest.mark.parametrize("mode", ["NONE", "BACKWARD", "FORWARD", "FULL"])
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (declared(without=["page"]), "page: a stored column is neither dropped nor renamed; rename or drop in steps"),
        (
            declared(without=["page"], path="STRING"),
            "page: a stored column is neither dropped nor renamed; rename or drop",
        ),
        (declared(user="STRUCT<login: STRING>"), "user.name: a stored column is neither dropped nor renamed"),
        (
            declared(id=Column("BIGINT", required=True)),
            "id: integer cannot become long in the stored table without the",
        ),
        (declared(properties=WIDENING, id=Column("SMALLINT", required=True)), "id: integer cannot become short"),
        (declared(page="INT"), "page: string cannot become integer"),
        (declared(page=Column("STRING", required=True)), "page: stored rows may have NULL there"),
        (declared(n=Column("INT", required=True)), "n: stored rows have no value for it"),
    ],
)
def test_what_a_stored_table_cannot_do_is_refused_in_every_mode(visits, spec, said, mode):
    """Dropped, renamed, retyped, required: no version is made, and a rename gets its steps."""
    before = visits.ledger.version()
    with pytest.raises(SchemaMismatch) as error:
        enforce_compatibility(spec, visits, mode=mode, new_columns=True)
    assert said in str(error.value)
    assert visits.ledger.version() == before


def test_the_platform_drops_and_renames_no_column(visits):
    """A declaration without a stored column is refused by whatever would alter the table, too."""
    for spec in (declared(without=["page"]), declared(without=["page"], path="STRING")):
        with pytest.raises(SchemaMismatch, match=r"has columns \['page'\] that are no longer declared"):
            Table(spec, visits.location, lambda: pytest.fail("Spark was asked for")).ensure()
    assert visits.ledger.version() == 0


def test_all_breaking_changes_are_said_at_once(visits):
    """Of one declaration: one error with each field and rule."""
    spec = declared(
        without=["user"], id=Column("STRING", required=True), page=Column("STRING", required=True), ad="INT"
    )
    with pytest.raises(SchemaMismatch) as error:
        enforce_compatibility(spec, visits, mode="FULL")
    for said in (
        "user: ",
        "(column_removed)",
        "id: ",
        "(type_changed)",
        "page: ",
        "(null_forbidden)",
        "ad: ",
        "(column_unknown)",
    ):
        assert said in str(error.value)


def test_a_widened_type_passes_backward_only(visits):
    """With the property of Delta; an old query that expects a smaller number is not protected by the widening."""
    spec = declared(properties=WIDENING, id=Column("BIGINT", required=True))
    assert enforce_compatibility(spec, visits).figures == {"added": [], "widened": ["id"]}
    for mode in ("FORWARD", "FULL"):
        with pytest.raises(SchemaMismatch, match="id: values of long cannot all be read as integer"):
            enforce_compatibility(spec, visits, mode=mode)


def test_a_partition_column_keeps_its_type(tmp_path):
    """Its values are folders and texts of the log, which no statement rewrites."""
    spec = replace(declared(day="INT"), partition_by=("day",), properties=WIDENING)
    table = Table(spec, tmp_path / "days", lambda: pytest.fail("Spark was asked for"))
    table.ensure()
    with pytest.raises(SchemaMismatch, match="day: integer cannot become long"):
        enforce_compatibility(declared(spec, day="BIGINT"), table)


def test_a_table_that_is_not_there_takes_any_declaration(tmp_path):
    """There is nothing to be compatible with."""
    missing = Table(SPEC, tmp_path / "none", lambda: pytest.fail("Spark was asked for"))
    assert enforce_compatibility(SPEC, missing).passed


def test_a_type_that_only_spark_reads_is_refused(visits):
    """Rather than taken for unchanged."""
    with pytest.raises(ConfigError, match="the type of page must be one that can be compared without Spark"):
        enforce_compatibility(declared(page="INTERVAL DAY"), visits)


@pytest.fixture
def stored(make_table):
    """A table without rows, at hand for Spark."""
    table = make_table(SPEC)
    table.ensure()
    return table


def write(table, query):
    into = table.target(a_run(table.name))
    return into.stage(table.session.sql(query), append=True).publish()


@pytest.mark.spark
@pytest.mark.both
def test_rows_with_other_columns_are_refused_before_they_are_written(stored):
    """An extra, a missing and a retyped column, all said at once; rows that fit pass whatever may be NULL in them."""
    before = stored.ledger.version()
    rows = stored.session.sql("SELECT 'x' AS id, '/b' AS page, 'ad' AS ad_id")
    with pytest.raises(SchemaMismatch) as error:
        enforce_compatibility(rows, stored)
    for said in ("id: integer cannot become string", "user: a stored column", "ad_id: the table has no such column"):
        assert said in str(error.value)
    assert stored.ledger.version() == before
    fitting = stored.session.sql("SELECT named_struct('name', 'Bo') AS user, '/b' AS PAGE, CAST(2 AS SMALLINT) AS id")
    assert enforce_compatibility(fitting, stored, mode="FULL").figures == {"added": [], "widened": []}
    more = fitting.selectExpr("id", "page", "user", "1 AS n")
    assert enforce_compatibility(more, stored, new_columns=True).figures == {"added": ["n"], "widened": []}
    with pytest.raises(SchemaMismatch, match="id: integer cannot become long in the stored table without the property"):
        enforce_compatibility(fitting.selectExpr("CAST(id AS BIGINT) AS id", "page", "user"), stored)


@pytest.mark.spark
def test_an_accepted_change_keeps_old_rows_and_old_queries(stored, make_table):
    """An added column and field are NULL in old rows, a widened one holds larger values; the old query still runs.

    The rows of the table before the change are still there by their columns, at the version of that time.
    """
    write(stored, "SELECT 1 AS id, '/a' AS page, named_struct('name', 'Ada') AS user")
    version = stored.ledger.version()
    query = "id", "page", "user.name"
    before = stored.read().select(*query).collect()
    wider = {"id": Column("BIGINT", required=True), "user": "STRUCT<name: STRING, age: INT>", "ad_id": "STRING"}
    spec = declared(properties=WIDENING, **wider)
    found = enforce_compatibility(spec, stored, new_columns=True)
    assert found.figures == {"added": ["user.age", "ad_id"], "widened": ["id"]}
    table = make_table(spec)
    table.ensure()
    assert {name: field["type"] for name, field in table.ledger.state().columns.items()}["id"] == "long"
    assert table.read().select("user.age", "ad_id").collect() == [(None, None)]
    assert table.read().select(*query).collect() == before
    write(table, f"SELECT {2**40} AS id, '/b' AS page, named_struct('name', 'Bo', 'age', 3) AS user, 'x' AS ad_id")
    assert sorted(row["id"] for row in table.read().collect()) == [1, 2**40]
    assert table.read(version=version).columns == ["id", "page", "user"]


@pytest.mark.spark
def test_no_statement_of_sql_drops_or_renames_a_column(stored):
    """Delta itself refuses both, as the library maps no columns: the platform is not the only guard."""
    before = stored.ledger.version()
    for change in ("DROP COLUMN page", "RENAME COLUMN page TO path"):
        with pytest.raises(AnalysisException, match=r"(?i)column mapping"):
            stored.session.sql(f"ALTER TABLE delta.`{stored.store.address}` {change}")
    assert stored.ledger.version() == before


@known_calls
def calls_that_work(known):
    return {
        "enforce_compatibility": {"new": known.visits, "table": known.daily, "mode": "BACKWARD", "new_columns": True}
    }
