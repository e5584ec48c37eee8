"""The component of a landing as Dagster's tools see it: schema, scaffolded file, sample, and faults that wait."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster_shared.yaml_utils.sample_yaml import generate_sample_yaml
from pydantic import TypeAdapter

from dedp_assets.components import LandingComponent
from dedp_assets.components.scaffolding import LandingScaffolder
from tests.components.declarations import faults_in


@pytest.mark.parametrize("stated", [{"nothing": 1}, {"table": 3}, {}])
def test_faults_of_attributes_do_not_reach_dagster(stated):
    """The location would not load; they wait for the component."""
    made = TypeAdapter(LandingComponent.get_model_cls()).validate_python(stated)
    component = LandingComponent.load(made, dg.ComponentTree.for_test().load_context)
    assert component.declared is None
    (asset,) = component.build_defs(None).assets
    assert "This table is not loaded" in next(iter(asset.specs)).description


def test_attributes_in_no_file_make_the_tables():
    """As `build_defs_for_component` and tests give them; the columns stand inline."""
    attributes = {
        "table": "silver/orders",
        "folder": "orders",
        "format": {"json_lines": {}},
        "columns": {"id": {"type": "STRING"}},
        "about": {"owner": "team:data"},
    }
    made = TypeAdapter(LandingComponent.get_model_cls()).validate_python(attributes)
    component = LandingComponent.load(made, dg.ComponentTree.for_test().load_context)
    assert [table.spec.name for table in component.declared] == ["bronze/orders", "silver/orders"]


@pytest.mark.parametrize(
    ("partitions", "stated", "expected"),
    [
        ({"daily": {}}, {"event_time": "at"}, {"bronze": "event_date", "silver": "at", "letters": "occurred_at"}),
        ({"hourly": {}}, {"event_time": "at"}, {"bronze": "", "silver": "at", "letters": "occurred_at"}),
        ({"daily": {}}, {}, {"bronze": "", "silver": "", "letters": ""}),
    ],
    ids=["days", "hours", "none"],
)
def test_the_tables_of_a_landing_declare_its_event_time(partitions, stated, expected):
    """Each by its own column: the record's, the day it is filed under, the letter's; an hour is a text, and no time."""
    attributes = {
        "table": "silver/orders",
        "folder": "orders",
        "format": {"json_lines": {}},
        "columns": {"id": {"type": "STRING"}, "at": {"type": "TIMESTAMP"}},
        "partitions": partitions,
        "about": {"owner": "team:data"},
        **stated,
    }
    made = TypeAdapter(LandingComponent.get_model_cls()).validate_python(attributes)
    component = LandingComponent.load(made, dg.ComponentTree.for_test().load_context)
    found = {spec.name: spec.event_time for each in component.declared for spec in each.tables}
    names = {"bronze": "bronze/orders", "silver": "silver/orders", "letters": "silver/orders_dead_letter"}
    assert found == {names[name]: column for name, column in expected.items()}


def test_a_scaffolded_file_lacks_its_columns_alone(tmp_path):
    """Its first line names the schema, and the one fault names the command that writes them."""
    params = LandingScaffolder.get_scaffold_params()(
        table="silver/trips", folder="trips", file_format="json_lines", event_time="at", keys="id"
    )
    target = tmp_path / "project" / "defs" / "trips"
    request = dg.ScaffoldRequest(
        type_name="dedp_assets.components.LandingComponent",
        target_path=target,
        scaffold_format="yaml",
        project_root=tmp_path,
        params=params,
    )
    LandingScaffolder().scaffold(request)
    text = (target / "defs.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=")
    (fault,) = faults_in(text)
    assert "run `dedp infer" in fault.message
    assert faults_in(f"{text}  columns: {{id: {{type: STRING}}, at: {{type: TIMESTAMP}}}}\n") == []


def test_dagster_writes_a_sample_of_a_file():
    """It does at every load of a location where the component is registered."""
    sample = generate_sample_yaml("landing", LandingComponent.get_model_cls().model_json_schema())
    assert "settled_minutes" in sample
