"""A sensor tick over a long history against the same tick over a history a tenth as long.

Ours and theirs are the same deployed sensors (``reconciler``, over the whole graph, and ``dead_letters_fixed``) with
what they remember of the tick before, in memory or by a cursor, over as many landing days, commits and partitions as
the side says. The logs are written by hand, with one checkpoint at their end, as the platform's commits leave one every
20 (one case shows a log without any). "A file", "a commit": before each round, one more landed, or bronze got one, for
a day that was processed long ago.

Fair, because nothing is mocked: real folders, a persistent Dagster instance, nothing remembered at a first tick. The
goal is absolute, CPU seconds of one tick over the long history; the ratio shows how a tick grows with the history. No
JVM may start.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from benchmarks.measure import Row, compare, explain, interleave
from benchmarks.zone import LAST_DAY, SILVER, Zone
from dedp_assets.graph.resources.environments import apply, settings

__all__ = ["run"]

_GOAL_SECONDS = 0.1
_GOAL_OF_THE_FIRST = 1.0
_LETTERS = 10
_RECENT = -30


def run(*, quick: bool) -> list[Row]:
    """Measure steady ticks, then ticks with something new."""
    long, short = (60, 31) if quick else (10_000, 1_000)
    home = settings().home
    zones = {
        f"{days:,} days": Zone(home / f"zone-{days}", landing, days)
        for days, landing in ((long, settings().landing), (short, home / "short-landing"))
    }
    for zone in zones.values():
        zone.dead_letters(_LETTERS)
        zone.checkpoint("silver/visits_dead_letter")
    apply({"DEDP_FIRST_DAY": min(zone.days[0] for zone in zones.values())})
    ticker = _Ticker()
    sensors = ("reconciler", "dead_letters_fixed")
    rows = [ticker.measure(sensor, zones, "nothing new") for sensor in sensors]
    once: dict[str, Any] = {"repeats": 1, "rounds": 3}
    for days, back in ((f"of {-_RECENT} days ago", _RECENT), ("of the oldest day", 0)):
        file = {**once, "before": lambda zone, number, back=back: zone.late_file(zone.days[back], number)}
        rows.append(ticker.measure("reconciler", zones, f"a file {days}", **file))
    commit = {**once, "before": lambda zone, _: zone.late_visit(zone.days[_RECENT])}
    without = "a commit, silver without a checkpoint"
    rows.append(ticker.measure("reconciler", zones, without, goal=False, **{**commit, "rounds": 1}))
    for zone in zones.values():
        zone.checkpoint(SILVER)
    rows.append(ticker.measure("reconciler", zones, "a commit, silver with a checkpoint", **commit))
    first: dict[str, Any] = {"repeats": 1, "rounds": 3, "warm_up": 0, "first": True}
    rows += [ticker.measure(sensor, zones, "the first tick of all", **first) for sensor in sensors]
    ticker.require_no_engine()
    return rows


def _forgetful() -> Any:  # noqa: ANN401 - Dagster is imported late
    """The reconciler as after a restart, in a process that has read no partition value yet."""
    from dedp_assets.case_study import defs
    from dedp_assets.graph.declare import declared
    from dedp_assets.graph.sensors.reconciler import reconciler
    from dedp_assets.patterns.core.types.partitions import logged

    logged.cache_clear()
    return reconciler(declared(defs), [])


class _Ticker:
    """Ticks deployed sensors over any zone."""

    def __init__(self) -> None:
        from pyspark import SparkContext

        from dedp_assets.laptop.orchestration.instance import Platform

        self.platform = Platform(settings())
        self.sensors = {s.name: s for s in self.platform.definitions.get_repository_def().sensor_defs}
        self.cursors: dict[tuple[str, Zone], str | None] = {}
        self.engines: list[Any] = []
        self.gateway = SparkContext._gateway

    def measure(
        self,
        sensor: str,
        zones: dict[str, Zone],
        what: str,
        *,
        before: Callable[[Zone, int], None] = lambda _zone, _number: None,
        goal: bool = True,
        first: bool = False,
        **often: int,
    ) -> Row:
        """One sensor over every zone in turns.

        A cursor is put back to the one of the steady state each time, which the sensor's own first tick left; a first
        tick has none, and a sensor that remembers nothing.
        """
        for zone in zones.values():
            known = self.cursors.pop((sensor, zone), None)
            self.cursors[sensor, zone] = None if first else known or self.tick(sensor, zone)

        def prepare(number: int) -> None:
            if first:
                self.forget(sensor)
            for zone in zones.values():
                before(zone, number)

        def work(zone: Zone, _: int) -> dict[str, float]:
            self.tick(sensor, zone)
            return {}

        sides = interleave(
            {name: partial(work, zone) for name, zone in zones.items()},
            before=prepare,
            rounds=often.get("rounds", 5),
            repeats=often.get("repeats", 5),
            warm_up=often.get("warm_up", 1),
        )
        row = compare(f"{sensor}, {what}", *sides)
        row.reached = f"{row.ours['cpu']:.3f} s"
        if goal:
            most = _GOAL_OF_THE_FIRST if first else _GOAL_SECONDS
            row.goal, row.met = f"<= {most:g} s CPU", row.ours["cpu"] <= most
        if row.ours["cpu"] > _GOAL_SECONDS:
            self.forget(sensor if first else "")
            inside = ["touched", "transactions", "glimpses", "first_restore", "applied", "settle"]
            row.why = explain(lambda: self.tick(sensor, next(iter(zones.values()))), inside)
        return row

    def forget(self, sensor: str) -> None:
        """Let a sensor remember nothing, if it remembers anything but a cursor."""
        if sensor == "reconciler":
            self.sensors[sensor] = _forgetful()

    def tick(self, name: str, zone: Zone) -> str | None:
        """One tick, from the steady state's cursor; returns the cursor it leaves."""
        import dagster as dg

        from dedp_assets.graph.resources.clock import Clock
        from dedp_assets.graph.resources.lake import Lake
        from dedp_assets.graph.resources.landing import Landing
        from dedp_assets.graph.resources.spark import SparkEngine

        engine = SparkEngine()
        resources = {
            "engine": engine,
            "lake": Lake(root=str(zone.lake), engine=engine),
            "landing": Landing(root=str(zone.landing)),
            "clock": Clock(fixed=f"{LAST_DAY + timedelta(days=1)}T12:00:00+00:00"),
        }
        with dg.build_sensor_context(
            instance=self.platform.instance,
            cursor=self.cursors.get((name, zone)),
            resources=resources,
            repository_def=self.platform.definitions.get_repository_def(),
        ) as context:
            after = self.sensors[name].evaluate_tick(context).cursor
        self.engines.append(engine)
        return str(after) if after else None

    def require_no_engine(self) -> None:
        """No tick started Spark: no session in any resource, no new gateway in this process."""
        from pyspark import SparkContext

        assert all(engine._spark_session is None for engine in self.engines)
        assert SparkContext._gateway is self.gateway
