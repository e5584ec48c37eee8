"""`dedp lineage`: the graph of the case study, and what a change hits."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from dedp_assets.case_study import defs
from dedp_assets.cli import main
from dedp_assets.graph.checks.lineage import declared_lineage
from dedp_assets.graph.declare import declared, declared_jobs
from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.mail.openlineage import Attempt, Touched, complete_event
from dedp_assets.patterns.core.running.lineage import LAKE, Dataset
from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin, Influence
from dedp_assets.patterns.delta import LocalStore

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
TABLES, JOBS = declared(defs), declared_jobs(defs)


@pytest.fixture
def dedp(tmp_path, monkeypatch, capsys):
    """``dedp("--json")``: exit code, output and errors."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))

    def run(*options):
        try:
            code = main(["lineage", *options])
        except SystemExit as stopped:
            code = stopped.code
        return code, *capsys.readouterr()

    return run


def ran(tmp_path, job, inputs, outputs):
    """Note a run of a job as observed."""

    def touched(name):
        return Touched(namespace="file", name=f"/lake/{name}", known_as=Dataset(LAKE, name))

    attempt = Attempt(run_id="1", job="job", step=job)
    event = complete_event(attempt, at=NOON, inputs=[*map(touched, inputs)], outputs=[*map(touched, outputs)])
    LineageOutbox(LocalStore(str(tmp_path / "home/lineage"))).append("1", event, at=NOON)


def test_the_export_equals_the_definitions(dedp):
    """Every edge, every table with its columns, and the declared origins of columns."""
    code, out, _ = dedp("--json")
    found = json.loads(out)
    assert code == 0
    expected = {(str(edge.source), str(edge.target)) for edge in declared_lineage(TABLES, JOBS).edges}
    assert {(each["source"], each["target"]) for each in found["edges"]} == expected
    columns = {each["name"]: each["columns"] for each in found["datasets"] if each["kind"] == "table"}
    for table in TABLES:
        for spec in table.tables:
            stated = [(name, column.type) for name, column in spec.columns.items()]
            assert [(each["name"], each["type"]) for each in columns[spec.name]] == stated
    assert {"name": "page", "type": "STRING", "from": ["silver/visits.page"]} in columns["gold/daily_page_views"]


def test_a_change_of_a_table_hits_direct_and_indirect_readers(dedp):
    """Consumers of tables further down among them, each once."""
    code, out, _ = dedp("silver/visits", "--json")
    hit = json.loads(out)
    assert code == 0
    direct, indirect = ({each["name"] for each in hit[how]} for how in ("direct", "indirect"))
    assert "gold/daily_visitors" in direct
    assert "consumer:dashboards" in indirect
    assert not direct & indirect
    assert "team:advertising" in hit["owners"]


def test_people_get_a_table_and_a_flowchart(dedp):
    """Of all, and of one table."""
    assert "bronze/visits" in dedp()[1]
    assert dedp("--mermaid")[1].startswith("flowchart LR\n")
    assert "direct" in dedp("silver/visits")[1]
    assert "stroke-width" in dedp("silver/visits", "--mermaid")[1]
    assert "Nothing reads consumer:dashboards" in dedp("consumer:dashboards")[1]


def test_a_run_is_seen_on_its_edge(dedp, tmp_path):
    """With its time; an edge that nobody declared is there, too."""
    ran(tmp_path, "gold_daily_visitors", ["silver/visits", "silver/users"], ["gold/daily_visitors"])
    edges = json.loads(dedp("--json")[1])["edges"]
    seen = [each for each in edges if "last_seen" in each]
    assert [(each["source"], each["last_seen"]) for each in seen] == [
        ("silver/users", NOON.isoformat()),
        ("silver/visits", NOON.isoformat()),
    ]


def test_what_is_undeclared_is_named_and_fails(dedp, tmp_path):
    """With the share of flows that are declared."""
    code, out, _ = dedp("--compare")
    assert (code, out) == (0, "0 observed runs, 100.0% of all flows are declared.\n")
    ran(tmp_path, "gold_daily_visitors", ["silver/visits", "silver/users"], ["gold/daily_visitors"])
    code, out, _ = dedp("--compare")
    assert code == 1
    assert "undeclared reads: gold_daily_visitors reads silver/users" in out


def test_a_table_that_is_not_there_is_refused(dedp):
    """With those that it may mean."""
    code, _, errors = dedp("gold/daily_visitor")
    assert code == 2
    assert "table must be one of the project, such as gold/daily_visitors" in errors


def test_the_first_of_several_faulty_tables_is_named(dedp):
    """With its owner; the others are downstream of it."""
    code, out, _ = dedp("gold/daily_visitors", "silver/visits", "bronze/visits")
    assert code == 0
    assert out.splitlines()[0] == "the fault began in bronze/visits, of team:ingestion"
    found = json.loads(dedp("gold/daily_visitors", "silver/visits", "--json")[1])
    assert found == {"roots": ["silver/visits"], "explained": ["gold/daily_visitors"]}


def test_the_graph_of_a_day_is_that_of_its_runs(dedp, tmp_path):
    """Without what is only declared."""
    ran(tmp_path, "gold_daily_visitors", ["silver/visits"], ["gold/daily_visitors"])
    (edge,) = json.loads(dedp("--json", "--on", "2026-01-05")[1])["edges"]
    assert (edge["source"], edge["target"]) == ("silver/visits", "gold/daily_visitors")
    assert json.loads(dedp("--json", "--on", "2026-01-06")[1])["edges"] == []


def trace(tmp_path, table, lineage):
    """Store a column lineage as the runs of a table do."""
    file = tmp_path / "home/lakehouse/_lineage" / table / "columns.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"identity": "x", "lineage": lineage.to_json()}))


def test_the_export_has_observed_origins_in_place_of_declared_ones(dedp, tmp_path):
    """With what became of the values, what chooses the rows, and why a column is not known; elsewhere as declared."""
    origins = {
        "page": ColumnOrigin((ColumnInput("silver/visits", "device", "TRANSFORMATION", "os"),)),
        "views": ColumnOrigin(opaque="a function"),
    }
    trace(tmp_path, "gold/daily_page_views", ColumnLineage(origins, (Influence("silver/visits", "status", "FILTER"),)))
    found = {each["name"]: each for each in json.loads(dedp("--json")[1])["datasets"]}
    table = found["gold/daily_page_views"]
    columns = {each.pop("name"): each for each in table["columns"]}
    observed = {"silver/visits.device.os": "TRANSFORMATION"}
    assert columns["page"] == {"type": "STRING", "from": [*observed], "observed": observed}
    assert (columns["views"]["observed"], columns["views"]["opaque"]) == ({}, "a function")
    assert table["influences"] == [{"column": "silver/visits.status", "effect": "FILTER"}]
    assert "observed" not in found["gold/daily_visitors"]["columns"][0]


def test_a_column_that_is_gone_since_it_was_traced_is_named(dedp, tmp_path):
    """With the columns that came from it."""
    origins = {"page": ColumnOrigin((ColumnInput("silver/visits", "former_page"),))}
    trace(tmp_path, "gold/daily_page_views", ColumnLineage(origins))
    assert (
        "traced by earlier code: gold/daily_page_views: silver/visits.former_page is gone, which page comes from"
        in dedp("--compare")[1]
    )
