"""Rules of profiles: limits of the difference from earlier profiles, and rules for a write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from statistics import median
from typing import Literal, NamedTuple

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.profiles import ColumnProfile, Profile, same_type
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.types.partitions import quoted

__all__ = [
    "METRICS",
    "Earlier",
    "ProfileRules",
    "ProposedRule",
    "audit_of",
    "column_measurements",
    "schema_measurement",
    "too_little",
]

ProposedRule = Literal["not_null", "known_values", "bounds", "length"]

_PARTS = re.compile(r"`(?:[^`]|``)*`|[^.`]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRules:
    """Limits of the difference between a profile and earlier profiles.

    Attributes:
        max_null_shift: greatest change of the share of NULL, and growth of that of NaN and infinity, in shares (0.1: 10
            percentage points).
        max_distinct_ratio: greatest factor by which the number of distinct values may grow or shrink, both as such and
            for each row.
        max_new_categories: most values that no earlier profile has, of a column with categories.
        max_share_shift: greatest change of a category's share, in shares.
        min_psi: least population stability index of a drift of the distribution, which must be significant as well.
        max_categories: most values that are categories; a column with more has none.
        minimum_rows: rows of the new profile, and of the earlier ones together, below which no column is judged.
        minimum_history: earlier profiles below which nothing is judged.
        last: number of the newest earlier profiles that count; of each figure, unusual ones do not count.

    Raises:
        ConfigError: for a share that is not above 0 and at most 1, a ratio that is not above 1, or a negative count.
    """

    max_null_shift: float = 0.1
    max_distinct_ratio: float = 3.0
    max_new_categories: int = 5
    max_share_shift: float = 0.2
    min_psi: float = 0.1
    max_categories: int = 100
    minimum_rows: int = 500
    minimum_history: int = 1
    last: int = 7

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("max_null_shift", "max_share_shift"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be a share above 0 and at most 1, not {getattr(self, name):g}")
        if not self.min_psi > 0:
            raise ConfigError(f"min_psi must be above 0, not {self.min_psi:g}")
        if self.max_distinct_ratio <= 1:
            raise ConfigError(f"max_distinct_ratio must be above 1, not {self.max_distinct_ratio:g}")
        for name, least in {
            "max_new_categories": 0,
            "max_categories": 1,
            "minimum_rows": 1,
            "minimum_history": 1,
            "last": 1,
        }.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be {least} or more, not {getattr(self, name)}")


class _Judged(NamedTuple):
    """Figure of a column with usual value and limits."""

    value: float | None
    usual: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


Earlier = Callable[[str], Sequence[ColumnProfile]]
"""Function that returns the earlier states that count, oldest first, by the name of the metric."""


def schema_measurement(
    profile: Profile, before: Mapping[str, str] | None, now: datetime, table: str, partition: str
) -> Measurement:
    """Measure the differences of the columns and types from an earlier profile."""
    after, is_first = {name: state.type for name, state in profile.columns.items()}, before is None
    before = before or {}
    changes = [f"{name} {after[name]} was added" for name in after if name not in before]
    changes += [f"{name} {before[name]} was removed" for name in before if name not in after]
    changes += [
        f"{name} is {after[name]}, was {before[name]}"
        for name in after
        if name in before and not same_type(after[name], before[name])
    ]
    if is_first:
        none = "no earlier profile to compare the columns with"
        return Measurement(
            metric="schema_changes", table=table, at=now, partition=partition, verdict="unknown", reason=none
        )
    return Measurement(
        metric="schema_changes",
        table=table,
        at=now,
        partition=partition,
        verdict="fail" if changes else "ok",
        value=float(len(changes)),
        at_most=0.0,
        reason="; ".join(changes),
    )


def column_measurements(
    profile: Profile, before: Earlier, rules: ProfileRules, now: datetime, table: str, partition: str
) -> Iterator[Measurement]:
    """Measure each column that earlier profiles have with the same type."""
    for name, state in profile.columns.items():
        for metric, measure in _RULES.items():
            earlier = before(f"{metric}.{name}")
            same = [each for each in earlier if each.is_of_type(state)]
            if earlier and not same:
                continue  # the schema says so
            lacking = too_little(state, same, rules)
            judged = _Judged(None, reason=f"{name}: {lacking}") if lacking else measure(state, same, rules)
            if judged is None:
                continue
            yield Measurement(
                metric=f"{metric}.{name}",
                table=table,
                at=now,
                partition=partition,
                verdict="unknown" if judged.value is None else "fail" if judged.reason else "ok",
                value=judged.value,
                target=judged.usual,
                at_least=judged.low,
                at_most=judged.high,
                reason=judged.reason,
            )


def too_little(state: ColumnProfile, earlier: Sequence[ColumnProfile], rules: ProfileRules) -> str:
    """Return the reason against a judgement of a column: too few profiles or rows; empty for none."""
    if len(earlier) < rules.minimum_history:
        return f"{len(earlier)} earlier profiles, {rules.minimum_history} or more are needed"
    fewest = min(state.rows, sum(each.rows for each in earlier))
    return f"{fewest} rows, {rules.minimum_rows} or more are needed" if fewest < rules.minimum_rows else ""


def _null_share(state: ColumnProfile, earlier: Sequence[ColumnProfile], rules: ProfileRules) -> _Judged:
    share, usual = state.null_share or 0.0, sum(e.nulls for e in earlier) / sum(e.rows for e in earlier)
    low, high = max(usual - rules.max_null_shift, 0.0), min(usual + rules.max_null_shift, 1.0)
    reason = f"{state.column} is NULL in {share:.1%} of the rows, usual are {usual:.1%}"
    return _Judged(share, usual, low, high, "" if low <= share <= high else reason)


def _not_finite(state: ColumnProfile, earlier: Sequence[ColumnProfile], rules: ProfileRules) -> _Judged | None:
    if not state.type.startswith(("FLOAT", "DOUBLE")):
        return None
    share = (state.nans + state.infinities) / state.rows
    usual = sum(each.nans + each.infinities for each in earlier) / sum(each.rows for each in earlier)
    high = min(usual + rules.max_null_shift, 1.0)
    reason = f"{state.column} is NaN or infinite in {share:.1%} of the rows, usual are {usual:.1%}"
    return _Judged(share, usual, None, high, reason if share > high else "")


def _distinct(state: ColumnProfile, earlier: Sequence[ColumnProfile], rules: ProfileRules) -> _Judged | None:
    known = [each for each in earlier if each.distinct and each.rows]
    if not state.distinct or not known:
        return None
    if {each.is_sampled for each in (state, *known)} == {True, False}:
        return _Judged(None, reason=f"{state.column}: distinct values of a sample and of all rows do not compare")
    count, usual = state.distinct_count, median(each.distinct_count for each in known)
    by_row, usual_by_row = count / state.rows, median(each.distinct_count / each.rows for each in known)
    # A key has a value for each row, whatever the number of rows; a category has as many as ever.
    off = all(
        not 1 / rules.max_distinct_ratio <= ratio <= rules.max_distinct_ratio
        for ratio in (
            (count + 1) / (usual + 1),
            (by_row + 1 / state.rows) / (usual_by_row + 1 / state.rows),
        )
    )
    reason = f"{state.column} has about {count:,.0f} distinct values, usual are {usual:,.0f}"
    low, high = usual / rules.max_distinct_ratio, usual * rules.max_distinct_ratio
    return _Judged(count, usual, low, high, reason if off else "")


def _new_categories(state: ColumnProfile, earlier: Sequence[ColumnProfile], rules: ProfileRules) -> _Judged | None:
    before = _categories(earlier, rules)
    if before is None:
        return None
    new = [value for value in state.categories() if value not in before]
    many = len(new) > rules.max_new_categories
    reason = f"{state.column} has {len(new)} new values beside {len(before)} known ones, such as {', '.join(new[:3])}"
    return _Judged(float(len(new)), 0.0, None, float(rules.max_new_categories), reason if many else "")


def _share_shift(state: ColumnProfile, earlier: Sequence[ColumnProfile], rules: ProfileRules) -> _Judged | None:
    before = _categories(earlier, rules)
    if before is None:
        return None
    after = state.shares()
    shifts = {value: after.get(value, 0.0) - before.get(value, 0.0) for value in {**before, **after}}
    value = max(shifts, key=lambda each: (abs(shifts[each]), each), default="")
    shift = abs(shifts.get(value, 0.0))
    shares = f"{after.get(value, 0.0):.1%} of the values, usual are {before.get(value, 0.0):.1%}"
    reason = f"{state.column} is {value} in {shares}" if shift > rules.max_share_shift else ""
    return _Judged(shift, 0.0, None, rules.max_share_shift, reason)


def _categories(earlier: Sequence[ColumnProfile], rules: ProfileRules) -> Mapping[str, float] | None:
    """Return the shares of a column's earlier values.

    ``None`` for a column without categories.
    """
    merged = reduce(ColumnProfile.__add__, earlier)
    shares = merged.shares()
    few = 0 < len(shares) <= rules.max_categories and not merged.category_error
    return shares if few else None


_RULES: Mapping[str, Callable[[ColumnProfile, Sequence[ColumnProfile], ProfileRules], _Judged | None]] = {
    "null_share": _null_share,
    "not_finite_share": _not_finite,
    "distinct_values": _distinct,
    "new_categories": _new_categories,
    "share_shift": _share_shift,
}
METRICS = tuple(_RULES)
"""Metrics of each column."""


def audit_of(state: ColumnProfile, rule: ProposedRule) -> Audit:
    """Return the audit that a column's profile passes, of which every other row is a fault.

    Raises:
        ConfigError: if the profile does not support the rule.
    """
    if reason := _unsupported(state, rule):
        raise ConfigError(f"{rule} must be a rule of what the profile holds, not of {state.column}: {reason}")
    value = ".".join(part if part.startswith("`") else identifier(part) for part in _PARTS.findall(state.column))
    if rule == "not_null":
        return Audit.none_where(f"{state.column}_is_not_null", f"{value} IS NULL")
    if rule == "known_values":
        known = ", ".join(map(quoted, state.categories()))
        fault, name = f"left(CAST({value} AS STRING), 64) NOT IN ({known})", "is_known"
    elif rule == "length":
        fault, name = f"length({value}) NOT BETWEEN {state.shortest} AND {state.longest}", "has_its_length"
    else:
        low, high = (f"CAST({quoted(each or '')} AS {state.type})" for each in (state.minimum, state.maximum))
        fault, name = f"{value} NOT BETWEEN {low} AND {high}", "lies_within_bounds"
    return Audit.none_where(f"{state.column}_{name}", f"coalesce({fault}, false)")


def _unsupported(state: ColumnProfile, rule: ProposedRule) -> str:
    reasons = {
        "not_null": (state.nulls > 0 or not state.rows, f"{state.nulls} of {state.rows} rows have no value"),
        "known_values": (
            state.is_sampled or not state.values or bool(state.category_error) or not state.categories(),
            "its values are not all known (withheld by their class, sampled, too many, or none)",
        ),
        "bounds": (
            state.minimum is None or state.type.startswith(("STRING", "VARCHAR", "CHAR")),
            "it has no bounds that order numbers or times",
        ),
        "length": (state.shortest is None or state.type.startswith(("ARRAY", "MAP")), "it has no length"),
    }
    refused, why = reasons[rule]
    return why if refused else ""
