"""Column lineage: broken references, declared against observed, and how far a tag goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.sql.column_lineage import (
    ColumnInput,
    ColumnLineage,
    ColumnOrigin,
    Influence,
    broken_references,
    compare_columns,
    propagate,
)


def lineage(influences=(), **columns):
    """``lineage(name="users.first_name")``: a lineage of plain columns."""
    found = {
        name: ColumnOrigin(tuple(ColumnInput(*each.split(".", 1)) for each in inputs.split()))
        for name, inputs in columns.items()
    }
    return ColumnLineage(found, tuple(influences))


def test_it_is_read_back_from_json():
    """With nested fields, influences, reasons and gaps; another text is refused."""
    told = ColumnLineage(
        {"os": ColumnOrigin((ColumnInput("users", "device", "IDENTITY", "hw.os"),), "why"), "one": ColumnOrigin()},
        (Influence("users", "country", "FILTER"),),
        ("a gap",),
    )
    assert ColumnLineage.from_json(told.to_json()) == told
    for text in ("", "[]", '{"columns": {"a": 1}}', "{}"):
        with pytest.raises(ConfigError, match="text must be the JSON of a column lineage"):
            ColumnLineage.from_json(text)


def test_a_field_that_is_gone_is_a_broken_reference_where_fields_are_known():
    """Case does not count; of a table that is not named nothing is said."""
    os = ColumnLineage({"os": ColumnOrigin((ColumnInput("users", "device", field="os"),))})
    assert broken_references(os, {"users": ["Device"]}).passed
    assert broken_references(os, {"users": ["device", "device.OS"]}).passed
    assert broken_references(os, {}).passed
    finding = broken_references(os, {"users": ["device", "device.system"]})
    assert (finding.passed, finding.note) == (False, "users.device.os is gone, which os comes from")


def test_declared_and_observed_lineage_are_compared():
    """What is not declared for, what is opaque, and other tables are left out."""
    observed = lineage(name="users.first users.last other.x", age="users.born", more="users.x")
    assert compare_columns({"name": ["users.first", "users.last"]}, observed, upstream=["users"]).passed
    finding = compare_columns({"name": ["users.first"], "age": ["users.age"]}, observed, upstream=["users"])
    assert finding.figures == {"undeclared": 2, "unobserved": 1}
    assert (finding.passed, finding.refuses) == (False, False)
    opaque = ColumnLineage({"name": ColumnOrigin(opaque="a function")})
    assert compare_columns({"name": ["users.first"]}, opaque).passed
    constant = ColumnLineage({"name": ColumnOrigin()})
    assert compare_columns({"name": ["users.first"]}, constant).passed


def test_a_tag_reaches_every_derived_column_and_no_other():
    """Renamed, computed, joined, over several tables; a filter by it carries no tag."""
    silver = lineage([Influence("bronze/users", "email", "FILTER")], contact="bronze/users.email", id="bronze/users.id")
    gold = lineage(hash="silver/users.contact", amount="silver/orders.amount", user="silver/users.id")
    reach = propagate({"bronze/users": {"email": ["personal"]}}, {"gold/sums": gold, "silver/users": silver})
    assert reach.tags == {
        "bronze/users": {"email": ("personal",)},
        "silver/users": {"contact": ("personal",)},
        "gold/sums": {"hash": ("personal",)},
    }
    assert reach.unknown == {}


def test_a_tag_of_a_field_reaches_what_reads_the_field():
    """Or the struct with it, or a part of it; not what reads another field. Unknown columns are named."""

    def reading(path):
        return ColumnOrigin((ColumnInput("raw", "device", field=path),))

    columns = {"ip": reading("net.ip"), "net": reading("net"), "all": reading(""), "os": reading("os")}
    told = ColumnLineage({**columns, "dark": ColumnOrigin(opaque="a function")})
    reach = propagate({"raw": {"device.net.ip": ["personal"]}}, {"t": told})
    assert {*reach.tags["t"]} == {"ip", "net", "all"}
    assert reach.unknown == {"t.dark": "a function"}


TABLES, COLUMNS = ["a", "b", "c"], ["x", "y", "z"]
EDGES = st.sets(st.tuples(*[st.sampled_from(names) for names in (TABLES, COLUMNS, TABLES, COLUMNS)]), max_size=12)


@given(EDGES)
def test_tags_follow_exactly_the_paths_of_values(edges):
    """Also through cycles: a column has the tag if and only if a path leads there from the tagged column."""
    lineages = {
        table: ColumnLineage(
            {
                c: ColumnOrigin(tuple(ColumnInput(t, u) for t, u, a, b in sorted(edges) if (a, b) == (table, c)))
                for c in COLUMNS
            }
        )
        for table in TABLES
    }
    reached, waiting = {("a", "x")}, [("a", "x")]
    while waiting:
        here = waiting.pop()
        found = {edge[2:] for edge in edges if edge[:2] == here} - reached
        reached |= found
        waiting += found
    tags = propagate({"a": {"x": ["t"]}}, lineages).tags
    assert {(table, column) for table, columns in tags.items() for column in columns} == reached
