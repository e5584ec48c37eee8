"""Previous Value Dimension."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.modeling.previous_value_dimension import show_previous_values
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, ChangeStream, keep_versions
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run
from tests.patterns.modeling.changes import moment

pytestmark = pytest.mark.spark

CUSTOMERS = TableSpec(
    "silver/customers",
    {"id": Column("INT", required=True), "segment": Column("STRING"), "tier": Column("INT"), **VERSION},
)
STREAM = ChangeStream(keys=["id"], event_time="at", deleted="gone")
CHANGES = [
    (1, "premium", 1, 1, False),
    (1, "standard", 1, 3, False),
    (1, "standard", 2, 5, False),
    (2, "x", 1, 1, False),
    (3, None, 1, 1, False),
    (3, "y", 1, 2, False),
    (4, "x", 1, 1, False),
    (4, None, None, 2, True),
    (5, "x", 1, 1, False),
    (5, None, None, 2, True),
    (5, "z", 1, 3, False),
    (6, "p", 1, 1, False),
    (6, "q", 1, 2, False),
    (6, "p", 1, 3, False),
]


def test_each_living_key_shows_the_value_before_its_present_one(spark, make_table):
    """By column; none before, NULL before, deleted, come back, moved there and back; a late change gets between."""
    table = make_table(CUSTOMERS)

    def shown(*changes):
        rows = [(key, segment, tier, moment(day), gone) for key, segment, tier, day, gone in changes]
        frame = spark.createDataFrame(rows, "id INT, segment STRING, tier INT, at TIMESTAMP, gone BOOLEAN")
        keep_versions(frame, table.target(a_run(run_id=str(len(changes)))), stream=STREAM)
        found = show_previous_values(table.read(), keys=["id"], previous=["segment", "tier"])
        columns = ["id", "segment", "previous_segment", "tier", "previous_tier"]
        return {row["id"]: tuple(row)[1:] for row in found.select(columns).collect()}

    expected = {
        1: ("standard", "premium", 2, 1),
        2: ("x", None, 1, None),
        3: ("y", None, 1, None),
        5: ("z", "x", 1, None),
        6: ("p", "q", 1, None),
    }
    assert shown(*CHANGES) == expected
    assert shown((1, "basic", 1, 2, False)) == {**expected, 1: ("standard", "basic", 2, 1)}
    columns = show_previous_values(table.read(), keys=["id"], previous=["tier"]).columns
    assert columns == ["id", "segment", "tier", "valid_from", "previous_tier"]


def test_columns_that_cannot_be_shown_are_refused(spark):
    """None named, one that is not there, one whose name is taken."""
    kinds = ", ".join(f"{name} {column.type}" for name, column in CUSTOMERS.columns.items())
    rows = spark.createDataFrame([], f"{kinds}, previous_tier INT")
    for previous, words in ([], "name the columns"), (["x"], "no column x"), (["tier"], "a column previous_tier"):
        with pytest.raises(ConfigError, match=words):
            show_previous_values(rows, keys=["id"], previous=previous)


def test_a_map_has_a_previous_value_like_any_other(spark, make_table):
    """The same entries in another order are the same value."""
    columns = {"id": Column("INT", required=True), "tags": Column("MAP<STRING, INT>"), **VERSION}
    table, schema = make_table(TableSpec("silver/tagged", columns)), "id INT, tags MAP<STRING, INT>, at TIMESTAMP"
    told = [({"a": 1}, 1), ({"x": 1, "y": 2}, 2), ({"y": 2, "x": 1}, 3)]
    changes = spark.createDataFrame([(1, tags, moment(day)) for tags, day in told], schema)
    keep_versions(changes, table.target(a_run()), stream=ChangeStream(keys=["id"], event_time="at"))
    (row,) = show_previous_values(table.read(), keys=["id"], previous=["tags"]).collect()
    assert (row["tags"], row["previous_tags"]) == ({"x": 1, "y": 2}, {"a": 1})


@known_calls
def calls_that_work(known):
    history = known.table("gold/previous", {"id": Column("INT", required=True), "name": Column("STRING"), **VERSION})
    return {"show_previous_values": {"versions": history.read(), "keys": ["id"], "previous": ["name"]}}
