"""Tables created by their first commit: what Spark's own statements would have left, without Spark."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, handle
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.commit.creation import first_commit
from dedp_assets.patterns.delta.snapshots.definition import creation
from tests.helpers import EVENTS

FUZZ = settings.get_current_profile_name() == "fuzz"
SCALARS = """TINYINT SMALLINT INT BIGINT byte short integer long FLOAT REAL DOUBLE DECIMAL DECIMAL(9) Decimal(38,38)
dec(5,0) STRING BINARY BOOLEAN DATE TIMESTAMP TIMESTAMP_LTZ"""
ODD = 'it\'s \\ "q" \n ü \\n % \u2028 \U0001f600'
PLAIN = TableSpec("t/plain", {"id": Column("INT"), "v": Column("STRING")})
SPECS = {
    "with everything usual": replace(EVENTS, properties={"delta.appendOnly": "true", 'own "note"': ODD, "empty": ""}),
    "scalars": TableSpec(
        "t/scalars",
        {f"c{n}": Column(kind, ODD if n % 2 else "", required=n % 3 == 0) for n, kind in enumerate(SCALARS.split())},
        partition_by=("c18", "c0"),
        comment=ODD,
    ),
    "texts with a length": TableSpec(
        "t/texts",
        {"a": Column("VARCHAR(3)", "a", required=True), "b": Column("char( 2 )"), "c": Column("CHARACTER(1)")},
    ),
    "nested": TableSpec(
        "t/nested",
        {
            "a": Column("ARRAY< ARRAY<INT>>"),
            "b": Column("Map<STRING, ARRAY<STRUCT<a: DATE, B DECIMAL(4, 2) COMMENT 'how much'>>>"),
            "c": Column("STRUCT<x: INT NOT NULL, y: STRUCT<`z.z`: STRING NOT NULL, `ti``ck` map<int,binary>>>", ODD),
        },
    ),
    "types that ask for features": TableSpec(
        "t/features",
        {"a": Column("ARRAY<TIMESTAMP_NTZ>"), "b": Column("VARIANT")},
        checks={"Named": "a IS NOT NULL"},
    ),
    "properties that ask for features": replace(
        PLAIN,
        properties={
            "delta.enableChangeDataFeed": "true",
            "delta.enableDeletionVectors": "true",
            "delta.enableTypeWidening": "true",
            "delta.checkpointPolicy": "v2",
        },
    ),
    "properties that ask for none": replace(
        PLAIN,
        properties={
            "delta.enableChangeDataFeed": "false",
            "delta.checkpointPolicy": "classic",
            "delta.columnMapping.mode": "none",
            "delta.deletedFileRetentionDuration": "interval 2 weeks",
            "delta.dataSkippingNumIndexedCols": "3",
            "delta.isolationLevel": "Serializable",
            "delta.enableExpiredLogCleanup": "false",
        },
    ),
    "a change feed with constraints": replace(
        PLAIN, properties={"delta.enableChangeDataFeed": "true"}, checks={"a b": "id > 0", "C": "v LIKE 'x%'"}
    ),
    "names": TableSpec("t/names", {name: Column("INT") for name in ("a.b", "with-dash", "ti`ck", "naïve", "select")}),
}


def no_session():
    raise AssertionError("a session is asked for")


def declared(location):
    """Protocol and metadata of the newest version, but for what is new in every table, with features in order."""
    found = {}
    for path in sorted((location / "_delta_log").glob("*.json")):
        for line in path.read_bytes().splitlines():
            found |= {name: what for name, what in json.loads(line).items() if name in ("protocol", "metaData")}
    protocol = {key: sorted(value) if isinstance(value, list) else value for key, value in found["protocol"].items()}
    metadata = {key: value for key, value in found["metaData"].items() if key not in ("id", "createdTime")}
    metadata["schemaString"] = json.loads(metadata["schemaString"])
    properties = metadata.pop("configuration")
    # Delta writes the words of a predicate one blank apart.
    rules = {name: "".join(properties.pop(name).split()) for name in [*properties] if "constraints" in name}
    return protocol, metadata, properties, rules


def by_spark(spark, spec, location):
    for statement in creation(spec, str(location)):
        spark.sql(statement)
    return declared(location)


def by_commit(spec, location):
    Table(spec, location, no_session).ensure()
    return declared(location)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_protocol_and_metadata_are_what_spark_would_have_made(spec, spark, tmp_path):
    """Schema, comments, properties, constraints and features, compared with Spark's own statements."""
    assert by_commit(spec, tmp_path / "ours") == by_spark(spark, spec, tmp_path / "theirs")
    assert spark.read.format("delta").load(str(tmp_path / "ours")).count() == 0
    assert DeltaTable(str(tmp_path / "ours")).version() == 0


