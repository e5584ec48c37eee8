"""One rule for keys in every pattern that has any: which are equal, and what becomes of a row without one.

A plain model in Python says it: NULL is no key, NaN is itself, ``-0.0`` is ``0.0``, an empty text and blanks at an end
are values. Each pattern gets every such value at once, in keys of several columns, and equal ones that differ.
"""

from __future__ import annotations

import math
from collections import Counter

import pytest

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.error_management.checkpointer import append_checkpointed
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import (
    claim_late_partitions,
    judge_late_partitions,
)
from dedp_assets.patterns.error_management.windowed_deduplicator import (
    deduplicate,
    deduplicate_stream,
    judge_uniqueness,
)
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.idempotency.merger import merge_changes
from dedp_assets.patterns.idempotency.stateful_merger import merge_execution
from dedp_assets.patterns.ingestion.incremental_loader import load_increment
from dedp_assets.patterns.modeling.current_dimension import NEWEST, ChangeStream, keep_newest
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, keep_versions
from dedp_assets.patterns.value.distributed_aggregator import aggregate
from dedp_assets.patterns.value.dynamic_joiner import JoinTimes, join_latest, join_within
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule, sessionize_partition
from dedp_assets.patterns.value.static_joiner import join_static, judge_reference
from tests.helpers import NOW, a_run, read_back
from tests.renaming import at

pytestmark = pytest.mark.spark

COLUMNS = {"k": "STRING", "d": "DOUBLE", "s": "STRUCT<x: FLOAT>"}
KEYS = [*COLUMNS]
TEXTS = ["", " ", "a", "a ", "A", "NULL", "\x00", "ä", "a\u0308"]
NUMBERS = [math.nan, 0.0, -0.0, 1.0, -1.0, math.inf]
ROWS = [(text, 1.0, (1.0,)) for text in TEXTS] + [("x", number, (1.0,)) for number in NUMBERS]
ROWS += [("x", 1.0, (number,)) for number in [*NUMBERS, None]]
WITHOUT = [(None, 1.0, (1.0,)), ("x", None, (1.0,)), ("x", 1.0, None), (None, None, None)]


