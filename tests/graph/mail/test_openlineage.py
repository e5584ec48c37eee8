"""Events of OpenLineage: valid by the published schemas, and true to what an attempt did."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.mail.openlineage import (
    Attempt,
    complete_event,
    completed,
    fail_event,
    observed_run,
    start_event,
)
from dedp_assets.graph.mail.openlineage_datasets import InputField, Touched, place_at
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.running.lineage import LAKE, Dataset, LineageGraph
from dedp_assets.patterns.core.schema import Column
from tests.openlineage import facets_of, faults_of

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
RUN = "0f8fad5b-d9cb-469f-a165-70867728950e"
ATTEMPT = Attempt(run_id=RUN, job="daily_visits", step="gold_daily", nominal=(NOON, NOON + timedelta(days=1)))
VISITS = Touched(
    namespace="file",
    name="/lake/silver/visits",
    known_as=Dataset(LAKE, "silver/visits"),
    version=7,
    columns={
        "visit_id": Column("STRING", "identity"),
        "device": Column("STRUCT<os: STRING, tags: ARRAY<STRUCT<k: STRING>>, more: MAP<STRING, BIGINT>>"),
        "span": Column("INTERVAL DAY"),
    },
    partitions=[{"event_date": "2026-01-05"}, {"event_date": None}],
    rows=40,
    size=4_000,
    files=2,
    findings=[Finding("every_visit_has_a_user", passed=False, severity="warn", note="3 have none")],
    owner="team:visits",
)
COUNTED = InputField(namespace="file", name="/lake/silver/visits", column="visit_id", subtype="AGGREGATION")
FILTERED = replace(COUNTED, column="device.os", kind="INDIRECT", subtype="FILTER")
DAILY = Touched(
    namespace="file",
    name="/lake/gold/daily",
    known_as=Dataset(LAKE, "gold/daily"),
    version=3,
    partitions=[{"event_date": "2026-01-05"}],
    rows=1,
    origins={"visitors": [COUNTED], "event_date": []},
    influences=[FILTERED],
)
TOPIC = Touched(namespace="kafka://broker:9092", name="visits")


def complete(**changed):
    return complete_event(ATTEMPT, at=NOON, **{"inputs": [VISITS, TOPIC], "outputs": [DAILY], **changed})


EVENTS = {
    "start": start_event(ATTEMPT, at=NOON),
    "complete": complete(),
    "fail": fail_event(ATTEMPT, at=NOON, error="3 rows of 40 are broken", inputs=[VISITS]),
    "nothing done": complete(inputs=[], outputs=[]),
}


BARE = complete(
    inputs=[replace(VISITS, rows=None, size=None, files=None, findings=()), TOPIC],
    outputs=[replace(DAILY, origins={"visitors": [replace(COUNTED, column="declared")]}, influences=())],
)
"""An event as a run notes it: by names, versions and partitions, with declared origins."""


def looked_up(dataset):
    facts = {"rows": 40, "size": 4_000, "files": 2, "findings": VISITS.findings}
    return replace(dataset, **facts) if dataset.known_as else dataset


def traced(dataset, inputs):
    assert [each.name for each in inputs] == [VISITS.name, TOPIC.name]
    return replace(dataset, origins=DAILY.origins, influences=DAILY.influences)


@pytest.mark.parametrize("event", [BARE, EVENTS["complete"]], ids=["as noted", "completed before"])
def test_a_noted_event_is_completed_by_facts_of_the_logs(event):
    """To the same event as if the run had looked them up; once more changes nothing."""
    assert completed(event, read=looked_up, written=traced) == EVENTS["complete"]


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_without_facts_an_event_stays_as_it_is(event):
    """As noted, with NULL among the partitions."""
    seen = []
    assert completed(event, read=lambda each: seen.append(each) or each, written=lambda each, _: each) == event
    assert [each.partitions for each in seen if each.known_as] == [VISITS.partitions] * (len(event["inputs"]) > 0)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_events_and_their_facets_are_valid_by_the_published_schemas(event):
    """The core schema checks no facet, so each is held against its own; and what is told is plain JSON."""
    assert faults_of(event) == []
    assert json.loads(json.dumps(event)) == event


def test_the_validation_finds_faults_of_facets():
    """Otherwise the test above would prove nothing."""
    event = json.loads(json.dumps(EVENTS["complete"]))
    del event["outputs"][0]["facets"]["columnLineage"]["fields"]["visitors"]["inputFields"][0]["field"]
    event["run"]["runId"] = "run-1"
    event["eventTime"] = "2026-01-05"
    assert [each.partition(":")[0] for each in faults_of(event)] == ["event", "event", "columnLineage"]


def test_every_facet_is_there():
    """Of a run with all that can be known."""
    assert {name for name, _ in facets_of(EVENTS["complete"])} == {
        *("parent", "nominalTime", "jobType", "schema", "version", "ownership", "symlinks", "subset"),
        *("dataQualityMetrics", "dataQualityAssertions", "outputStatistics", "columnLineage"),
    }
    assert "errorMessage" in dict(facets_of(EVENTS["fail"]))


def test_start_and_end_share_the_id_of_the_attempt_and_name_the_run_as_parent():
    """The ids are the same whenever they are asked for."""
    assert {each["run"]["runId"] for each in EVENTS.values()} == {ATTEMPT.id}
    parent = EVENTS["complete"]["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (RUN, "daily_visits")
    assert uuid.UUID(replace(ATTEMPT, run_id="nightly-17").parent_id)


def test_a_retry_is_another_run_of_the_same_job():
    """Whatever job the step runs in, its name does not multiply."""
    retry = start_event(replace(ATTEMPT, number=1, job="__ASSET_JOB"), at=NOON)
    assert retry["run"]["runId"] != ATTEMPT.id
    assert retry["job"] == EVENTS["start"]["job"]


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1), st.integers(0, 9)), unique=True, max_size=9))
def test_attempts_have_ids_of_their_own(attempts):
    """Two attempts share an id only if run, step and number are the same."""
    plain = [each for each in attempts if "/" not in each[0] + each[1]]
    ids = {Attempt(run_id=run, job="j", step=step, number=number).id for run, step, number in plain}
    assert len(ids) == len(plain)


def test_inputs_have_the_version_that_was_opened_also_if_the_attempt_failed():
    """And nothing is an output of it."""
    event = EVENTS["fail"]
    (read,) = event["inputs"]
    assert read["facets"]["version"]["datasetVersion"] == "7"
    assert event["outputs"] == []
    assert event["run"]["facets"]["errorMessage"]["message"] == "3 rows of 40 are broken"


def test_the_schema_names_nested_fields():
    """Of structs, arrays and maps; a type that only Spark knows stands for itself."""
    fields = EVENTS["complete"]["inputs"][0]["facets"]["schema"]["fields"]
    device = next(each for each in fields if each["name"] == "device")
    names = {each["name"]: [inner["name"] for inner in each.get("fields", [])] for each in device["fields"]}
    assert names == {"os": [], "tags": ["_element"], "more": ["key", "value"]}
    assert fields[2] == {"name": "span", "type": "INTERVAL DAY", "ordinal_position": 3}


def test_indirect_influences_stand_once_for_the_whole_dataset():
    """Direct origins stand at their column; a column without an origin is left out."""
    lineage = EVENTS["complete"]["outputs"][0]["facets"]["columnLineage"]
    assert {name: [each["field"] for each in of["inputFields"]] for name, of in lineage["fields"].items()} == {
        "visitors": ["visit_id"]
    }
    assert [each["transformations"] for each in lineage["dataset"]] == [[{"type": "INDIRECT", "subtype": "FILTER"}]]


def test_verdicts_of_audits_stand_on_the_input():
    """As the specification wants it, with severity and note."""
    (found,) = EVENTS["complete"]["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (found["assertion"], found["success"], found["severity"], found["description"]) == (
        "every_visit_has_a_user",
        False,
        "warn",
        "3 have none",
    )


def test_a_terminal_event_is_read_back_as_an_observed_run():
    """By the platform's own names where the event tells them; external datasets are nodes, too."""
    run = observed_run(EVENTS["complete"])
    assert (run.job, run.run_id, run.at, run.failed) == ("gold_daily", ATTEMPT.id, NOON, False)
    assert run.inputs == (Dataset(LAKE, "silver/visits"), Dataset("kafka://broker:9092", "visits"))
    assert run.outputs == (Dataset(LAKE, "gold/daily"),)
    assert run.inputs[0].owner == "team:visits"
    assert observed_run(EVENTS["start"]) is None
    assert observed_run(EVENTS["fail"]).failed


