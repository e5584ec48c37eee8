"""docs/existing_tables.md: of each kind of table that it lists, one is made, and every cell of its row is held."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, PatternError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.delta import Insert, Merge, Table, Update, adoption_of
from tests.helpers import field_of, write_protocol

pytestmark = pytest.mark.budget(100, "a table of each kind is made, written, merged into and read by Spark")

NAME = "t/x"
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (CHECKOUT / "docs" / "existing_tables.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| Table |")
]


@dataclass(frozen=True)
class Kind:
    """One row of the page."""

    key: str
    read: str
    write: str
    change: str


@dataclass(frozen=True)
class Sample:
    """How a table of a kind is made, and what its rows are.

    Attributes:
        ddl: columns and options of Spark's CREATE TABLE; or ``made`` makes it.
        values: column -> SQL of a row whose ``id`` is ``{0}``, in the table's order.
        partition: the partition that a write owns.
    """

    ddl: str = ""
    made: Any = None
    values: dict[str, str] = field(default_factory=lambda: dict(VALUES))
    partition: dict[str, str] = field(default_factory=lambda: {"day": "2026-01-05"})


KINDS = {key.strip("`"): Kind(key.strip("`"), *cells) for _, *cells, key in ROWS}
VALUES = {"id": "CAST({0} AS INT)", "v": "'abc'", "day": "DATE'2026-01-05'"}
DAYS = "(id INT, v {0}, day DATE) USING delta PARTITIONED BY (day)"
WHOLE = {"id": "CAST({0} AS INT)", "v": "'abc'"}
NUMBERED = {"n": "CAST({0} AS BIGINT)", **VALUES}
FIELDS = [field_of("id", "integer"), field_of("v", "string"), field_of("day", "date")]


def with_properties(**properties: str) -> str:
    stated = [f"'delta.{name.replace('__', '.')}' = '{value}'" for name, value in properties.items()]
    return f"{DAYS.format('STRING')} TBLPROPERTIES ({', '.join(stated)})"


def by_delta_rs(spark, place):
    """A table of delta-rs with a row of another day."""
    rows = {"id": pa.array([0], pa.int32()), "v": ["old"], "day": [date(2026, 1, 4)]}
    write_deltalake(place, pa.table(rows), partition_by=["day"])


def by_delta_rs_with_rules(spark, place):
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string()), ("day", pa.date32())])
    write_deltalake(place, pa.Table.from_pylist([], schema=schema), partition_by=["day"])
    DeltaTable(place).alter.add_constraint({"positive": "id >= 0"})


def a_clone(spark, place):
    by_delta_rs(spark, place.parent / "origin")
    spark.sql(f"CREATE TABLE delta.`{place}` SHALLOW CLONE delta.`{place.parent / 'origin'}`")


def by_hand(**options):
    """A table of a log written by hand."""

    def made(spark, place):
        write_protocol(place, **{"fields": FIELDS, **options})

    return made


def collated(spark, place):
    fields = [field_of("id", "integer"), field_of("v", "string", __COLLATIONS={"v": "spark.UTF8_LCASE"})]
    write_protocol(place, [*fields, FIELDS[2]], partition_by=["day"], writers=["collations-preview"])


def a_folder_of_parquet(spark, place):
    place.mkdir()
    pq.write_table(pa.table({"id": [1]}), place / "a.parquet")


def another_folder(spark, place):
    (place / "metadata").mkdir(parents=True)
    (place / "metadata" / "v1.metadata.json").write_text("{}")


def a_folder_inside(spark, place):
    by_delta_rs(spark, place.parent)
    place.mkdir()


def nothing(spark, place):
    """No table, and no folder."""


SAMPLES = {
    "delta-rs": Sample(made=by_delta_rs),
    "delta-rs-rules": Sample(made=by_delta_rs_with_rules),
    "spark": Sample(DAYS.format("STRING")),
    "old-protocol": Sample(made=by_hand(version=(1, 6), partition_by=["day"])),
    "shallow-clone": Sample(made=a_clone),
    "change-feed": Sample(with_properties(enableChangeDataFeed="true")),
    "generated-columns": Sample(
        "(id INT, v STRING, day DATE, twice INT GENERATED ALWAYS AS (id * 2)) USING delta PARTITIONED BY (day)",
        values={**VALUES, "twice": "CAST({0} * 2 AS INT)"},
    ),
    "varchar": Sample(DAYS.format("VARCHAR(3)")),
    "char": Sample(DAYS.format("CHAR(3)")),
    "timestamp-ntz": Sample(DAYS.format("TIMESTAMP_NTZ"), values={**VALUES, "v": "TIMESTAMP_NTZ'2026-01-05'"}),
    "variant": Sample(DAYS.format("VARIANT"), values={**VALUES, "v": """parse_json('{{"a": 1}}')"""}),
    "v2-checkpoints": Sample(with_properties(checkpointPolicy="v2")),
    "append-only": Sample(with_properties(appendOnly="true")),
    "column-mapping-name": Sample(with_properties(columnMapping__mode="name")),
    "column-mapping-id": Sample(with_properties(columnMapping__mode="id")),
    "deletion-vectors": Sample(with_properties(enableDeletionVectors="true")),
    "liquid-clustering": Sample("(id INT, v STRING) USING delta CLUSTER BY (id)", values=WHOLE, partition={}),
    "column-defaults": Sample(
        "(id INT, v STRING DEFAULT 'x', day DATE) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    ),
    "row-tracking": Sample(with_properties(enableRowTracking="true")),
    "in-commit-timestamps": Sample(with_properties(enableInCommitTimestamps="true")),
    "type-widening": Sample(with_properties(enableTypeWidening="true")),
    "iceberg-compat": Sample(with_properties(enableIcebergCompatV2="true", columnMapping__mode="name")),
    "materialised-partitions": Sample(with_properties(feature__materializePartitionColumns="supported")),
    "variant-shredding": Sample(
        f"{DAYS.format('VARIANT')} TBLPROPERTIES ('delta.enableVariantShredding' = 'true')",
        values={**VALUES, "v": """parse_json('{{"a": 1}}')"""},
    ),
    "dropped-features": Sample(
        with_properties(feature__vacuumProtocolCheck="supported", feature__checkpointProtection="supported")
    ),
    "databricks": Sample(
        "(id INT, v STRING) USING delta CLUSTER BY (id) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name', 'delta.checkpointPolicy' = 'v2')",
        values=WHOLE,
        partition={},
    ),
    "identity-by-default": Sample(
        "(n BIGINT GENERATED BY DEFAULT AS IDENTITY, id INT, v STRING, day DATE) USING delta PARTITIONED BY (day)",
        values=NUMBERED,
    ),
    "identity-always": Sample(
        "(n BIGINT GENERATED ALWAYS AS IDENTITY, id INT, v STRING, day DATE) USING delta PARTITIONED BY (day)",
        values=NUMBERED,
    ),
    "lengths-inside": Sample(DAYS.format("ARRAY<VARCHAR(3)>"), values={**VALUES, "v": "array('abc')"}),
    "collations": Sample(made=collated),
    "unknown-writer-feature": Sample(made=by_hand(partition_by=["day"], writers=["invented"])),
    "catalog-managed": Sample(made=by_hand(readers=["catalogManaged"], writers=["catalogManaged"])),
    "unknown-reader-feature": Sample(made=by_hand(readers=["geospatial"], writers=["geospatial"])),
    "newer-protocol": Sample(made=by_hand(version=(4, 7))),
    "partitioned-by-decimal": Sample(made=by_hand(fields=[*FIELDS, field_of("d", "decimal(9,2)")], partition_by=["d"])),
    "partitioned-by-char": Sample(
        made=by_hand(fields=[*FIELDS, field_of("d", "string", "char(3)")], partition_by=["d"])
    ),
    "names-in-case": Sample(made=by_hand(fields=[*FIELDS, field_of("ID", "long")])),
    "names-replaced": Sample(made=by_hand(fields=[*FIELDS, field_of("${x}", "long")])),
    "parquet-folder": Sample(made=a_folder_of_parquet),
    "other-folder": Sample(made=another_folder),
    "inside-a-table": Sample(made=a_folder_inside),
    "nothing": Sample(made=nothing),
}
TWICE = ("append-only", "delta-rs", "databricks")
"""Kinds of which rows are replaced as well, and a write is run again."""
CLOSED = [key for key, kind in KINDS.items() if kind.read != "yes"]
OPEN = [key for key, kind in KINDS.items() if kind.read == "yes"]
FEW = Audit(name="few", of="written", fail_above=1)


def quoted(cell: str) -> str:
    """The sentence that a cell quotes."""
    (found,) = re.findall(r'^refused: "(.*)"$', cell)
    return str(found)


def said_by(call) -> str:
    """The one line of a refusal."""
    with pytest.raises(PatternError) as met:
        call()
    assert "\n" not in str(met.value)
    return str(met.value)


def rows_of(spark, sample, *ids, **others):
    """Rows with these ids, in the table's order."""
    shown = [f"{sql} AS {identifier(column)}" for column, sql in {**sample.values, **others}.items()]
    found = [spark.sql(f"SELECT {', '.join(shown)}".format(number)) for number in ids]
    return found[0].union(found[1]) if len(found) > 1 else found[0]