def same(value):
    """A value as the model compares it: equal ones are the same, and none is like NULL."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return tuple(map(same, value))
    return ("NaN" if math.isnan(value) else value + 0.0) if isinstance(value, float) else value


EACH = {same(row): row for row in ROWS}
"""Every key -> a row that has it."""
FIRST, SECOND = list(EACH.values()), list({same(row): row for row in reversed(ROWS)}.values())


@pytest.fixture
def frame(spark):
    """``frame(rows, day="mon")``: rows of keys, and of further values that all have."""

    def make(rows, **more):
        kinds = {
            name: "TIMESTAMP" if hasattr(v, "year") else "INT" if isinstance(v, int) else "STRING"
            for name, v in more.items()
        }
        schema = ", ".join(f"{name} {kind}" for name, kind in {**COLUMNS, **kinds}.items())
        return spark.createDataFrame([(*row, *more.values()) for row in rows], schema)

    return make


def keys_in(rows):
    """How often each key is there."""
    return Counter(
        same(tuple(row[k] if not hasattr(row[k], "asDict") else tuple(row[k]) for k in KEYS)) for row in rows
    )


STREAM = ChangeStream(keys=KEYS, event_time="at")
MONDAY = {"day": "mon"}
LOAD = {"delta": "n", "window": (0, 9), "keys": KEYS}
WRITES = {
    "upsert_keyed": lambda rows, t, _: upsert_keyed(rows, t.target(a_run())),
    "upsert_keyed partition": lambda rows, t, _: upsert_keyed(rows, t.target(a_run(), partition=MONDAY)),
    "merge_changes": lambda rows, t, _: merge_changes(rows, t.target(a_run()), keys=KEYS, order_by=["n"]),
    "merge_execution": lambda rows, t, n: merge_execution(
        rows, t.target(a_run(), partition={t.spec.executed_by: str(n)}), keys=KEYS
    ),
    "load_increment": lambda rows, t, _: load_increment(rows.drop("day"), t.target(a_run(), partition=MONDAY), **LOAD),
    "keep_newest": lambda rows, t, _: keep_newest(rows, t.target(a_run()), stream=STREAM),
    "keep_versions": lambda rows, t, _: keep_versions(rows, t.target(a_run()), stream=STREAM),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_table_that_is_written_by_key_holds_each_once(make_table, frame, name):
    """Written again by equal keys of other bytes, it has the other rows; without a key, nothing is written."""
    columns = {c: Column(kind, required=True) for c, kind in COLUMNS.items()}
    added = {"keep_newest": NEWEST, "keep_versions": VERSION}.get(name, {})
    columns |= {"n": Column("INT"), "day": Column("STRING"), **added}
    more = {"executed_by": "execution"} if name == "merge_execution" else {"partition_by": ("day",)}
    more |= {"key": tuple(KEYS)} if "upsert" in name else {}
    table = make_table(TableSpec("keys/written", columns, **more))
    when = {"at": at} if added else {}

    def write(rows, n):
        WRITES[name](frame(rows, n=n, day="mon", **{column: moment(n) for column, moment in when.items()}), table, n)

    write(FIRST, 1)
    write(SECOND, 2)
    held = [row for row in read_back(table) if row.get("is_current", True)]
    assert keys_in(held) == dict.fromkeys(EACH, 1)
    assert {row["n"] for row in held} == {2}
    with pytest.raises(ContractError, match=r"NULL in k|no [kds]:|every_row_has_its_key"):
        write([*FIRST, WITHOUT[[*WRITES].index(name) % 3]], 3)
    assert repr([row for row in read_back(table) if row.get("is_current", True)]) == repr(held)


def test_keys_that_are_compared_are_equal_in_every_pattern(frame):
    """Rows that repeat a key are found and told, with NaN and both zeros among them; without a key, none repeats."""
    rows = frame([*ROWS, *WITHOUT, *WITHOUT], n=1)
    split = deduplicate(rows, keys=KEYS, order_by=["n"])
    assert keys_in(split["valid"].collect()) == {**dict.fromkeys(EACH, 1), **dict.fromkeys(WITHOUT, 2)}
    new = deduplicate(frame(FIRST, n=1), frame(SECOND, n=1), keys=KEYS, order_by=["n"])["valid"]
    assert new.collect() == []
    repeated = len(ROWS) - len(EACH)
    assert judge_uniqueness(rows, keys=KEYS).figures == {"repeated_keys": repeated, "surplus_rows": repeated}
    judged = judge_reference(rows, keys=KEYS)
    assert (judged.passed, judged.figures) == (False, {"have several rows": repeated})
    groups = aggregate(rows, keys=KEYS, measures={"number": "count(*)"}).collect()
    assert keys_in(groups) == dict.fromkeys([*EACH, *WITHOUT], 1)
    assert sum(row["number"] for row in groups) == len(ROWS) + 2 * len(WITHOUT)


def test_keys_that_are_joined_meet_in_every_pattern(frame):
    """Each fact once: with the one row of an equal key, or with none if it has no key."""
    facts = frame([*ROWS, *WITHOUT], n=1, at=at(5))
    other = frame([*SECOND, *WITHOUT], seen=2, shown=at(4))
    other = other.selectExpr(*[f"{key} AS r{key}" for key in KEYS], "seen", "shown")
    keys = {key: f"r{key}" for key in KEYS}
    judged = judge_reference(other, keys=[*keys.values()])
    assert judged.passed
    times = {"keys": keys, "times": JoinTimes(fact="at", other="shown")}
    joined = {
        "join_static": join_static(facts, other, keys=keys, columns={"seen": "seen"}, judged=judged),
        "join_within": join_within(facts, other, **times, from_seconds=-120, to_seconds=0),
        "join_latest": join_latest(facts, other, **times, identity=[*KEYS, "n"], within_seconds=600, order_by=["seen"]),
    }
    for name, found in joined.items():
        rows = found.collect()
        met = Counter(row["seen"] for row in rows if row["seen"] is not None)
        distinct = len(EACH) if name == "join_latest" else len(ROWS)  # two zeros are one fact
        assert met == {2: distinct}, name
        assert len(rows) - distinct in (0, len(WITHOUT)), name


def test_a_stream_that_remembers_keys_as_bytes_takes_none_that_are_equal_and_differ(spark, frame):
    """Numbers with two zeros are refused by name; an entity that is NULL is refused once it is read."""
    rows = frame(FIRST, n=1, at=at(1))
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS DOUBLE) AS d", "timestamp AS at")
    with pytest.raises(ConfigError, match="column d is DOUBLE"):
        deduplicate_stream(stream, keys=["d"], event_time="at", window="1 hour")
    sessions = {"event_time": "at", "event_id": "n", "gap_seconds": 60}
    with pytest.raises(ConfigError, match="column s is STRUCT"):
        sessionize_partition(rows, None, rule=SessionRule(**sessions, entity=["k", "s"]), until=at(59))
    one = {"rule": SessionRule(**sessions, entity=["k"]), "until": at(59)}
    found = sessionize_partition(rows.filter("d = 1 AND s.x = 1"), None, **one)
    assert {row["k"] for row in found["completed"].collect()} == {*TEXTS, "x"}
    with pytest.raises(Exception, match="k"):
        sessionize_partition(frame([(None, 1.0, (1.0,))], n=1, at=at(1)), None, **one)["completed"].collect()


def test_a_record_without_a_key_stops_a_checkpointed_append(spark, make_table, tmp_path):
    """Before and after a restart: nothing could tell it from one that is there, and it would be there twice."""
    source, target = (make_table(TableSpec(f"keys/{n}", {"id": Column("INT")})) for n in ("from", "to"))
    source.overwrite(spark.createDataFrame([(1,), (None,)], "id INT"), provenance=a_run())
    for restart in (False, True):
        with pytest.raises(ContractError, match="1 rows of the source with no id"):
            append_checkpointed(
                source.stream(),
                target.target(a_run()),
                checkpoint=str(tmp_path / "checkpoint"),
                keys=["id"],
                restart=restart,
            )
    assert read_back(target) == []


CLAIM = {"current": "wed", "owner": "one", "now": NOW, "lease_seconds": 60}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"owner": ""}, "owner"),
        ({"owner": " "}, "owner"),
        ({"owner": "one "}, "owner"),
        ({"owner": None}, "owner"),
        ({"now": NOW.replace(tzinfo=None)}, "now"),
        ({"now": NOW.timestamp()}, "now"),
        *[({"lease_seconds": n}, "lease_seconds") for n in (-1, 0, math.nan, math.inf, 1e12, None, "60", True)],
        ({"current": ""}, "current"),
        ({"current": None}, "current"),
    ],
)
def test_a_lease_has_an_owner_and_an_end(make_table, options, named):
    """Two runs without a name would each think that the partition is theirs; what would end at once is none."""
    table = make_table(TableSpec("keys/leased", {"day": Column("STRING"), "n": Column("INT")}, partition_by=("day",)))
    before = table.ensure().version
    with pytest.raises(ConfigError, match=named):
        claim_late_partitions({"mon": 9}, table, **{**CLAIM, **options})
    assert table.ledger.version() == before


def test_of_two_owners_one_has_a_partition_until_its_lease_ends(make_table):
    """A part of a second counts as one; a time without a zone says nothing about an end."""
    table = make_table(TableSpec("keys/leased", {"day": Column("STRING"), "n": Column("INT")}, partition_by=("day",)))
    table.ensure()
    claims = [
        claim_late_partitions({"mon": 9}, table, **{**CLAIM, "owner": o, "lease_seconds": 0.2}) for o in ("one", "two")
    ]
    assert [claim.plan.partitions for claim in claims] == [("mon", "wed"), ()]
    for use in (claims[0].release, lambda day, now: judge_late_partitions({day: 9}, table, current="wed", now=now)):
        with pytest.raises(ConfigError, match="time zone"):
            use("mon", now=NOW.replace(tzinfo=None))
