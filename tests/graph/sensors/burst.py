"""A code location for a burst of events: the project's trigger, and a launcher whose runs last until they may land."""

import logging
from typing import Any

import dagster as dg
from dagster._core.launcher.sync_in_memory_run_launcher import SyncInMemoryRunLauncher  # noqa: TID251 - has no public name

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.sensors.external_trigger import trigger

__all__ = ["Flights", "HeldLauncher", "defs"]


class Flights:
    """Runs that Dagster launched.

    Attributes:
        aloft: those that are at work: what executes each to its end.
        most: how many ever were at work at once.
        loaded: objects of those that came to their end.
    """

    aloft: list[Any] = []
    most = 0
    loaded: list[str] = []

    @classmethod
    def begin(cls) -> None:
        """Forget everything."""
        cls.aloft, cls.most, cls.loaded = [], 0, []

    @classmethod
    def land(cls) -> None:
        """Let all that are at work come to their end."""
        while cls.aloft:
            cls.aloft.pop(0)()


class HeldLauncher(SyncInMemoryRunLauncher):
    """Keeps a launched run at work, which for Dagster it is from now on, and executes it when the test lets it."""

    def launch_run(self, context) -> None:
        """Take the run and return."""
        execute = super().launch_run
        Flights.aloft.append(lambda: execute(context))
        Flights.most = max(Flights.most, len(Flights.aloft))


@dg.op
def load(context: dg.OpExecutionContext) -> None:
    """What a run of the burst does."""
    Flights.loaded.append(context.run.tags["dedp.trigger/object"])


@dg.job(executor_def=dg.in_process_executor)
def load_release() -> None:
    """One run of the burst."""
    load()


burst = trigger("burst", pipelines={"load_release": [{"type": "burst"}]}, jobs=[load_release], description="A burst.")
defs = dg.Definitions(
    jobs=[load_release],
    sensors=[burst],
    resources={"landing": Landing(root=dg.EnvVar("BURST_LANDING")), "clock": Clock()},
    loggers={"console": dg.LoggerDefinition(lambda _: logging.getLogger("burst"))},
)
