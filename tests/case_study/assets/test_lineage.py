"""Observed lineage of the platform: what runs opened and committed, as valid events, against what is declared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dedp_assets.case_study import defs
from dedp_assets.graph.checks.lineage import declared_lineage
from dedp_assets.graph.declare import declared, declared_jobs
from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.sensors.lineage import LakeFacts
from dedp_assets.patterns.delta import LocalStore
from dedp_assets.patterns.observability.dataset_tracker import compare_lineage
from tests.case_study.assets.conftest import day
from tests.openlineage import faults_of

pytestmark = [pytest.mark.spark, pytest.mark.budget(30, "three days are loaded through all layers")]


@pytest.fixture(scope="module")
def events(week):
    """The events of three loaded days, as they are delivered."""
    files = sorted((week.settings.home / "lineage").glob("*/*/*.json"))
    facts = LakeFacts(lake_of(week.settings))
    return [facts.complete(json.loads(file.read_text())) for file in files]


def test_every_attempt_has_one_start_and_one_end(events):
    """In the order in which they happened, each valid by the published schemas."""
    kinds = {}
    for event in events:
        kinds.setdefault(event["run"]["runId"], []).append(event["eventType"])
    assert kinds
    assert {tuple(each) for each in kinds.values()} == {("START", "COMPLETE")}
    assert [fault for event in events for fault in faults_of(event)] == []


def test_runs_do_what_their_tables_declare(week, events):
    """Nothing undeclared is read or written, and nobody is blind."""
    graph = declared_lineage(declared(defs), declared_jobs(defs))
    runs = list(LineageOutbox(LocalStore(str(week.settings.home / "lineage"))).runs())
    found = compare_lineage(graph, runs)
    # Days come by files here: the topic is the other way in.
    assert found.note == "never observed: bronze_visits reads source:kafka/visits"


def test_an_event_tells_what_was_opened_and_what_was_committed(week, events):
    """Versions, partitions, counts, verdicts and the origins of columns, of one day of silver."""
    done = [
        each
        for each in events
        if each["job"]["name"] == "silver_visits"
        and each["eventType"] == "COMPLETE"
        and each["run"]["facets"]["nominalTime"]["nominalStartTime"] == f"{day(0)}T00:00:00.000000Z"
    ]
    (read,), written = done[0]["inputs"], {Path(each["name"]).name: each for each in done[0]["outputs"]}
    assert (read["namespace"], read["name"]) == ("file", week.address("bronze/visits"))
    assert read["facets"]["version"]["datasetVersion"] == str(
        week.ledger("bronze/visits").latest({"landed_on": day(0)}).version
    )
    assert read["inputFacets"]["dataQualityMetrics"]["rowCount"] == 40
    verdicts = {
        each["assertion"]: each["success"] for each in read["inputFacets"]["dataQualityAssertions"]["assertions"]
    }
    assert verdicts["most_visits_are_on_time"]
    assert set(written) == {"visits", "visits_dead_letter"}
    assert written["visits"]["outputFacets"]["outputStatistics"]["rowCount"] == 40
    assert written["visits"]["outputFacets"]["subset"]["outputCondition"]["partitions"] == [
        {"dimensions": {"event_date": day(0)}}
    ]
    (origin,) = written["visits"]["facets"]["columnLineage"]["fields"]["page"]["inputFields"]
    assert (origin["name"], origin["field"]) == (read["name"], "raw")


def test_landed_files_are_external_inputs(week, events):
    """By their folder, with the identity of the content as version."""
    done = [each for each in events if each["job"]["name"] == "bronze_visits" and each["eventType"] == "COMPLETE"]
    (read,) = done[0]["inputs"]
    assert (read["namespace"], read["name"]) == ("file", str(week.settings.landing / "visits"))
    assert len(read["facets"]["version"]["datasetVersion"]) == 64