def test_reruns_and_failures_make_no_false_edges():
    """Two runs, a failed one among them, and the edges of one."""
    again = complete_event(replace(ATTEMPT, run_id="2"), at=NOON, inputs=[VISITS], outputs=[DAILY])
    failed = fail_event(replace(ATTEMPT, run_id="3"), at=NOON, error="x", inputs=[VISITS], outputs=[TOPIC])
    graph = LineageGraph().observing(map(observed_run, [EVENTS["complete"], again, failed]))
    assert {str(edge.source) for edge in graph.edges} == {"silver/visits", "kafka://broker:9092:visits"}
    assert len(graph.edges) == 2


def test_a_foreign_event_is_read():
    """With the fewest fields that the specification asks for."""
    event = {
        "eventType": "ABORT",
        "eventTime": "2026-01-05T12:00:00Z",
        "run": {"runId": RUN},
        "job": {"namespace": "airflow", "name": "etl.load"},
        "inputs": [{"namespace": "postgres://h:5432", "name": "shop.public.orders"}],
    }
    run = observed_run(event)
    assert (run.job, run.failed, run.outputs) == ("airflow/etl.load", True, ())
    assert run.inputs == (Dataset("postgres://h:5432", "shop.public.orders"),)


@pytest.mark.parametrize("broken", [{"run": None}, {"job": {"name": "x"}}, {"eventTime": "soon"}, {"inputs": [{}]}])
def test_a_broken_event_is_refused(broken):
    """In one sentence."""
    with pytest.raises(ConfigError, match="the event must have"):
        observed_run({**EVENTS["complete"], **broken})


