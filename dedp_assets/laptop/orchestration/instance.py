"""The persistent Dagster instance, and in-process runs on the instance."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import yaml

from dedp_assets.graph.catalogue.selections import checks_of
from dedp_assets.graph.checks.causes import published, refused_runs
from dedp_assets.graph.outcomes.failures import BEYOND_APPROVAL, failure_told, step_failures
from dedp_assets.graph.outcomes.run_tags import CAUSE, partitions_named, process_of, running_process_of
from dedp_assets.graph.reconcile.reconciler import NAME, Reconciler
from dedp_assets.graph.reconcile.reconciling import Outcome, Want
from dedp_assets.graph.reconcile.requests import run_request
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings, apply, settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.laptop.orchestration.inprocess import execute
from dedp_assets.project import project

__all__ = ["Ended", "Platform", "close_abandoned", "configuration", "prepare_home"]

PARTITION = "dagster/partition"
_SHOWN = 5
_HISTORY_URL = "DEDP_HISTORY_URL"
"""Variable for Dagster's processes: the run history's database, with its password."""
CONFIGURATION = Path(__file__).with_name("dagster.yaml")
"""Dagster's instance of every home."""
_OPEN = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def prepare_home(settings: Settings) -> dict[str, str]:
    """Create Dagster's home with the configuration; return the variables of Dagster's processes.

    Raises:
        ConfigError, NotReady: as :func:`~dedp_assets.graph.systems.postgres.history_url`.
    """
    url = _history_url(settings)
    settings.dagster_home.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: a platform that runs here may be reading it.
    draft = settings.dagster_home / f"dagster.yaml.{os.getpid()}"
    draft.write_text(configuration(settings, in_postgres={"env": _HISTORY_URL} if url else None))
    draft.replace(settings.dagster_home / "dagster.yaml")
    variables = {"DAGSTER_HOME": str(settings.dagster_home), "DEDP_HOME": str(settings.home)}
    return {**variables, **({_HISTORY_URL: url} if url else {})}


def configuration(settings: Settings, *, in_postgres: Mapping[str, str] | str | None) -> str:
    """Write the configuration of Dagster's instance, with the run history in files or in PostgreSQL.

    Args:
        settings: decide the folder of the files, and how many runs work at the same time.
        in_postgres: the URL of a database, or the variable that holds it; ``None`` for files.
    """
    # Who opens the instance by its folder need not have the variable; Dagster takes no variable for a number of runs.
    stated = CONFIGURATION.read_text()
    stated = stated.replace("{env: DAGSTER_HOME}", json.dumps(str(settings.dagster_home)))
    stated = stated.replace("max_concurrent_runs: 2 ", f"max_concurrent_runs: {settings.runs_at_once} ")
    if in_postgres is None:
        return stated
    storage = {"storage": {"postgres": {"postgres_url": in_postgres}}}
    return str(yaml.safe_dump({**yaml.safe_load(stated), **storage}))


def _history_url(settings: Settings) -> str:
    if not settings.history:
        return ""
    from dedp_assets.graph.systems.postgres import history_url  # noqa: PLC0415 - the files need no package of an extra

    return history_url(settings)


def close_abandoned(instance: dg.DagsterInstance, *, nobody_else_runs: bool = False) -> list[str]:
    """Mark runs with a dead process as failed, so that the reconciler requests their partitions again.

    Args:
        instance: where the runs are recorded.
        nobody_else_runs: whether runs that name no process may be closed too: true when the daemon is only starting.

    Returns:
        Ids of the closed runs.
    """
    closed = []
    for run in instance.get_runs(dg.RunsFilter(statuses=_OPEN)):
        lives = _process_lives(instance, run)
        gone = nobody_else_runs if lives is None else not lives
        # What a process that is gone wrote of its run's end may be newer than what was read above.
        if gone and (now := instance.get_run_by_id(run.run_id)) and now.status in _OPEN:
            instance.report_run_failed(run, "the process that ran it is gone")
            # It still holds its tables' pools, and the next run would wait for them for ever.
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            closed.append(run.run_id)
    return closed


