"""Backlogs: many partitions in one run, each with a separate commit and verdict.

A run costs seconds before its first partition. So of a table with more than a week of stale partitions, as at a first
load or after a change of its code, a run takes a month of them; each is committed, refused or failed by itself. What a
run left behind is asked for alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from dedp_assets.graph.declare.runs import Runs
from dedp_assets.graph.run.ordering import key_after

if TYPE_CHECKING:
    from dedp_assets.graph.reconcile.reconciling import Ask, Want

__all__ = ["Backlogs", "following", "spans"]

_FEW, _MOST = 7, 31
"""Partitions of a table that get runs of their own, and the most of one run."""


def following(runs: Runs, key: str) -> str:
    """Return the key after a partition, if one run may compute both; otherwise empty."""
    partitions = runs.partitions
    if not key or runs.at_once or not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return ""
    return key_after(partitions, key)


def spans(keys: Sequence[str], partitions: dg.TimeWindowPartitionsDefinition) -> list[list[str]]:
    """Divide partition keys, in order, into runs; in a backlog, neighbours share a run."""
    found: list[list[str]] = []
    for key in keys:
        last = found[-1] if found else []
        if last and len(keys) > _FEW and len(last) < _MOST and key_after(partitions, last[-1]) == key:
            last.append(key)
        else:
            found.append([key])
    return found


class Backlogs:
    """The runs of a plan that further partitions may join.

    Args:
        wants: what is not current.
    """

    def __init__(self, wants: Sequence[Want]) -> None:
        count = Counter(want.named for want in wants if want.following and want.state != "waiting")
        self._long = {name for name, number in count.items() if number > _FEW}
        self._open: dict[str, int] = {}

    @property
    def grows(self) -> bool:
        """``True`` if further partitions may join one of the runs."""
        return bool(self._open)

    def run_of(self, want: Want, tables: Sequence[str], asks: Sequence[Ask]) -> int | None:
        """Return the place of the run that a partition joins; ``None`` for a separate run."""
        place = self._open.get(want.named)
        if place is None:
            return None
        ask = asks[place]
        last = ask.wants[-1]
        fits = last.following == want.key and ask.tables == tuple(tables) and len(ask.wants) < _MOST
        return place if fits and _alike(last, want) else None

    def begin(self, want: Want, place: int, *, alone: bool) -> None:
        """Note a run that the partitions after the first one may join, unless that one is computed alone."""
        self._open.pop(want.named, None)
        if not alone and want.named in self._long and want.following and want.restored is None and not want.after:
            self._open[want.named] = place


def _alike(one: Want, other: Want) -> bool:
    """Return whether two partitions are computed for the same cause in the same way."""
    of_key: dict[str, Any] = {"key": "", "goal": "", "state": "", "reason": "", "following": ""}
    return replace(one, **of_key) == replace(other, **of_key)
