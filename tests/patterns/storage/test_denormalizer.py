"""Denormalizer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AmbiguousKeys, AuditFailed, ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.storage.denormalizer import judge_breadth, nest_children, spread_entity
from dedp_assets.patterns.storage.normalizer import Entity, join_entities, normalize
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, files_of, read_back
from tests.patterns.storage.models import ENTITIES, FLAT, plan, reference, visits_of
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

EIGHT = {f"e{n}": Entity(keys=[f"k{n}"], columns=[f"a{n}"]) for n in range(8)}
WIDE = TableSpec(
    "wide",
    {
        "day": Column("STRING", required=True),
        "page": Column("STRING", required=True),
        "device_id": Column("STRING"),
        "model": Column("STRING"),
        "maker": Column("STRING"),
        "unknown": Column("ARRAY<STRING>"),
    },
    partition_by=("day",),
)
DEVICE = {"device": Entity(keys=["model"], columns=["maker"])}
VISITS = [
    (day, f"/{day}/{n}", f"m{(n + shift) % 4 if shift < 4 else 9}", "Maker")
    for shift, day in ((0, "mon"), (1, "tue"), (4, "wed"))
    for n in range(10)
]
"""On two days of four models, on a third one of another one."""


@pytest.fixture
def wide(spark, make_table):
    """Wide rows of three days, in which one device was missing; the rows of the devices."""
    flat = spark.createDataFrame(VISITS, "day STRING, page STRING, model STRING, maker STRING")
    devices = normalize(flat, entities=DEVICE, of="device")
    known = devices.filter("model <> 'm2'")
    options = {"entities": DEVICE, "unknown": "unknown", "keep_references": True}
    table = make_table(WIDE)
    table.overwrite(join_entities(normalize(flat, entities=DEVICE), {"device": known}, **options), provenance=a_run())
    return table, devices


def spread(table, changed, run="change", **options):
    return spread_entity(changed, table.target(a_run(run_id=run)), entity="device", unknown="unknown", **options)


@pytest.mark.spark
def test_a_question_of_eight_entities_is_one_scan(spark, make_table):
    """Acceptance 1: eight joins of the normalized tables; of the wide one none, and at most the grouping's Exchange."""
    columns = ["page", *(f"{letter}{n}" for n in range(8) for letter in "ka")]
    rows = [(f"/{n}", *(f"{letter}{n % (k + 2)}" for k in range(8) for letter in "ka")) for n in range(60)]
    flat = spark.createDataFrame(rows, ", ".join(f"{name} STRING" for name in columns))
    table = make_table(TableSpec("big", {name: Column("STRING") for name in columns}))
    table.overwrite(flat, provenance=a_run())
    facts, parts = normalize(flat, entities=EIGHT), {}
    for n, name in enumerate(EIGHT):
        held = {(reference(row[1 + 2 * n]), *row[1 + 2 * n : 3 + 2 * n]) for row in rows}
        parts[name] = spark.createDataFrame([*held], f"{name}_id STRING, k{n} STRING, a{n} STRING")

    def asked(frame):
        question = frame.filter("a7 <> 'a0'").groupBy("a0", "a3", "a6").count()
        shown = plan(question)
        return shown.count("Join"), shown.count("Exchange"), Counter(map(tuple, question.collect()))

    joined, scanned = asked(join_entities(facts, parts, entities=EIGHT)), asked(table.read())
    assert joined[0] >= 8 <= joined[1], "the control"
    assert (scanned[0], scanned[1] <= 1) == (0, True)
    assert scanned[2] == joined[2]
    assert sum(group[-1] for group in scanned[2]) == sum(row[-1] != "a0" for row in rows)


@pytest.mark.spark
def test_a_changed_attribute_reaches_all_its_rows_in_one_commit(wide):
    """Acceptance 2: five rows of two days; the files of the third day are left alone, and a rerun changes nothing."""
    table, devices = wide
    version, others = table.ledger.version(), files_of(table, day="wed")
    touched = {day: files_of(table, day=day) for day in ("mon", "tue")}
    changed = devices.filter("model = 'm1'").selectExpr("device_id", "model", "'Better' AS maker")
    before = read_back(table)
    done = spread(table, changed)
    expected = sum(row[2] == "m1" for row in VISITS)
    assert (done.figures["updated"], done.figures["inserted"], expected) == (expected, 0, 5 + 1)
    assert table.ledger.version() == version + 1
    assert files_of(table, day="wed") == others
    assert all(files_of(table, day=day).isdisjoint(files) for day, files in touched.items())
    assert read_back(table) == sorted(
        [{**row, "maker": "Better" if row["model"] == "m1" else row["maker"]} for row in before],
        key=lambda row: [str(value) for value in row.values()],
    )
    assert table.ledger.commit(version + 1).record.pattern == "storage.denormalizer"
    assert not spread(table, changed, run="again").changed


