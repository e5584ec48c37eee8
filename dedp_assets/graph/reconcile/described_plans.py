"""Descriptions of a plan of runs: lines and tables for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.estimating import Estimate, Estimates, Spread
from dedp_assets.graph.reconcile.late_files import LateFiles
from dedp_assets.graph.reconcile.outdated import Outdated
from dedp_assets.graph.reconcile.reconciling import Gap, Want
from dedp_assets.graph.reconcile.run_plans import PlannedRun, RunPlan
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.quantities import duration, quantity

__all__ = ["Planned", "PlanSection"]

_LATE = ("late-data", "late-file", "redelivery")
_FEW = 30
"""Most runs that are listed one by one for people; more are summed up by wave and tables."""
_OF_RUNS = ("wave", "run", "tables", "partitions", "why", "after run", "seconds", "reads")
_KEYS = 3
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class PlanSection:
    """A table of texts in the description of a plan.

    Attributes:
        title: line above the table.
        headings: of the columns.
        rows: the texts of each row.
        figures: number of columns at the end that hold figures.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: int = 0


class Planned:
    """A plan with estimates and the files of late records, for people and for programs.

    Args:
        plan: the plan.
        tables: the declared tables of the graph.
        lake: the tables.
        landing: what was delivered.
        outdated: partitions by other code, if the plan is about these alone.
        table: the only table that the plan is about; empty for all tables.
    """

    def __init__(
        self,
        plan: RunPlan,
        tables: Sequence[LakeTable[...]],
        lake: Lake,
        landing: Landing,
        *,
        outdated: Sequence[Outdated] | None = None,
        table: str = "",
    ) -> None:
        self._plan, self._tables, self._outdated, self._table = plan, tables, outdated, table
        estimates = Estimates(plan.runs, tables, lake, landing)
        self._estimates = {run.number: estimates.of(run) for run in plan.runs}
        self._files = LateFiles(tables, lake, landing)
        self._zone = f"{landing.root}/"
        self._loading = {table.spec.name for table in tables if table.lands}

    # --- for programs -------------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        plan = self._plan
        changed = {} if self._outdated is None else {"changed": [_change(each) for each in self._outdated]}
        return {
            "runs": [self._run(run) for run in plan.runs],
            "held": [{"table": g.table, "key": g.key, "state": g.state, "reason": g.reason} for g in plan.held],
            "unchanged": {table: len(keys) for table, keys in sorted(plan.current.items()) if keys},
            **changed,
            "more_may_follow": list(plan.opened),
            "unreadable": dict(plan.unreadable),
            "strange": dict(plan.strange),
            "asked_for_elsewhere": self._elsewhere,
            "estimate": _estimated(self._whole),
        }

    def _run(self, run: PlannedRun) -> dict[str, Any]:
        return {
            "run": run.number,
            "wave": run.wave,
            "tables": list(run.tables),
            "partitions": [self._partition(run, want) for want in run.wants],
            "follows": list(run.follows),
            "under_way": run.under_way,
            "asked_by": "reconciler" if run.asked else "nobody",
            "estimate": _estimated(self._estimates[run.number]),
        }

    def _partition(self, run: PlannedRun, want: Want) -> dict[str, Any]:
        inputs, files = dict(run.changes.get(want.key, {})), self._late(run, want)
        stated = {"state": want.state, "cause": want.cause, "reason": self._reason(run, want)}
        return {"key": want.key, **stated, "inputs": inputs, "files": files}

    # --- for people ---------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str | PlanSection]:
        """Yield lines and tables."""
        plan = self._plan
        yield self._summary()
        if self._outdated is not None:
            yield from self._changes(self._outdated)
        if plan.runs:
            yield self._runs()
        for title, gaps in (("Cannot run", plan.stuck), ("Waiting", [g for g in plan.held if g not in plan.stuck])):
            if gaps:
                yield _held(title, gaps)
        if unchanged := {table: len(keys) for table, keys in sorted(plan.current.items()) if keys}:
            yield "Unchanged: " + ", ".join(f"{table} {count:,}" for table, count in unchanged.items())
        if plan.opened:
            yield f"More may follow, once the records of {', '.join(plan.opened)} are read: nobody knows their days yet"
        yield from (f"Not read: {why}" for why in plan.unreadable.values())
        yield from (f"Not loaded: {name} {why}" for name, why in sorted(plan.strange.items()))
        if self._elsewhere:
            named = "; ".join(f"{table} ({starts})" for table, starts in self._elsewhere.items())
            yield f"Not planned, as the reconciler does not ask for them: {named}"

    def _summary(self) -> str:
        runs, stuck = self._plan.runs, len(self._plan.stuck)
        waiting = len(self._plan.held) - stuck
        cannot = f"; {quantity(stuck, 'partitions')} cannot run" if stuck else ""
        cannot += f"; {quantity(waiting, 'partitions')} waiting" if waiting else ""
        if not runs:
            return f"Nothing would run{cannot}."
        partitions = len({place for run in runs for place in run.places})
        waves = quantity(len({run.wave for run in runs}), "waves")
        parts = [f"{quantity(len(runs), 'runs')} in {waves}, {quantity(partitions, 'partitions')}{cannot}"]
        whole = self._whole
        parts += [f"about {_spread(whole.seconds)} one after the other"] if whole.seconds.runs else []
        parts += [f"{_spread(whole.cpu_seconds)} of CPU"] if whole.cpu_seconds.runs else []
        parts += [read] if (read := _read(whole.reads)) else []
        parts += [f"without {', '.join(sorted(whole.unknown))}, never measured"] if whole.unknown else []
        return ". ".join([parts[0], "; ".join(parts[1:])]).removesuffix(". ") + "."

    def _runs(self) -> PlanSection:
        rows = []
        for runs in self._groups():
            first, *_ = runs
            keys = [key for run in runs for key in run.keys]
            numbers = f"{first.number}" if len(runs) == 1 else f"{first.number} to {runs[-1].number}"
            estimate = sum((self._estimates[run.number] for run in runs), Estimate())
            after = sorted({number for run in runs for number in run.follows})
            cells = (str(first.wave), numbers, ", ".join(first.tables), _keys(keys), self._why(runs), _numbers(after))
            rows.append((*cells, _spread(estimate.seconds), _read(estimate.reads)))
        return PlanSection("Runs", _OF_RUNS, rows, figures=2)

    def _groups(self) -> Iterator[list[PlannedRun]]:
        """Yield the runs of each row."""
        if len(self._plan.runs) <= _FEW:
            yield from ([run] for run in self._plan.runs)
            return

        def alike(run: PlannedRun) -> tuple[object, ...]:
            return run.wave, run.tables, run.wants[0].cause, run.under_way, run.asked

        ordered = sorted(self._plan.runs, key=lambda run: (run.wave, run.tables, run.number))
        yield from (list(runs) for _, runs in groupby(ordered, key=alike))

    def _why(self, runs: Sequence[PlannedRun]) -> str:
        run = runs[0]
        want = run.wants[0]
        files = [file for each in run.wants[:_KEYS] for file in self._late(run, each)]
        late = f"; late records of {', '.join(dict.fromkeys(files))}" if files else ""
        started = "is under way: " if run.under_way else ""
        nobody = "" if run.asked else f"; nobody asks for it: dedp run {run.tables[0]} {want.key}".rstrip()
        return f"{started}{want.state}: {self._reason(run, want)}{late}{nobody}"

    def _changes(self, outdated: Sequence[Outdated]) -> Iterator[str | PlanSection]:
        """Yield the table of partitions that other code computed or refused."""
        if not outdated:
            yield "Every partition is by the present code and declarations."
            return
        alike = groupby(outdated, key=lambda each: (each.table, each.reason))
        rows = [(table, _keys([each.key for each in same]), reason) for (table, reason), same in alike]
        yield PlanSection("By other code or another declaration", ("table", "partitions", "why"), rows)

    # --- facts --------------------------------------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> Estimate:
        return sum((self._estimates[run.number] for run in self._plan.runs if not run.under_way), Estimate())

    @cached_property
    def _elsewhere(self) -> dict[str, str]:
        """Tables that something else than the reconciler asks for -> their declared starts."""
        found = {}
        for table in () if self._outdated is not None else self._tables:
            if self._table in ("", table.spec.name) and not (
                table.lands or (table.runs.follows is True and table.reads.tables)
            ):
                starts = [" ".join([type(each).__name__, getattr(each, "cron", "")]) for each in table.runs.starts]
                found[table.spec.name] = ", ".join(map(str.strip, starts))
        return found

    def _late(self, run: PlannedRun, want: Want) -> list[str]:
        """Return the landed files behind late records of a partition."""
        if want.cause not in _LATE:
            return []
        table = want.tables[0]
        if table in self._loading:
            return self._files.of_delivery(table, want.key)
        return self._files.of_changes(table, want.key, run.changes.get(want.key, {}))

    def _reason(self, run: PlannedRun, want: Want) -> str:
        """Return why a partition is computed; a version that an earlier run will write is called by that run."""
        if run.wave == 1 or not run.follows:
            return want.reason.removeprefix(self._zone)
        return f"reads what {'run' if len(run.follows) == 1 else 'runs'} {_numbers(run.follows)} will write"


