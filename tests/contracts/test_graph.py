"""The graph as a whole: a change of it is a visible difference."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.case_study import defs as package
from dedp_assets.definitions import defs
from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.declare import declared
from dedp_assets.graph.resources.environments import CHECKOUT, child_environment
from dedp_assets.patterns import catalog

DEFS = defs()


FROZEN = CHECKOUT / "tests" / "contracts" / "graph"


def described(definitions: dg.Definitions) -> dict[str, list[str]]:
    """What is frozen of the graph: by asset, and by what wakes it."""
    graph, found = definitions.resolve_asset_graph(), {}
    for node in graph.asset_nodes:
        parents = ", ".join(sorted(key.to_user_string() for key in node.parent_keys)) or "nothing"
        partitions = type(node.partitions_def).__name__ if node.partitions_def else "unpartitioned"
        checks = [f"check {check.name}" for check in sorted(node.check_keys, key=lambda c: c.name)]
        pattern = node.tags.get("dedp/pattern", "a source")
        reads = f"{node.key.to_user_string()} <- {parents} [{partitions}] {pattern}"
        found[".".join(node.key.path)] = [reads, *checks]
    repository = definitions.get_repository_def()
    for job in repository.get_all_jobs():
        if not job.name.startswith("__"):
            keys = sorted(key.to_user_string() for key in job.asset_layer.selected_asset_keys)
            found[f"job.{job.name}"] = keys or ["no asset"]
    for schedule in repository.schedule_defs:
        found[f"schedule.{schedule.name}"] = [f"{schedule.cron_schedule} {schedule.job_name}"]
    for sensor in repository.sensor_defs:
        keys = (
            sorted(key.to_user_string() for key in sensor.asset_selection.resolve(graph))
            if sensor.asset_selection
            else []
        )
        found[f"sensor.{sensor.name}"] = keys or sorted(target.job_name for target in sensor.targets) or ["no job"]
    return found


def test_no_tables_are_upstream_of_each_other():
    """Dagster can put the graph in order, without which it plans no backfill; one with a circle it cannot."""
    graph = DEFS.resolve_asset_graph()
    assert len(graph.toposorted_asset_keys) == len(set(graph.get_all_asset_keys()))
    both = [dg.AssetSpec(name, deps=[other]) for name, other in (("a", "b"), ("b", "a"))]

    @dg.multi_asset(specs=both)
    def circle(): ...

    with pytest.raises(Exception, match="Circular"):
        dg.Definitions([circle]).resolve_asset_graph().toposorted_asset_keys  # noqa: B018


def test_the_first_partition_of_each_table_can_be_backfilled():
    """Dagster plans no backfill of what depends on partitions that are none: days of a week before the first day."""
    graph = DEFS.resolve_asset_graph()
    edges = [
        (graph.get(key), graph.get(parent))
        for key in graph.get_all_asset_keys()
        for parent in graph.get(key).parent_keys
    ]
    partitioned = [(node, parent) for node, parent in edges if node.partitions_def and parent.partitions_def]
    assert any(node.partitions_def != parent.partitions_def for node, parent in partitioned)
    for node, parent in partitioned:
        known, above = node.partitions_def, parent.partitions_def
        first = known.empty_subset().with_partition_keys([known.get_first_partition_key()])
        mapping = graph.get_partition_mapping(node.key, parent.key)
        lacking = mapping.get_upstream_mapped_partitions_result_for_partitions(first, known, above)
        assert lacking.required_but_nonexistent_subset.is_empty, (node.key, parent.key)


def test_the_graph_changes_only_on_purpose():
    """Keys, lineage, partitions, patterns, checks, schedules: what was frozen is as it was; jobs and sensors may grow.

    A file each, so that two people who add two tables never touch the same line; `make freeze` adds new ones.
    """
    now = described(DEFS)
    for path in sorted(FROZEN.glob("*.txt")):
        frozen, found = path.read_text().splitlines(), now.get(path.stem, [])
        grows = path.stem.startswith(("job.", "sensor."))
        assert (set(frozen) <= set(found)) if grows else (frozen == found), path.stem


def test_definitions_are_loadable():
    """Dagster's own static check passes."""
    dg.Definitions.validate_loadable(DEFS)


def test_every_asset_has_an_owner_a_description_columns_kinds_and_a_known_pattern():
    """What a person expects to find in the UI is there for each asset."""
    known = {pattern.id for pattern in catalog.patterns()}
    for node in DEFS.resolve_asset_graph().asset_nodes:
        assert node.owners, node.key
        assert node.description, node.key
        if node.is_external:
            assert "source" in node.kinds, node.key
            continue
        assert node.kinds >= {"spark", "deltalake"}, node.key
        assert node.tags["dedp/pattern"] in known, node.key
        assert node.code_version, node.key
        columns = node.metadata["dagster/column_schema"].columns
        assert all(column.description for column in columns), node.key


def test_every_check_on_rows_blocks():
    """One that fails keeps downstream steps of its run from starting; rows that are only late are right."""
    graph = DEFS.resolve_asset_graph()
    specs = [graph.get_check_spec(key) for node in graph.asset_nodes for key in node.check_keys]
    reported = {name for table in declared(package) for name in table.gates.reports}
    assert "changes_arrive_in_time" in reported
    assert {spec.name for spec in specs if not spec.blocking and RUNS_ALONE not in spec.metadata} == reported
    assert all(spec.description for spec in specs)


def test_every_asset_hangs_on_a_source_and_is_read_by_somebody():
    """Lineage begins where data comes from; a table that no table reads says who does."""
    for node in DEFS.resolve_asset_graph().asset_nodes:
        if not node.is_external and node.group_name != "platform":
            assert node.parent_keys, node.key
            assert node.child_keys or node.metadata.get("used by"), node.key
            (code,) = node.metadata["dagster/code_references"].code_references
            assert Path(code.file_path).is_relative_to(CHECKOUT), node.key
            assert code.line_number > 1, node.key


def test_jobs_leave_out_the_checks_that_run_alone():
    """A run that writes judges what it writes; what is stored is judged on its own."""
    repository = DEFS.get_repository_def()
    checks = repository.asset_checks_defs_by_key.values()
    alone = {c.node_def.name for c in checks if all(RUNS_ALONE in spec.metadata for spec in c.check_specs)}
    jobs = [job for job in repository.get_all_jobs() if not job.name.startswith("__")]
    assert jobs
    for job in jobs:
        names = {node.name for node in job.nodes}
        assert names == alone if job.name == "check_tables" else not names & alone, job.name


@pytest.mark.parametrize("package", ["resources", "sensors"])
def test_top_level_packages_are_this_projects_own(package):
    """`resources` and `sensors` are common words; they have to mean ours."""
    assert Path(importlib.util.find_spec(package).origin).is_relative_to(CHECKOUT)


def test_only_one_module_reads_the_environment():
    """Settings come from dedp_assets.graph.resources/environments.py."""
    sources = [p for folder in ("dedp_assets", "resources", "sensors") for p in (CHECKOUT / folder).rglob("*.py")]
    readers = [p.name for p in sources if "os.environ" in p.read_text() or "getenv" in p.read_text()]
    assert readers == ["environments.py"]


@pytest.mark.slow
def test_the_workspace_file_loads_the_graph(tmp_path):
    """`dagster definitions validate -w workspace.yaml` passes, as the webserver and the daemon load it."""
    command = [str(Path(sys.executable).parent / "dagster"), "definitions", "validate", "-w", "workspace.yaml"]
    environment = child_environment({"DAGSTER_HOME": str(tmp_path), "DEDP_HOME": str(tmp_path)})
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
