"""Dagster's webserver as a resource: starts a job of any code location by name."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import dagster as dg
from pydantic import Field

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.tokens import token_file
from dedp_assets.graph.systems.identities import home_authority
from dedp_assets.patterns.connectors.web.http import Patience, Service
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.secret import Secret

__all__ = ["FOLDER", "Orchestrator"]

FOLDER = "web"
"""Folder of the home with the address of the laptop's own webserver, and name of the webserver's token."""
_REPOSITORY = "__repository__"
_LAUNCH = """
mutation Launch($started: ExecutionParams!) {
  launchRun(executionParams: $started) { __typename ... on LaunchRunSuccess { run { runId } } ... on Error { message } }
}
"""
_RUNS = """
query Runs($tags: RunsFilter!) { runsOrError(filter: $tags) { ... on Runs { results { runId status } } } }
"""
_RELOAD = """
mutation Reload($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) {
    ... on WorkspaceLocationEntry { locationOrLoadError { ... on PythonError { message } } }
    ... on Error { message }
  }
}
"""
_RELOAD_SECONDS = 120
_ENDED_BADLY = ("FAILURE", "CANCELED")
_ABSENT = "no webserver runs: start `make up`, or name the one of the deployment by DEDP_WEB"
_MISSING = ("PipelineNotFoundError", "RepositoryNotFoundError", "RepositoryLocationNotFound", "InvalidSubsetError")


class Orchestrator(dg.ConfigurableResource[Any]):
    """The GraphQL interface of a webserver; without a URL, that of the platform that runs in this home."""

    url: str = Field(default="", description="http://host:port of the webserver; empty: the laptop's own.")
    pause_seconds: float = Field(default=0.5, description="How long the first pause between two attempts is.")

    def launch(self, location: str, job: str, *, partition: str, tags: Mapping[str, str], request: str) -> str:
        """Start a run of a job, and return the run's id; a repeated request returns the same run.

        The start is sent once: whether a run was started whose answer was lost, the next call of the request finds out.

        Args:
            location: the code location.
            job: name of the job.
            partition: partition key of the run.
            tags: tags of the run.
            request: the tag among them that tells requests apart.

        Raises:
            ConfigError: if there is no such location or job; names both.
            ContractError: if the webserver refuses the run for another reason.
            NotReady: if no webserver answers, or the answer to the start is lost.
        """
        if known := self._known(request, tags[request]):
            return known
        started = {
            "selector": {"repositoryLocationName": location, "repositoryName": _REPOSITORY, "jobName": job},
            "executionMetadata": {
                "tags": [{"key": k, "value": v} for k, v in {**tags, "dagster/partition": partition}.items()]
            },
        }
        answer = self._ask(_LAUNCH, {"started": started}, attempts=1)["launchRun"]
        if answer["__typename"] == "LaunchRunSuccess":
            return str(answer["run"]["runId"])
        message = str(answer.get("message", "")).strip().partition("\n")[0]
        if answer["__typename"] in _MISSING:
            raise ConfigError(
                f"job must name a job of the code location {location}, not {job}, which is missing there: {message}"
            )
        raise ContractError(f"{location} does not start {job}: {answer['__typename']} {message}")

    def reload(self, location: str) -> str:
        """Load the code of a code location again, within two minutes; return the fault, empty without one.

        Args:
            location: the code location.

        Raises:
            ConfigError: if the webserver refuses the request.
            NotReady: if no webserver answers.
        """
        answer = self._ask(_RELOAD, {"location": location}, attempts=1, seconds=_RELOAD_SECONDS)
        found = answer["reloadRepositoryLocation"]
        return str((found.get("locationOrLoadError") or found).get("message") or "")

    def _known(self, request: str, value: str) -> str:
        """Return the run that a request has started already, and that did not fail; empty without one."""
        found = self._ask(_RUNS, {"tags": {"tags": [{"key": request, "value": value}]}})["runsOrError"]
        return next((str(run["runId"]) for run in found.get("results", ()) if run["status"] not in _ENDED_BADLY), "")

    def _ask(self, query: str, variables: Mapping[str, Any], *, attempts: int = 4, seconds: float = 10) -> Any:  # noqa: ANN401 - JSON
        if not (url := self.url or _own()):
            raise NotReady(_ABSENT)
        backoff = Backoff(attempts=attempts, first_seconds=self.pause_seconds, longest_seconds=30)
        own = _is_locked(url)
        service = Service(
            f"{url.rstrip('/')}/graphql",
            Patience(Clock().now, backoff),
            timeout_seconds=seconds,
            login=_token if own else nullcontext,
            secured=_trust if own else nullcontext,
        )
        answer = service.post({"query": query, "variables": dict(variables)})
        if not answer.get("data"):
            raise ContractError(f"{service.name} answers without data: {answer.get('errors')}"[:500])
        return answer["data"]


def _own() -> str:
    chosen = settings()
    here = running(chosen)
    return chosen.web or (here.web if here else "")


def _is_locked(url: str) -> bool:
    """Return whether a URL names the locked webserver of this home, the only receiver of the token."""
    chosen = settings()
    here = running(chosen) if chosen.secure == "on" and url.startswith("https:") else None
    return here is not None and url.rstrip("/") == here.web


@contextmanager
def _token() -> Iterator[Secret]:
    yield Secret(token_file(settings(), FOLDER).read_text())


@contextmanager
def _trust() -> Iterator[ssl.SSLContext]:
    yield ssl.create_default_context(cafile=str(home_authority(settings()).path))
