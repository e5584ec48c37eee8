"""Drift of the distributions of columns: a profile against the sum of earlier profiles."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import reduce

from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.profiles import ColumnProfile, Profile
from dedp_assets.patterns.quality._profiles.drift import Drift, correct, drift_of_bins, drift_of_categories
from dedp_assets.patterns.quality._profiles.profile_rules import Earlier, ProfileRules, too_little

__all__ = ["DRIFT", "distribution_measurements"]

DRIFT = "distribution"
_BINS = 10


def distribution_measurements(
    profile: Profile, before: Earlier, rules: ProfileRules, now: datetime, table: str, partition: str
) -> Iterator[Measurement]:
    """Measure the drift of each column with categories or numbers, corrected for the number of columns."""
    found = {}
    for name, state in profile.columns.items():
        same = [each for each in before(f"{DRIFT}.{name}") if each.is_of_type(state)]
        if too_little(state, same, rules):
            continue  # the other figures of the column say so
        if drift := _drift(state, reduce(ColumnProfile.__add__, same), rules):
            found[name] = drift
    for name, drift in correct(found).items():
        yield Measurement(
            metric=f"{DRIFT}.{name}",
            table=table,
            at=now,
            partition=partition,
            verdict=drift.verdict,
            value=drift.effect,
            at_most=rules.min_psi,
            reason=f"{name}: {drift.reason}" if drift.reason else "",
        )


def _drift(state: ColumnProfile, usual: ColumnProfile, rules: ProfileRules) -> Drift | None:
    """Compare the values of a column.

    ``None`` for a column with neither categories nor numbers.
    """
    before, options = usual.categories(), {"min_psi": rules.min_psi, "min_rows": float(rules.minimum_rows)}
    if 0 < len(before) <= rules.max_categories and not usual.category_error:
        # Of too many values, the sketch names the frequent ones only.
        return drift_of_categories(state.categories(), before, new_rows=state.counted, **options)
    if not (usual.measured and state.measured):
        return None
    edges = usual.bin_edges(_BINS)
    error = max(usual.rank_error, state.rank_error)
    return drift_of_bins(state.bin_counts(edges), usual.bin_counts(edges), rank_error=error, **options)