@pytest.mark.spark
def test_a_row_that_came_before_its_device_is_kept_and_repaired(wide):
    """Acceptance 6: unknown it is counted, where an inner join drops it; with the device it has all attributes."""
    table, devices = wide
    late = [row for row in VISITS if row[2] == "m2"]
    rows = read_back(table)
    assert len(rows) == len(VISITS)
    assert sum(row["unknown"] == ["device"] and row["model"] is None for row in rows) == len(late) > 0
    inner = table.read().join(devices.filter("model <> 'm2'").select("device_id"), "device_id")
    assert inner.count() == len(VISITS) - len(late), "the control"
    done = spread(table, devices.filter("model = 'm2'"))
    assert done.figures["updated"] == len(late)
    found = read_back(table)
    assert Counter((row["day"], row["page"], row["model"], row["maker"]) for row in found) == Counter(VISITS)
    assert all(row["unknown"] == [] for row in found)


@pytest.mark.spark
def test_only_the_rows_of_a_named_partition_are_updated(wide):
    """And a rule of the target refuses the updated rows before anybody sees them."""
    table, devices = wide
    changed = devices.filter("model = 'm1'").selectExpr("device_id", "'Bad' AS maker")
    rule = Audit.none_where("no_bad_makers", "maker = 'Bad'")
    with pytest.raises(AuditFailed, match="no_bad_makers"):
        spread_entity(changed, table.target(a_run(run_id="x"), audits=[rule]), entity="device")
    spread_entity(changed, table.target(a_run(run_id="mon"), partition={"day": "mon"}), entity="device")
    assert {row["day"] for row in read_back(table) if row["maker"] == "Bad"} == {"mon"}


@pytest.mark.spark
def test_changes_that_do_not_fit_the_table_are_refused(wide, make_table):
    """Two rows of one reference, columns of neither side, nothing to update: the table keeps its version."""
    table, devices = wide
    version = table.ledger.version()
    with pytest.raises(AmbiguousKeys):
        spread(table, devices.union(devices))
    for changed, options, words in (
        (devices.selectExpr("*", "1 AS size"), {}, "wide must hold size, not only day"),
        (devices.select("model"), {}, "no column device_id"),
        (devices.select("device_id"), {}, "changed must hold columns to update beside device_id"),
        (devices, {"unknown": "lacks"}, "wide must hold lacks"),
    ):
        with pytest.raises(ConfigError, match=words):
            spread_entity(changed, table.target(a_run(run_id="x")), entity="device", **options)
    assert table.ledger.version() == version


@pytest.mark.both
def test_nested_children_are_the_flat_rows_after_an_explode(spark):
    """Acceptance 3: NULL and missing children keep their parent with an empty array; an array has its order."""
    parents = [(1, "a"), (2, "b"), (3, None), (None, "d"), (1, "again")]
    children = [(1, "/b", 2), (1, "/a", 3), (2, None, None), (2, "/x", 1), (None, "/n", 0), (9, "/orphan", 0)]
    left = spark.createDataFrame(parents, "visit INT, name STRING")
    right = spark.createDataFrame(children, "visit INT, page STRING, seen INT")
    found = nest_children(left, right, keys=["VISIT"], column="views", order_by=["seen"])
    by_parent = {(row["visit"], row["name"]): [tuple(view) for view in row["views"]] for row in found.collect()}
    assert by_parent == {
        (1, "a"): [(2, "/b"), (3, "/a")],
        (1, "again"): [(2, "/b"), (3, "/a")],
        (2, "b"): [(None, None), (1, "/x")],
        (3, None): [],
        (None, "d"): [],
    }
    exploded = found.selectExpr("visit", "name", "inline_outer(views)")
    flat = left.join(right, "visit", "left").select("visit", "name", "seen", "page")
    assert Counter(map(tuple, exploded.collect())) == Counter(map(tuple, flat.collect()))


@pytest.mark.spark
def test_nesting_that_cannot_work_is_refused(spark):
    """A column that is there already, keys of neither side, children that are keys alone, or hold a map."""
    parents = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    for children, options, words in (
        ("1 AS id, 2 AS n", {"column": "NAME"}, "name"),
        ("1 AS id, 2 AS n", {"keys": []}, "keys must name"),
        ("1 AS id, 2 AS n", {"keys": ["id", "ID"]}, "twice"),
        ("1 AS n", {}, "no column id"),
        ("1 AS id", {}, "children must hold columns beside their keys"),
        ("1 AS id, map('a', 1) AS tags", {}, "tags is MAP"),
        ("1 AS id, 2 AS n", {"order_by": ["nobody"]}, "no column nobody"),
    ):
        given = {"keys": ["id"], "column": "children", **options}
        with pytest.raises(ConfigError, match=words):
            nest_children(parents, spark.sql(f"SELECT {children}"), **given)


