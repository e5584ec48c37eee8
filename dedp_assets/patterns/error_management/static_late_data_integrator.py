"""Static Late Data Integrator: a run also processes late data of the partitions in a fixed look-back.

Problem: a daily job sees its own day only and loses what arrives for the days before, as long as that is still wanted.
Solution: a fixed look-back: with the current partition, the ``lookback`` ones before it are processed by the same run,
    those whose upstream changed since they were applied, as the ledger says. Several current partitions are one plan
    over the union of their look-backs, so that a backfill processes none of them twice.
Consequences: what comes later than the look-back is lost by design: `judge_beyond_lookback` says what. Whoever reads
    rewritten partitions has to read them again; the table's log names them. A stateful consumer replays everything
    after a late partition, oldest first.
Choose instead: Dynamic Late Data Integrator, if late data counts however old it is, or the look-back would be long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Plan

__all__ = ["plan_lookback", "order_steps", "judge_beyond_lookback"]

Placement = Literal["late first", "parallel", "current first"]
"""When late partitions are processed: before the current ones, beside them, or after them."""


@typed
def plan_lookback(
    changed: Mapping[str, int],
    applied: Mapping[str, int],
    *,
    current: Sequence[str],
    partitions: Sequence[str],
    lookback: int,
    placement: Placement = "late first",
    stateful: bool = False,
    only_changed: bool = True,
) -> Plan:
    """Choose the partitions to process in the look-back of a run, in the order of ``placement``.

    Args:
        changed: partition -> newest upstream version that changed its rows.
        applied: partition -> upstream version that downstream applied last; without one it was never processed.
        current: the partitions to process for their own sake: one in daily operation, a range in a backfill.
        partitions: all partitions there are, in order.
        lookback: how many partitions before a current one are processed with it; the current one does not count.
        placement: when late partitions are processed.
        stateful: whether a partition is computed from the one before it. Then every processed one after a changed one
            follows, up to the newest.
        only_changed: leave out what upstream did not change since it was applied; otherwise all of it is processed.

    Returns:
        A plan whose ``cursor`` holds the upstream version each partition has to reach. Causes are ``current``,
        ``late-data``, ``first-seen``, ``follows`` and, where nothing changed, ``look-back``. Held are partitions that
        did not change, and those that changed and lie beyond the look-back.

    Raises:
        ConfigError: for a negative look-back, a current partition that there is not, or a stateful consumer that would
            not process late data first.

    Example:
        >>> days = ["10-08", "10-09", "10-10", "10-11", "10-12"]
        >>> changed, applied = {"10-08": 9, "10-10": 8, "10-11": 5, "10-12": 7}, {"10-08": 3, "10-10": 4, "10-11": 6}
        >>> plan = plan_lookback(changed, applied, current=["10-12"], partitions=days, lookback=3)
        >>> plan.causes
        {'10-10': 'late-data', '10-12': 'current'}
        >>> plan.held
        {'10-08': 'late beyond the look-back of 3', '10-11': 'unchanged since version 5'}
    """
    _require_possible(current, partitions, lookback, placement, stateful=stateful)
    window = _window(current, partitions, lookback)
    wanted = {key: changed[key] for key in partitions if key in window and key in changed}
    if stateful:
        wanted = _followed(wanted, applied, partitions)
    behind = {key for key, version in wanted.items() if version > applied.get(key, -1)}
    chosen = [key for key in wanted if key in behind or (key in window and not only_changed)]
    causes = {key: _cause(key, changed, applied, current, behind) for key in chosen}
    chosen.sort(key=lambda key: placement == "current first" and causes[key] != "current")
    held = {key: f"unchanged since version {wanted[key]}" for key in window & wanted.keys()}
    held |= _beyond(changed, applied, partitions, window, lookback)
    return Plan(
        tuple(chosen),
        f"{len(chosen)} of {len(window)} partitions of the look-back" if chosen else "nothing changed in the look-back",
        causes={key: causes[key] for key in chosen},
        held={key: held[key] for key in sorted(held) if key not in causes},
        cursor={key: wanted[key] for key in chosen},
    )


@typed
def order_steps(
    plan: Plan, *, placement: Placement = "late first", stateful: bool = False
) -> tuple[tuple[str, ...], ...]:
    """Group a plan's partitions: groups run in sequence, the partitions of a group in parallel.

    Args:
        plan: of :func:`plan_lookback`.
        placement: as there.
        stateful: as there; each partition is a group by itself.

    Raises:
        ConfigError: for a stateful consumer that would not process late data first.

    Example:
        >>> causes = {"10-10": "late-data", "10-11": "late-data", "10-12": "current"}
        >>> order_steps(Plan(tuple(causes), "", causes))
        (('10-10', '10-11'), ('10-12',))
    """
    _require_placement(placement, stateful=stateful)
    if stateful:
        return tuple((key,) for key in plan.partitions)
    current = tuple(key for key in plan.partitions if plan.causes[key] == "current")
    late = tuple(key for key in plan.partitions if plan.causes[key] != "current")
    groups = {"late first": (late, current), "current first": (current, late), "parallel": (plan.partitions,)}
    return tuple(group for group in groups[placement] if group)


@typed
def judge_beyond_lookback(
    changed: Mapping[str, int],
    applied: Mapping[str, int],
    *,
    current: Sequence[str],
    partitions: Sequence[str],
    lookback: int,
) -> Finding:
    """Judge whether late data arrived for partitions that no look-back reaches any more.

    Such data is lost to downstream.

    The arguments are those of :func:`plan_lookback`.

    Returns:
        A finding that warns, with the partitions in its note and their number in ``figures``.

    Raises:
        ConfigError: for a negative look-back, or a current partition that there is not.
    """
    _require_possible(current, partitions, lookback, "late first", stateful=False)
    window = _window(current, partitions, lookback)
    lost = sorted(_beyond(changed, applied, partitions, window, lookback))
    return Finding(
        "nothing_is_late_beyond_the_lookback",
        passed=not lost,
        severity="warn",
        figures={"partitions": len(lost), "lookback": lookback},
        note=f"changed upstream and not brought in: {', '.join(lost)}" if lost else "",
    )


def _require_possible(
    current: Sequence[str], partitions: Sequence[str], lookback: int, placement: Placement, *, stateful: bool
) -> None:
    _require_placement(placement, stateful=stateful)
    require_distinct("partitions=", partitions)
    if unknown := [key for key in current if key not in partitions]:
        raise ConfigError(f"there is no partition {', '.join(unknown)}: name current ones among the partitions")
    if lookback < 0 or not current:
        raise ConfigError(f"lookback={lookback} must not be negative, and current={current} name a partition")


def _require_placement(placement: Placement, *, stateful: bool) -> None:
    if stateful and placement != "late first":
        raise ConfigError(
            f"a stateful consumer computes a partition from the one before it: placement={placement!r} would build the "
            "current one on a past that is about to change; use late first"
        )


def _cause(
    key: str, changed: Mapping[str, int], applied: Mapping[str, int], current: Sequence[str], behind: Iterable[str]
) -> str:
    if key in current:
        return "current"
    if changed.get(key, -1) > applied.get(key, -1):
        return "late-data" if key in applied else "first-seen"
    return "follows" if key in behind else "look-back"


def _window(current: Iterable[str], partitions: Sequence[str], lookback: int) -> set[str]:
    """Return the current partitions and the partitions in the look-back of each."""
    places = {key: place for place, key in enumerate(partitions)}
    return {key for each in current for key in partitions[max(0, places[each] - lookback) : places[each] + 1]}


def _followed(wanted: Mapping[str, int], applied: Mapping[str, int], partitions: Sequence[str]) -> dict[str, int]:
    """Raise each partition's version to process to the highest version of earlier partitions."""
    reached, found = -1, {}
    for key in partitions:
        if key in wanted or key in applied:
            reached = max(reached, wanted.get(key, -1), applied.get(key, -1))
            found[key] = reached
    return found


def _beyond(
    changed: Mapping[str, int],
    applied: Mapping[str, int],
    partitions: Sequence[str],
    window: Iterable[str],
    lookback: int,
) -> dict[str, str]:
    """Return the changed partitions before the window's end that no look-back reaches, with the reason."""
    end = max(partitions.index(key) for key in window)
    late = [key for key in partitions[:end] if key not in window and changed.get(key, -1) > applied.get(key, -1)]
    return dict.fromkeys(late, f"late beyond the look-back of {lookback}")
