"""Adoption: what the log of another tool's table says, what it does not, and where there is no table."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.delta import Table, adoption_of
from tests.helpers import a_record, field_of, write_protocol


def nobody():
    pytest.fail("Spark was started")


def told(place, *parts):
    """The sentences of an adoption, of the named parts."""
    found = adoption_of(place, name="t/x")
    return [sentence for part in parts for sentence in getattr(found, part)]


def test_what_a_declaration_leaves_out_is_named(tmp_path):
    """What columns have beside type, comment and NOT NULL, at every depth, and in the words of the table."""
    inner = {
        "type": "struct",
        "fields": [
            field_of("x", "integer", nullable=False, comment="how far"),
            field_of("a.b", {"type": "array", "elementType": "string", "containsNull": False}),
        ],
    }
    fields = [
        field_of("n", "long", **{"delta.identity.start": 5, "delta.identity.step": 2}),
        field_of("twice", "integer", **{"delta.generationExpression": "n * 2"}),
        field_of("kind", "string", CURRENT_DEFAULT="'new'", EXISTS_DEFAULT="'new'"),
        field_of("label", "string", __COLLATIONS={"label": "spark.UTF8_LCASE"}),
        field_of("wide", "long", **{"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}),
        field_of("names", {"type": "array", "elementType": "string", "containsNull": True}, "array<varchar(2)>"),
        field_of("at", inner, nullable=False, comment="where"),
        field_of("owned", "string", **{"team.note": "ours"}),
        field_of("plain", "string", comment="nothing to say"),
    ]
    write_protocol(tmp_path / "t", fields)
    assert told(tmp_path / "t", "left_out") == [
        "'n' is counted by the table (IDENTITY, from 5 by 2)",
        "'twice' is generated; rows state its value, which is checked: 'n * 2'",
        "'kind' has a default, which no row of the library leaves to the table: \"'new'\"",
        "'label' is compared by a collation: {'label': 'spark.UTF8_LCASE'}",
        "'wide' was widened: [{'fromType': 'integer', 'toType': 'long'}]",
        "'names' has lengths inside of it: 'array<varchar(2)>'",
        "'at.x' is NOT NULL: the table judges that with every write",
        "'at.x' has the comment 'how far'",
        "'at.a.b' has no NULL among its elements",
        "'owned' has further metadata: {'team.note': 'ours'}",
    ]
    spec = adoption_of(tmp_path / "t", name="t/x").spec
    assert spec.columns["names"].type == "ARRAY<STRING>"
    assert (spec.columns["at"].comment, spec.columns["at"].required) == ("where", True)


def test_properties_and_clustering_of_this_table_alone_are_named(tmp_path):
    """Clustering columns stand in no API; they are found in the commits and in a checkpoint, by the schema's names."""
    fields = [
        field_of("id", "long", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}),
        field_of("v", "string", **{"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-2"}),
    ]
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    clustering = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["col-2"]]}', "removed": False}
    features = ["columnMapping", "clustering", "domainMetadata"]
    write_protocol(
        tmp_path / "t",
        fields,
        readers=["columnMapping"],
        writers=features,
        configuration=mapped,
        more=[{"domainMetadata": clustering}],
    )
    said = [
        "it is clustered by ['v']: each write keeps that, and no table of a declaration is clustered",
        "the properties ['delta.columnMapping.maxColumnId'] are of this table alone: leave them out of the declaration "
        "of a new one",
    ]
    assert told(tmp_path / "t", "left_out") == said
    DeltaTable(tmp_path / "t").create_checkpoint()
    assert told(tmp_path / "t", "left_out") == said
    gone = {"domainMetadata": {**clustering, "removed": True}}
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(gone))
    assert told(tmp_path / "t", "left_out") == said[1:]


