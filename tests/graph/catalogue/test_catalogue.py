"""What the catalogue shows of a declaration: sources, column lineage, figures in words."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.case_study import defs
from dedp_assets.graph.catalogue.figures import Figure, labelled
from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.declare import About, OnRequest, Reads, Request, Runs, declared, lake_table, sources
from dedp_assets.graph.run.batches import Inputs, Step
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target

TABLES = {table.spec.name: table for table in declared(defs)}
ROWS = TableSpec("bronze/rows", {"id": Column("BIGINT", "identity")})
STATED = {"patterns": [Table.overwrite], "about": About("team:x"), "code_version": "1"}


def looked(request: Request) -> Inputs: ...


def function(step: Step, into: Target) -> WriteResult: ...


def upstream(lineage, column):
    return {(dep.asset_key.to_user_string(), dep.column_name) for dep in lineage.deps_by_column[column]}


def test_every_column_of_gold_and_silver_says_where_it_comes_from():
    """By its own name, or as the declaration says; gold leads to silver's columns, silver to the line as it landed."""
    assert upstream(TABLES["gold/daily_visitors"].lineage()["gold/daily_visitors"], "visitors") == {
        ("silver/visits", "user_id")
    }
    silver = TABLES["silver/visits"].lineage()
    assert upstream(silver["silver/visits"], "status") == {("bronze/visits", "raw")}
    assert upstream(silver["silver/visits_dead_letter"], "raw") == {("bronze/visits", "raw")}
    for name in ("gold/daily_visitors", "gold/daily_page_views", "staging/visits", "silver/visits"):
        lineage = TABLES[name].lineage()[name]
        assert set(lineage.deps_by_column) <= set(TABLES[name].spec.columns)
        unknown = {column for column in TABLES[name].spec.columns if not lineage.deps_by_column.get(column)}
        assert unknown <= {"was_dead_lettered"}, name


def test_the_catalogue_names_the_event_time_of_a_table():
    """Of the one that declares it, by the column's name; the others have no such entry."""
    shown = {name: table.definition().get_asset_spec(dg.AssetKey(name.split("/"))) for name, table in TABLES.items()}
    found = {name: spec.metadata["event_time"] for name, spec in shown.items() if "event_time" in spec.metadata}
    assert found == {name: table.spec.event_time for name, table in TABLES.items() if table.spec.event_time}
    assert {"bronze/visits": "event_date", "silver/ads": "display_time", "silver/visits": "event_time"}.items() <= (
        found.items()
    )
    assert "bronze/devices" not in found


@pytest.mark.parametrize(("derived", "said"), [({"x": ("raw",)}, "x"), ({"event_date": ("rows",)}, "rows")])
def test_a_lineage_of_columns_that_are_not_there_is_refused(derived, said):
    """At the declaration, by name."""
    silver = TABLES["silver/visits"]
    with pytest.raises(ConfigError, match=f"silver/visits: derived= names {said}, which no"):
        lake_table(silver.spec, reads=silver.reads, **{**STATED, "about": About("team:x", derived=derived)})(function)


def test_a_source_is_declared_once():
    """Two tables may share one; two differing ones of one name are a mistake."""
    known = sources(TABLES.values())
    assert [source.name for source in known] == sorted({source.name for source in known})
    other = Source("landing/visits", "something else", kinds=("file",), owner="team:x")
    made = lake_table(ROWS, reads=Reads(inputs=looked, sources=[other]), runs=Runs(when=OnRequest()), **STATED)(
        function
    )
    with pytest.raises(ConfigError, match="landing/visits is declared twice as a source"):
        sources([*TABLES.values(), made])


def test_figures_are_shown_in_words_with_their_units():
    """Suffixes become units, times become times; checksums and what nobody knows stay away."""
    known = {
        "newest": Figure("newest event time", "time"),
        "numbers": Figure(kind="hidden"),
        "usual": Figure("usual volume"),
    }
    figures = {"latency_seconds": 1.5, "retained_bytes": 7, "newest": 1767830100, "numbers": 256542, "usual": 3}
    assert labelled({**figures, "late": None}, known) == {
        "latency [s]": 1.5,
        "retained [bytes]": 7,
        "newest event time": dg.MetadataValue.timestamp(1767830100.0),
        "usual volume": 3,
    }
