"""What a run reports of a table, told from the table's log alone: no Spark, the log is written by hand."""

import dagster as dg
import pytest

from dedp_assets.graph.catalogue.specs import asset_spec
from dedp_assets.graph.run.batches import Inputs, Work
from dedp_assets.graph.run.runner import run
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Table
from tests.helpers import EVENTS, NOW, a_record, write_log

CHECKS = ("constraints_hold", "events_are_many")
KEPT = {"name": "constraints_hold", "passed": True}
MANY = {"name": "events_are_many", "passed": False, "severity": "warn", "note": "below 1"}


@pytest.fixture
def reported(tmp_path):
    """``reported(...)``: the run whose commit wrote that, as Dagster saw it."""

    def result(**fields):
        table = Table(EVENTS, tmp_path / EVENTS.name, lambda: pytest.fail("it asked for a Spark session"))

        def build(_):
            write_log(table.location, {"id": "long"}, [], [{"record": a_record(EVENTS.name, {}, **fields)}])
            return WriteResult(EVENTS.name, table.ledger.version(), applied=True, changed=True, reason="written")

        @dg.multi_asset(
            specs=[asset_spec(EVENTS, patterns=[Table.overwrite], owners=[], code_version="1")],
            check_specs=[dg.AssetCheckSpec(name, asset=dg.AssetKey(EVENTS.name.split("/"))) for name in CHECKS],
        )
        def events(context: dg.AssetExecutionContext):
            yield from run(context, Work(table, lambda _: Inputs({}), build), at=NOW)

        with dg.DagsterInstance.ephemeral() as instance:
            return dg.materialize([events], instance=instance, raise_on_error=False)

    return result


@pytest.mark.parametrize("written", [0, 3])
@pytest.mark.parametrize("judged", [(MANY,), (MANY, KEPT)], ids=["one of two", "both"])
def test_a_check_is_green_only_if_its_rule_was_held_against_the_rows(reported, written, judged):
    """However few rows there were to judge; a check that nothing judged warns, as the rows are published."""
    rows = {"read": written, "written": written, "dead": 0, "duplicates": 0, "filtered": 0}
    verdicts = dict.fromkeys(CHECKS, False) | {finding["name"]: finding["passed"] for finding in judged}
    done = reported(rows=rows, findings=judged)
    assert {found.check_name: found.passed for found in done.get_asset_check_evaluations()} == verdicts
    assert {found.severity for found in done.get_asset_check_evaluations()} == {dg.AssetCheckSeverity.WARN}
    assert done.success


@pytest.mark.parametrize(("verdict", "shown"), [("none", False), ("passed", True)])
def test_a_merge_shows_no_counts_of_rows(reported, verdict, shown):
    """It counted none: a zero beside a table that has rows would be a lie."""
    none = dict.fromkeys(("read", "written", "dead", "duplicates", "filtered"), 0)
    done = reported(rows=none, verdict=verdict, findings=(MANY, KEPT))
    (made,) = done.asset_materializations_for_node("events")
    assert ("rows read" in made.metadata) == shown


def test_a_cost_is_shown_in_figures_that_plot(reported):
    """Each that was told is a number of its own; the others are no zeros."""
    cost = Cost(seconds=2.5, cpu_seconds=1.25, files_written=2, bytes_written=4_000, attempts=1)
    (made,) = reported(findings=(MANY, KEPT), cost=cost).asset_materializations_for_node("events")
    shown = {name: value.value for name, value in made.metadata.items() if name.startswith("cost/")}
    assert shown == {
        "cost/seconds": 2.5,
        "cost/cpu seconds": 1.25,
        "cost/files written": 2,
        "cost/bytes written": 4_000,
        "cost/attempts": 1,
    }


def test_a_commit_that_nobody_measured_shows_no_cost(reported):
    """As commits of earlier releases."""
    (made,) = reported(findings=(MANY, KEPT)).asset_materializations_for_node("events")
    assert not [name for name in made.metadata if name.startswith("cost/")]