def declared(table):
    """What nobody but its owner may change of a table: protocol, properties, columns, partitions, clustering."""
    state = table.ledger.state()
    clustering = [a for a in table.ledger.actions("domainMetadata") if a["domain"] == "delta.clustering"][-1:]
    columns = {
        name: {k: v for k, v in stored["metadata"].items() if k != "delta.identity.highWaterMark"}
        for name, stored in state.columns.items()
    }
    stated = [json.loads(each["configuration"])["clusteringColumns"] for each in clustering]
    return dict(state.protocol), dict(state.properties), columns, state.partition_columns, stated


def by_sparks_writer(table, version):
    """Whether a commit names Spark as its engine, as those of its own writer do."""
    log = table.location / "_delta_log" / f"{version:020d}.json"
    (info,) = [json.loads(line)["commitInfo"] for line in log.read_text().splitlines() if '"commitInfo"' in line]
    return str(info.get("engineInfo", "")).startswith("Apache-Spark")


def ids_in(rows):
    return sorted(row.id for row in rows.select("id").collect())


def left_by(place):
    """What lies in a table's folder beside its log."""
    return {path.name for path in place.iterdir()} - {"_delta_log"} if place.exists() else set()


def test_every_row_of_the_page_has_a_table_and_every_table_a_row():
    """So that neither drifts; and a row has cells of few words."""
    assert KINDS.keys() == SAMPLES.keys()
    assert len(KINDS) == len(ROWS) > 40
    for kind in KINDS.values():
        assert kind.write in ("by the log", "by Spark's writer", "refused") or quoted(kind.write)
        assert kind.change in ("audited", "by Delta's statement", "refused") or quoted(kind.change)
        assert (kind.read == "yes") == (kind.write != "refused") == (kind.change != "refused")


