"""Observation of the platform: alerts by the reconciler and by detectors, with explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

import dagster as dg

from dedp_assets.graph.checks.causes import find_causes
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.observe.alerting import judged
from dedp_assets.graph.observe.deadlines import recent_records, records_of
from dedp_assets.graph.observe.explaining import explain, upstream_of
from dedp_assets.graph.observe.rounds import Rounds
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.patterns.core.errors import ContractError, PatternError
from dedp_assets.patterns.core.measurements import Measurement
from dedp_assets.patterns.core.troubles import Trouble, TroubleKey
from dedp_assets.patterns.observability._lag_samples import LagSample, from_json, to_json
from dedp_assets.resources.journal import Journal
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.landing import Landing

__all__ = ["Observer", "Observation", "Positions"]

_DAYS = 3
Positions = Callable[[], Sequence[LagSample]]
"""Function that samples positions of producers and consumers outside of the lake, such as a topic's."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Troubles and figures of one observation.

    Attributes:
        alerts: every trouble, with the upstream table that explains it.
        unjudged: tables of which nothing can be said now.
        undecided: keys of alerts whose figures could not be judged.
        measurements: the figures of all detectors.
    """

    alerts: tuple[Trouble, ...]
    unjudged: frozenset[str]
    undecided: frozenset[TroubleKey]
    measurements: tuple[Measurement, ...]


@dataclass(slots=True)
class Observer:
    """Observations of the declared tables, one after the other.

    Attributes:
        tables: the declared tables of the graph.
    """

    tables: Sequence[LakeTable[...]]
    _looking: Reconciler = field(init=False)
    _rounds: Rounds | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._looking = Reconciler(self.tables)

    def observe(
        self,
        lake: Lake,
        landing: Landing,
        journal: Journal,
        now: datetime,
        *,
        instance: dg.DagsterInstance | None = None,
        repository: dg.RepositoryDefinition | None = None,
        positions: Positions = tuple,
    ) -> Observation:
        """Look at everything once, and note the measurements in the journal.

        Args:
            lake: the tables.
            landing: the landing zone.
            journal: measurements so far, and samples of positions.
            now: current time, with time zone.
            instance: where runs are recorded.
            repository: the code location that is deployed.
            positions: samples positions outside of the lake; a system that does not answer has no sample.
        """
        causes = find_causes(self._looking, lake, landing, now, instance=instance, repository=repository)
        rounds = self._rounds = self._rounds or Rounds(self.tables, _stored(journal))

        @cache
        def records() -> Sequence[dg.RunRecord]:
            return recent_records(instance, now, days=_DAYS) if instance else ()

        def runs(table: LakeTable[...]) -> Sequence[dg.RunRecord]:
            return records_of(records(), table, repository)

        samples: Sequence[LagSample] = ()
        with suppress(PatternError):
            samples = positions()
        seen = rounds.judge(lake, now, runs=runs, samples=samples)
        found = judged(seen.measured.measurements)
        journal.append(seen.measured.measurements)
        if rounds.samples:
            journal.keep_samples(to_json(rounds.samples))
        return Observation(
            tuple(explain([*causes.alerts, *found.alerts], upstream_of(self.tables))),
            causes.unjudged | seen.unjudged,
            found.undecided,
            seen.measured.measurements,
        )


def _stored(journal: Journal) -> list[LagSample]:
    """Read the stored samples; a file that is damaged begins again."""
    with suppress(ContractError):
        return from_json(stored) if (stored := journal.samples()) else []
    return []
