"""Detection of complete deliveries in landing folders that are new or differ from the loaded content."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.watching import LoadedDelivery, TableWatch
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns.connectors.landing.deliveries import MARKED, Delivery, Ends
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.ingestion.readiness_marker import plan_ready

__all__ = ["Arrivals"]

_SLACK_NS = 2_000_000_000
_SETTLE_SECONDS = 1
"""How long a late file has to be left alone. One that grows later on is read again: its delivery is another then."""
_FULL_LOOK = timedelta(hours=1)
"""How often everything that is loaded is held against what lies there: a file that grows in place leaves its folder."""
_AT_ONCE = 100
"""Most loaded partitions that one look holds against what lies there; the next looks go on."""
_MOST_BYTES = 64 << 20
_STRAY = "lies in no partition's folder, so nobody reads it: move it"
_MANY = 1_000
"""Names of which it is quicker to list every key than to look at each."""


@dataclass(slots=True)
class Arrivals:
    """Cached state of one dataset of the landing zone.

    Attributes:
        dataset: folder of the landing zone.
        job: the job that loads a delivery.
        table: the table that loads it.
        ends: sign of a complete delivery.
        since: newest change of a folder that was seen, in ns since 1970.
        seen: folder -> when it changed, of those that changed about then.
        waiting: keys that are not loaded as they lie there.
        strange: folders that are no partition and files that are in none, and why.
        unusable: keys of complete deliveries that nobody can read as they are.
        began: when the full look began that is under way, or was the last.
        unlooked: loaded keys that it has not come to.
        rewritten: loaded keys whose files hold other bytes under the same names, sizes and times.
        sound: key -> when its files were touched last that still hold the bytes that were loaded.
        outdated: loaded keys that other code loaded.
    """

    dataset: str
    job: str
    table: LakeTable[...]
    ends: Ends = MARKED
    since: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    strange: dict[str, str] = field(default_factory=dict)
    unusable: set[str] = field(default_factory=set)
    began: datetime | None = None
    unlooked: list[str] = field(default_factory=list)
    rewritten: set[str] = field(default_factory=set)
    sound: dict[str, int] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)

    @property
    def strays(self) -> list[str]:
        """The files that lie in no partition."""
        return [name for name, why in self.strange.items() if why == _STRAY]

    def poll(
        self,
        landing: Landing,
        watch: TableWatch,
        news: Collection[str],
        now: datetime,
        *,
        thorough: bool = False,
        code_version: str = "",
    ) -> Plan:
        """Plan the ready deliveries, from folders that changed since the last poll or are still waiting.

        Once an hour, what is loaded is held against what lies there, some partitions at each look. A delivery that was
        loaded by other code is one that is not loaded.

        Args:
            landing: the landing zone.
            watch: the table's log.
            news: partition keys that were written or rolled back since the last look.
            now: current time, with time zone.
            thorough: whether all that is loaded is held against what lies there at once.
            code_version: version of the code that loads now; that of the table's declaration if empty.
        """
        try:
            return self._plan(landing, watch, news, now, thorough=thorough, present=code_version)
        except Exception:
            # What was taken in before the error would be passed over the next time.
            self.since, self.seen, self.waiting, self.strange, self.began, self.unlooked = 0, {}, set(), {}, None, []
            raise

    def _plan(
        self,
        landing: Landing,
        watch: TableWatch,
        news: Collection[str],
        now: datetime,
        *,
        thorough: bool,
        present: str,
    ) -> Plan:
        present = present or self.table.code_version
        self.outdated = {key for key, each in watch.loaded.items() if each.code not in ("", present)}
        if self.table.runs.partitions is None:
            delivery = replace(landing.delivery(self.dataset, ends=self.ends, now=now), partition="")
            self.unusable = _unusable([delivery])
            known = {key: each.delivery for key, each in watch.loaded.items() if key not in self.outdated}
            return plan_ready([] if delivery.absent else [delivery], consumed=known, now=now)
        self.rewritten.difference_update(news)
        touched = self._touched(landing, watch, now) | self._changed(landing, watch, now, thorough=thorough)
        unloaded = [*(key for key in news if key not in watch.loaded), *sorted(self.outdated)[:_AT_ONCE]]
        days = self._days({*touched, *self.waiting, *unloaded}, now)
        found = list(landing.deliveries(self.dataset, days, ends=self.ends, now=now))
        unread = self.rewritten | self.outdated
        loaded = {day: watch.loaded[day].delivery for day in days if day in watch.loaded and day not in unread}
        rolled_back = watch.rolled_back.keys()
        deliveries = [each for each in found if not each.absent or each.partition in rolled_back]
        plan = plan_ready(deliveries, consumed=loaded, now=now, settle_seconds=_SETTLE_SECONDS)
        self.unusable = _unusable(deliveries)
        self.waiting = {*plan.partitions, *plan.held}
        return plan

    def _touched(self, landing: Landing, watch: TableWatch, now: datetime) -> set[str]:
        """List the folders changed since the last poll; on the first poll, since the load of each folder."""
        recent = dict(landing.touched(self.dataset, since_ns=self.since - _SLACK_NS, marker=self.ends.marker))
        touched = {name for name, changed_ns in recent.items() if self.seen.get(name) != changed_ns}
        if not self.since:
            self.strange = {}
            touched = {name for name in touched if not _is_older(recent[name], watch, name)}
        self.since = max([self.since, *recent.values()])
        quiet_since_ns = now.timestamp() * 1e9 - _SLACK_NS
        # A change in the moment of a look may leave the time as it was: only what has settled is not looked at again.
        self.seen = {n: changed for n, changed in recent.items() if self.since - _SLACK_NS <= changed < quiet_since_ns}
        return touched

    def _changed(self, landing: Landing, watch: TableWatch, now: datetime, *, thorough: bool) -> set[str]:
        """List loaded keys whose delivery differs from the loaded content, in the next part of the full check."""
        if thorough or (not self.unlooked and (self.began is None or now - self.began >= _FULL_LOOK)):
            self.began, self.unlooked = now, sorted(watch.loaded)
            known = {name: why for name, why in self.strange.items() if why != _STRAY}
            self.strange = known | dict.fromkeys(landing.stray(self.dataset, self.ends), _STRAY)
        changed: set[str] = set()
        compared, read = 0, 0
        left = [key for key in self.unlooked if key in watch.loaded]
        keys = left[::-1][: None if thorough else _AT_ONCE]  # the newest first
        for key, delivery in zip(keys, landing.deliveries(self.dataset, keys, ends=self.ends, now=now), strict=True):
            if read >= _MOST_BYTES and not thorough:
                break
            compared, loaded = compared + 1, watch.loaded[key]
            if delivery.identity != loaded.delivery:
                changed.add(key)
            elif self._is_suspicious(landing, key, delivery, loaded):
                read += sum(file.size_bytes for file in delivery.files)
                if not landing.holds(self.dataset, delivery, loaded.content):
                    changed.add(key)
                    self.rewritten.add(key)
        self.unlooked = left[: len(left) - compared]
        return changed

    def _is_suspicious(self, landing: Landing, key: str, delivery: Delivery, loaded: LoadedDelivery) -> bool:
        """Return whether a file was written or renamed after the loading run began, so the content may differ."""
        if not (loaded.at and loaded.content):
            return False
        written = landing.written(self.dataset, delivery)
        before = self.sound.get(key, int(datetime.fromisoformat(loaded.at).timestamp() * 1e9))
        self.sound[key] = max(before, written)
        return written > before

    def _days(self, names: set[str], now: datetime) -> list[str]:
        """Return the folder names that are partitions, and note a reason for every other name."""
        # A rule of the declaration: what lands by partition lands by time.
        partitions = cast("dg.TimeWindowPartitionsDefinition", self.table.runs.partitions)
        with dg.partition_loading_context(effective_dt=now):
            if len(names) > _MANY:
                days = sorted(names.intersection(partitions.get_partition_keys()))
            else:
                days = sorted(name for name in names if _is_key(partitions, name))
        first = partitions.start.strftime(partitions.fmt)
        self.strange |= dict.fromkeys(names - set(days), f"is no day between {first} and today")
        self.strange = {name: why for name, why in self.strange.items() if name not in days}
        return days


def _unusable(deliveries: Iterable[Delivery]) -> set[str]:
    """Return the keys of deliveries whose producer has finished, and that are refused."""
    return {each.partition for each in deliveries if each.marker is not None and each.refusal()}


def _is_older(changed_ns: int, watch: TableWatch, key: str) -> bool:
    """Return whether a folder last changed before the start of the run that loaded the folder."""
    began = watch.loaded[key].at if key in watch.loaded else ""
    return bool(began) and changed_ns < datetime.fromisoformat(began).timestamp() * 1e9 - _SLACK_NS


def _is_key(partitions: dg.TimeWindowPartitionsDefinition, name: str) -> bool:
    try:
        return partitions.has_partition_key(name)
    except ValueError:
        return False
