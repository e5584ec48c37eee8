"""Normalizer."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.storage.normalizer import Entity, join_entities, judge_dependencies, normalize
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.patterns.storage.models import ENTITIES, FLAT, entity_table, plan, reference, visits_of
from tests.renaming import any_names

VISITS = visits_of(105)
NOTHING = ("/none", *[None] * 6)
HALF_KNOWN = ("/half", None, "m1", "a name", None, None, None)
BROADCAST, BY_SIZE = "BroadcastHashJoin", "spark.sql.autoBroadcastJoinThreshold"


def flat(spark, rows=(*VISITS, NOTHING, HALF_KNOWN)):
    return spark.createDataFrame(rows, FLAT)


def parts_of(rows, entities=ENTITIES):
    return {name: normalize(rows, entities=entities, of=name) for name in entities}


def counted(frame, columns):
    """How often each row is there."""
    return Counter(map(tuple, frame.select(*(f"`{column}`" for column in columns)).collect()))


@pytest.fixture
def devices(spark, make_table):
    return entity_table(make_table, flat(spark), "device")


@pytest.mark.spark
def test_an_attribute_is_stored_once_and_a_correction_changes_one_row(spark, devices):
    """Acceptance 1: of 105 visits 21 came from the device; one row is updated, and all 21 have the new name."""
    entities = {"device": ENTITIES["device"]}
    visits, stored = normalize(flat(spark), entities=entities), read_back(devices)
    assert len({row["device_id"] for row in stored}) == len(stored) == 6
    assert [row["name"] for row in stored].count("Model 3") == 1
    corrected = devices.read().filter("name = 'Model 3'").selectExpr("* EXCEPT (name)", "'Pixel 3' AS name")
    done = upsert_keyed(corrected, devices.target(a_run(run_id="correction")))
    assert (done.figures["updated"], done.figures["inserted"]) == (1, 0)
    names = Counter(
        row["name"] for row in join_entities(visits, {"device": devices.read()}, entities=entities).collect()
    )
    assert names == Counter(row[3].replace("Model 3", "Pixel 3") for row in VISITS) + Counter([None, "a name"])
    assert names["Pixel 3"] == 21


ODD = st.none() | st.sampled_from(["", "a", "A", "a ", "é/x", "-", "s1:a", "${x}", "0"])
GENERATED = (Phase.explicit, Phase.generate)  # to make a failing case smaller takes a minute of jobs
KEYS = st.none() | st.integers(-1, 2)


@st.composite
def visits(draw):
    """Rows whose attributes follow from keys that are drawn, NULL among both."""
    cities = {ip: draw(ODD) for ip in (None, -1, 0, 1, 2)}
    countries = {city: draw(ODD) for city in [*cities.values()]}
    names = {}
    found = []
    for kind, model, ip in draw(st.lists(st.tuples(ODD, ODD, KEYS), max_size=30)):
        name = names.setdefault((kind, model), draw(ODD))
        found.append((draw(ODD), kind, model, name, ip, cities[ip], countries[cities[ip]]))
    return [*found, *found[: draw(st.integers(0, 3))]]


def modelled(rows):
    """The rows with references, and the entities, by plain Python."""

    def refers(keys, *columns):
        return None if {*keys, *columns} == {None} else reference(*keys)

    facts, devices, places, cities = Counter(), set(), set(), set()
    for page, kind, model, name, ip, city, country in rows:
        device, place = refers((kind, model), name), refers((ip,), city, country)
        inner = refers((city,), country)
        facts[page, device, place] += 1
        devices |= {(device, kind, model, name)} if device else set()
        places |= {(place, ip, inner)} if place else set()
        cities |= {(inner, city, country)} if inner else set()
    return facts, {"device": devices, "place": places, "city": cities}


@pytest.mark.spark
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=3, phases=GENERATED)
@given(visits())
def test_rows_are_taken_apart_and_joined_as_plain_python_does(spark, rows):
    """Acceptance 2: each row as often as before, whatever NULLs, duplicates and odd texts are among them."""
    given_rows = flat(spark, rows)
    facts, entities = modelled(rows)
    taken, parts = normalize(given_rows, entities=ENTITIES), parts_of(given_rows)
    assert taken.columns == ["page", "device_id", "place_id"]
    everything = {"": taken, **parts}
    shown = (
        part.select(F.lit(name), F.array(*[F.col(f"`{c}`").cast("STRING") for c in part.columns]))
        for name, part in everything.items()
    )
    found = Counter((name, *values) for name, values in reduce(DataFrame.unionAll, shown).collect())
    expected = Counter({("", *row): times for row, times in facts.items()})
    expected |= Counter((name, *map(text, row)) for name, part in entities.items() for row in part)
    assert found == expected
    back = join_entities(taken, parts, entities=ENTITIES, unknown="unknown").withColumn("unknown", F.size("unknown"))
    assert counted(back, [*given_rows.columns, "unknown"]) == Counter((*row, 0) for row in rows)


def text(value):
    return None if value is None else str(value)


@pytest.mark.spark
def test_small_entities_are_broadcast_and_larger_ones_are_not(spark, make_table):
    """Acceptance 3: by size above the threshold there are Exchanges of both sides; named ones are broadcast anyway."""
    visits, before = normalize(flat(spark), entities=ENTITIES), spark.conf.get(BY_SIZE)
    parts = {name: entity_table(make_table, flat(spark), name).read() for name in ENTITIES}

    def joined(limit, *broadcast):
        spark.conf.set(BY_SIZE, limit)
        found = join_entities(visits, parts, entities=ENTITIES, broadcast=broadcast)
        return plan(found).count(BROADCAST), counted(found, found.columns)

    try:
        small, large = joined("10MB"), joined("10")
        some, named = joined("10", "city"), joined("10", *ENTITIES)
    finally:
        spark.conf.set(BY_SIZE, before)
    assert [found[0] for found in (small, large, some, named)] == [3, 0, 1, 3]
    assert small[1] == large[1] == some[1] == named[1]
    assert small[1] == Counter((*VISITS, NOTHING, HALF_KNOWN))


@pytest.mark.spark
def test_attributes_that_do_not_follow_from_their_key_are_found(spark, devices):
    """Acceptance 4: a seeded second name is counted with its key, and the entity's table refuses it."""
    assert judge_dependencies(flat(spark), entities=ENTITIES).passed
    seeded = flat(spark, [*VISITS, ("/x", "mobile", "m3", "another", 6, "City 0", "elsewhere")])
    found = judge_dependencies(seeded, entities=ENTITIES, name="third_normal_form")
    assert (found.name, found.passed) == ("third_normal_form", False)
    assert found.figures == {"device": 1, "place": 1, "city": 1}
    assert '1 keys of device have several values, e.g. {"kind":"mobile","the-model":"m3"}' in found.note
    with pytest.raises(AmbiguousKeys):
        upsert_keyed(normalize(seeded, entities=ENTITIES, of="device"), devices.target(a_run(run_id="x")))
    unknown = flat(spark, [NOTHING, ("/x", None, None, "a", None, None, None), ("/y", None, None, None, 1, "a", None)])
    assert judge_dependencies(unknown, entities=ENTITIES).passed, "rows that refer to nothing have no values"
    assert judge_dependencies(flat(spark), entities={"page": Entity(["page"])}).passed
    stored = Entity(keys=["device_id"], columns=["name"])
    assert judge_dependencies(devices.read(), entities={"stored": stored}).passed


