"""The sensor over requests to erase persons: asked and approved ones start a run each, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.graph.erasure.cases import CasePlace, Cases
from dedp_assets.graph.outcomes.run_tags import REQUEST
from dedp_assets.graph.sensors.erasures import erasures_requested

NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
ID = "user-4711-canary"


class Home:
    """The requests of a home, and the runs that the sensor over them asks for."""

    def __init__(self, folder, instance):
        self.cases, self.instance, self.idle = Cases.of(folder), instance, ""
        self.sensor = erasures_requested()

    def look(self, status=dg.DagsterRunStatus.SUCCESS):
        """Tick once: run keys of the runs that Dagster starts, each of which ends; a known run key starts none."""
        with dg.build_sensor_context(self.instance) as context:
            data = self.sensor.evaluate_tick(context)
        self.idle, started = data.skip_message, []
        for request in data.run_requests:
            tags = {**request.tags, "dagster/run_key": request.run_key}
            assert ID not in str(tags)
            if not self.instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": request.run_key})):
                self.instance.add_run(dg.DagsterRun("go_on", tags=tags, status=status))
                started.append(request.run_key)
        return started

    def plan(self, request):
        places = (CasePlace("silver/users", "table", 1, "open"),)
        self.cases.keep(replace(self.cases.case(request), places=places), {"user": [ID]})


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Home(tmp_path, instance)


def test_a_request_starts_a_run_once_it_is_asked_and_once_it_is_approved(home):
    """By request and state, however often the sensor looks; a plan that waits for its approval starts none."""
    assert (home.look(), home.idle) == ([], "no request was asked or approved")
    home.cases.ask("T-1", {"user": [ID]}, now=NOW)
    home.cases.ask("T-2", {"user": [ID]}, now=NOW)
    assert home.look() == ["platform/erasures/T-1@asked", "platform/erasures/T-2@asked"]
    assert home.look() == []
    home.plan("T-1")
    assert home.look() == []
    home.cases.approve("T-1", "legal")
    assert home.look() == ["platform/erasures/T-1@approved"]
    home.cases.end(home.cases.case("T-1"), now=NOW)
    home.plan("T-2")
    assert (home.look(), home.idle) == ([], "no request was asked or approved")


def test_a_run_that_failed_is_tried_again_three_times(home):
    """Then the job's schedule goes on, and the sensor says so."""
    home.cases.ask("T-1", {"user": [ID]}, now=NOW)
    started = [home.look(dg.DagsterRunStatus.FAILURE) for _ in range(4)]
    key = "platform/erasures/T-1@asked"
    assert started == [[key], [f"{key}#2"], [f"{key}#3"], []]
    assert home.idle.startswith(f"{key}: gave up after 3 failed runs")
    (run, *_) = home.instance.get_runs()
    assert run.tags[REQUEST] == key


def test_a_damaged_request_holds_up_no_other(home):
    """The sensor names it once it has nothing else to do."""
    home.cases.ask("T-1", {"user": [ID]}, now=NOW)
    home.cases.ask("T-2", {"user": [ID]}, now=NOW)
    (home.cases.folder / "T-1.json").write_text("{")
    assert home.look() == ["platform/erasures/T-2@asked"]
    home.plan("T-2")
    assert (home.look(), "the case of T-1 must be a file" in home.idle) == ([], True)