def _numbers(numbers: Sequence[int]) -> str:
    named = [str(number) for number in numbers[:_KEYS]]
    return ", ".join([*named, f"and {len(numbers) - _KEYS} more"] if len(numbers) > _KEYS else named)


def _keys(keys: Sequence[str]) -> str:
    if len(keys) > _KEYS:
        return f"{min(keys)} to {max(keys)} ({len(keys)})"
    return ", ".join(key or "all" for key in keys)


def _held(title: str, held: Sequence[Gap]) -> PlanSection:
    rows = []
    ordered = sorted(held, key=lambda gap: (gap.table, gap.state, gap.reason, gap.key))
    for (table, state, reason), gaps in groupby(ordered, key=lambda gap: (gap.table, gap.state, gap.reason)):
        brief = f"{reason[:_LONGEST]} ..." if len(reason) > _LONGEST else reason
        rows.append((table, _keys([gap.key for gap in gaps]), state, brief))
    return PlanSection(title, ("table", "partitions", "state", "reason"), rows)


def _spread(of: Spread) -> str:
    if not of.runs:
        return ""
    return f"{duration(of.median)} ({duration(of.low)} to {duration(of.high)})"


def _read(cost: Cost) -> str:
    figures = [(cost.files_read, "files"), (cost.bytes_read, "bytes"), (cost.rows_read, "rows")]
    return ", ".join(quantity(value, unit) for value, unit in figures if value is not None)


def _estimated(of: Estimate) -> dict[str, Any]:
    spreads = {"seconds": of.seconds, "cpu_seconds": of.cpu_seconds}
    named = {name: {"p10": s.low, "median": s.median, "p90": s.high, "runs": s.runs} for name, s in spreads.items()}
    known = {name: each for name, each in named.items() if each["runs"]}
    return {**known, **of.reads.known, "never_measured": sorted(of.unknown)}


def _change(of: Outdated) -> dict[str, Any]:
    stated = {"table": of.table, "key": of.key, "stored": of.stored, "present": of.present, "refused": of.refused}
    return {**stated, "reason": of.reason}