@pytest.mark.spark
def test_references_are_the_same_in_every_run_also_at_once(spark, devices):
    """Acceptance 5: a rerun changes nothing, two runs at once store a shared device once, under the hash of its key."""
    again = upsert_keyed(normalize(flat(spark), entities=ENTITIES, of="device"), devices.target(a_run(run_id="2")))
    assert not again.changed
    shared = [(f"/{n}", "tv", f"t{n % 4}", "TV", n, "a", "b") for n in range(8)]

    def run(number):
        rows = flat(spark, [*shared, (f"/{number}", "tv", f"own {number}", "TV", 1, "a", "b")])
        found = normalize(rows, entities=ENTITIES, of="device")
        return upsert_keyed(found, devices.target(a_run(run_id=f"at once {number}")))

    with ThreadPoolExecutor(2) as pool:
        assert all(done.applied for done in pool.map(run, range(2)))
    stored = read_back(devices)
    expected = {("mobile", f"m{n}") for n in range(5)} | {("tv", f"t{n}") for n in range(4)} | {(None, "m1")}
    expected |= {("tv", "own 0"), ("tv", "own 1")}
    assert Counter((row["kind"], row["the-model"]) for row in stored) == Counter(expected)
    assert all(row["device_id"] == reference(row["kind"], row["the-model"]) for row in stored)


@pytest.mark.both
def test_a_reference_to_a_missing_row_is_counted_and_its_row_is_kept(spark):
    """Acceptance 5: an orphan is told from a row that refers to nothing; an entity within a missing one is none."""
    rows = flat(spark)
    parts = parts_of(rows)
    parts = {
        **parts,
        "device": parts["device"].filter("`the-model` <> 'm2'"),
        "place": parts["place"].filter("ip <> 0"),
        "city": parts["city"].filter("city <> 'City 1'"),
    }
    found = join_entities(normalize(rows, entities=ENTITIES), parts, entities=ENTITIES, unknown="unknown")
    assert found.columns == ["page", "kind", "the-model", "name", "ip", "city", "country", "unknown"]
    by_page = {row["page"]: row for row in found.collect()}
    assert len(by_page) == len(VISITS) + 2
    for n, (page, *_, city, _) in enumerate(VISITS):
        missing = ["device"] * (n % 5 == 2) + ["place"] * (n % 7 == 0) + ["city"] * (city == "City 1")
        assert sorted(by_page[page]["unknown"]) == sorted(missing)
        assert (by_page[page]["name"] is None) == ("device" in missing)
    assert by_page["/none"]["unknown"] == by_page["/half"]["unknown"] == []
    kept = join_entities(normalize(rows, entities=ENTITIES), parts, entities=ENTITIES, keep_references=True)
    assert {"device_id", "place_id", "city_id"} < {*kept.columns}