def _process_lives(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool | None:
    """Return whether the recorded process of a run is alive; ``None`` if no process is recorded.

    Recorded in the process tag (runs of commands and forks), or in the first event of a run that Dagster launched.
    """
    if process_of(run) is not None:
        return running_process_of(run) is not None
    events = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    metadata = [log.dagster_event.engine_event_data.metadata for log in events if log.dagster_event]
    return next((psutil.pid_exists(int(str(each["pid"].value))) for each in metadata if "pid" in each), None)


@dataclass(frozen=True, slots=True)
class Ended:
    """An ended run: job, partition, cause, and failure sentence (empty after success)."""

    job: str
    partition: str
    cause: str
    failure: str


class Platform:
    """The code location and the Dagster instance, driven by this process in place of the daemon.

    Attributes:
        idle: sensor -> why its newest tick asked for nothing.
    """

    def __init__(self, chosen: Settings) -> None:
        apply(prepare_home(chosen))
        self.definitions = project().definitions()
        self.instance = dg.DagsterInstance.get()
        self.idle: dict[str, str] = {}
        self._reconciler: Reconciler | None = None
        close_abandoned(self.instance)

    def run(
        self,
        job: str,
        *,
        partition: str = "",
        tags: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> Ended:
        """Run a job in this process, recorded on the instance like any other run; ``config`` is by step."""
        return self._execute(self.definitions.resolve_job_def(job), job, partition, tags or {}, config=config)

    def compute(self, table: str, *, partition: str = "", tags: Mapping[str, str] | None = None) -> Ended:
        """Compute a partition of a table and of the tables that the same step writes."""
        together = sorted(self._node(table).execution_set_asset_keys, key=lambda key: key.path)
        return self._materialize(together, partition, tags or {})

    def require_partition(self, table: str, partition: str) -> None:
        """Refuse a partition key that the table's asset does not have.

        Raises:
            ValueError: in one sentence.
        """
        days = self._node(table).partitions_def
        if days is None and partition:
            raise ValueError(f"{table} has no partitions: leave {partition} out")
        if days is not None and not (partition and days.has_partition_key(partition)):
            problem = f"{partition} is no partition" if partition else "name the partition"
            raise ValueError(f"{problem} of {table}: {_described(days)}")

    def require_approvable(self, table: str, partition: str) -> Mapping[str, str]:
        """Refuse the approval of a partition without a refusal, or with an audit that no person can overrule.

        Returns:
            The tags of the refused run; empty if nothing ran yet.

        Raises:
            ValueError: in one sentence.
        """
        named = f"{table} {partition}".strip()
        last = published(lake_of(settings()).ledger(table), partition)
        runs = (
            each for name, key, each in refused_runs(self.instance, limit=None) if (name, key) == (table, partition)
        )
        refused = next(runs, None)
        if refused and not (last and last.timestamp > refused.create_timestamp):
            fixed = self._beyond_approval(refused.dagster_run, partition)
            if fixed:
                raise ValueError(f"{named} cannot be approved: no person overrules {fixed}; it needs new data or a fix")
        elif last:
            verdict = last.record.verdict if last.record else "none"
            raise ValueError(
                f"{named} needs no approval: version {last.version} was published (verdict {verdict}), and nothing was "
                "refused since"
            )
        return refused.dagster_run.tags if refused else {}

    def react(self, *, rounds: int = 20, expect: Callable[[int], None] = lambda _: None) -> Iterator[Ended]:
        """Tick the sensors and run their requests until no sensor requests a run.

        Args:
            rounds: most ticks.
            expect: function that is called with the number of requested runs after each tick.
        """
        cursors: dict[str, str | None] = {}
        for _ in range(rounds):
            requests = [(sensor, request) for sensor in self._sensors() for request in self._tick(sensor, cursors)]
            if not requests:
                return
            expect(len(requests))
            for sensor, request in requests:
                tags = {**request.tags, "dagster/sensor_name": sensor.name}
                if request.run_key:
                    tags["dagster/run_key"] = request.run_key
                yield self._launch(request, request.job_name or str(sensor.job_name), tags)

    def requests(self) -> frozenset[str]:
        """Return the names of the runs that the reconciler would request now."""
        found = set[str]()

        def note(want: Want) -> bool:
            found.add(want.request)
            return False

        self._reconcile(note, limit=sys.maxsize)
        return frozenset(found)

    def follow(self, table: str, *, without: Collection[str] = (), rounds: int = 20) -> Iterator[Ended]:
        """Run the stale partitions of a table and of the tables downstream, until none is stale.

        Args:
            table: the table that was computed.
            without: names of requests that have another cause: partitions that were stale before.
            rounds: most looks.
        """
        reached = self._downstream(table)

        def mine(want: Want) -> bool:
            return not want.job and want.request not in without and bool(reached & {*want.tables})

        for _ in range(rounds):
            asks = self._reconcile(mine).asks
            if not asks:
                return
            for ask in asks:
                request = run_request(ask, self.definitions.get_repository_def())
                named = {"dagster/sensor_name": NAME, "dagster/run_key": ask.run_key}
                yield self._launch(request, "", {**request.tags, **named})

    def _launch(self, request: dg.RunRequest, job: str, tags: Mapping[str, str]) -> Ended:
        if request.asset_selection:
            return self._materialize(request.asset_selection, request.partition_key or "", tags)
        return self.run(job, partition=request.partition_key or "", tags=tags)

    def _materialize(self, tables: Sequence[dg.AssetKey], partition: str, tags: Mapping[str, str]) -> Ended:
        everything = self.definitions.resolve_implicit_global_asset_job_def()
        steps = {self._node("/".join(key.path)).assets_def.op.name for key in tables}
        return self._execute(everything, ", ".join(sorted(map(_table_of, steps))), partition, tags, tables)

    def _execute(
        self,
        definition: dg.JobDefinition,
        named: str,
        partition: str,
        tags: Mapping[str, str],
        selection: Sequence[dg.AssetKey] = (),
        config: Mapping[str, Any] | None = None,
    ) -> Ended:
        events = execute(
            self.instance,
            definition,
            tags={**tags, **({PARTITION: partition} if partition else {})},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, "ops": config or {}},
            assets=selection,
            checks=checks_of(self.definitions.resolve_asset_graph(), selection),
        )
        failures = [event for event in events if event.is_step_failure]
        return Ended(named, partition or partitions_named(tags), tags.get(CAUSE, "manual"), failure_told(failures))

    def _node(self, table: str) -> Any:  # noqa: ANN401 - Dagster does not export the type
        return self.definitions.resolve_asset_graph().get(dg.AssetKey(table.split("/")))

    def _beyond_approval(self, run: dg.DagsterRun, partition: str) -> str:
        """Return the names of the non-approvable audits that refused the partition in a run."""
        failures = [event.step_failure_data.user_failure_data for event in step_failures(self.instance, run)]
        name = f"{partition} {BEYOND_APPROVAL}".strip()
        return ", ".join(str(data.metadata[name].value) for data in failures if data and name in data.metadata)

    def _reconcile(self, mine: Callable[[Want], bool], **options: Any) -> Outcome:  # noqa: ANN401 - of the reconciler
        self._reconciler = self._reconciler or Reconciler(project().tables())
        chosen = settings()
        outcome, _ = self._reconciler.reconcile(
            lake_of(chosen),
            Landing(root=chosen.landing_zone),
            Clock().now(),
            instance=self.instance,
            repository=self.definitions.get_repository_def(),
            mine=mine,
            **options,
        )
        return outcome

    def _downstream(self, table: str) -> set[str]:
        """Return a table, the tables of the same step, and all tables downstream."""
        graph = self.definitions.resolve_asset_graph()
        found, todo = set[dg.AssetKey](), [*self._node(table).execution_set_asset_keys]
        while todo:
            key = todo.pop()
            if key not in found:
                found.add(key)
                todo += graph.get(key).child_keys
        return {"/".join(key.path) for key in found}

    def _sensors(self) -> list[dg.SensorDefinition]:
        return list(self.definitions.get_repository_def().sensor_defs)

    def _tick(self, sensor: dg.SensorDefinition, cursors: dict[str, str | None]) -> list[dg.RunRequest]:
        resources = self.definitions.resources or {}
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=cursors.get(sensor.name),
            repository_def=self.definitions.get_repository_def(),
            resources={name: resources[name] for name in sensor.required_resource_keys},
        ) as context:
            data = sensor.evaluate_tick(context)
        cursors[sensor.name] = data.cursor
        self.idle[sensor.name] = data.skip_message or ""
        return [request for request in data.run_requests or [] if not self._known(sensor, request)]

    def _known(self, sensor: dg.SensorDefinition, request: dg.RunRequest) -> bool:
        """Return whether a run with the request's key exists, as the daemon checks before a launch."""
        tags = {"dagster/run_key": request.run_key or "", "dagster/sensor_name": sensor.name}
        return bool(request.run_key and self.instance.get_runs(dg.RunsFilter(tags=tags), limit=1))


def _described(partitions: dg.PartitionsDefinition[str]) -> str:
    """Describe the keys of a partitions definition: kind and range of times, or the first keys."""
    keys = partitions.get_partition_keys()
    if not keys:
        return "there is none yet"
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        return f"they are {', '.join(keys[:_SHOWN])}{more}"
    units = {dg.HourlyPartitionsDefinition: "hours", dg.WeeklyPartitionsDefinition: "weeks by their first day"}
    units |= {dg.MonthlyPartitionsDefinition: "months by their first day", dg.DailyPartitionsDefinition: "days"}
    unit = next((word for kind, word in units.items() if isinstance(partitions, kind)), "spans of time")
    return f"they are {unit}, from {keys[0]} to {keys[-1]}"


def _table_of(step: str) -> str:
    """Return the table of a step, by the step's name."""
    return step.replace("_", "/", 1)
