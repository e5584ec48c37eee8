"""Dataset Tracker."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.lineage import (
    CONSUMERS,
    LAKE,
    SOURCES,
    Dataset,
    LineageGraph,
    LineageJob,
    ObservedRun,
)
from dedp_assets.patterns.observability._sql_datasets import datasets_of
from dedp_assets.patterns.observability.dataset_tracker import affected_by, compare_lineage, root_of
from tests.contracts.known_calls import known_calls

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
LETTERS = "abcdefgh"


def table(name, owner="team:x"):
    return Dataset(LAKE, name, owner)


FILES = Dataset(SOURCES, "landing/visits", "team:collectors")
RAW, CLEAN, USERS, DAILY, TOP = map(table, ("bronze/visits", "silver/visits", "silver/users", "gold/daily", "gold/top"))
BOARD = Dataset(CONSUMERS, "board of directors", "team:board")
LAND = LineageJob("land", (FILES,), (RAW,))
CLEANSE = LineageJob("cleanse", (RAW, USERS), (CLEAN,))
COUNT = LineageJob("count", (CLEAN,), (DAILY,))
RANK = LineageJob("rank", (CLEAN, DAILY), (TOP,))
SHOW = LineageJob("used by the board", (TOP,), (BOARD,))
DECLARED = LineageGraph.of([LAND, CLEANSE, COUNT, RANK, SHOW])


def ran(job, **changed):
    """A run of a declared job that did what it declares."""
    run = ObservedRun(job=job.name, run_id="1", at=NOON, inputs=job.inputs, outputs=job.outputs)
    return replace(run, **changed)


def graph(*edges):
    """A graph of pairs of letters: a job for each."""
    jobs = [LineageJob(edge, (table(edge[0]),), (table(edge[1]),)) for edge in sorted(set(edges))]
    return LineageGraph.of(jobs)


def test_closures_from_any_dataset_are_those_of_the_known_graph():
    """Both ways, through a diamond, from a source outside of the platform to the readers."""
    assert DECLARED.upstream(TOP) == {FILES, RAW, USERS, CLEAN, DAILY}
    assert DECLARED.upstream(FILES) == set()
    assert DECLARED.downstream(RAW) == {CLEAN, DAILY, TOP, BOARD}
    assert DECLARED.downstream(BOARD) == set()


def test_each_node_names_the_team_that_answers_for_it():
    """Whichever mention of the dataset says so."""
    named = LineageGraph.of([LineageJob("x", (table("a", ""),), (table("b", "team:b"),))], [table("a", "team:a")])
    assert {each.name: each.owner for each in named.datasets} == {"a": "team:a", "b": "team:b"}


def test_the_first_faulty_dataset_explains_the_faults_below_it():
    """A seeded schema fault of one table, seen in four."""
    found = root_of(DECLARED, [TOP, CLEAN, BOARD, RAW])
    assert found.datasets == (RAW,)
    assert set(found.explained) == {CLEAN, TOP, BOARD}


def test_faults_with_several_causes_have_several_roots():
    """Two tables that do not feed each other; a table below both is explained."""
    assert root_of(DECLARED, [RAW, USERS, CLEAN]).datasets == (RAW, USERS)
    assert root_of(DECLARED, []).datasets == ()


def test_faults_in_a_circle_have_no_first_one():
    """Both are named, and what they feed is explained by them."""
    found = root_of(graph("ab", "ba", "bc"), [table("a"), table("b"), table("c")])
    assert (found.datasets, found.explained) == ((table("a"), table("b")), (table("c"),))


@given(st.sets(st.text(LETTERS, min_size=2, max_size=2), max_size=20), st.data())
def test_every_fault_is_a_root_or_downstream_of_one(edges, data):
    """In any graph with any circles, no root is fed by a faulty dataset outside of its circle."""
    known = graph(*edges)
    faults = data.draw(st.lists(st.sampled_from(known.datasets), unique=True)) if known.datasets else []
    found = root_of(known, faults)
    assert {*found.datasets} | {*found.explained} == {*faults}
    assert not {*found.datasets} & {*found.explained}
    reached = {each for root in found.datasets for each in known.downstream(root)}
    assert {*found.explained} <= reached
    for root in found.datasets:
        assert all(root in known.upstream(other) for other in known.upstream(root) & {*faults})


def test_a_change_hits_direct_and_indirect_readers():
    """Each once, the consumers behind other tables among them, with those who have to be told."""
    hit = affected_by(DECLARED, CLEAN)
    assert (hit.direct, hit.indirect, hit.consumers) == ((DAILY, TOP), (BOARD,), (BOARD,))
    assert hit.owners == ("team:board", "team:x")


@given(st.sets(st.text(LETTERS, min_size=2, max_size=2), min_size=1, max_size=20))
def test_impact_is_the_downstream_closure(edges):
    """In any graph, diamonds and circles included, direct and indirect together and apart."""
    known = graph(*edges)
    for dataset in known.datasets:
        hit = affected_by(known, dataset)
        assert {*hit.direct} | {*hit.indirect} == known.downstream(dataset)
        assert not {*hit.direct} & {*hit.indirect}
        assert dataset not in (*hit.direct, *hit.indirect)


def test_a_dataset_that_the_graph_does_not_know_is_refused():
    """By name, so that a slip of the pen is no empty list."""
    with pytest.raises(ConfigError, match=r"one of the graph, not gold/dayly"):
        affected_by(DECLARED, table("gold/dayly"))
    with pytest.raises(ConfigError, match=r"one of the graph, not gold/dayly"):
        root_of(DECLARED, [RAW, table("gold/dayly")])


def test_runs_that_do_what_they_declare_pass():
    """The readers outside of the platform are declared and observed by nobody."""
    found = compare_lineage(DECLARED, [ran(job) for job in (LAND, CLEANSE, COUNT, RANK)])
    assert found.passed
    assert found.note == ""


def test_an_undeclared_read_and_an_undeclared_write_are_reported():
    """With job and dataset; of a job that nobody declared, all of them."""
    spy = table("silver/secret")
    stray = LineageJob("stray", (RAW,), (spy,))
    found = compare_lineage(DECLARED, [ran(COUNT, inputs=(CLEAN, spy), outputs=(DAILY, TOP)), ran(stray)])
    assert found.figures["undeclared_reads"] == ["count reads silver/secret", "stray reads bronze/visits"]
    assert found.figures["undeclared_writes"] == ["count writes gold/top", "stray writes silver/secret"]
    assert (found.passed, found.severity) == (False, "fail")


def test_a_job_may_read_what_it_writes():
    """Merges do."""
    assert compare_lineage(DECLARED, [ran(COUNT, inputs=(CLEAN, DAILY))]).passed


def test_a_declared_edge_that_no_run_shows_is_a_warning():
    """After as many runs as were asked for, and of jobs that never ran only on request."""
    lazy = [ran(CLEANSE, inputs=(RAW,)), ran(CLEANSE, inputs=(RAW,), run_id="2")]
    found = compare_lineage(DECLARED, lazy)
    assert found.figures["never_observed"] == ["cleanse reads silver/users"]
    assert (found.passed, found.severity) == (False, "warn")
    assert compare_lineage(DECLARED, lazy, least_runs=3).passed
    every = compare_lineage(DECLARED, [], least_runs=0).figures["never_observed"]
    assert "rank reads gold/daily" in every
    assert not [each for each in every if "board" in each]


def test_runs_without_changes_say_nothing_about_edges():
    """They opened nothing, because there was nothing to do."""
    assert compare_lineage(DECLARED, [ran(COUNT, inputs=(), outputs=())]).passed


def test_a_failed_run_shows_nothing():
    """Neither for edges nor against them."""
    failed = ran(COUNT, inputs=(RAW,), outputs=(TOP,), failed=True)
    assert compare_lineage(DECLARED, [failed]).passed


def test_a_step_without_inputs_and_outputs_is_a_blind_spot_until_it_is_annotated():
    """Whether it is declared so, or only seen."""
    custom = LineageJob("export_to_crm")
    blind = compare_lineage(LineageGraph.of([custom]), [ran(LineageJob("cleanup"))])
    assert blind.figures["blind_spots"] == ["cleanup", "export_to_crm"]
    assert blind.refuses
    noted = LineageGraph.of([replace(custom, note="sends customers to the CRM"), LineageJob("cleanup", note="removes")])
    assert compare_lineage(noted, [ran(LineageJob("cleanup"))]).passed


def test_a_blind_spot_that_runs_show_something_of_is_none():
    """What they show is undeclared instead."""
    custom = LineageJob("export", (), ())
    found = compare_lineage(LineageGraph.of([custom]), [ran(custom, inputs=(DAILY,))])
    assert found.figures["blind_spots"] == []
    assert found.figures["undeclared_reads"] == ["export reads gold/daily"]


def test_statements_count_as_observed():
    """An unparsable one is reported, with the others judged all the same."""
    text = "INSERT INTO gold.daily SELECT * FROM silver.visits; INSERT INTO gold.daily SELEC"
    found = compare_lineage(DECLARED, [], statements={"count": text})
    assert found.figures["undeclared_reads"] == []
    assert found.figures["unparsed"] == ["count: INSERT INTO gold.daily SELEC"]
    assert found.refuses


@pytest.mark.parametrize(("options", "words"), [({"least_runs": -1}, "0 or more"), ({"dialect": "klingon"}, "dialect")])
def test_wrong_options_are_refused(options, words):
    """By name."""
    with pytest.raises(ConfigError, match=words):
        compare_lineage(DECLARED, [], statements={"count": "SELECT 1"}, **options)


def test_reruns_make_no_second_edge_and_extend_its_time():
    """The first and the last run over the edge, whatever the order that they are told in."""
    days = [NOON + timedelta(days=n) for n in (2, 0, 1)]
    seen = LineageGraph().observing(ran(COUNT, at=day, run_id=str(day)) for day in days)
    (edge,) = seen.edges
    assert (edge.first_seen, edge.last_seen) == (NOON, NOON + timedelta(days=2))
    (same,) = seen.observing([ran(COUNT, at=NOON)]).edges
    assert same == edge


def test_a_failed_run_makes_no_edge():
    """Nor a node."""
    assert LineageGraph().observing([ran(COUNT, failed=True)]) == LineageGraph()


def test_runs_that_are_read_together_do_not_mix_their_edges():
    """What one run reads does not feed what another run of the job writes."""
    runs = [ran(COUNT, inputs=(RAW,), outputs=(CLEAN,)), ran(COUNT, inputs=(DAILY,), outputs=(TOP,))]
    assert {str(edge) for edge in LineageGraph().observing(runs).edges} == {
        "bronze/visits -> silver/visits by count",
        "gold/daily -> gold/top by count",
    }


def test_the_graph_of_an_earlier_time_is_kept():
    """An input that was exchanged is upstream before, and not after."""
    later = NOON + timedelta(days=9)
    seen = DECLARED.observing([ran(COUNT, inputs=(RAW,)), ran(COUNT, at=later)])
    assert seen.between(NOON - timedelta(days=1), NOON).upstream(DAILY) == {RAW}
    assert seen.between(later, later).upstream(DAILY) == {CLEAN}
    assert seen.between(NOON + timedelta(days=1), later - timedelta(days=1)).edges == ()


def test_external_datasets_are_nodes():
    """A topic that only a foreign job writes to."""
    topic = Dataset("kafka://broker:9092", "visits")
    seen = DECLARED.observing([ran(LineageJob("mirror", (RAW,), (topic,)))])
    assert topic in seen.datasets
    assert topic in seen.downstream(RAW)
    assert str(topic) == "kafka://broker:9092:visits"


@pytest.mark.parametrize("make", [lambda: Dataset("", "x"), lambda: Dataset("x", ""), lambda: LineageJob("")])
def test_names_are_asked_for(make):
    """A node without a name would be one with every other."""
    with pytest.raises(ConfigError, match="not an empty text"):
        make()


def test_two_jobs_of_one_name_are_refused():
    """Their edges could not be told apart."""
    with pytest.raises(ConfigError, match="names of their own"):
        LineageGraph.of([COUNT, COUNT])


STATEMENTS = {
    "insert-select": ("INSERT INTO gold.a SELECT * FROM b", "b", "gold/a"),
    "overwrite of a partition": ("INSERT OVERWRITE a PARTITION (d = 'x') SELECT * FROM b JOIN c ON 1 = 1", "b c", "a"),
    "ctas with a cte": ("CREATE TABLE a AS WITH q AS (SELECT * FROM b) SELECT * FROM q", "b", "a"),
    "replace table": ("REPLACE TABLE a USING delta AS SELECT * FROM b", "b", "a"),
    "view": ("CREATE OR REPLACE VIEW v AS SELECT * FROM b", "b", "v"),
    "table without rows": ("CREATE TABLE a (i INT)", "", "a"),
    "subquery": (
        "INSERT INTO a SELECT * FROM b WHERE x IN (SELECT y FROM c) AND EXISTS (SELECT 1 FROM d)",
        "b c d",
        "a",
    ),
    "merge": ("MERGE INTO t USING (SELECT * FROM s) x ON t.i = x.i WHEN MATCHED THEN UPDATE SET *", "s", "t"),
    "merge that adds columns": (
        "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.i = s.i WHEN NOT MATCHED THEN INSERT *",
        "s",
        "t",
    ),
    "update": ("UPDATE t SET a = (SELECT max(x) FROM s)", "s", "t"),
    "delete": ("DELETE FROM t WHERE i IN (SELECT i FROM s)", "s", "t"),
    "multi-insert": ("FROM b INSERT INTO a SELECT * INSERT INTO c SELECT *", "b", "a c"),
    "cte before insert": ("WITH q AS (SELECT * FROM b) INSERT INTO a SELECT * FROM q", "b", "a"),
    "a cte named as the table in it": ("WITH b AS (SELECT * FROM b) SELECT * FROM b", "b", ""),
    "a cte out of scope": ("SELECT * FROM (WITH y AS (SELECT * FROM b) SELECT * FROM y) JOIN y", "b y", ""),
    "recursive cte": ("WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", "", ""),
    "a cte is not a table of a schema": ("WITH q AS (SELECT 1) SELECT * FROM s.q", "s/q", ""),
    "select": ("SELECT * FROM a, b", "a b", ""),
    "placeholder": ("SELECT * FROM {src} JOIN b", "b", ""),
    "values": ("INSERT INTO a VALUES (1)", "", "a"),
    "table function": ("SELECT * FROM range(10)", "", ""),
    "by path": ("SELECT * FROM delta.`/lake/a b`", "file:/lake/a b", ""),
    "version": ("SELECT * FROM b VERSION AS OF 3", "b", ""),
    "catalog of the session": ("SELECT * FROM spark_catalog.s.b", "s/b", ""),
    "ddl moves no data": ("ALTER TABLE a ADD COLUMN x INT; DROP TABLE b; TRUNCATE TABLE c", "", ""),
    "several": ("SELECT * FROM a; INSERT INTO b SELECT ';' FROM c;", "a c", "b"),
    "nothing": ("-- a comment; no statement\n", "", ""),
}


@pytest.mark.parametrize(("text", "inputs", "outputs"), STATEMENTS.values(), ids=STATEMENTS)
def test_statements_name_what_they_read_and_write(text, inputs, outputs):
    """By the text alone."""
    found = datasets_of(text, dialect="spark")
    assert sorted(map(str, found.inputs)) == sorted(inputs.split() if ":" not in inputs else [inputs])
    assert sorted(map(str, found.outputs)) == sorted(outputs.split())
    assert found.unparsed == ()


@pytest.mark.parametrize(
    "bad", ["INSERT INTO a SELEC", "SELECT FROM WHERE", "SELECT 'open", "LOAD DATA INPATH 'x' INTO TABLE a", "TABLE a"]
)
def test_a_statement_that_cannot_be_parsed_is_reported(bad):
    """And says nothing, while those before it do."""
    found = datasets_of(f"INSERT INTO a SELECT * FROM b;\n{bad}", dialect="spark")
    assert any(bad in each for each in found.unparsed)
    if bad != "SELECT 'open":  # a text without an end takes the whole with it
        assert [*map(str, found.inputs)] == ["b"]


@known_calls
def calls_that_work(known):
    landed, daily = Dataset("lake", "bronze/visits"), Dataset("lake", "silver/daily")
    graph = LineageGraph.of([LineageJob("load", (landed,), (daily,))])
    return {"affected_by": {"graph": graph, "dataset": landed}, "root_of": {"graph": graph, "faults": [daily]}}
