"""Series of profiles: each is judged by the profiles before that were not unusual themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dedp_assets.patterns.core.measuring.measurements import Measured
from dedp_assets.patterns.core.measuring.profiles import ColumnProfile, Profile
from dedp_assets.patterns.core.measuring.usual import Counted
from dedp_assets.patterns.quality._profiles.profile_drift import DRIFT, distribution_measurements
from dedp_assets.patterns.quality._profiles.profile_rules import (
    METRICS,
    ProfileRules,
    column_measurements,
    schema_measurement,
)

__all__ = ["ProfileSeries"]


@dataclass(slots=True)
class ProfileSeries:
    """Judgement of profiles in their order, with the states that count for each metric of each column.

    Attributes:
        rules: the limits.
    """

    rules: ProfileRules
    _columns: Counted[Mapping[str, str]] = field(default_factory=Counted, init=False)
    _states: dict[str, Counted[ColumnProfile]] = field(default_factory=dict, init=False)

    def judge(self, profile: Profile, now: datetime, *, table: str, partition: str) -> Measured:
        """Judge the next profile by the profiles before.

        Args:
            profile: the profile.
            now: current time, with time zone.
            table: name of the observed table.
            partition: partition of the profile; empty for the whole table.
        """
        columns = next(reversed(self._columns.values), None)
        schema = schema_measurement(profile, columns, now, table, partition)
        judged = (profile, self._before, self.rules, now, table, partition)
        found = Measured((schema, *column_measurements(*judged), *distribution_measurements(*judged)))
        self._take(profile, found)
        return found

    def _before(self, metric: str) -> Sequence[ColumnProfile]:
        return self._states[metric].values[-self.rules.last :] if metric in self._states else ()

    def _take(self, profile: Profile, found: Measured) -> None:
        """Count the usual figures of a profile for later profiles."""
        unusual = {each.metric for each in found.troubles}
        types = {name: state.type for name, state in profile.columns.items()}
        self._columns.take(types, is_unusual="schema_changes" in unusual)
        for name, state in profile.columns.items():
            for metric in (*METRICS, DRIFT):
                counted = self._states.setdefault(f"{metric}.{name}", Counted())
                counted.take(state, is_unusual=f"{metric}.{name}" in unusual)
