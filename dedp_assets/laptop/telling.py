"""Terminal report of a Dagster instance: a line for each run, refusal and tick with requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.table_names import tables_named
from dedp_assets.graph.outcomes.failures import failure_of
from dedp_assets.graph.outcomes.run_tags import cause_of, partitions_named, refusals

__all__ = ["Say", "Telling"]

Say = Callable[[str, str], None]
"""Takes a word and a sentence."""

_OVERLAP = timedelta(seconds=60)
_TICKS = 20
_QUIET = timedelta(seconds=10)
"""After how long ticks are asked for again where nothing shows that one began or ended: schedules note theirs late."""
_WORDS = {"STARTED": "started", "SUCCESS": "done", "CANCELED": "canceled"}


class Telling:
    """A report of new runs and ticks on a Dagster instance since the last poll."""

    def __init__(self, instance: dg.DagsterInstance, say: Say, *, now: datetime) -> None:
        self._instance, self._say, self._polled_at = instance, say, now
        self._runs: dict[str, str] = {}
        self._ticks: dict[str, float] = {}
        self._quiet: dict[str, tuple[object, datetime]] = {}
        self._began = now.timestamp()

    def poll(self, now: datetime) -> None:
        """Report runs and ticks since the last poll."""
        self._report_ticks(now)
        self._report_runs()
        self._polled_at = now

    def _report_runs(self) -> None:
        since = self._polled_at - _OVERLAP
        records = self._instance.get_run_records(dg.RunsFilter(updated_after=since.astimezone(timezone.utc)))
        known, self._runs = self._runs, {}
        for record in reversed(records):
            run, status = record.dagster_run, record.dagster_run.status.value
            self._runs[run.run_id] = status
            over = record.end_time is not None and record.end_time < max(self._began, since.timestamp())
            if status != known.get(run.run_id) and not over:
                self._report_run(run, status)

    def _report_run(self, run: dg.DagsterRun, status: str) -> None:
        if status == "FAILURE":
            reason = failure_of(self._instance, run) or self._ending(run)
            again = "; it is tried again" if run.tags.get("dagster/will_retry") == "true" else ""
            self._say("refused" if refusals(run.tags) else "failed", f"{_about(run)}: {reason}{again}")
        elif status in _WORDS:
            because = f", because of {cause_of(run)}" if status == "STARTED" else ""
            self._say(_WORDS[status], f"{_about(run)}{because}")

    def _ending(self, run: dg.DagsterRun) -> str:
        logs = self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
        return _first_line(logs[-1].dagster_event.message) if logs and logs[-1].dagster_event else "no reason given"

    def _report_ticks(self, now: datetime) -> None:
        for state in self._instance.all_instigator_state():
            known, until = self._quiet.get(state.selector_id, (None, now))
            if known == state.instigator_data and now < until:
                continue
            last = self._ticks.get(state.selector_id, self._began)
            ticks = self._ticks_after(state, last)
            over = [tick for tick in ticks if tick.status.value != "STARTED"]
            if len(over) == len(ticks):
                self._quiet[state.selector_id] = (state.instigator_data, now + _QUIET)
            for tick in reversed(over):
                self._ticks[state.selector_id] = max(last, tick.timestamp)
                if text := next(_tick_texts(tick), ""):
                    self._say("asks" if not tick.error else "failed", f"{state.instigator_name} {text}")

    def _ticks_after(self, state: Any, last: float) -> list[Any]:  # noqa: ANN401 - Dagster does not export the type
        ticks = self._instance.get_ticks(state.instigator_origin_id, state.selector_id, after=last, limit=_TICKS)
        return [tick for tick in ticks if tick.timestamp > last]


def _about(run: dg.DagsterRun) -> str:
    """Return the tables, the partitions and the id of a run as text."""
    named = run.job_name
    if run.asset_selection:
        named = tables_named("/".join(key.path) for key in run.asset_selection)
    partition = partitions_named(run.tags)
    return f"{named} {partition}".strip() + f" (run {run.run_id[:8]})"


def _tick_texts(tick: Any) -> Iterator[str]:  # noqa: ANN401 - Dagster does not export the type
    if tick.error:
        yield f"cannot look: {_first_line(tick.error.message)}"
    if count := len(tick.run_ids):
        yield f"asks for {count} run{'s' if count > 1 else ''}"


def _first_line(text: str | None) -> str:
    return text.strip().splitlines()[0] if text and text.strip() else "no reason given"
