"""The how-to of tables in YAML: its example is a table of this graph."""

from __future__ import annotations

import re

from dedp_assets.case_study import defs
from dedp_assets.components.chains.declaring import declare
from dedp_assets.components.chains.operations import operations
from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.graph.declare import declared
from dedp_assets.graph.resources.environments import CHECKOUT

PAGE = (CHECKOUT / "docs" / "own_table_in_yaml.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
SPECS = {spec.name: spec for table in declared(defs) for spec in table.tables}


def test_the_example_of_the_page_is_a_table():
    """As it stands there, over the tables of this graph."""
    text = EXAMPLES[0]
    (found,), faults = drafts_of(text, "defs.yaml")
    table, more = declare(found, SPECS)
    assert [*faults, *more] == []
    assert table.spec.name == "gold/page_counts"
    assert table.definition().partitions_def


def test_the_fault_of_the_page_is_the_one_that_is_found():
    """Line, column and sentence."""
    text = EXAMPLES[0]
    (found,), _ = drafts_of(text.replace("keys: [visit_id]", "keys: [vist_id]"), "defs/gold/page_counts/defs.yaml")
    (fault,) = declare(found, SPECS)[1]
    assert f"{fault}\n" in PAGE


def test_the_operations_that_the_page_names_are_there():
    """Steps of the row accounting."""
    assert {"tally", "account"} <= set(operations())


def test_the_maintenance_of_the_page_is_a_declaration():
    """Over the tables of this graph; the function that the detector names is one of the reader's."""
    upkeep, detector = [text for text in EXAMPLES if "MaintenanceComponent" in text]
    detector = detector.replace("my_lake.late:versions", "tests.components.tending.test_acting:versions")
    for text in (upkeep, detector):
        (found,), faults = drafts_of(text, "defs.yaml")
        declaration, definitions, more = completed(found, SPECS)
        assert [*faults, *more] == []
        assert [spec.name for spec in declaration.tables] == ["silver/visits"]
        assert definitions.assets
