"""Demands of patterns that write: what a declaration is held against is what a run refuses."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace

import pytest

from dedp_assets.case_study import defs
from dedp_assets.components.chains.operations import operations
from dedp_assets.components.chains.sql_rules import in_python
from dedp_assets.graph.declare import About, Gates, Pinned, Reads, Runs, Target, declared, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demands_of
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.idempotency.merger import merge_changes
from dedp_assets.patterns.idempotency.stateful_merger import merge_execution
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, keep_versions

APART = (
    "compactor.vacuum", "freeze_units", "switch_version", "observe_ahead", "reconcile_profile", "replicate_files",
    "expire_part",
)  # fmt: skip
"""Companions that no run of a partition calls: they maintain a table, or write profiles beside one."""
DAYS = TableSpec("gold/days", {"day": Column("DATE"), "id": Column("INT", required=True)}, partition_by=("day",))
UPSTREAM = replace(DAYS, name="silver/days")
DAILY_RUNS = Runs(DAILY)


def parts_taken(function):
    """The parts of a target that a pattern's code says it uses."""
    tree = ast.parse(inspect.getsource(inspect.unwrap(function)))
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    found = [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr == "by" and each.args]
    return [each.value for each in found[0].args[1:] if isinstance(each, ast.Constant)] if found else None


@pytest.mark.parametrize("name", [name for name, each in operations().items() if each.kind == "write"])
def test_a_pattern_that_takes_no_partition_says_so(name):
    """A run would refuse the target; the declaration is refused before."""
    taken, replaces = parts_taken(operations()[name].function), demands_of(operations()[name].function).replaces
    if taken is None or name.endswith(APART):
        return
    assert ("partition" in taken) == (replaces in ("any", "partition"))
    assert replaces in ("any", "partition") or ("execution" in taken) == ("execution" in replaces)


def declare(spec, pattern, runs):
    """A table in Python of one pattern."""

    @lake_table(
        spec,
        reads=Reads({UPSTREAM: same("day")}),
        runs=runs,
        gates=Gates([Audit(name="ids_are_there", of="ids", sql="sum(idd)", fail_below=1)]),
        about=About(owner="team:data"),
        patterns=[pattern],
        code_version="1",
    )
    def table(days: Pinned, into: Target) -> WriteResult:
        """Compute days."""
        raise NotImplementedError

    return table


@pytest.mark.parametrize(
    ("pattern", "spec", "runs", "said"),
    [
        (merge_changes, DAYS, DAILY_RUNS, "gold/days: partitions must be left out of the runs, as idempotency.merger"),
        (load_full, DAYS, DAILY_RUNS, "gold/days: partitions must be left out of the runs, as ingestion.full_loader"),
        (keep_versions, DAYS, DAILY_RUNS, "gold/days: partitions must be left out"),
        (keep_versions, DAYS, Runs(), r"gold/days: columns must have those .* valid_from: {type: TIMESTAMP}"),
        (overwrite_partition, DAYS, Runs(), "gold/days: partitions must be those of the table"),
        (merge_execution, DAYS, DAILY_RUNS, "gold/days: executed_by must name the executions"),
        (upsert_keyed, DAYS, DAILY_RUNS, "gold/days: key must name the columns that tell rows apart"),
    ],
)
def test_a_table_in_python_that_its_pattern_cannot_write_is_refused_at_import(pattern, spec, runs, said):
    """By the same sentence as one in YAML."""
    with pytest.raises(ConfigError, match=said):
        declare(spec, pattern, runs)


def test_a_table_that_fits_is_declared():
    """By executions, with the columns of versions, by its partitions."""
    executed = replace(DAYS, partition_by=(), executed_by="execution")
    versions = TableSpec("gold/versions", {"id": Column("INT", required=True), **VERSION})
    assert declare(executed, merge_changes, DAILY_RUNS).spec is executed
    assert declare(versions, keep_versions, Runs()).spec is versions
    assert declare(DAYS, overwrite_partition, DAILY_RUNS).spec is DAYS


def test_sql_of_tables_in_python_is_judged_at_the_function():
    """A constraint over its columns, an audit by its text; and no SQL of the graph has a fault."""
    wrong = replace(DAYS, checks={"positive": "idd > 0"})
    (fault,) = in_python([declare(wrong, overwrite_partition, DAILY_RUNS)])
    assert fault.file == __file__
    assert fault.message == "check positive names an unknown column idd: did you mean id?"
    wrong = replace(DAYS, checks={"known": "id IN (SELECT 1)"})
    (fault,) = in_python([declare(wrong, overwrite_partition, DAILY_RUNS)])
    assert fault.message == "check known must be of one row, without a query over other rows"
    assert [str(each) for each in in_python(declared(defs))] == []