@pytest.mark.spark
def test_a_star_has_dimensions_of_one_level(spark):
    """The nested entities are joined into their outer one: two joins to the facts instead of three, equal rows."""
    flat = spark.createDataFrame(visits_of(40), FLAT)
    parts = {name: normalize(flat, entities=ENTITIES, of=name) for name in ENTITIES}
    places = join_entities(parts["place"], parts, entities={"city": ENTITIES["city"]})
    assert places.columns == ["place_id", "ip", "city", "country"]
    assert places.count() == 7
    star = {name: ENTITIES[name] for name in ("device", "place")}
    back = join_entities(normalize(flat, entities=star), {**parts, "place": places}, entities=star)
    assert back.columns == flat.columns
    assert Counter(map(tuple, back.collect())) == Counter(visits_of(40))


def size_of(folder, column):
    """Bytes of a column in the data files of a folder, and the encodings of its footers."""
    bytes_, encodings = 0, set()
    for path in Path(folder).rglob("*.parquet"):
        meta = pq.ParquetFile(path).metadata
        place = meta.schema.names.index(column)
        for group in range(meta.num_row_groups):
            chunk = meta.row_group(group).column(place)
            bytes_ += chunk.total_uncompressed_size
            encodings |= {*chunk.encodings}
    return bytes_, encodings


@pytest.mark.spark
def test_repeated_texts_are_stored_by_dictionary(spark, make_table, tmp_path):
    """Acceptance 4: a text of 32 bytes in 20,000 rows takes less than a tenth of what it takes without a dictionary."""
    rows = spark.range(20_000).selectExpr("concat('a long name of a device, no. ', id % 40) AS name")
    table = make_table(TableSpec("texts", {"name": Column("STRING")}))
    table.overwrite(rows, provenance=a_run())
    (tmp_path / "plain").mkdir()
    pq.write_table(rows.toArrow(), tmp_path / "plain" / "texts.parquet", use_dictionary=False)
    (held, encoded), (plain, control) = size_of(table.location, "name"), size_of(tmp_path / "plain", "name")
    assert encoded & {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
    assert not control & {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
    assert held < plain / 10, (held, plain)


def test_a_table_about_everything_is_warned_of():
    """Acceptance 5: two conjunctions in a name, or columns of too many entities; one of either is none."""
    columns = {name: Column("STRING") for name in ("K0", "a1", "a2", "page")}

    def judged(name, **options):
        return judge_breadth(TableSpec(name, columns), entities=EIGHT, **options)

    for name in ("gold/users_and_orders_and_visits", "gold/UsersAndOrdersWithVisits"):
        found = judged(name)
        assert (found.passed, found.refuses, found.figures["conjunctions"]) == (False, False, 2)
        assert f"{name} joins several things by 2 conjunctions" in found.note
    for name in ("gold/users_and_orders", "gold/brands_by_android_land"):
        assert judged(name).passed
    assert judged("gold/wide", most=3).figures == {"conjunctions": 0, "entities": 3}
    found = judged("gold/wide", most=2)
    assert (found.passed, found.severity) == (False, "warn")
    assert "columns of e0, e1, e2, more than 2 entities" in found.note


@any_names(STORED, handed_on=("model",))
def denormalized(n):
    table = n.table("page STRING, model STRING", more={"device_id": Column("STRING")})
    rows = n.frame("page STRING, model STRING", ("/1", "Pixl"), ("/2", None)).selectExpr("*", "'a' AS device_id")
    table.overwrite(rows, provenance=a_run())
    changed = n.frame("model STRING", ("Pixel",)).selectExpr("*", "'a' AS device_id")
    spread_entity(changed, table.target(a_run(run_id="2")), entity="device")
    yield table
    children = n.frame("page STRING, view STRING", ("/1", "v"))
    found = nest_children(
        n.frame("page STRING", ("/1",)), children, keys=n.all("page"), column="views", order_by=n.all("view")
    )
    yield found.selectExpr(n.q("page"), "views")


@known_calls
def calls_that_work(known):
    wide = known.table("gold/wide", "id INT, user_id STRING, user STRING", (1, "a", "Ada"))
    changed = known.frame("user_id STRING, user STRING", ("a", "Ada L."))
    children = known.frame("id INT, page STRING", (1, "/"))
    return {
        "spread_entity": {"changed": changed, "into": wide.target(known.run), "entity": "user", "unknown": ""},
        "nest_children": {
            "parents": known.visits,
            "children": children,
            "keys": ["id"],
            "column": "pages",
            "order_by": ["page"],
        },
        "judge_breadth": {"table": wide.spec, "entities": {"user": Entity(["user"])}, "most": 8},
    }


@two_runs()
def spread_at_once(world):
    columns = "page STRING, device_id STRING, model STRING"
    table = world.table("wide", columns)
    table.overwrite(world.frame(columns, ("/1", "a", "x"), ("/2", "b", "y")), provenance=a_run())

    def write(w, name, device):
        changed = w.frame("device_id STRING, model STRING", (device, f"new {device}"))
        spread_entity(changed, w.into("wide", name), entity="device")

    yield lambda w: write(w, "1", "a")
    yield lambda w: write(w, "2", "b")
