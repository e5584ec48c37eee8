"""Classes of columns: one table says what leaves of each, and every place asks this table."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from dedp_assets.graph.mail.openlineage_datasets import HIDDEN, Touched, input_of, touched_of
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.classes import CLASSES, PLACES, SHOWN, loosened, shown
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.leaving import require_may_leave
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.dead_letter import LETTER, divert_unprocessable, route
from dedp_assets.patterns.governance._documents import contract_document
from dedp_assets.patterns.governance.data_contract import Contract
from dedp_assets.patterns.ingestion.passthrough_replicator import declare_replica
from dedp_assets.patterns.ingestion.transformation_replicator import declare_transformed, replicate_transformed
from dedp_assets.patterns.quality.online_observer import PROFILE, PROFILED_BY, observe_online
from dedp_assets.patterns.storage.snapshot_export import declare_exports, export_snapshot
from tests.helpers import a_run, read_back

NAMES = {each: f"c_{each.replace(' ', '_') or 'unclassified'}" for each in CLASSES}
CANARIES = {each: f"canary{number}" for number, each in enumerate(CLASSES)}
"""Class -> the value of its column, in lower case and with a digit, so that no figure or shape is one."""
PEOPLE = TableSpec(
    "gold/people",
    {"n": Column("BIGINT", classification="public"), **{NAMES[c]: Column("STRING", classification=c) for c in CLASSES}},
    checks={"small": "n < 10"},
)
CLASSED = replace(PEOPLE, columns={n: c for n, c in PEOPLE.columns.items() if c.classification})


def no_session():
    raise AssertionError("Spark was started")


@pytest.fixture
def rows(spark):
    """``rows(n)``: one row with the value of each class."""
    columns = ", ".join(f"'{CANARIES[each]}' AS {NAMES[each]}" for each in CLASSES)
    return lambda n: spark.sql(f"SELECT CAST({n} AS BIGINT) AS n, {columns}")


def classes_in(text):
    """The classes whose values a text shows."""
    return {each for each, value in CANARIES.items() if value in text}


def with_values(place):
    """The classes whose values a place takes."""
    return {each for each in CLASSES if shown(each, place) == "values"}


def test_each_class_has_a_rule_at_each_place():
    """No class and no place is left out; a secret leaves nowhere, what is public everywhere that takes values."""
    assert {each: {*rules} for each, rules in SHOWN.items()} == {each: {*PLACES} for each in CLASSES}
    assert {*SHOWN["secret"].values()} == {"nothing"}
    assert {place for place in PLACES if shown("public", place) != "values"} == {"contract"}
    led = {place for place in PLACES if any(shown(each, place) == "values" for each in ("personal", "sensitive"))}
    assert led == set()
    assert {place for place in PLACES if shown("", place) == "nothing"} == {"replica", "export", "contract"}


def test_what_counts_as_a_looser_class():
    """Values of a column may not come to more places under another class."""
    assert all(loosened(*each) for each in [("personal", ""), ("personal", "quasi"), ("secret", "public")])
    assert not any(loosened(*each) for each in [("quasi", "personal"), ("personal", "sensitive"), ("", "public")])
    assert not any(loosened(each, each) for each in CLASSES)


def test_a_column_states_a_known_class():
    """Anything else is refused with what it may be; a secret has no substitute."""
    with pytest.raises(ConfigError, match=r"Column.classification must be .*personal.*, not 'pii'"):
        Column("STRING", classification="pii")
    with pytest.raises(ConfigError, match=r"Column.purpose must be a list of texts, not 'billing'"):
        Column("STRING", purpose="billing")
    with pytest.raises(ConfigError, match="replica must be left out of a secret, not 'pseudonym'"):
        Column("STRING", classification="secret", replica="pseudonym")


@pytest.mark.parametrize("classification", CLASSES)
def test_no_table_is_created_with_partitions_that_its_log_may_not_hold(tmp_path, classification):
    """The name of a folder is a place, too; a table that is there can be tagged."""
    columns = {"day": Column("DATE"), "who": Column("STRING", classification=classification)}
    table = Table(TableSpec("silver/x", columns, partition_by=("who",)), tmp_path / "x", no_session)
    if shown(classification, "log") == "values":
        table.ensure()
        return
    with pytest.raises(ConfigError, match=r"silver/x: partition_by must name columns whose class lets values into"):
        table.ensure()
    assert not table.ledger.exists()
    former = {**columns, "who": Column("STRING")}
    Table(TableSpec("silver/x", former, partition_by=("who",)), tmp_path / "x", no_session).ensure()
    with pytest.raises(AssertionError, match="Spark"):  # only for the properties of a table that exists
        table.ensure()


def test_partition_values_of_an_event_follow_the_classes():
    """OpenLineage's subsets: of a table of somebody else that is partitioned by a person."""
    named = {NAMES[each]: CANARIES[each] for each in CLASSES}
    touched = Touched(namespace="file", name="/x", columns=PEOPLE.columns, partitions=[named])
    event = input_of("here", touched)
    assert classes_in(json.dumps(event)) == with_values("lineage facet")
    (read,) = touched_of(event).partitions
    assert read[NAMES["personal"]] == HIDDEN


