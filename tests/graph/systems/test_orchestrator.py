"""The webserver as a resource: a job of another code location is started by its name, once for each request."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.home import Running, hold
from dedp_assets.graph.resources.tokens import token_file
from dedp_assets.graph.systems.orchestrator import Orchestrator
from dedp_assets.laptop.orchestration.instance import CONFIGURATION
from dedp_assets.patterns.connectors.web.http import Service
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from tests.webserver import webserver

DAY, REQUEST, JOB = "2026-01-05", "dedp/request", "report_peak_hours"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The reports behind a webserver: its resource, and the instance that records what it starts."""
    home = tmp_path_factory.mktemp("served")
    (home / "dagster.yaml").write_bytes(CONFIGURATION.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        with (
            dg.DagsterInstance.from_config(str(home)) as instance,
            webserver(instance, module="dedp_assets.case_study.reporting.definitions", location="reporting") as url,
        ):
            yield Orchestrator(url=url, pause_seconds=0), instance


def launch(orchestrator, request, *, location="reporting", job=JOB):
    return orchestrator.launch(location, job, partition=DAY, tags={REQUEST: request, "who": "me"}, request=REQUEST)


@pytest.mark.runs
def test_a_job_of_another_location_is_started_once_for_a_request(served):
    """A request that comes again, after a crash for example, is the run that it started; a failed one is not."""
    orchestrator, instance = served
    first = launch(orchestrator, "one")
    assert launch(orchestrator, "one") == first
    run = instance.get_run_by_id(first)
    assert (run.job_name, run.status) == (JOB, dg.DagsterRunStatus.QUEUED)
    assert {REQUEST: "one", "who": "me", "dagster/partition": DAY}.items() <= run.tags.items()
    assert launch(orchestrator, "two") != first
    instance.report_run_failed(run)
    assert launch(orchestrator, "one") != first
    assert len(instance.get_runs()) == 3


@pytest.mark.runs
def test_a_start_whose_answer_is_lost_is_one_run(served, monkeypatch):
    """The start is not sent again; the request that comes again is the run that was started."""
    orchestrator, instance = served
    before, sent = len(instance.get_runs()), Service._sent

    def losing(service, request, context):
        answer, reason, asked = sent(service, request, context)
        is_start = b"launchRun" in request.data
        return (b"", "the connection broke off", None) if is_start else (answer, reason, asked)

    with monkeypatch.context() as broken:
        broken.setattr(Service, "_sent", losing)
        with pytest.raises(NotReady, match="after 1 attempts: the connection broke off"):
            launch(orchestrator, "lost")
    (run,) = [run for run in instance.get_runs() if run.tags[REQUEST] == "lost"]
    assert launch(orchestrator, "lost") == run.run_id
    assert len(instance.get_runs()) == before + 1


@pytest.mark.runs
@pytest.mark.parametrize(
    ("location", "fault"),
    [("reporting", "Location reporting does not support reloading."), ("moved", "Location moved does not exist.")],
)
def test_code_that_is_not_loaded_again_is_a_fault(served, location, fault):
    """In the webserver's words; code in its own process is never loaded again."""
    orchestrator, _ = served
    assert orchestrator.reload(location) == fault


@pytest.mark.runs
@pytest.mark.parametrize(("location", "job"), [("reporting", "renamed"), ("moved", JOB)])
def test_a_missing_target_is_named(served, location, job):
    """Location and job, and nothing is started."""
    orchestrator, instance = served
    before = len(instance.get_runs())
    with pytest.raises(ConfigError, match=f"job must name a job of the code location {location}, not {job}"):
        launch(orchestrator, "three", location=location, job=job)
    assert len(instance.get_runs()) == before


@pytest.mark.parametrize(
    ("launched", "error", "message"),
    [
        ({"__typename": "UnauthorizedError", "message": "no"}, ContractError, "does not start report_peak_hours: Unau"),
        (None, ContractError, "answers without data"),
    ],
)
def test_an_answer_without_a_run_is_an_error(monkeypatch, launched, error, message):
    """With what the webserver says."""

    def post(_service, content):
        if "runsOrError" in json.dumps(content):
            return {"data": {"runsOrError": {"results": []}}}
        return {"data": {"launchRun": launched}} if launched else {"errors": ["x"]}

    monkeypatch.setattr(Service, "post", post)
    with pytest.raises(error, match=message):
        launch(Orchestrator(url="http://dagster.example"), "one")


def test_without_a_url_the_platform_of_this_home_is_asked(tmp_path, monkeypatch):
    """And without one, the sentence says what to do; a stated URL wins."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.delenv("DEDP_WEB", raising=False)
    asked = []

    def post(service, _content):
        asked.append(service.url)
        return {"data": {"runsOrError": {"results": [{"runId": "r", "status": "STARTED"}]}}}

    monkeypatch.setattr(Service, "post", post)
    with pytest.raises(NotReady, match="start `make up`, or name the one of the deployment by DEDP_WEB"):
        launch(Orchestrator(), "one")
    with hold(settings(), Running(1, "now", "http://127.0.0.1:3000", "sc://x")):
        assert launch(Orchestrator(), "one") == "r"
    monkeypatch.setenv("DEDP_WEB", "https://dagster.example/")
    launch(Orchestrator(), "one")
    assert asked == ["http://127.0.0.1:3000/graphql", "https://dagster.example/graphql"]


@pytest.mark.parametrize(
    ("secure", "url", "named", "sent"),
    [
        ("on", "", "", True),
        ("on", "https://127.0.0.1:3000/", "", True),
        ("on", "", "https://dagster.example", False),
        ("on", "https://127.0.0.1:3001", "", False),
        ("on", "http://127.0.0.1:3000", "", False),
        ("off", "", "", False),
    ],
    ids=["its own", "its own by name", "the deployment's", "another port", "in the clear", "without locks"],
)
def test_the_token_is_sent_to_the_locked_webserver_of_this_home_alone(tmp_path, monkeypatch, secure, url, named, sent):
    """With trust in the home's authority alone; whoever DEDP_WEB names gets neither."""
    for name, value in {"DEDP_HOME": str(tmp_path), "DEDP_SECURE": secure, "DEDP_WEB": named}.items():
        monkeypatch.setenv(name, value)
    shown = []

    def post(service, _content):
        with service.login() as token, service.secured() as trusted:
            shown.append((token and token.reveal(), trusted and len(trusted.get_ca_certs())))
        return {"data": {"reloadRepositoryLocation": {"locationOrLoadError": {}}}}

    monkeypatch.setattr(Service, "post", post)
    with hold(settings(), Running(1, "now", "https://127.0.0.1:3000", "sc://x")):
        assert Orchestrator(url=url).reload("reporting") == ""
    assert shown == ([(token_file(settings(), "web").read_text(), 1)] if sent else [(None, None)])