SCALAR = st.sampled_from(["INT", "bigint", "STRING", "DECIMAL(9,2)", "DATE", "TIMESTAMP_NTZ", "BINARY", "variant"])
KINDS = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        inner.map(lambda kind: f"ARRAY<{kind}>"),
        inner.map(lambda kind: f"MAP<STRING, {kind}>"),
        st.tuples(inner, inner, st.sampled_from(["", " COMMENT 'x'"])).map(
            lambda it: f"STRUCT<a: {it[0]}{it[2]}, `b.c` {it[1]}>"
        ),
    ),
    max_leaves=4,
)
TEXTS = st.text(st.characters(exclude_characters="$\x00", exclude_categories=["Cs"]), max_size=8)
NAMES = st.lists(
    st.text(st.characters(exclude_characters=" ,;{}()\n\t=$", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5),
    min_size=2,
    max_size=6,
    unique_by=str.lower,
)


@st.composite
def specs(draw):
    names = draw(NAMES)
    columns = {name: Column(draw(KINDS), draw(TEXTS), required=draw(st.booleans())) for name in names}
    columns[names[0]] = replace(columns[names[0]], type="INT")
    first = f"`{names[0].replace('`', '``')}`"
    truths = st.sampled_from(["true", "false"])
    properties = st.fixed_dictionaries(
        {},
        optional={
            "delta.appendOnly": truths,
            "delta.enableChangeDataFeed": truths,
            "delta.enableDeletionVectors": truths,
            "delta.checkpointInterval": st.sampled_from(["1", "7"]),
            "team's property": TEXTS,
        },
    )
    return TableSpec(
        "t/generated",
        columns,
        partition_by=draw(st.sampled_from([(), (names[0],)])),
        checks=draw(st.sampled_from([{}, {"Large": f"{first} > 1", "known": f"{first} IS NOT NULL"}])),
        comment=draw(TEXTS),
        properties=draw(properties),
    )


@settings(
    max_examples=200 if FUZZ else 12,
    deadline=None,
    derandomize=not FUZZ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],
)
@given(spec=specs())
def test_any_declaration_makes_the_table_that_spark_would_have_made(spec, spark, tmp_path_factory):
    """Types at every depth, names, comments, constraints and properties, generated."""
    place = tmp_path_factory.mktemp("generated")
    assert by_commit(spec, place / "ours") == by_spark(spark, spec, place / "theirs")


UNKNOWN = """INTERVAL DAY | VOID | BIGINTEGER | BIG INT | VARCHAR(0) | VARCHAR | STRING(3) | DECIMAL(39,2)
DECIMAL(2,3) | DECIMAL(0) | STRING COLLATE UTF8_LCASE | INT NOT NULL | INT, d INT | INT DEFAULT 1 | ARRAY<INT
ARRAY<VARCHAR(2)> | STRUCT<> | STRUCT<a: INT, A: INT> | STRUCT<`a b`: INT> | ARRAY<STRUCT<a: INT NOT NULL>>
MAP<ARRAY<INT>, INT> | STRUCT<a: INT COMMENT> | STRUCT<a: INT,>"""


@pytest.mark.parametrize(
    "spec",
    [
        replace(PLAIN, properties={"delta.columnMapping.mode": "name"}),
        replace(PLAIN, properties={"delta.enableRowTracking": "true"}),
        replace(PLAIN, properties={"delta.enableInCommitTimestamps": "true"}),
        replace(PLAIN, properties={"delta.feature.appendOnly": "supported"}),
        replace(PLAIN, properties={"DELTA.appendOnly": "true"}),
        replace(PLAIN, properties={"delta.checkpointInterval": "0"}),
        replace(PLAIN, properties={"delta.logRetentionDuration": "interval 1 month"}),
        replace(PLAIN, properties={"delta.dataSkippingStatsColumns": "nothing"}),
        replace(PLAIN, properties={"owner": "somebody"}),
        TableSpec("t/x", {}),
        *[TableSpec("t/x", {"c": Column(kind)}) for kind in re.split(r" \| |\n", UNKNOWN)],
        TableSpec("t/x", {"two words": Column("INT")}),
        TableSpec("t/x", {"_change_type": Column("INT")}, properties={"delta.enableChangeDataFeed": "true"}),
    ],
    ids=lambda spec: str(spec.properties or spec.columns.get("c") or spec.columns),
)
def test_what_is_not_known_for_certain_is_left_to_spark(spec):
    """Features that need more than their name, and everything that Spark refuses."""
    assert first_commit(spec) is None


def test_a_constraint_that_only_spark_understands_asks_spark_and_nobody_else(tmp_path):
    """Creating asks for a session only then, and before there is a table."""
    Table(EVENTS, tmp_path / "known", no_session).ensure()
    unknown = replace(EVENTS, checks={"short": "length(user_id) < 9"})
    with pytest.raises(AssertionError, match="a session is asked for"):
        Table(unknown, tmp_path / "unknown", no_session).ensure()
    assert not (tmp_path / "unknown").exists()


def test_a_constraint_that_spark_understands_makes_the_same_commit(spark, tmp_path):
    """One that it does not is refused before there is a table."""
    short = replace(PLAIN, checks={"short": "length(v) < 9"})
    Table(short, tmp_path / "ours", spark).ensure()
    assert declared(tmp_path / "ours") == by_spark(spark, short, tmp_path / "theirs")
    assert DeltaTable(str(tmp_path / "ours")).version() == 0
    for rule, sentence in (
        ("length(v) <", "constraint short cannot be evaluated"),
        ("length(v) IN (SELECT 1)", "constraint short must be of one row"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            Table(replace(PLAIN, checks={"short": rule}), tmp_path / "none", spark).ensure()
    assert not (tmp_path / "none").exists()


def test_of_two_creators_one_wins_and_the_other_takes_its_table(tmp_path, monkeypatch):
    """Even one who knows no lock: nobody's table is written over."""
    theirs, real = [], commits.write

    def overtaken(store, version, content):
        if not theirs:
            theirs.append(first_commit(EVENTS))
            real(store, version, theirs[0])
        real(store, version, content)

    monkeypatch.setattr(handle.commits, "write", overtaken)
    state = Table(EVENTS, tmp_path / "events", no_session).ensure()
    assert (state.version, state.snapshot.metadata().id) == (0, theirs[0][1]["metaData"]["id"])


def test_creators_at_once_make_one_table(tmp_path):
    """Threads of one process: one first commit, no error."""
    made, at_once = [], threading.Barrier(4)

    def create():
        at_once.wait()
        made.append(Table(EVENTS, tmp_path / "events", no_session).ensure().snapshot.metadata().id)

    creators = [threading.Thread(target=create) for _ in range(4)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join()
    assert (len(made), len(set(made))) == (4, 1)
