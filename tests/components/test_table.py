"""The component as Dagster's tools see it: schema, scaffolded file, and faults that wait for the load."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster_shared.yaml_utils.sample_yaml import generate_sample_yaml
from pydantic import TypeAdapter

from dedp_assets.components import TableComponent
from dedp_assets.components.chains.declaring import declare
from dedp_assets.components.checking import drafts_of
from dedp_assets.components.scaffolding import TableScaffolder
from dedp_assets.patterns.core.schema import TableLayout
from tests.components.declarations import SPECS


def test_the_schema_for_tools_is_strict():
    """As `dg check yaml` and editors read it, with the options of steps."""
    schema = TableComponent.get_model_cls().model_json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"table", "reads", "steps"}
    step = schema["$defs"]["Step"]["properties"]
    merge = schema["$defs"][step["idempotency.merger"]["$ref"].rpartition("/")[2]]
    assert (merge["required"], merge["additionalProperties"]) == (["keys"], False)
    assert merge["properties"]["keys"]["description"]


@pytest.mark.parametrize("stated", [{"nothing": 1}, {"table": 3}, {}])
def test_faults_of_attributes_do_not_reach_dagster(stated):
    """The location would not load; they wait for the component."""
    made = TypeAdapter(TableComponent.get_model_cls()).validate_python(stated)
    (asset,) = TableComponent.load(made, dg.ComponentTree.for_test().load_context).build_defs(None).assets
    assert "This table is not loaded" in next(iter(asset.specs)).description


def test_a_scaffolded_file_is_a_declaration(tmp_path):
    """Its first line names the schema, and its names are those of the command line."""
    params = TableScaffolder.get_scaffold_params()(name="gold/days", reads="silver/visits")
    target = tmp_path / "project" / "defs" / "gold" / "days"
    request = dg.ScaffoldRequest(
        type_name="dedp_assets.components.TableComponent",
        target_path=target,
        scaffold_format="yaml",
        project_root=tmp_path,
        params=params,
    )
    TableScaffolder().scaffold(request)
    text = (target / "defs.yaml").read_text()
    assert text.startswith(f"# yaml-language-server: $schema={Path('../../../../.dedp/schema.json')}\n")
    text = text.replace("[id]", "[visit_id]").replace("SELECT id", "SELECT visit_id AS id")
    (found,), faults = drafts_of(text, "defs.yaml")
    table, more = declare(found, SPECS)
    assert [*faults, *more] == []
    assert table.spec.name == "gold/days"


LAID_OUT = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/days
    columns: {visit_id: {type: STRING}, page: {type: STRING}, at: {type: TIMESTAMP}, event_date: {type: DATE}}
    partition_by: [event_date]
    layout: {LAYOUT}
  reads: {tables: {silver/visits: {same: {column: event_date}}}}
  runs: {partitions: {daily: {}}}
  about: {owner: "team:data", derived: {at: [event_time]}}
  steps:
    - sql: SELECT visit_id, page, event_time AS at, event_date FROM {visits}
    - idempotency.data_overwrite: {}
"""


def laid_out(layout):
    (found,), faults = drafts_of(LAID_OUT.replace("{LAYOUT}", layout), "defs.yaml")
    table, more = declare(found, SPECS)
    return table, [*faults, *more]


def test_a_layout_is_stated_in_a_file():
    """By the words of Python: order, statistics, filters, retention; buckets bring their column and constraint."""
    table, faults = laid_out("{sort_by: [at, page], curve: z-order, bloom: {visit_id: 500}, keep_days: 400}")
    assert faults == []
    assert table.spec.layout == TableLayout(
        sort_by=("at", "page"), curve="z-order", bloom={"visit_id": 500}, keep_days=400
    )
    table, faults = laid_out("{buckets: {by: [visit_id], buckets: 8}}")
    assert faults == []
    assert table.spec.partition_by == ("event_date", "bucket")
    assert [*table.spec.checks] == ["bucket_is_of_its_key"]


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        ("{sort_by: [nobody]}", "sort_by must name columns of the table"),
        ("{buckets: {by: [visit_id], buckets: 0}}", "buckets must be at least 1, such as 16, not 0"),
        ("{bloom: {visit_id: many}}", "must be a whole number, not 'many'"),
        ("{order: [page]}", "order"),
    ],
)
def test_a_layout_that_cannot_be_is_a_fault_of_its_file(layout, sentence):
    """In one sentence."""
    _, faults = laid_out(layout)
    assert sentence in faults[0].message


def test_dagster_writes_a_sample_of_a_file():
    """It does at every load of a location where the component is registered, and asks each array for its items."""
    sample = generate_sample_yaml("table", TableComponent.get_model_cls().model_json_schema())
    assert "error_management.windowed_deduplicator" in sample
