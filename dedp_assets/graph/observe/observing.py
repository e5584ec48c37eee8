"""Observation of the platform: all troubles, for alerts, the terminal, the status page and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache

import dagster as dg

from dedp_assets.graph.checks.causes import CauseWatch, unreadable
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.mail.alerts import without_secrets
from dedp_assets.graph.observe.alerting import judged
from dedp_assets.graph.observe.deadlines import recent_records, records_of
from dedp_assets.graph.observe.explaining import explain, upstream_of
from dedp_assets.graph.observe.rounds import RoundResult, Rounds
from dedp_assets.graph.resources.alerting import command_for
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.masking import known_secrets, shown
from dedp_assets.patterns.core.errors import ContractError, PatternError, error_line
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.measuring.troubles import SEVERITIES, Trouble, TroubleKey
from dedp_assets.patterns.observability._lags.lag_samples import LagSample, from_json, to_json

__all__ = ["Observation", "Observer", "Positions"]

_DAYS = 3
_SHOWN = 20
"""Most partitions of a table with the same trouble that are announced one by one; one more counts the others."""
Positions = Callable[[], Sequence[LagSample]]
"""Function that samples positions of producers and consumers outside of the lake, such as a topic's."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Troubles and figures of one observation.

    Attributes:
        troubles: every trouble, with the upstream table that explains it; ``info`` for what needs nobody yet.
        unjudged: tables of which nothing can be said now.
        undecided: keys of troubles whose figures could not be judged.
        measurements: the figures of all detectors.
        unread: sentences on sources that could not be read: without their word nothing is called right.
    """

    troubles: tuple[Trouble, ...]
    unjudged: frozenset[str] = frozenset()
    undecided: frozenset[TroubleKey] = frozenset()
    measurements: tuple[Measurement, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def announced(self) -> list[Trouble]:
        """Troubles that need somebody, with a limited number of partitions for each table and kind.

        One more trouble has the number of the further partitions.
        """
        together: dict[tuple[str, str], list[Trouble]] = {}
        for each in sorted(self.troubles, key=lambda each: each.partition):
            if each.needs_somebody:
                together.setdefault((each.table, each.kind), []).append(each)
        found: list[Trouble] = []
        for same in together.values():
            found += same[:_SHOWN]
            if len(same) > _SHOWN:
                figure, reason = f"{len(same) - _SHOWN} more partitions", f"the first {_SHOWN} have alerts of their own"
                many = replace(same[0], kind=f"{same[0].kind}, many", partition="", since=None)
                found.append(replace(many, figure=figure, limit="", reason=reason, command=command_for(many.table)))
        return found


@dataclass(slots=True)
class Observer:
    """The only collector of troubles: observations of the declared tables, one after the other.

    Attributes:
        tables: the declared tables of the graph.
        thorough: whether each observation holds all deliveries that are loaded against what lies there.
    """

    tables: Sequence[LakeTable[...]]
    thorough: bool = False
    _causes: CauseWatch = field(init=False)
    _rounds: Rounds | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._causes = CauseWatch(self.tables, thorough=self.thorough)

    def observe(
        self,
        lake: Lake,
        landing: Landing,
        journal: Journal,
        now: datetime,
        *,
        instance: dg.DagsterInstance | None = None,
        repository: dg.RepositoryDefinition | None = None,
        positions: Positions | None = None,
    ) -> Observation:
        """Look at everything once.

        Args:
            lake: the tables.
            landing: the landing zone.
            journal: samples of positions; with ``positions`` the measurements are noted there, too.
            now: current time, with time zone.
            instance: where runs are recorded.
            repository: the code location that is deployed.
            positions: samples positions outside of the lake; a system that does not answer has no sample. Without the
                function, the last samples of the journal count, and nothing is noted.
        """
        causes = self._causes.poll(lake, landing, now, instance=instance, repository=repository)
        seen, unread = self._round(lake, journal, now, instance, repository, positions)
        found = judged(seen.measured.measurements)
        faulty = unreadable({table: why for table, why in seen.unjudged.items() if table not in causes.unjudged})
        troubles = explain(_once([*causes.troubles, *faulty, *found.troubles]), upstream_of(self.tables))
        secrets = known_secrets(settings())
        return Observation(
            tuple(without_secrets(trouble, secrets) for trouble in troubles),
            causes.unjudged | seen.unjudged.keys(),
            found.undecided,
            seen.measured.measurements,
            tuple(shown(sentence) for sentence in (*causes.unread, *unread)),
        )

    def _round(
        self,
        lake: Lake,
        journal: Journal,
        now: datetime,
        instance: dg.DagsterInstance | None,
        repository: dg.RepositoryDefinition | None,
        positions: Positions | None,
    ) -> tuple[RoundResult, list[str]]:
        """Let all detectors judge; return the outcome, and sentences on failures to measure."""

        @cache
        def records() -> Sequence[dg.RunRecord]:
            return recent_records(instance, now, days=_DAYS) if instance else ()

        def runs(table: LakeTable[...]) -> Sequence[dg.RunRecord]:
            return records_of(records(), table, repository)

        samples: Sequence[LagSample] = ()
        if positions is not None:
            with suppress(PatternError):
                samples = positions()
        try:
            rounds = self._rounds = self._rounds or Rounds(self.tables, _stored(journal))
            if positions is None:
                rounds.samples = _stored(journal)
            seen = rounds.judge(lake, now, runs=runs, samples=samples)
        except Exception as error:  # a fault of a detector must not take the causes along
            return RoundResult(Measured(), {}, {}), [f"Measurements cannot be made: {error_line(error)}"]
        if positions is not None:
            journal.append(seen.measured.measurements)
            if rounds.samples:
                journal.keep_samples(to_json(rounds.samples))
        return seen, []


def _once(troubles: Iterable[Trouble]) -> list[Trouble]:
    """Return each trouble once, by the worst severity."""
    found: dict[TroubleKey, Trouble] = {}
    for each in troubles:
        known = found.setdefault(each.key, each)
        if SEVERITIES.index(each.severity) > SEVERITIES.index(known.severity):
            found[each.key] = each
    return list(found.values())


def _stored(journal: Journal) -> list[LagSample]:
    """Read the stored samples; a file that is damaged begins again."""
    stored = journal.samples()
    with suppress(ContractError):
        return from_json(stored) if stored else []
    return []
