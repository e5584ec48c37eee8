"""An incremental load against a full load of the same database table.

Ours: ``load_increment`` of the day whose window holds the newest 0.5 % of the rows, by JDBC with two connections; the
database finds them by its index on the delta column, which every source of an incremental load should have.
Theirs: ``load_full`` of the whole table, by JDBC with two connections that share it evenly, into a table without
partitions.

Fair, because both read the same PostgreSQL in one warm session, audit and account for their rows in the same way and
are all that is needed to have the new rows. Every round adds another 0.5 % as a day of its own, so that both have work;
after every round both targets hold the same rows, and exactly the ids of the source. A full load also sees rows that
were deleted or changed; here, as in the table of legacy visits, there are none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
from pyspark.sql import SparkSession

from benchmarks import data, database
from benchmarks.measure import Counters, Row, compare, files_of, interleave
from dedp_assets.case_study.defs.bronze.legacy_visits import LEGACY_VISITS, SOURCE
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.ingestion.incremental_loader import load_increment

__all__ = ["run"]

_NEW_OF = 200
_WHOLE = TableSpec(
    "bronze/legacy_visits_whole", {name: c for name, c in LEGACY_VISITS.columns.items() if name != "ingested_on"}
)
_IDS = "count(1), sum(visit_id), sum(visit_id % 1009 * visit_id)"


def run(*, quick: bool) -> list[Row]:
    """Measure one size."""
    with database.running() as operational, operational.connect(autocommit=True) as connection:
        loads = _Loads(SparkEngine().session, operational, connection, *((400, 2) if quick else (1_000_000, 10)))
        sides = interleave(
            {"incremental load": loads.increment, "full load": loads.full},
            rounds=5,
            warm_up=2,
            before=loads.prepare,
            counters=Counters(loads.session),
        )
        loads.require_equal()
    return [compare(f"{loads.count:,} rows, {loads.count // _NEW_OF:,} new", *sides)]


class _Loads:
    """Both loads, and a source that grows by a day before every round."""

    def __init__(
        self,
        session: SparkSession,
        operational: OperationalDatabase,
        connection: psycopg.Connection[Any],
        count: int,
        days: int,
    ) -> None:
        self.session, self.operational, self.connection, self.count = session, operational, connection, count
        self.days, self.rows, self.loaded_days = 0, 0, days
        self.by_day, self.whole = (Table(s, Path(settings().lake) / s.name, session) for s in (LEGACY_VISITS, _WHOLE))
        for _ in range(days):
            self._grow(count // days)
            self._load_newest()

    def prepare(self, number: int) -> None:
        """Look at what the round before left, then add new rows."""
        if number:
            self.require_equal()
        self._grow(self.count // _NEW_OF)

    def increment(self, _: int) -> dict[str, float]:
        """Load the newest day."""
        return database.with_server(lambda: _figures(self.by_day, self._load_newest()))

    def full(self, _: int) -> dict[str, float]:
        """Load everything."""
        return database.with_server(lambda: _figures(self.whole, self._load_all()))

    def require_equal(self) -> None:
        """Both targets hold the same rows, which are the source's."""
        content = digest(row_hash(fields_of(self.whole.read(), _WHOLE.columns)))
        found = [table.read().selectExpr(*_IDS.split(", "), content).first() for table in (self.by_day, self.whole)]
        there = self.connection.execute(f"SELECT {_IDS} FROM {SOURCE}").fetchone()
        assert found[0] == found[1], found
        assert found[0] is not None
        assert there is not None
        assert [*found[0]][:3] == [int(value) for value in there], (found[0], there)

    def _grow(self, count: int) -> None:
        database.land_visits(self.connection, day=self.days, first=self.rows, count=count)
        self.days, self.rows = self.days + 1, self.rows + count

    def _load_newest(self) -> WriteResult:
        window, day = database.days(self.days - 1, self.days), data.day(self.days - 1)
        with self.operational.rows(self.session, SOURCE, column="ingestion_time", window=window) as rows:
            return load_increment(
                rows,
                self.by_day.target(
                    Provenance(asset=self.by_day.name, run_id=day, inputs={SOURCE: day}), partition={"ingested_on": day}
                ),
                delta="ingestion_time",
                window=window,
                keys=["visit_id"],
            )

    def _load_all(self) -> WriteResult:
        day, window = data.day(self.days - 1), database.days(0, self.loaded_days)
        run = Provenance(asset=self.whole.name, run_id=day, inputs={SOURCE: day})
        with self.operational.rows(self.session, SOURCE, column="ingestion_time", window=window) as rows:
            return load_full(rows, self.whole.target(run))


def _figures(table: Table, result: WriteResult) -> dict[str, float]:
    assert result.changed, result
    files = [table.location / unquote(name) for name in table.ledger.commit(result.version).files_added]
    return {"rows read": result.rows.read, **files_of({"size_bytes": file.stat().st_size} for file in files)}