REFUSED = {
    "none": ({}, "entities must name an entity"),
    "unnamed": ({"": Entity(["page"])}, "entities must name columns|entities must"),
    "missing": ({"a": Entity(["nobody"])}, "no column nobody"),
    "twice": ({"a": Entity(["page"]), "A": Entity(["kind"])}, "entities= names a twice"),
    "reserved": ({"__dedp_x": Entity(["page"])}, "names of their own"),
    "equal": ({"a": Entity(["page", "kind"]), "b": Entity(["kind"], ["PAGE"])}, "a and b, which share kind, page"),
    "overlap": ({"a": Entity(["page", "kind"]), "b": Entity(["kind", "name"])}, "a and b, which share kind$"),
    "inside": ({"a": Entity(["page", "kind", "ip"]), "b": Entity(["kind", "name"])}, "which share kind$"),
    "float": ({"a": Entity(["price"])}, "DOUBLE"),
    "map": ({"a": Entity(["page"], ["tags"])}, "tags is MAP"),
    "collated": ({"a": Entity(["page"], ["loose"])}, "loose"),
    "taken": ({"page": Entity(["kind"])}, "page_id"),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", REFUSED)
def test_entities_that_contradict_the_rows_or_each_other_are_refused(spark, case):
    """In a sentence, before any job: partial overlap, equal sets, columns that are not there, keys without one text."""
    entities, words = REFUSED[case]
    rows = flat(spark, []).selectExpr(
        "*", "1.5D AS price", "map('a', 1) AS tags", "'a' COLLATE UTF8_LCASE AS loose", "1 AS page_id"
    )
    with pytest.raises(ConfigError, match=words):
        normalize(rows, entities=entities)


@pytest.mark.spark
def test_parts_and_options_that_do_not_fit_are_refused(spark):
    """A missing part, another entity's name, a column that is there already, no keys."""
    rows = flat(spark)
    taken, parts = normalize(rows, entities=ENTITIES), parts_of(rows)
    for options, words in (
        ({"parts": {"device": parts["device"]}}, "parts must hold place, city, not only device"),
        ({"broadcast": ["nobody"]}, "broadcast must name some of device, place, city, not nobody"),
        ({"unknown": "page"}, "page"),
        ({"rows": rows}, "no column (place|device)_id"),
        ({"parts": {**parts, "city": parts["device"]}}, "no column city_id"),
        ({"rows": taken.selectExpr("*", "1 AS name")}, "name"),
    ):
        with pytest.raises(ConfigError, match=words):
            join_entities(**{"rows": taken, "parts": parts, "entities": ENTITIES, **options})
    with pytest.raises(ConfigError, match="of must be one of device, place, city, not nobody"):
        normalize(rows, entities=ENTITIES, of="nobody")
    with pytest.raises(ConfigError, match=r"Entity\.keys must name columns"):
        Entity(keys=[])
    with pytest.raises(ConfigError, match="twice"):
        Entity(keys=["page"], columns=["PAGE"])


@pytest.mark.spark
def test_no_rows_have_no_entities(spark):
    """And back from nothing comes nothing, with the columns."""
    rows = flat(spark, [])
    back = join_entities(normalize(rows, entities=ENTITIES), parts_of(rows), entities=ENTITIES)
    assert (back.columns, back.collect()) == (rows.columns, [])
    assert judge_dependencies(rows, entities=ENTITIES).figures == {"device": 0, "place": 0, "city": 0}


@any_names(handed_on=("page",))
def normalized(n):
    rows = n.frame("page STRING, model STRING, name STRING, city STRING", ("/", "a", "A", "x"), ("/", None, None, "x"))
    entities = {"device": Entity(n.all("model"), n.all("name")), "city": Entity(n.all("city"))}
    parts = {name: normalize(rows, entities=entities, of=name) for name in entities}
    yield join_entities(normalize(rows, entities=entities), parts, entities=entities)
    yield [judge_dependencies(rows, entities=entities).figures]


@known_calls
def calls_that_work(known):
    rows, entities = known.visits, {"user": Entity(["user"], ["page"])}
    parts = {"user": known.frame("user_id STRING, user STRING, page STRING", ("a", "Ada", "/"))}
    more = {"broadcast": ["user"], "unknown": "unknown", "keep_references": False}
    refers = known.frame("id INT, user_id STRING", (1, "a"))
    return {
        "normalize": {"rows": rows, "entities": entities, "of": "user"},
        "judge_dependencies": {"rows": rows, "entities": entities, "name": "sound"},
        "join_entities": {"rows": refers, "parts": parts, "entities": entities, **more},
    }
