"""Observed column lineage of a step: traced once, stored in the lake, shown in place of the declared one."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.graph.catalogue.lineage import observed_columns
from dedp_assets.graph.run import column_traces
from dedp_assets.graph.run.column_traces import ColumnTraces, identity_of
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin, Influence
from dedp_assets.patterns.delta import Table, store_at
from tests.case_study.assets.conftest import day, visits_of, world_in

pytestmark = pytest.mark.budget(60, "two days of the platform, from landing to gold")

USERS = TableSpec("bronze/users", {"id": Column("INT"), "name": Column("STRING"), "country": Column("STRING")})


def dep(table, column):
    """A dependency of Dagster."""
    return dg.TableColumnDep(dg.AssetKey(table.split("/")), column)


DECLARED = dg.TableColumnLineage(
    {
        "id": [dep("bronze/users", "id"), dep("bronze/plans", "id")],
        "who": [dep("bronze/users", "nick")],
        "score": [dep("bronze/users", "name")],
        "flag": [dep("bronze/users", "country")],
    }
)


def test_the_observed_lineage_stands_in_place_of_the_declared_one():
    """Of a column without observed inputs (opaque, a constant) what is declared stays; differences are told.

    Of a column that nothing is declared of, the observed inputs are shown, and differ from nothing.
    """
    observed = ColumnLineage(
        {
            "id": ColumnOrigin((ColumnInput("bronze/users", "id"),)),
            "who": ColumnOrigin((ColumnInput("bronze/users", "name", "TRANSFORMATION"),)),
            "score": ColumnOrigin(opaque="a function"),
            "flag": ColumnOrigin(),
            "bare": ColumnOrigin((ColumnInput("bronze/users", "id"),)),
            "of_the_write": ColumnOrigin((ColumnInput("bronze/users", "id"),)),
        },
        (Influence("bronze/users", "country", "FILTER"), Influence("elsewhere", "x", "FILTER")),
        ("a recursive query goes round",),
    )
    columns = ["id", "who", "score", "flag", "bare"]
    found = observed_columns(DECLARED, observed, ["bronze/users", "bronze/plans"], columns)
    assert found["dagster/column_lineage"].deps_by_column == {
        "id": [dep("bronze/users", "id")],
        "who": [dep("bronze/users", "name")],
        "score": [dep("bronze/users", "name")],
        "flag": [dep("bronze/users", "country")],
        "bare": [dep("bronze/users", "id")],
    }
    assert found["rows chosen by"] == "FILTER bronze/users.country"
    assert found["not traced"] == "a recursive query goes round"
    assert found["opaque columns"].value == {"score": "a function"}
    assert found["lineage differs"] == (
        "who: comes from bronze/users.name, which is not declared; who: does not come from bronze/users.nick"
    )


def test_the_identity_follows_code_and_columns():
    """Equal for the same, another for other code, another type, or a further column."""
    wider = TableSpec("bronze/users", {**USERS.columns, "age": Column("INT")})
    other = TableSpec("bronze/users", {**USERS.columns, "id": Column("BIGINT")})
    found = [identity_of("1", USERS), identity_of("2", USERS), identity_of("1", wider), identity_of("1", other)]
    assert len({*found}) == len(found)
    assert identity_of("1", USERS) == found[0]


def _failing(rows):
    """Fail as a trace does that nobody foresaw."""
    raise ZeroDivisionError(str(rows))


class _Traced(list):
    """Counts traces instead of asking Spark."""

    def __call__(self, rows):
        self.append(rows)
        return ColumnLineage({"id": ColumnOrigin((ColumnInput("bronze/users", "id"),))})


@pytest.fixture
def traced(monkeypatch):
    """The rows that were traced."""
    found = _Traced()
    monkeypatch.setattr(column_traces, "trace_columns", found)
    return found


def test_a_table_is_traced_once_for_its_code_and_columns(tmp_path, traced):
    """A second step reads what is stored, other code traces again, and a damaged file is no answer."""
    table = Table(USERS, tmp_path / "users", lambda: None)
    store = store_at(tmp_path / "_lineage")

    def step(identity, rows):
        table.on_rows = None
        made = ColumnTraces({USERS.name: store}, identity, ["bronze/raw"])
        made.watch([table], [])
        assert table.named_in_plans == bool(table.on_rows)
        if rows and table.on_rows:
            table.on_rows(lambda: rows)
        return made.of(USERS.name)

    assert step("a", None) is None
    first = step("a", "rows")
    assert step("a", "more") == step("a", None) == first
    assert traced == ["rows"]
    step("b", "other")
    store.put("columns.json", b"[1]")
    assert step("b", None) is None
    step("b", "again")
    assert traced == ["rows", "other", "again"]


@pytest.mark.spark
def test_a_run_shows_what_its_query_reads_and_does_not_fail_without(spark, tmp_path, monkeypatch):
    """From landing to gold: traced with the first day, found again with the second; a fault is a warning."""
    with world_in(tmp_path) as world:
        world.land(day(0), visits_of(0))
        world.react()
        shown = world.materialization("gold/daily_visitors", day(0))
        deps = shown["dagster/column_lineage"].deps_by_column
        assert deps["visitors"] == [dep("silver/visits", "user_id")]
        assert deps["event_date"] == [dep("silver/visits", "event_date")]
        assert shown["rows chosen by"] == "GROUP_BY silver/visits.event_date"
        silver = world.materialization("silver/visits", day(0))["dagster/column_lineage"].deps_by_column
        assert silver["page"] == [dep("bronze/visits", "raw")]
        stored = tmp_path / "lakehouse/_lineage/gold/daily_visitors/columns.json"
        monkeypatch.setattr(column_traces, "trace_columns", _failing)
        stored.unlink()
        world.land(day(1), visits_of(1))
        world.react()
        assert world.materialization("silver/visits", day(1))["dagster/column_lineage"].deps_by_column == silver
        declared = world.materialization("gold/daily_visitors", day(1))["dagster/column_lineage"].deps_by_column
        assert declared["visits"] == [dep("silver/visits", "visit_id")]
        assert not stored.exists()