@pytest.mark.parametrize("key", CLOSED)
def test_what_cannot_be_opened_is_refused_in_the_sentence_of_the_page(key, tmp_path):
    """By `Table.at` and by an adoption alike, with the table or the place, and nothing is written."""
    place = tmp_path / "lake" / "x"
    place.parent.mkdir()
    SAMPLES[key].made(None, place)
    before = left_by(place)
    sentence = said_by(lambda: Table.at(place, lambda: pytest.fail("Spark was started"), name=NAME))
    assert quoted(KINDS[key].read) in sentence
    assert sentence.startswith((NAME, str(place)))
    assert said_by(lambda: adoption_of(place, name=NAME)) == sentence
    assert left_by(place) == before


@pytest.fixture(params=OPEN)
def opened(request, spark, tmp_path):
    """A table that can be opened: its row of the page, how it was made, and the table."""
    sample, place = SAMPLES[request.param], tmp_path / "lake" / "x"
    place.parent.mkdir()
    if sample.made:
        sample.made(spark, place)
    else:
        spark.sql(f"CREATE TABLE delta.`{place}` {sample.ddl}")
    return KINDS[request.param], sample, Table.at(place, spark, name=NAME)


def test_what_can_be_opened_is_read_and_written_as_the_page_says(opened, spark):
    """What is published is read by Delta's reader, and the table is declared as before."""
    kind, sample, table = opened
    before, found = declared(table), adoption_of(table.location, name=NAME)
    assert found.spec == table.spec
    if kind.write.startswith("refused"):
        refuses(kind, sample, table, spark)
    else:
        writes(kind, sample, table, spark)
    changes(kind, sample, table, spark)
    assert declared(table) == before