def test_columns_without_statistics_are_named(tmp_path):
    """By what the files of the table have, whatever its properties say."""
    rows = pa.table({"day": ["mon", "tue"], "n": [1, 2], "at": [{"x": 1}, {"x": 2}], "note": ["a", "b"]})
    configured = {"delta.dataSkippingStatsColumns": "n"}
    write_deltalake(tmp_path / "t", rows, partition_by=["day"], configuration=configured)
    (said,) = told(tmp_path / "t", "left_out")
    assert said == "no file has statistics of ['at', 'note']: a condition on them skips no file"
    pq.write_table(rows.select(["n"]).slice(0, 1), tmp_path / "bare.parquet")
    add = {
        "path": "bare.parquet",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    write_protocol(tmp_path / "bare", [field_of("n", "long")], more=[{"add": add}])
    assert told(tmp_path / "bare", "left_out") == [
        "1 of 1 files have no statistics in the log: reads skip none of them",
        "no file has statistics of ['n']: a condition on them skips no file",
    ]


def test_what_no_log_knows_is_asked_for(tmp_path):
    """Keys, order, owner; of a partition by text what the texts mean; nothing that the library stored itself."""
    write_deltalake(tmp_path / "t", pa.table({"day": ["mon"], "n": [1]}), partition_by=["day"])
    asked = [sentence.partition(":")[0].partition(",")[0] for sentence in told(tmp_path / "t", "unknown")]
    assert asked == ["key", "order", "classification", "owner", "partitions"]
    stored = {"key": ["n"], "event_time": "day", "columns": {"day": {"personal": True}}}
    write_protocol(
        tmp_path / "u",
        [field_of("n", "long"), field_of("day", "date")],
        configuration={"dedp.declaration": json.dumps(stored)},
    )
    asked = [sentence.partition(":")[0].partition(",")[0] for sentence in told(tmp_path / "u", "unknown")]
    assert asked == ["order", "owner"]
    write_protocol(tmp_path / "v", [field_of("at", "timestamp")])
    (asked,) = (each for each in told(tmp_path / "v", "unknown") if each.startswith("event_time"))
    assert asked == "event_time: the column with the time at which the event of a row happened"


def test_the_last_partition_is_the_one_of_the_example(tmp_path):
    """By values; one that is NULL is none that a run can own."""
    days = [date(2026, 1, 5), date(2026, 1, 7), date(2026, 1, 6), None]
    write_deltalake(tmp_path / "t", pa.table({"n": [1, 2, 3, 4], "day": days}), partition_by=["day"])
    assert adoption_of(tmp_path / "t").newest == {"day": "2026-01-07"}
    write_protocol(tmp_path / "u", [field_of("n", "long")])
    assert adoption_of(tmp_path / "u").newest == {}


def test_what_the_library_stored_is_read_as_it_is(tmp_path):
    """Its own property is a part of the declaration, and of no use beside; one that says more is left alone."""
    tags = {"classification": "personal", "purpose": ["billing"]}
    stored = json.dumps({"columns": {"n": tags}, "key": ["n"]}, sort_keys=True)
    for place, text in (("same", stored), ("newer", stored.replace("{", '{"since": 9, ', 1))):
        write_protocol(tmp_path / place, [field_of("n", "long")], configuration={"dedp.declaration": text})
        spec = Table.at(tmp_path / place, nobody).spec
        assert (spec.key, spec.columns["n"].purpose, spec.adopted) == (("n",), ("billing",), True)
        assert spec.columns["n"].classification == "personal"
        assert spec.table_properties()["dedp.declaration"] == text
        assert ("dedp.declaration" in spec.properties) == (place == "newer")
    for text in ("{", "[1]", '{"columns": 7}', '{"columns": {"n": 7}}'):
        write_protocol(tmp_path / f"t{len(text)}", [field_of("n", "long")], configuration={"dedp.declaration": text})
        with pytest.raises(ContractError, match=r"t/x: its property dedp.declaration cannot be read"):
            Table.at(tmp_path / f"t{len(text)}", nobody, name="t/x")


@pytest.mark.parametrize(
    ("tags", "classification"),
    [({"personal": True, "replica": "pseudonym"}, "personal"), ({"classification": "of a later release"}, "secret")],
)
def test_classes_of_other_releases_keep_values_in(tmp_path, tags, classification):
    """``personal`` as former releases wrote it is the class, and an unknown class shows nothing; no text is changed."""
    text = json.dumps({"columns": {"n": tags}})
    write_protocol(tmp_path / "t", [field_of("n", "long")], configuration={"dedp.declaration": text})
    spec = Table.at(tmp_path / "t", nobody).spec
    assert (spec.columns["n"].classification, spec.withheld("log")) == (classification, ("n",))
    assert spec.columns["n"].replica == tags.get("replica", "")
    assert spec.table_properties()["dedp.declaration"] == text


def test_a_table_may_be_named_otherwise_than_its_place(tmp_path):
    """The name goes into messages and transaction ids."""
    write_protocol(tmp_path / "t", [field_of("n", "long")])
    found = adoption_of(tmp_path / "t", name="gold/x")
    assert (found.spec.name, found.location, found.version) == ("gold/x", str(tmp_path / "t"), 0)
    assert adoption_of(tmp_path / "t").spec.name == f"{tmp_path.name}/t"


def test_a_table_that_takes_no_rows_says_why(tmp_path):
    """In the words that a write would be refused with; one that takes them has nothing to say."""
    counted = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    cases = {
        "t/x asks its writers to know invented": {"writers": ["invented"], "fields": [field_of("n", "long")]},
        "t/x asks its writers to know version 8 of the protocol": {
            "version": (1, 8),
            "fields": [field_of("n", "long")],
        },
        "t/x is closed": {"writers": ["dedp.closed"], "fields": [field_of("n", "long")]},
        "t/x counts n by itself": {"writers": ["identityColumns"], "fields": [field_of("n", "long", **counted)]},
    }
    for number, (words, made) in enumerate(cases.items()):
        write_protocol(tmp_path / f"t{number}", **made)
        found = adoption_of(tmp_path / f"t{number}", name="t/x")
        assert found.refused.startswith(words)
        assert found.writes == (found.refused,)
    write_protocol(tmp_path / "plain", [field_of("n", "long")])
    assert adoption_of(tmp_path / "plain").refused == ""


def test_a_checkpoint_that_took_the_place_of_the_commits_is_read(tmp_path):
    """The log may have forgotten the commit that declared the table."""
    write_protocol(
        tmp_path / "t", [field_of("n", "long", comment="how many")], readers=["invented"], writers=["invented"]
    )
    with pytest.raises(ContractError, match="t/x asks its readers to know invented"):
        adoption_of(tmp_path / "t", name="t/x")
    write_deltalake(tmp_path / "u", pa.table({"n": [1]}), description="numbers")
    DeltaTable(tmp_path / "u").create_checkpoint()
    write_deltalake(tmp_path / "u", pa.table({"n": [2]}), mode="append")
    (tmp_path / "u" / "_delta_log" / f"{0:020d}.json").unlink()
    assert (adoption_of(tmp_path / "u").version, adoption_of(tmp_path / "u").spec.comment) == (1, "numbers")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a${b}", r"t/x: a column must have a name without \$\{"),
        ("__dedp_x", "t/x: names like __dedp_x"),
        ("a\0b", "t/x: .* without NUL"),
    ],
)
def test_a_name_that_no_column_may_have_is_refused_with_the_table(tmp_path, name, words):
    """Before anything is made of it."""
    write_protocol(tmp_path / "t", [field_of("n", "long"), field_of(name, "long")])
    with pytest.raises(ConfigError, match=words):
        adoption_of(tmp_path / "t", name="t/x")


def test_a_record_of_the_library_is_no_obstacle(tmp_path):
    """A table that both write is read as any other."""
    write_protocol(tmp_path / "t", [field_of("n", "long")])
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": a_record("t/x", {}).to_json()}}
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(info))
    assert adoption_of(tmp_path / "t").version == 1