@pytest.mark.parametrize("place", PLACES)
def test_what_may_leave_for_others(place):
    """A secret is refused anywhere, a column of no class where values need one, a person without a permission."""
    for each in CLASSES:
        for allowed in (False, True):
            called = (f"gold/{NAMES[each]}", {"x": Column("STRING", classification=each)}, place)
            options = {"to": "the others", "may_hold_personal": allowed, "instead": "ask"}
            held = shown(each, place) in ("pseudonym", "nothing")
            if each == "secret":
                words = r"gold/c_secret: columns \['x'\] are secret and must not come to the others"
            elif each == "" and held:
                words = r'columns \[.x.\] must have a class .* "x": Column\("STRING", classification="public"\)'
            elif held and not allowed:
                words = rf"declares columns \['x'\] as {each}, which the others may not hold: ask"
            else:
                require_may_leave(*called, **options)
                continue
            with pytest.raises(ConfigError, match=words):
                require_may_leave(*called, **options)


def test_a_contract_states_the_class_and_no_value():
    """Also the purpose, which other teams have to know."""
    mail = Column("STRING", "address", classification="personal", purpose=("billing",))
    document = contract_document(Contract(name="gold/x", version="1.0.0", owner="team:x", columns={"mail": mail}))
    (stated,) = document["schema"][0]["properties"]
    assert stated["classification"] == "personal"
    assert stated["customProperties"] == [{"property": "purpose", "value": ["billing"]}]


def test_a_replica_holds_what_its_place_takes():
    """Transformed: columns of a withheld class are left out; passed through: refused without a permission."""
    kept = {*declare_transformed(CLASSED, name="staging/people").columns} - {"n"}
    assert kept == {NAMES[each] for each in with_values("replica")}
    without = replace(CLASSED, columns={n: c for n, c in CLASSED.columns.items() if c.classification != "secret"})
    with pytest.raises(ConfigError, match="as quasi, personal, sensitive, free text, which staging/people may not"):
        declare_replica(without, name="staging/people")
    assert declare_replica(without, name="staging/people", may_hold_personal=True).columns == without.columns
    with pytest.raises(ConfigError, match=r"\['c_secret'\] are secret"):
        declare_replica(CLASSED, name="staging/people", may_hold_personal=True)


@pytest.mark.parametrize("declare", [declare_transformed, partial(declare_replica, may_hold_personal=True)])
@pytest.mark.parametrize("layer", ["staging", "recovery", "export", "serving"])
def test_a_replica_needs_classes(declare, layer):
    """For one's own staging as for others, and where personal values are allowed: nobody said what the column is."""
    columns = {"n": Column("BIGINT", classification="public"), "phone": Column("STRING")}
    with pytest.raises(ConfigError, match=rf"silver/people: columns \['phone'\] must have a class .* {layer}/people"):
        declare(TableSpec("silver/people", columns), name=f"{layer}/people")