def test_an_independent_reader_understands_the_events():
    """The client of OpenLineage itself, where it is installed."""
    client = pytest.importorskip("openlineage.client.event_v2")
    for event in EVENTS.values():
        facets = event["run"]["facets"]
        run = client.Run(runId=event["run"]["runId"], facets=facets)
        job = client.Job(namespace=event["job"]["namespace"], name=event["job"]["name"])
        read = client.RunEvent(
            eventType=client.RunState[event["eventType"]], eventTime=event["eventTime"], run=run, job=job, producer="x"
        )
        assert read.run.runId == ATTEMPT.id


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: replace(ATTEMPT, step=""),
        lambda: replace(COUNTED, subtype="FILTER"),
        lambda: start_event(ATTEMPT, at=NOON.replace(tzinfo=None)),
    ],
)
def test_wrong_facts_are_refused(wrong):
    """With what they must be."""
    with pytest.raises(ConfigError, match="must"):
        wrong()


@pytest.mark.parametrize(
    ("partitions", "dimensions"),
    [
        ([], None),
        ([{}], None),
        ([{"day": "2026-01-05"}, {}], None),
        ([{"day": "2026-01-05"}], [{"day": "2026-01-05"}]),
        ([{"day": None}], [{"day": "__HIVE_DEFAULT_PARTITION__"}]),
    ],
)
def test_a_subset_names_partitions_and_a_whole_dataset_has_none(partitions, dimensions):
    """A table without partitions is whole, and so is one of which all was read; each dimension has a text."""
    touched = Touched(namespace="file", name="/lake/gold/a", partitions=partitions)
    event = complete_event(Attempt(run_id="1", job="j", step="s"), at=NOON, inputs=[touched], outputs=[touched])
    (read,), (written,) = event["inputs"], event["outputs"]
    found = [read["inputFacets"].get("subset"), written["outputFacets"].get("subset")]
    conditions = [each and (each.get("inputCondition") or each["outputCondition"]) for each in found]
    assert [each and [one["dimensions"] for one in each["partitions"]] for each in conditions] == [dimensions] * 2


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("/lake/silver/visits", ("file", "/lake/silver/visits")),
        ("file:///a%20b/visits", ("file", "/a b/visits")),
        ("s3a://lake/silver/a%20b", ("s3://lake", "silver/a b")),
        ("s3://lake/silver/visits", ("s3://lake", "silver/visits")),
    ],
)
def test_a_place_has_the_namespace_of_the_specification(location, place):
    """A bucket is `s3://bucket` for every reader of events, however Spark calls it."""
    assert place_at(location) == place
