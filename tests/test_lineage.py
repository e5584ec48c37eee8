"""`dedp lineage`: the graph of the case study, and what a change hits."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from dedp_assets.case_study import defs
from dedp_assets.cli import main
from dedp_assets.commands._columns import as_trees, column_paths
from dedp_assets.graph.catalogue.column_graph import column_graph, paths_of
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


def edges_of(document, direction):
    """The edges of a column's paths, as source, transformation and target."""
    return [(each["source"], each["how"], each["target"]) for each in document[direction]]


def test_a_column_is_followed_to_where_its_values_land(dedp):
    """Through declared origins, over every table between, with the sources of the first table as ends."""
    code, out, _ = dedp("gold/daily_visitors.bytes", "--json")
    found = json.loads(out)
    assert code == 0
    assert edges_of(found, "upstream") == [
        ("bronze/visits.raw", "declared", "silver/visits.bytes"),
        ("silver/visits.bytes", "declared", "gold/daily_visitors.bytes"),
        ("source:kafka/visits", "landed", "bronze/visits.raw"),
        ("source:landing/visits", "landed", "bronze/visits.raw"),
    ]
    assert found["ends"] == ["source:kafka/visits", "source:landing/visits"]
    assert found["downstream"] == []


def test_both_directions_of_a_column_agree():
    """Each column downstream of a column has that column upstream, and so has each edge on the way."""
    below = column_paths("silver/visits.page", TABLES, {}).downstream
    assert len({edge.target for edge in below}) > 5
    for target in {edge.target for edge in below}:
        above = column_paths(str(target), TABLES, {}).upstream
        assert "silver/visits.page" in {str(edge.source) for edge in above}
        assert {edge for edge in below if edge.target == target} <= {*above}


def test_a_trace_of_a_run_stands_in_place_of_the_declaration_of_a_column(dedp, tmp_path):
    """With what became of the values, the field, the columns that choose rows, and the reason for a gap."""
    origins = {
        "page": ColumnOrigin((ColumnInput("silver/visits", "device_type", "TRANSFORMATION", "os"),)),
        "views": ColumnOrigin((ColumnInput("silver/visits", "visit_id", "AGGREGATION"),), opaque="a function"),
        "visitors": ColumnOrigin(),
    }
    chosen = (Influence("silver/visits", "status", "FILTER"), Influence("silver/visits", "status", "FILTER"))
    trace(tmp_path, "gold/daily_page_views", ColumnLineage(origins, chosen))
    page = json.loads(dedp("gold/daily_page_views.page", "--json")[1])
    assert ("silver/visits.device_type", "TRANSFORMATION of os", "gold/daily_page_views.page") in edges_of(
        page, "upstream"
    )
    assert "silver/visits.page" not in {source for source, *_ in edges_of(page, "upstream")}
    assert page["rows_chosen_by"] == ["silver/visits.status (FILTER)"]
    views = json.loads(dedp("gold/daily_page_views.views", "--json")[1])
    assert views["unknown"] == {"gold/daily_page_views.views": "a function"}
    visitors = json.loads(dedp("gold/daily_page_views.visitors", "--json")[1])
    assert ("silver/visits.user_id", "declared", "gold/daily_page_views.visitors") in edges_of(visitors, "upstream")
    status = json.loads(dedp("silver/visits.status", "--json")[1])
    assert status["chooses_rows_of"] == ["gold/daily_page_views (FILTER)"]
    lines = dedp("gold/daily_page_views.views")[1].splitlines()
    assert "further inputs of gold/daily_page_views.views may be missing: a function" in lines
    assert "  silver/visits.visit_id (AGGREGATION)" in lines


def test_people_get_the_paths_of_a_column_as_trees_and_as_a_flowchart(dedp):
    """Indented by distance; what was listed before is not followed again; the column is in bold."""
    lines = dedp("gold/daily_visitors.bytes")[1].splitlines()
    assert lines[:4] == [
        "gold/daily_visitors.bytes",
        "comes from",
        "  silver/visits.bytes (declared)",
        "    bronze/visits.raw (declared)",
    ]
    assert lines[-1] == "goes into no column that is known"
    drawn = dedp("gold/daily_visitors.bytes", "--mermaid")[1]
    assert drawn.startswith("flowchart LR\n")
    number = next(line.split("[")[0].strip() for line in drawn.splitlines() if "gold/daily_visitors.bytes" in line)
    assert f"style {number} stroke-width:4px" in drawn


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gold/daily_visitors.byte"], "such as gold/daily_visitors.bytes, not gold/daily_visitors.byte"),
        (["gold/daily_visitor.bytes"], "such as gold/daily_visitors"),
        (["gold/daily_visitors.bytes", "silver/visits"], "gold/daily_visitors.bytes must stand alone"),
        (["gold/daily_visitors.bytes", "--on", "2026-01-05"], "gold/daily_visitors.bytes must stand alone"),
    ],
)
def test_a_column_that_is_not_there_is_refused(dedp, words, sentence):
    """With the nearest names, in one line; so is a column among tables."""
    code, _, errors = dedp(*words)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert sentence in errors


def test_a_column_is_named_in_any_case_and_by_a_field_of_it(dedp):
    """As in SQL; the paths are those of the column that holds the field."""
    found = [json.loads(dedp(name, "--json")[1])["column"] for name in ("silver/visits.PAGE", "silver/visits.page.x")]
    assert found == ["silver/visits.page", "silver/visits.page"]


def test_columns_in_a_circle_are_followed_once():
    """A table that reads its own former rows, and a table that two paths lead to."""
    origins = {"a": {"x": ["a.x", "b.x"]}, "b": {"x": ["a.x", "c.x"]}, "c": {"x": []}}
    graph = column_graph({name: ["x"] for name in "abc"}, origins, {}, {"c": ["files"]})
    paths = paths_of(graph, "a.x", {})
    assert {(str(edge.source), str(edge.target)) for edge in paths.upstream} == {
        ("a.x", "a.x"), ("b.x", "a.x"), ("a.x", "b.x"), ("c.x", "b.x"), ("source:files", "c.x"),
    }  # fmt: skip
    assert [str(end) for end in paths.ends] == ["source:files"]
    assert [*as_trees(paths)][1:7] == [
        "comes from",
        "  a.x (declared, as above)",
        "  b.x (declared)",
        "    a.x (declared, as above)",
        "    c.x (declared)",
        "      source:files (landed)",
    ]
