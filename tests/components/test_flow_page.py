"""The page about flow: each part of a declaration in YAML that it shows is the record of Python."""

from __future__ import annotations

import re

import pytest
import yaml

from dedp_assets.case_study import defs
from dedp_assets.case_study.defs.gold.page_views_by_hour import PAGE_VIEWS_BY_HOUR
from dedp_assets.case_study.defs.gold.page_views_report import page_views_report
from dedp_assets.case_study.defs.gold.page_views_so_far import page_views_so_far
from dedp_assets.components.chains.declaring import declare
from dedp_assets.components.checking import drafts_of
from dedp_assets.graph.declare import Branch, InSequence, Nightly, OnMarkers, declared, finished, of_branch
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns import write_parallel
from dedp_assets.patterns.connectors.delivery.csv_folder import CsvFolder
from dedp_assets.patterns.flow.exclusive_choice import Router, Rule
from dedp_assets.patterns.flow.local_sequencer import SequenceStep

PAGE = (CHECKOUT / "docs" / "flow.md").read_text()
PARTS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
SPECS = {spec.name: spec for table in declared(defs) for spec in table.tables}
TABLE = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/page_counts
    comment: One row per page and day.
    columns:
      event_date: {type: DATE, comment: UTC day, required: true}
      page: {type: STRING, comment: path}
      views: {type: BIGINT, comment: visits of the page}
      is_approximate: {type: BOOLEAN, comment: whether hours are missing}
    partition_by: [event_date]
  reads: {tables: {silver/visits: {same: {column: event_date}}}}
  runs: {partitions: {daily: {start: 2026-01-05}}}
  about: {owner: "team:web", used_by: editors}
  code_version: "1"
  steps:
    - sql: >-
        SELECT DATE {event_date} AS event_date, CAST(NULL AS STRING) AS page, 1L AS views, false AS is_approximate
        FROM {rows}
    - idempotency.data_overwrite: {}
"""
OF_READER = {
    "my_reports.busy_pages": "tests.components.test_flow_page",
    "my_lake.sinks": "tests.components.test_flow_page",
}
"""Module of the page's reader -> the module that has such names here."""
ROUTER = Router((Rule("files", before="2026-01-06"), Rule("table", since="2026-01-06")))
MARKERS = OnMarkers(PAGE_VIEWS_BY_HOUR, "day", "all_markers")
PARTNER_FILES = CsvFolder("/nowhere")
finished_hours = finished(MARKERS)


def counted(event_date):
    """Rows of a finished day, as a reader would find them."""
    raise AssertionError(event_date)


def table_with(part):
    """The declaration of a table of which a part is as on the page; other keys of runs stay."""
    stated = yaml.safe_load(TABLE)
    attributes = stated["attributes"]
    attributes |= {**part, "runs": {**attributes["runs"], **part.get("runs", {})}}
    text = yaml.safe_dump(stated, sort_keys=False, width=1000)
    for module, here in OF_READER.items():
        text = text.replace(module, here)
    (draft,), faults = drafts_of(text, "defs.yaml")
    table, more = declare(draft, {**SPECS, **{spec.name: spec for spec in draft.tables}})
    assert [str(fault) for fault in (*faults, *more)] == []
    assert table.definition().partitions_def
    return table


def feed(table):
    """The only feed of a table."""
    (found,) = table.reads.tables.values()
    return found


SHOWN = {
    "aligned": lambda table: feed(table) == page_views_report.reads.tables[PAGE_VIEWS_BY_HOUR],
    "unaligned": lambda table: feed(table) == page_views_so_far.reads.tables[PAGE_VIEWS_BY_HOUR],
    "branch": lambda table: table.runs.when == Branch(ROUTER, "files", by=Nightly("20 3 * * *", lookback=30)),
    "of_branch": lambda table: (
        [
            [*feed(table).reads(day)] == [*of_branch("event_date", ROUTER, "files").reads(day)]
            for day in ("2026-01-05", "2026-01-06")
        ]
        == [True, True]
    ),
    "sequence": lambda table: (
        table.runs.sequence
        == InSequence(
            "counting",
            (SequenceStep("silver/visits"), SequenceStep("gold/page_counts", ("silver/visits",), "continue")),
        )
    ),
    "on_markers": lambda table: table.runs.of(OnMarkers) == (MARKERS,) and table.reads.inputs is finished_hours,
    "parallel_split": lambda table: write_parallel in table.patterns,
}
"""Word of each part, in the order of the page -> whether a table with the part is as in Python."""


@pytest.mark.parametrize(("word", "part"), [*zip(SHOWN, PARTS, strict=True)], ids=[*SHOWN])
def test_a_part_of_the_page_is_the_record_of_python(word, part):
    """As it stands there, in a table over the graph's own."""
    assert re.search(rf"\b{word}\b", yaml.safe_dump(part))
    assert SHOWN[word](table_with(part))
