"""Late data brought into the partitions it belongs to: exactly those against a fixed look-back and a full rebuild.

Ours: ``plan_late_partitions`` over the two tables' logs, and each partition that it names, with the current one.

Theirs: the look-back of 15 days that the source of the pattern describes, which processes every day of it whether or
not anything came late; and the full rebuild of all days in one job.

Fair, because all sides compute the same aggregate by the same query in one session, over the same upstream version, and
publish by the same ``Table.stage(...).publish()``. Before each round one day comes in and three past ones get 1 % more
rows, all of them within the look-back, so that in the end the three tables hold the same. The wider the late data lies
and the more days there are, the more the other two read; what is older than 15 days the look-back would lose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta
from itertools import count

from pyspark.sql import SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from dedp_assets.patterns.error_management.static_late_data_integrator import plan_lookback

__all__ = ["run"]

_FIRST = date(2026, 1, 1)
_VISITS = TableSpec(
    "silver/visits",
    {"visit_id": Column("BIGINT"), "page": Column("STRING"), "bytes": Column("BIGINT"), "event_date": Column("DATE")},
    partition_by=("event_date",),
)
_VIEWS = TableSpec(
    "gold/views",
    {"page": Column("STRING"), "views": Column("BIGINT"), "bytes": Column("BIGINT"), "event_date": Column("DATE")},
    partition_by=("event_date",),
)
_AUDITS = (Audit(name="every_visit_is_counted", of="visits", sql="sum(views)", fail_below=0),)
_QUERY = "SELECT page, count(1) AS views, sum(bytes) AS bytes, event_date FROM {visits} GROUP BY page, event_date"


class _World:
    """Days of visits, the tables that three ways of integration keep from them, and what they read for it."""

    def __init__(self, session: SparkSession, days: int, rows: int, late: Sequence[int], lookback: int) -> None:
        self.late, self.lookback = late, lookback
        home = settings().home / f"late-{days}-{rows}"
        self.visits = Table(_VISITS, home / "visits", session)
        self.tables = {name: Table(_VIEWS, home / name, session) for name in ("dynamic", "look-back", "rebuild")}
        self.rows, self.runs, self.days = rows, count(1), [_FIRST + timedelta(days=n) for n in range(days)]
        self._land(dict.fromkeys(self.days, rows))
        for table in self.tables.values():
            self._rebuild(table)

    @property
    def today(self) -> str:
        """The day that regular processing works on."""
        return self.days[-1].isoformat()

    def land(self) -> None:
        """Bring in the next day, and late rows of some days before it."""
        self.days.append(self.days[-1] + timedelta(days=1))
        late = {self.days[-1 - ago]: self.rows // 100 for ago in self.late}
        self._land({self.days[-1]: self.rows, **late})

    def dynamic(self, _: int) -> Mapping[str, float]:
        """Process the current day and the days that the logs name."""
        table = self.tables["dynamic"]
        late = plan_late_partitions(self._changed(), self._applied(table), current=self.today).partitions
        return self._process(table, [*late, self.today])

    def look_back(self, _: int) -> Mapping[str, float]:
        """Process the current day and the ones of the look-back before it."""
        table, keys = self.tables["look-back"], [day.isoformat() for day in self.days]
        plan = plan_lookback(
            self._changed(),
            self._applied(table),
            current=[self.today],
            partitions=keys,
            lookback=self.lookback,
            only_changed=False,
        )
        return self._process(table, plan.partitions)

    def rebuild(self, _: int) -> Mapping[str, float]:
        """Process all days in one job."""
        return self._rebuild(self.tables["rebuild"])

    def digests(self) -> set[str]:
        """Tell the contents of the three tables apart."""
        sql = "concat(count(1), ' ', bit_xor(xxhash64(page, views, bytes, event_date)))"
        return {table.read().selectExpr(sql).collect()[0][0] for table in self.tables.values()}

    def _land(self, days: Mapping[date, int]) -> None:
        number, session = next(self.runs), self.visits.session
        parts = [
            session.range(0, rows, 1, 1).selectExpr(
                f"id + {number}000000000 AS visit_id",
                "concat('/posts/', id % 200) AS page",
                "id % 60000 AS bytes",
                f"DATE '{day}' AS event_date",
            )
            for day, rows in days.items()
        ]
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionByName(part)
        self.visits.append(frame, provenance=Provenance(asset=_VISITS.name, run_id="land", sequence=number))

    def _changed(self) -> dict[str, int]:
        _, changes = self.visits.ledger.changes()
        return {str(dict(partition)["event_date"]): version for partition, version in changes.items()}

    def _applied(self, table: Table) -> dict[str, int]:
        cursors = table.ledger.transactions()
        whole = cursors.applied(table.name, {}) or -1
        found = {key: cursors.applied(table.name, {"event_date": key}) for key in self._changed()}
        return {key: max(version or -1, whole) for key, version in found.items()}

    def _process(self, table: Table, keys: Collection[str]) -> dict[str, float]:
        return {"rows read": sum(self._compute(table, {"event_date": key}) for key in keys), "days": len(keys)}

    def _rebuild(self, table: Table) -> dict[str, float]:
        return {"rows read": self._compute(table, {}), "days": len(self.days)}

    def _compute(self, table: Table, partition: Mapping[str, str]) -> float:
        version = self.visits.ledger.version()
        pinned = self.visits.read(partition, version=version) if partition else self.visits.read(version=version)
        rows, seen = tally(pinned, identity=["visit_id"])
        views = table.session.sql(_QUERY, visits=rows)
        provenance = Provenance(
            asset=table.name, run_id=f"run-{next(self.runs)}", inputs={_VISITS.name: version}, sequence=version
        )
        known = RowsRead(tally=seen, represented="visits")
        staged = table.stage(views, partition=partition, provenance=provenance, audits=_AUDITS, rows_read=known)
        return float(staged.publish().rows.read)


def run(*, quick: bool) -> list[Row]:
    """Measure a month, and a quarter."""
    session = SparkEngine().session
    if quick:
        return _measure(_World(session, 3, 200, late=(1, 2), lookback=2))
    sizes = ((30, 50_000), (90, 20_000))
    return [row for days, rows in sizes for row in _measure(_World(session, days, rows, late=(2, 5, 11), lookback=15))]


def _measure(world: _World) -> list[Row]:
    days = len(world.days)
    sides: dict[str, Callable[[int], Mapping[str, float]]] = {
        "dynamic": world.dynamic,
        f"look-back of {world.lookback}": world.look_back,
        "full rebuild": world.rebuild,
    }
    dynamic, fixed, rebuilt = interleave(
        sides, rounds=3, warm_up=1, before=lambda _: world.land(), counters=Counters(world.visits.session)
    )
    assert len(world.digests()) == 1
    case = f"{days} days of {world.rows:,} rows, {len(world.late)} late"
    return [
        compare(f"{case}, against the look-back", dynamic, fixed),
        compare(f"{case}, against all", dynamic, rebuilt),
    ]
