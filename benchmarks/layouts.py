"""Queries by the layout of a table against queries of the same rows in no order; and what a layout costs at the write.

Ours: the rows in partitions, in order, in buckets, with Bloom filters, aggregated beforehand, or listed by a manifest.
Theirs: the same rows in as many files as they came in, in no order.

Fair, because both sides are tables of the library, read by ``Table.read`` in one session at a pinned version, and their
rows are compared in the first round. The work tells most: files that a scan opens, rows that come out of it, and
Exchanges of the plan do not depend on the machine. Nothing is warm but the log. A layout is paid at the write, where
the last lines compare it with a plain append of the same rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.schema import Column, TableLayout, TableSpec
from dedp_assets.patterns.delta import Layout, Table
from dedp_assets.patterns.storage.bucket import Bucketed, join_buckets, lay_out, read_keys
from dedp_assets.patterns.storage.manifest import ListedFiles, write_manifest
from dedp_assets.patterns.storage.sorter import sort_files
from tests.scans import exchanges, scanned

__all__ = ["run"]

_COLUMNS = {
    "visit": Column("STRING", required=True),
    "user": Column("STRING", required=True),
    "minute": Column("BIGINT", required=True),
    "page": Column("BIGINT", required=True),
    "bytes": Column("BIGINT"),
    "day": Column("DATE", required=True),
}
_PLAIN = TableSpec("silver/visits", _COLUMNS)
_BY_DAY = replace(_PLAIN, partition_by=("day",))
_BLOOM = replace(_PLAIN, layout=TableLayout(bloom={"visit": 50_000}))
_UNCOUNTED = replace(_PLAIN, properties={"delta.dataSkippingNumIndexedCols": "0"})
_BY_USER = Layout(by=("user",), buckets=16)
_BUCKETED = replace(_PLAIN, layout=TableLayout(buckets=_BY_USER))
_USERS = TableSpec(
    "silver/users",
    {"user": Column("STRING", required=True), "plan": Column("STRING")},
    layout=TableLayout(buckets=_BY_USER),
)
_DAYS, _FIRST = 100, "DATE '2026-01-05'"
Query = Callable[[], DataFrame]


def run(*, quick: bool) -> list[Row]:
    """Measure the queries first, then the writes."""
    session, home = SparkEngine().session, settings().home
    session.conf.set("spark.sql.adaptive.enabled", "false")  # a stage of a query that adapts hides its scans
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    lake = _Lake(session, home, *((400, 4) if quick else (1_000_000, 100)))
    return [*_queries(lake), *([] if quick else _writes(lake))]


class _Lake:
    """The same visits in each layout, each table written once."""

    def __init__(self, session: SparkSession, home: Path, rows: int, files: int) -> None:
        self.session, self.home, self.count, self.files = session, home, rows, files

    def rows(self) -> DataFrame:
        """Visits in no order, in as many parts as a table has files."""
        spread = "pmod(xxhash64(id), 1000000)"
        return self.session.range(0, self.count, 1, self.files).selectExpr(
            "concat('visit ', xxhash64(id)) AS visit",
            f"concat('user ', {spread} % 20000) AS user",
            f"{spread} AS minute",
            "pmod(xxhash64(id, 7), 1000000) AS page",
            "id % 60000 AS bytes",
            f"date_add({_FIRST}, CAST(id % {_DAYS} AS INT)) AS day",
        )

    def written(self, name: str, spec: TableSpec, *, by: str = "") -> Table:
        """Write the visits to a table of their own."""
        table = Table(spec, self.home / name, self.session)
        rows = self.rows().repartition(2, by) if by else self.rows()
        table.overwrite(rows, provenance=table.target("benchmark").run)
        return table

    def sorted(self, name: str, curve: str) -> Table:
        """Write the visits, and sort them into as many files."""
        table = self.written(name, _PLAIN)
        size = sum(each["size_bytes"] for each in table.ledger.state().files())
        sort_files(
            table.target("benchmark"),
            by=["minute", "page"],
            curve=curve,  # type: ignore[arg-type]
            target_bytes=size // self.files + 1,
        )
        return table

    def bucketed(self) -> tuple[Table, Table]:
        """Write visits and their users in buckets."""
        visits, users = (
            Table(_BUCKETED, self.home / "buckets", self.session),
            Table(_USERS, self.home / "users", self.session),
        )
        lay_out(self.rows(), visits.target("benchmark"), layout=_BY_USER)
        known = self.session.range(20_000).selectExpr("concat('user ', id) AS user", "concat('plan ', id % 3) AS plan")
        lay_out(known, users.target("benchmark"), layout=_BY_USER)
        return visits, users


def _queries(lake: _Lake) -> list[Row]:
    plain, visits, users = lake.written("plain", _PLAIN), *lake.bucketed()
    by_day = lake.written("by-day", _BY_DAY, by="day")
    hilbert, lexicographic = lake.sorted("hilbert", "hilbert"), lake.sorted("lexicographic", "lexicographic")
    hashed = lake.written("bloom", _BLOOM)
    four_days, minute = f"day < date_add({_FIRST}, 4)", "minute BETWEEN 5000 AND 9999"
    page, one, nobody = "page BETWEEN 5000 AND 9999", "user = 'user 7'", "visit = 'visit 5'"
    keys = [{"user": "user 7"}]
    measure = partial(_measured, lake.session)
    return [
        measure("4 of 100 days", by_day=_where(by_day, four_days), plain=_where(plain, four_days)),
        measure("a range of the first sort column", hilbert=_where(hilbert, minute), plain=_where(plain, minute)),
        measure(
            "a range of the second sort column",
            hilbert=_where(hilbert, page),
            lexicographic=_where(lexicographic, page),
        ),
        measure("a value that no file has", bloom=_where(hashed, nobody), plain=_where(plain, nobody)),
        measure(
            "a user",
            buckets=lambda: read_keys(Bucketed(visits, _BY_USER), keys=keys).selectExpr(*_COLUMNS),
            plain=_where(plain, one),
        ),
        measure(
            "visits joined to 20,000 users",
            buckets=lambda: _joined(
                join_buckets(Bucketed(visits, _BY_USER), Bucketed(users, _BY_USER, columns=["plan"]))
            ),
            shuffled=lambda: _joined(plain.read().join(users.read().select("user", "plan"), "user")),
        ),
        measure("visits by user and day", **_materialized(lake, plain)),
        _listed(plain),
    ]


def _where(table: Table, condition: str) -> Query:
    return lambda: table.read().where(condition).selectExpr(*_COLUMNS)


def _joined(rows: DataFrame) -> DataFrame:
    return rows.groupBy("plan").sum("bytes")


def _materialized(lake: _Lake, plain: Table) -> Mapping[str, Query]:
    """The sums of 100 users, from a table of all sums and from the visits."""
    spec = TableSpec("gold/sums", {"user": Column("STRING"), "day": Column("DATE"), "bytes": Column("BIGINT")})
    table = Table(spec, lake.home / "sums", lake.session)
    some = "user LIKE 'user 77%'"

    def computed() -> DataFrame:
        return plain.read().groupBy("user", "day").agg({"bytes": "sum"}).toDF("user", "day", "bytes")

    table.overwrite(computed(), provenance=table.target("benchmark").run)
    return {"materialized": lambda: table.read().where(some), "view": lambda: computed().where(some)}


def _measured(session: SparkSession, case: str, **sides: Query) -> Row:
    """Let two queries take turns, once their rows were compared."""
    first, second = (sorted(map(tuple, query().collect()), key=repr) for query in sides.values())
    assert first == second

    def counted(query: Query) -> Mapping[str, float]:
        rows = query()
        files, found, _ = scanned(rows, "numFiles", "numOutputRows")
        return {"files": files, "rows out of scans": found, "exchanges": exchanges(rows)}

    work = {name.replace("_", " "): _timed(partial(counted, query)) for name, query in sides.items()}
    return compare(case, *interleave(work, rounds=5, warm_up=1, counters=Counters(session)))


def _timed(work: Callable[[], Mapping[str, float] | None]) -> Callable[[int], Mapping[str, float] | None]:
    return lambda _: work()


def _listed(table: Table) -> Row:
    """DuckDB by the manifest against delta-rs by the log: the sum of a column, each opened for the first time."""
    write_manifest(table)
    found: dict[str, object] = {}

    def by_manifest() -> None:
        query = f"SELECT sum(bytes) AS bytes FROM ({ListedFiles.at(table.location).duckdb_query()})"
        found["manifest"] = duckdb.execute(query).fetchall()[0][0]

    def by_log() -> None:
        opened = QueryBuilder().register("visits", DeltaTable(str(table.location)))
        rows = pa.table(opened.execute("SELECT sum(bytes) AS bytes FROM visits"))
        found["log"] = rows["bytes"][0].as_py()

    sides = interleave({"manifest": _timed(by_manifest), "log": _timed(by_log)}, rounds=7, warm_up=1)
    assert found["manifest"] == found["log"]
    return compare("the sum of a column, by DuckDB and by delta-rs", *sides)


def _writes(lake: _Lake) -> list[Row]:
    """Each layout's write against a plain one of the same rows, each to a table of its own."""
    numbers = itertools.count()

    def written(spec: TableSpec, by: str = "") -> None:
        lake.written(f"write-{next(numbers)}", spec, by=by)

    def bucketed() -> None:
        table = Table(_BUCKETED, lake.home / f"write-{next(numbers)}", lake.session)
        lay_out(lake.rows(), table.target("benchmark"), layout=_BY_USER)

    def in_order() -> None:
        lake.sorted(f"write-{next(numbers)}", "hilbert")

    ways: Mapping[str, Callable[[], None]] = {
        "statistics of no column": partial(written, _UNCOUNTED),
        "a Bloom filter": partial(written, _BLOOM),
        "100 partitions": partial(written, _BY_DAY, "day"),
        "16 buckets": bucketed,
        "sorted along Hilbert's curve": in_order,
    }
    return [_write(name, way, partial(written, _PLAIN)) for name, way in ways.items()]


def _write(name: str, way: Callable[[], None], plain: Callable[[], None]) -> Row:
    sides = interleave({name: _timed(way), "plain": _timed(plain)}, rounds=3, warm_up=1)
    return compare(f"write: {name}", *sides)
