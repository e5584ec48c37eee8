"""Export of a lineage graph: equal to the graph, as JSON and as Mermaid."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.catalogue.exporting import as_json, as_mermaid
from dedp_assets.patterns.core.running.lineage import (
    CONSUMERS,
    LAKE,
    SOURCES,
    Dataset,
    LineageGraph,
    LineageJob,
    ObservedRun,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
FILES, VISITS, BOARD = Dataset(SOURCES, "files"), Dataset(LAKE, "visits", "team:x"), Dataset(CONSUMERS, 'the "board"')
GRAPH = LineageGraph.of([LineageJob("load", (FILES,), (VISITS,)), LineageJob("show", (VISITS,), (BOARD,))])


def test_json_says_what_the_graph_says():
    """Nodes with kind, owner and columns, jobs, edges with the times of their runs."""
    seen = GRAPH.observing([ObservedRun(job="load", run_id="1", at=NOON, inputs=(FILES,), outputs=(VISITS,))])
    found = as_json(seen, {"visits": {"id": "BIGINT", "n": "INT"}}, {"visits": {"id": ["raw.id"]}})
    assert json.loads(json.dumps(found)) == found
    nodes = {each["name"]: each for each in found["datasets"]}
    assert nodes["visits"] == {
        "name": "visits",
        "kind": "table",
        "owner": "team:x",
        "columns": [{"name": "id", "type": "BIGINT", "from": ["raw.id"]}, {"name": "n", "type": "INT", "from": []}],
    }
    assert {each["kind"] for each in nodes.values()} == {"table", "source", "consumer"}
    time = NOON.isoformat()
    assert found["edges"] == [
        {"source": "visits", "job": "show", "target": 'consumer:the "board"'},
        {"source": "source:files", "job": "load", "target": "visits", "first_seen": time, "last_seen": time},
    ]
    assert found["jobs"][0] == {"name": "load", "inputs": ["source:files"], "outputs": ["visits"], "note": ""}


def test_mermaid_has_a_line_for_each_node_and_each_pair():
    """Quotes of a name do not end it."""
    assert as_mermaid(GRAPH, marked=VISITS).splitlines() == [
        "flowchart LR",
        '    n0(["consumer:the #quot;board#quot;"])',
        '    n1["visits"]',
        '    n2[/"source:files"/]',
        "    n1 --> n0",
        "    n2 --> n1",
        "    style n1 stroke-width:4px",
    ]


@given(st.sets(st.text("abcdef", min_size=2, max_size=2), max_size=20))
def test_an_export_has_the_edges_of_the_graph(pairs):
    """In both forms, whatever the graph."""
    jobs = [LineageJob(each, (Dataset(LAKE, each[0]),), (Dataset(LAKE, each[1]),)) for each in sorted(pairs)]
    graph = LineageGraph.of(jobs)
    assert {each["source"] + each["target"] for each in as_json(graph, {}, {})["edges"]} == pairs
    text = as_mermaid(graph)
    names = dict(re.findall(r'(n\d+)\["(\w)"\]', text))
    assert {names[one] + names[other] for one, other in re.findall(r"(n\d+) --> (n\d+)", text)} == pairs
