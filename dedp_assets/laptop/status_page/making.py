"""Maker of the status page of a home: declared tables, alerts and run history by the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import dagster as dg

from dedp_assets.graph.checks.causes import HISTORY
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.mail.episodes import Episode
from dedp_assets.graph.reconcile.described_plans import Planned
from dedp_assets.graph.reconcile.planning import plan_runs
from dedp_assets.graph.resources.alerting import outbox_of
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.laptop.status_page.collect import Collector, Observed
from dedp_assets.laptop.status_page.model import CommitRow, Details, Page
from dedp_assets.patterns.core.errors import error_line
from dedp_assets.project import project

__all__ = ["Maker"]

_RETRY = timedelta(minutes=1)
"""Pause before a run history that could not be reached is opened again: opening may take seconds."""


class Maker:
    """Maker of the pages of one home; reads only, and starts no engine.

    Args:
        chosen: where everything is.
        thorough: whether each page holds all deliveries that are loaded against what lies there, not some at a time.
    """

    def __init__(self, chosen: Settings, *, thorough: bool = False) -> None:
        self._chosen = chosen
        self._undeclared, self._unrecorded = "", ""
        self._instance: dg.DagsterInstance | None = None
        self._retry_at: datetime | None = None
        self._repository: dg.RepositoryDefinition | None = None
        self._stamp: object = None
        self._lake, self._landing, self._tables = lake_of(chosen), Landing(root=chosen.landing_zone), self._load()
        self._collector = Collector(
            self._lake,
            self._landing,
            Journal(folder=str(chosen.home / "measurements")),
            self._tables,
            thorough=thorough,
        )

    def page(self, now: datetime) -> Page:
        """Make the page.

        Args:
            now: current time, with time zone.
        """
        chosen = self._chosen
        notices = [self._undeclared, self._changed(), chosen.missing_home]
        episodes: Sequence[Episode] = ()
        try:
            episodes = outbox_of(chosen).open_episodes()
        except Exception as error:
            # A file system that is away must not take the rest of the page along.
            notices.append(f"Open alerts cannot be read: {error_line(error)}")
        instance = self._history(now)
        observed = Observed(
            episodes=episodes,
            instance=instance,
            repository=self._repository,
            notices=[each for each in (*notices, self._unrecorded) if each],
            web=self._web(),
        )
        page = self._collector.page(now, observed)
        lost = next((each for each in page.notices if each.startswith(HISTORY)), "")
        if instance is not None and lost:
            self._instance, self._retry_at, self._unrecorded = None, now + _RETRY, lost
        return page

    def written(self, name: str) -> Mapping[str, CommitRow]:
        """Return the newest commit of each partition of a table, as of the last page."""
        return self._collector.written(name)

    def version(self, name: str) -> int:
        """Return the version of a table, as of the last page; -1 for none."""
        return self._collector.version(name)

    def details(self, page: Page, name: str) -> Details | None:
        """Return the details of a table of the page that was made last.

        ``None`` for an unknown table.
        """
        return self._collector.details(page, name)

    def plan(self, now: datetime) -> Planned:
        """Plan the runs that the reconciler would ask for.

        Args:
            now: current time, with time zone.
        """
        lake, landing = self._lake, self._landing
        instance = self._history(now)
        found = plan_runs(self._tables, lake, landing, now, instance=instance, repository=self._repository)
        return Planned(found, self._tables, lake, landing)

    def _load(self) -> Sequence[LakeTable[...]]:
        """Load the declared tables and the code location; the code of a project may fail in any way."""
        try:
            self._stamp = project().stamp()
            loaded = project().definitions()
            tables, faults = project().declarations(loaded.resources)
            self._repository = loaded.get_repository_def()
        except Exception as error:
            self._undeclared = (
                f"The project's tables cannot be loaded, so only stored tables are shown: {error_line(error)}"
            )
            return []
        self._undeclared = f"The declarations have faults (`dedp check`): {faults[0]}" if faults else ""
        return tables

    def _changed(self) -> str:
        """Return a sentence on a change of the project's files since loading; empty without a change."""
        if self._stamp is None or project().stamp() == self._stamp:
            return ""
        return "The project's files have changed since the declarations of this page were loaded: `dedp check`"

    def _history(self, now: datetime) -> dg.DagsterInstance | None:
        """Open Dagster's instance, but not soon after a failure.

        ``None`` without an instance.
        """
        if self._instance is not None or (self._retry_at and now < self._retry_at):
            return self._instance
        self._unrecorded = ""
        folder = self._chosen.dagster_home
        if not (folder / "dagster.yaml").is_file():
            return None
        try:
            self._instance = dg.DagsterInstance.from_config(str(folder))
        except Exception as error:
            self._unrecorded = f"{HISTORY} cannot be read: {error_line(error)}"
            self._retry_at = now + _RETRY
        return self._instance

    def _web(self) -> str:
        platform = running(self._chosen)
        address = self._chosen.web or (platform.web if platform else "")
        return address.rstrip("/") if address.startswith(("http://", "https://")) else ""
