"""Lineage Completeness Metric."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.lineage import CONSUMERS, LAKE, Dataset, LineageGraph, LineageJob, ObservedRun
from dedp_assets.patterns.observability.lineage_completeness_metric import measure_lineage

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def table(name):
    return Dataset(LAKE, name)


A, B, C, D = map(table, "abcd")
BOARD = Dataset(CONSUMERS, "board")
GRAPH = LineageGraph.of(
    [LineageJob("ab", (A,), (B,)), LineageJob("bc", (B,), (C,)), LineageJob("show", (C,), (BOARD,))]
)


def run(job, source=(), target=(), **changed):
    return ObservedRun(job=job, run_id="1", at=NOON, inputs=tuple(source), outputs=tuple(target), **changed)


def measured(observed=(), consumers=(), graph=GRAPH, **options):
    (found,) = measure_lineage(graph, list(observed), list(consumers), NOON, **options).measurements
    return found


def test_declared_flows_that_runs_confirm_are_all_known():
    """Consumers that are declared among them."""
    found = measured([run("ab", [A], [B]), run("bc", [B], [C])])
    assert (found.value, found.verdict, found.reason) == (1.0, "ok", "")


def test_an_undeclared_edge_lowers_the_share():
    """It counts once, however often it is run over, and is named."""
    found = measured([run("bc", [B, A], [C]), run("bc", [B, A], [C])])
    assert (found.value, found.verdict) == (3 / 4, "warn")
    assert found.reason == "unknown to the lineage: a -> c by bc"
    assert measured([run("bc", [B, A], [C])], at_least=0.75).verdict == "ok"


def test_external_consumers_count():
    """One that the graph does not know lowers the share, a declared one does not."""
    reader = LineageJob("notebook", (C,), (Dataset(CONSUMERS, "notebook"),))
    found = measured(consumers=[reader])
    assert (found.value, found.reason) == (3 / 4, "unknown to the lineage: c -> consumer:notebook by notebook")
    assert measured(consumers=[LineageJob("show", (C,), (BOARD,))]).value == 1


def test_jobs_that_show_nothing_are_flows_without_known_ends():
    """A note explains them to people, and makes no lineage of them."""
    blind = LineageGraph.of([*GRAPH.jobs, LineageJob("crm", note="sends customers to the CRM")])
    assert measured([run("cleanup")], graph=blind).value == 3 / 5
    assert "an unknown source -> an unknown target by cleanup" in measured([run("cleanup")], graph=blind).reason


def test_undeclared_reads_and_writes_of_one_side_count():
    """Of a job that is seen to read alone, or to write alone."""
    found = measured([run("spy", [A]), run("fill", (), [D]), run("bc", [B])])
    assert found.value == 3 / 5
    assert found.reason == ("unknown to the lineage: a -> an unknown target by spy, an unknown source -> d by fill")


def test_failed_runs_count_nowhere():
    """They moved nothing."""
    assert measured([run("bc", [A], [D], failed=True), run("cleanup", failed=True)]).value == 1


def test_a_measurement_has_its_time_so_that_measurements_are_a_history():
    """Each call is of its own time, and says what it was measured against."""
    later = measure_lineage(GRAPH, [], [], NOON + timedelta(days=1), at_least=0.9, name="web").measurements[0]
    assert (later.at, later.table, later.at_least, later.target) == (NOON + timedelta(days=1), "web", 0.9, 1.0)


def test_without_any_flow_nothing_is_known():
    """A platform without tables is neither good nor bad."""
    found = measured(graph=LineageGraph())
    assert (found.value, found.verdict, found.reason) == (None, "unknown", "there is no flow")


def test_many_unknown_flows_are_named_in_part():
    """With the number of the others."""
    assert measured([run(f"job{n:02d}", [A], [D]) for n in range(12)]).reason.endswith("a -> d by job09 and 2 more")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=12), st.data())
def test_the_share_is_that_of_the_declared_among_all_pairs(pairs, data):
    """Whatever is observed of a graph of single-edge jobs, and never above 1."""
    jobs = {f"{a}{b}": LineageJob(f"{a}{b}", (table(a),), (table(b),)) for a, b in pairs if a != b}
    told = data.draw(st.sets(st.sampled_from(sorted(jobs)))) if jobs else set()
    found = measured(
        [run(name, job.inputs, job.outputs) for name, job in jobs.items()], graph=LineageGraph.of(jobs[n] for n in told)
    )
    assert found.value == (len(told) / len(jobs) if jobs else None)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_that_is_none_is_refused(share):
    """By name."""
    with pytest.raises(ConfigError, match="at_least must be from 0 to 1"):
        measured(at_least=share)


def test_a_time_without_a_zone_is_refused():
    """As everywhere."""
    with pytest.raises(ConfigError, match="time zone"):
        measure_lineage(GRAPH, [replace(run("ab"), at=NOON)], [], NOON.replace(tzinfo=None))