def written(sample, table, rows, number):
    """Write rows as the table takes them: in place of its partition, or beside the present ones."""
    into = table.target(f"run {number}", sequence=number)
    if table.spec.properties.get("delta.appendOnly") == "true":
        return table.append(rows, provenance=into.run, audits=[FEW])
    return table.overwrite(rows, partition=sample.partition, provenance=into.run, audits=[FEW])


def refuses(kind, sample, table, spark):
    """A write is refused in the sentence of the page, as the adoption says, and leaves nothing behind."""
    lies, version = left_by(table.location), table.ledger.version()
    sentence = said_by(lambda: written(sample, table, rows_of(spark, sample, 1), 1))
    assert quoted(kind.write) in sentence
    assert sentence == adoption_of(table.location, name=NAME).refused
    assert sentence.startswith(NAME)
    assert (left_by(table.location), table.ledger.version()) == (lies, version)


def writes(kind, sample, table, spark):
    """A refused audit publishes nothing; accepted rows take the place of those before, by the writer of the page."""
    version, by_spark = table.ledger.version(), kind.write == "by Spark's writer"
    with pytest.raises(AuditFailed, match=f"{NAME}.* nothing published. few: above 1"):
        written(sample, table, rows_of(spark, sample, 1, 2), 1)
    assert table.ledger.version() == version
    numbers = (2, 3) if kind.key in TWICE else (3,)
    results = [written(sample, table, rows_of(spark, sample, number), number) for number in numbers]
    assert all(result.changed for result in results)
    assert {by_sparks_writer(table, result.version) for result in results} == {by_spark}
    assert table.ledger.commit(results[-1].version).record.verdict == "passed"
    if kind.key in TWICE:
        assert not written(sample, table, rows_of(spark, sample, 3), 3).applied
    spelled = "Spark's own writer commits" if by_spark else "published by the log alone"
    assert spelled in adoption_of(table.location, name=NAME).writes[0]
    expected = [2, 3] if kind.key == "append-only" else [3]
    there = ids_in(table.read())
    assert there == ids_in(spark.read.format("delta").load(str(table.location)))
    assert [number for number in there if number] == expected  # delta-rs wrote one without


def changes(kind, sample, table, spark):
    """Merge a row into the table and delete it again, as the page says, or be refused."""
    counted = {c: f"s.{identifier(c)}" for c in sample.values if c not in table.ledger.state().identities}
    rows = rows_of(spark, sample, 9).select(*counted)
    clauses, version = [Update({"id": "s.id"}), Insert(counted)], table.ledger.version()
    if kind.key == "append-only":  # of a merge that only inserts it takes the rows
        rows, clauses = rows_of(spark, sample, 3), [Update({"v": "'new'"})]

    def merge(*audits):
        into = table.target("merge")
        return table.merge(rows, Merge(["id"], clauses), provenance=into.run, audits=audits)

    def delete(*audits):
        return table.delete("id IN (3, 9)", provenance=table.target("delete").run, audits=audits)

    if kind.change.startswith("refused"):
        for call in (merge, delete):
            sentence = said_by(call)
            assert quoted(kind.change) in sentence
            assert sentence.startswith(NAME)
        assert table.ledger.version() == version
        return
    for call in (merge, delete):
        if kind.change == "by Delta's statement":
            with pytest.raises(ConfigError, match=rf"{NAME} has .*, so Delta itself changes its rows"):
                call(FEW)
        result = call() if kind.change == "by Delta's statement" else call(FEW)
        assert result.changed
        assert by_sparks_writer(table, result.version) == (kind.change == "by Delta's statement")
        assert (9 in ids_in(spark.read.format("delta").load(str(table.location)))) == (call is merge)
