"""Types of two sides: wherever rows meet rows, values are compared as they are, or both types are named and refused."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import settings
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import COMPARED
from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.meeting import common, fits
from dedp_assets.patterns.core.types.sql_types import nullable, spelled
from dedp_assets.patterns.delta import Insert, Merge, Table, Update
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.value.distributed_aggregator import merge_aggregates
from dedp_assets.patterns.value.dynamic_joiner import JoinTimes, join_latest, join_within
from dedp_assets.patterns.value.incremental_sessionizer import show_partial
from dedp_assets.patterns.value.static_joiner import join_static
from dedp_assets.patterns.value.wrapper import Separated
from tests.contracts.known_calls import Begun, without_jobs
from tests.helpers import a_run

pytestmark = pytest.mark.spark

FUZZ = settings.get_current_profile_name() == "fuzz"

TYPES = [
    "TINYINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10,1)",
    "DECIMAL(10,2)",
    "DECIMAL(38,18)",
    "STRING",
    "STRING COLLATE UTF8_LCASE",
    "BOOLEAN",
    "BINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "INTERVAL DAY",
    "ARRAY<INT>",
    "ARRAY<BIGINT>",
    "ARRAY<STRING>",
    "STRUCT<a:INT>",
    "STRUCT<a:BIGINT>",
    "STRUCT<a:INT;b:INT>",
    "MAP<STRING;INT>",
    "VARIANT",
]
SOUND = Finding("sound", passed=True)
TIMES = {"times": JoinTimes(fact="at", other="shown")}
USES = {
    "join_within": lambda a, b: join_within(a, b, keys={"k": "k"}, **TIMES, from_seconds=0, to_seconds=0),
    "join_latest": lambda a, b: join_latest(a, b, keys={"k": "k"}, **TIMES, identity=["id"]),
    "join_static": lambda a, b: join_static(a, b, keys={"k": "k"}, columns={"n": "told"}, judged=SOUND),
    "deduplicate": lambda a, b: deduplicate(a, b, keys=["k"], order_by=["id"]).rows,
    "merge_aggregates": lambda a, b: merge_aggregates(
        a.selectExpr("k", "1L AS n"), b.select("k", "n"), keys=["k"], measures={"n": "count(*)"}
    ),
    "show_partial": lambda a, b: show_partial(a.select("k"), b.select("k")),
    "separated": lambda a, b: Separated(a, b, ("k",)).joined(),
}
TURN = {use: number for number, use in enumerate(USES)}
"""Where a use begins with every third pair of types: each use is tried with every type on either side."""


@pytest.fixture(scope="module")
def sides(spark):
    """By type, a frame for each side whose column ``k`` has it."""
    kinds = [kind.replace(";", ", ") for kind in TYPES]
    nothing = [f"CAST(NULL AS {kind}) AS k" for kind in kinds]
    left = [spark.sql(f"SELECT {k}, 1 AS id, TIMESTAMP '2026-01-05' AS at") for k in nothing]
    right = [spark.sql(f"SELECT {k}, 1L AS n, TIMESTAMP '2026-01-05' AS shown") for k in nothing]
    return [(a, b, a.schema["k"].dataType) for a, b in zip(left, right, strict=True)]


@pytest.mark.parametrize("use", USES)
def test_types_that_do_not_meet_are_refused_by_every_use(sides, use):
    """By name of both types as the sources have them; by the column alone, if values of one cannot be compared.

    Each pair of types is tried with two of the uses, and with all in `make fuzz`.
    """
    places = product(enumerate(sides), enumerate(sides))
    pairs = [(a, b) for (i, a), (j, b) in places if FUZZ or (i + j + TURN[use]) % 3 == 0]
    for (mine, _, one), (_, theirs, other) in pairs:
        if common(one, other) is None:
            compared = COMPARED.fits(one) and COMPARED.fits(other)
            with pytest.raises(SchemaMismatch if compared else (SchemaMismatch, ConfigError)) as refused:
                USES[use](mine, theirs)
            structs = isinstance(one, T.StructType) and isinstance(other, T.StructType)
            if isinstance(refused.value, SchemaMismatch) and not structs:
                assert spelled(one) in str(refused.value)
                assert spelled(other) in str(refused.value)
            else:
                assert re.search(r"\bk\b", str(refused.value))


def test_types_meet_in_either_order_at_any_depth(sides):
    """The type that two have in common holds both, and arrays, maps and structs of them meet as they do."""
    kinds = [kind for *_, kind in sides]
    for one, other in product(kinds, kinds):
        met = common(one, other)
        back = common(other, one)
        assert (met is None) == (back is None)
        assert common(T.MapType(T.StringType(), one), T.MapType(T.StringType(), other)) == (
            None if met is None else common(T.MapType(T.StringType(), met), T.MapType(T.StringType(), met))
        )
        if met is not None:
            assert fits(one, met)
            assert fits(other, met)
            assert nullable(met) == nullable(back)


def test_values_meet_as_they_are(spark):
    """Narrower values equal wider ones, and what differs in a digit stays apart."""
    a = spark.sql("SELECT 7 AS k, 1.5BD AS d, named_struct('a', 1, 'b', 2) AS s")
    b = spark.sql("SELECT 7L AS k, CAST(1.50 AS DECIMAL(10,2)) AS d, named_struct('b', 2L, 'a', 1L) AS s")
    keys = ["k", "d", "s"]
    assert deduplicate(a, b, keys=keys, order_by=["k"])["duplicate"].count() == 1
    states = [spark.sql(f"SELECT {k} AS k, 1L AS n, {m} AS m") for k, m in (("1", "1"), ("1.4BD", "7.50BD"))]
    found = merge_aggregates(*states, keys=["k"], measures={"n": "count(*)", "m": "max(m)"}).collect()
    assert sorted((float(row["k"]), float(row["m"])) for row in found) == [(1.0, 1.0), (1.4, 7.5)]


STORED = [kind for kind in TYPES if "INTERVAL" not in kind and "COLLATE" not in kind]
"""Types that a table can have."""
WRITES = {
    "overwrite": lambda table, rows: table.overwrite(rows, provenance=a_run()),
    "append": lambda table, rows: table.append(rows, provenance=a_run(sequence=1)),
    "merge": lambda table, rows: table.merge(rows, Merge(["id"], [Update(), Insert()]), provenance=a_run(sequence=1)),
}


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """By type, an empty table whose column ``k`` has it."""
    folder = tmp_path_factory.mktemp("types")
    made = []
    for number, kind in enumerate(kind.replace(";", ", ") for kind in STORED):
        spec = TableSpec(f"silver/t{number}", {"k": Column(kind), "id": Column("INT")})
        table = Table(spec, folder / str(number), spark)
        table.ensure()
        made.append((table, spark.sql(f"SELECT CAST(NULL AS {kind}) AS k").schema["k"].dataType))
    return made


def may_hold(given, held):
    """Tell whether a table takes values of a type; decimals with too many digits are looked at one by one."""
    whole = [kind.precision - kind.scale if isinstance(kind, T.DecimalType) else None for kind in (given, held)]
    if None not in whole and given.scale <= held.scale:
        return True
    return fits(given, held)


@pytest.mark.parametrize("write", WRITES)
def test_rows_go_into_a_table_by_the_same_types_whoever_writes_them(sides, tables, write):
    """A column of another type is refused by both types, before a row is computed."""
    pairs = list(product(sides, tables))
    for (rows, _, given), (table, held) in pairs if FUZZ else pairs[[*WRITES].index(write) :: len(WRITES)]:
        wanted = Begun if may_hold(given, held) else SchemaMismatch
        with without_jobs(), pytest.raises(wanted) as found:
            WRITES[write](table, rows.select("k", "id"))
        if wanted is SchemaMismatch:
            assert re.search(r"\bk\b", str(found.value))
            assert isinstance(given, T.StructType) or spelled(given) in str(found.value)
        assert table.ledger.version() == 0


LIMITS = {
    "TINYINT": ("-128", "127"),
    "INT": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807", "9007199254740993"),
    "FLOAT": ("CAST('0.1' AS FLOAT)", "CAST('16777217' AS FLOAT)", "CAST('NaN' AS FLOAT)"),
    "DOUBLE": ("CAST('0.1' AS DOUBLE)", "CAST('1e300' AS DOUBLE)"),
    "DECIMAL(10,1)": ("999999999.9", "0.1"),
    "DECIMAL(10,2)": ("99999999.99", "0.01"),
    "DECIMAL(38,18)": ("99999999999999999999.999999999999999999",),
    "STRING": ("'05'", "'a '"),
    "BOOLEAN": ("true",),
    "DATE": ("DATE '2026-01-05'",),
    "TIMESTAMP": ("TIMESTAMP '2026-01-05 10:00:00.000001'",),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '2026-01-05 10:00:00.000001'",),
}


def test_a_type_that_fits_another_loses_nothing_in_it(spark):
    """The values at a type's ends come back from the other as they were."""
    kinds = {name: spark.sql(f"SELECT CAST(NULL AS {name}) AS k").schema["k"].dataType for name in LIMITS}
    pairs = [pair for pair in product(LIMITS, LIMITS) if fits(*map(kinds.get, pair))]
    assert len(pairs) > len(LIMITS)
    values = [(one, other, f"CAST({value} AS {one})") for one, other in pairs for value in LIMITS[one]]
    back = ", ".join(f"CAST(CAST({value} AS {other}) AS {one}) <=> {value}" for one, other, value in values)
    (same,) = spark.sql(f"SELECT array({back})").first()
    assert [value for value, kept in zip(values, same, strict=True) if not kept] == []