@pytest.mark.spark
def test_the_log_and_a_profile_hold_values_of_the_classes_that_allow_it(make_table, rows):
    """Bounds and frequent values; the rows themselves are there. Of a secret even its length is not kept."""
    people, profiles = make_table(PEOPLE), make_table(TableSpec("quality/profiles", PROFILE, PROFILED_BY))
    run = a_run(PEOPLE.name)
    result = observe_online(rows(1), people.target(run), profiles.target(run))
    assert classes_in(str(read_back(people))) == {*CLASSES}
    log = people.location / "_delta_log"
    assert classes_in("".join(file.read_text() for file in log.glob("*.json"))) == with_values("log")
    stored = {row["column"]: row for row in read_back(profiles)}
    assert classes_in(str(stored)) == with_values("profile")
    noted = people.ledger.commit(result.version).record.notes["profile"]
    lengths = {each for each in CLASSES if stored[NAMES[each]]["longest"] is not None}
    assert lengths == {*CLASSES} - {"secret"}
    assert classes_in(str(noted)) <= with_values("profile")


@pytest.mark.spark
def test_samples_of_a_refusal_show_values_of_the_classes_that_allow_it(make_table, rows):
    """So do alerts, the status page and events of lineage, which get the sentence of the refusal."""
    people = make_table(PEOPLE)
    with pytest.raises(AuditFailed) as refused:
        people.target(a_run(PEOPLE.name)).stage(rows(10)).publish()
    assert classes_in(str(refused.value)) == with_values("sample")
    assert with_values("sample") == with_values("alert") == with_values("status page") == with_values("lineage facet")


@pytest.mark.spark
@pytest.mark.parametrize("some", [CLASSES[:4], CLASSES[4:]])
def test_letters_show_values_or_shapes_by_the_class(spark, make_table, some):
    """Of a secret neither; a record is cut, so that half of the classes are tried at a time."""
    columns = {"n": Column("BIGINT"), **{NAMES[each]: PEOPLE.columns[NAMES[each]] for each in some}}
    record = json.dumps({"n": "x", **{NAMES[each]: CANARIES[each] for each in some}})
    found = spark.createDataFrame([(1, record)], "row BIGINT, raw STRING")
    schema = {name: column.type for name, column in columns.items()}
    split = divert_unprocessable(found, payload="raw", identity=["row"], schema=schema)
    kept = {"row": Column("BIGINT"), **columns, "was_dead_lettered": Column("BOOLEAN")}
    letters = TableSpec("gold/people_dead_letter", {"row": Column("BIGINT"), "raw": Column("STRING"), **LETTER})
    run = a_run(PEOPLE.name)
    none = Audit(name="no_letters", of="dead", fail_above=0)
    into, dead = make_table(TableSpec("gold/people", kept)).target(run, audits=[none]), make_table(letters).target(run)
    with pytest.raises(AuditFailed) as refused:
        route(split, into, dead)
    (example,) = [each.example for each in refused.value.letters]
    assert classes_in(f"{refused.value} {example}") == with_values("letter") & {*some}
    for each in some:
        stated = {"values": f"'{CANARIES[each]}'", "shape": "'aaaaaa9'", "nothing": "***"}[shown(each, "letter")]
        assert f"{NAMES[each]}: {stated}" in example


@pytest.mark.spark
def test_a_replica_and_an_export_get_no_value_that_their_place_refuses(spark, make_table, rows, tmp_path):
    """The same table through both; the export is refused before a file is written."""
    people = make_table(CLASSED)
    people.target(a_run(CLASSED.name)).stage(rows(1).drop(NAMES[""])).publish()
    replica = make_table(declare_transformed(CLASSED, name="staging/people"))
    replicate_transformed(people, replica.target(a_run("staging/people")))
    with pytest.raises(ConfigError, match="must have a class"):
        replicate_transformed(Table(PEOPLE, people.store, spark), replica.target(a_run("staging/people")))
    assert classes_in(str(read_back(replica))) == with_values("replica")
    catalogue = make_table(declare_exports(name="platform/exports"))
    for left_out, words in (({"secret"}, "must have a class"), ({"secret", ""}, "may_hold_personal must be True")):
        columns = {n: c for n, c in PEOPLE.columns.items() if c.classification not in left_out}
        source = Table(replace(PEOPLE, columns=columns), people.store, spark)
        with pytest.raises(ConfigError, match=words):
            export_snapshot(source, catalogue.target(a_run("platform/exports")), to=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
