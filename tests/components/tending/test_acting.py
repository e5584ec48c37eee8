"""Maintenance in a file: every fault is one line, and a valid one is a declaration."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.components.checking import checked, completed, drafts_of, files_below
from dedp_assets.components.kinds import MAINTENANCE
from dedp_assets.components.tending.acting import actions
from dedp_assets.components.tending.upkeep import OnPlan
from dedp_assets.graph.declare import Every, OnRequest, Polls
from tests.components.chains.test_declaring import parts
from tests.components.declarations import SPECS
from tests.components.test_checking import VALUES, require_places

GOOD = """
type: dedp_assets.components.MaintenanceComponent
attributes:
  name: platform/upkeep
  description: Files and duplicates of visits.
  owner: team:data
  tables: [silver/visits]
  when: {every: {cron: 0 3 * * *, description: By night.}}
  actions:
    - error_management.windowed_deduplicator.judge_uniqueness: {keys: [visit_id]}
    - ingestion.compactor.plan_compaction: {min_small_files: 5}
    - ingestion.compactor: {min_small_files: 5}
    - ingestion.compactor.vacuum: {retention_hours: 720}
    - error_management.dynamic_late_data_integrator: {limit: 3}
      given: tests.components.tending.test_acting:versions
"""
VALUE: dict[str, Any] = yaml.safe_load(GOOD)


def versions(table, now) -> Mapping[str, Any]:
    """What only a run knows."""
    return {"changed": {}, "applied": {}, "current": "2026-01-05"}


def strange(table, tabel):
    """A parameter that nothing has."""


def declared(text):
    """The declarations and the faults of a text."""
    drafts, faults = drafts_of(text, "defs.yaml")
    made = [completed(each, SPECS) for each in drafts]
    return [each[0] for each in made if each[1]], [*faults, *(fault for each in made for fault in each[2])]


def test_a_file_is_a_declaration():
    """With the options of the signatures, and a start in the words of Python."""
    (upkeep,), faults = declared(GOOD)
    assert faults == []
    assert (upkeep.name, [spec.name for spec in upkeep.tables]) == ("platform/upkeep", ["silver/visits"])
    assert upkeep.when == Every("0 3 * * *", description="By night.")
    assert [action.label for action in upkeep.actions] == [
        "judge_uniqueness", "plan_compaction", "compact", "vacuum", "plan_late_partitions"
    ]  # fmt: skip
    assert upkeep.actions[2].options == {"min_small_files": 5}
    assert upkeep.actions[4].given is not None


@pytest.mark.parametrize(
    ("when", "made"),
    [
        ("on_plan: {every_seconds: 60, computes: silver/visits}", OnPlan(60, computes=SPECS["silver/visits"])),
        ("on_request: {}", OnRequest()),
        (
            "polls: {ask: 'tests.components.tending.test_acting:versions', every_seconds: 60, description: Looks.}",
            Polls(versions, every_seconds=60, description="Looks."),
        ),
    ],
)
def test_starts_are_those_of_tables_and_a_plan(when, made):
    """As records, with the same options."""
    (upkeep,), faults = declared(GOOD.replace("every: {cron: 0 3 * * *, description: By night.}", when))
    assert faults == []
    assert upkeep.when == made


WRONG = {
    "a misspelt pattern": ("vacuum: ", "vacum: ", 12, "unknown pattern ingestion.compactor.vacum: did you mean "
                           "ingestion.compactor.vacuum?"),
    "a misspelt option": ("retention_hours", "retention_hour", 12, "did you mean retention_hours?"),
    "a value of another type": ("720", "soon", 12, "retention_hours must be a number, not 'soon'"),
    "a value that no call takes": ("limit: 3", "limit: 99999999999999999999", 13, "limit must be"),
    "an unknown table": ("[silver/visits]", "[silver/visit]", 6, "unknown table silver/visit: did you mean"),
    "an unknown column": ("[visit_id]", "[visitid]", 9, "unknown column of silver/visits visitid: did you mean"),
    "no name of a table": ("platform/upkeep", "platform upkeep", 3, "name must be layer/dataset"),
    "a step of a table": ("ingestion.compactor: {m", "idempotency.merger: {m", 11, "stands in a step of a table"),
    "two patterns": ("    - ingestion.compactor.vacuum", "      ingestion.compactor.vacuum", 11, "must have one"),
    "no options": ("{keys: [visit_id]}", "", 9, "is empty: write {} if it needs no options"),
    "an action twice": ("ingestion.compactor.plan_compaction", "ingestion.compactor", 11, "is there twice"),
    "another start": ("every:", "evry:", 7, "did you mean every?"),
    "a start without a description": (", description: By night.", "", 7, "description is missing"),
    "no function": ("test_acting:versions", "test_acting:version", 14, "did you mean versions?"),
    "a strange parameter": ("test_acting:versions", "test_acting:strange", 14, "takes tabel, which is"),
    "no parameters": ("tests.components.tending.test_acting:versions", "builtins:dict", 14, "that Python knows"),
    "no text": ("tests.components.tending.test_acting:versions", "3", 14, "must be package.module:function"),
    "no such module": ("tests.components.tending.test_acting:versions", "my.late:versions", 14, "cannot be imported"),
    "no callable": (
        "tests.components.tending.test_acting:versions",
        "tests.components.tending.test_acting:GOOD",
        14,
        "must be a",
    ),
    "a missing argument": ("      given: tests.components.tending.test_acting:versions\n", "", 13, "is missing"),
    "a schedule that is none": ("0 3 * * *", "at three", 7, "at three"),
    "no owner": ("team:data", "the data team", 5, "the data team"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_mistake_is_named_with_its_line(kind):
    """And with the nearest right name."""
    old, new, line, message = WRONG[kind]
    assert old in GOOD
    made, faults = declared(GOOD.replace(old, new, 1).lstrip("\n"))
    assert not made
    assert any(message in str(each) for each in faults), faults
    assert faults[0].line == line


def test_a_start_by_plans_needs_a_plan():
    """Else the sensor would never ask."""
    text = GOOD.replace("every: {cron: 0 3 * * *, description: By night.}", "on_plan: {}")
    (fault,) = declared("".join(line for line in text.splitlines(True) if "plan" not in line or "on_plan" in line)
                        .replace("    - error_management.dynamic_late_data_integrator: {limit: 3}\n", "")
                        .replace("      given: tests.components.tending.test_acting:versions\n", ""))[1]  # fmt: skip
    assert fault.message.startswith("actions must have a plan for on_plan")


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_an_edited_value_is_faults_or_a_declaration(data):
    """Whatever stands in the place of a part."""
    value = copy.deepcopy(VALUE)
    path = data.draw(st.sampled_from([path for path, _ in parts(VALUE)]))
    above: Any = value
    for key in path[:-1]:
        above = above[key]
    if data.draw(st.booleans()) or isinstance(above, list):
        above[path[-1]] = data.draw(VALUES)
    else:
        above[data.draw(st.text(max_size=9))] = above.pop(path[-1])
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    made, faults = declared(text)
    assert made or faults or value.get("type") != MAINTENANCE
    require_places(faults, text)


def test_a_second_owner_of_the_name_is_refused(tmp_path):
    """A table and a maintenance have different names."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "defs.yaml").write_text(GOOD.replace("[silver/visits]", "all").replace("[visit_id]", "[x]"))
    (fault,) = checked(files_below(tmp_path)).faults
    assert fault.message.startswith("platform/upkeep has two writers: ")


def test_actions_need_no_rows_of_a_step():
    """Compaction and vacuum, inspections and plans; nothing that computes a table."""
    kinds = {name: each.kind for name, each in actions().items()}
    assert kinds["ingestion.compactor"] == "write"
    assert kinds["value.local_aggregator.judge_placement"] == "inspect"
    assert {"idempotency.data_overwrite", "ingestion.passthrough_replicator"}.isdisjoint(kinds)
    assert MAINTENANCE.endswith("MaintenanceComponent")
