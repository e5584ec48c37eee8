"""How late changes arrive: change data capture against a full reload of the table, again and again.

Ours: ``capture_changes`` in a loop. Each call appends what was committed since the last one to the history of users and
merges it into their present rows; the lag is shown for either table.
Theirs: ``load_full`` of the same table in a loop. Polling by ``changed_at`` would be cheaper and is no alternative: it
never sees a deleted user.

Fair, because both follow the same steps of the same seeded workload at the same rate, in one warm session, with nothing
between one call and the next. The lag of a change is the time of the Delta commit that holds it less the time of its
commit by PostgreSQL's own log, for both sides, all clocks being the same; changes count, not transactions. After each
round what the side wrote equals the source. The users are few (5,000 at first; the workload lists them in every step),
which favours the reload: it costs as much as the table is large, and how much that is for 1,000,000 rows shows the
benchmark ``increment``. CPU holds the workload's own, equal for both; neither loop ever rests, so CPU and wall of a
round say how much each side did after the last step rather than what it needs.
"""

from __future__ import annotations

import itertools
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import database
from benchmarks.measure import Counters, Row, Sample, Side, compare, explain, timed
from dedp_assets.case_study.defs.bronze.users import HISTORY, KEYS, USERS
from dedp_assets.case_study.sources.operational import USERS as SOURCE
from dedp_assets.case_study.sources.operational import USERS_SLOT, work
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.ingestion.change_data_capture import capture_changes
from dedp_assets.patterns.ingestion.full_loader import load_full

__all__ = ["run"]

_PER_SECOND = 20
_USERS = """
INSERT INTO users
SELECT 's' || n, 's' || n || '@login', NULL, CASE n % 3 WHEN 0 THEN 'short' WHEN 1 THEN repeat(md5(n::text), 156) END,
       n % 1000, true, now(), now()
FROM generate_series(1, 5000) AS n
"""
_STEP = re.compile(r"u(\d+)-")

Arrivals = Sequence[tuple[int, float]]
"""Up to which position (of the log, or of the workload) a table is written -> when it was, ascending."""


def run(*, quick: bool) -> list[Row]:
    """Measure the lag to both tables that a capture writes."""
    with database.running() as operational, operational.connect(autocommit=True) as connection:
        connection.execute(_USERS)
        loops = _Loops(SparkEngine().session, operational)
        seconds, rounds, warm_up = (1, 1, 1) if quick else (25, 2, 6)
        loops.warm_up(warm_up)
        turns = [loops.turn(number, seconds=seconds) for number in range(rounds)]
        steps = loops.steps()
        why = "" if quick else loops.explained()
    reloaded = _by_workload(loops.whole)
    rows: list[Row] = []
    for table in (loops.history, loops.latest):
        ours = _judged("capture", [turn["ours"] for turn in turns], _lags(steps, _by_log(table), "commit_lsn"))
        theirs = _judged("full reload", [turn["theirs"] for turn in turns], _lags(steps, reloaded, "number"))
        row = compare(f"lag to {table.name}, {_PER_SECOND} transactions/s for {rounds} x {seconds} s", ours, theirs)
        row.why = "" if rows else why
        row.reached = ", ".join(f"{part} {_ratio(ours, theirs, f's {part}')}" for part in ("p50", "p95"))
        rows.append(row)
    return rows


@dataclass(frozen=True, slots=True)
class _Step:
    """One transaction of the workload: its number, and what PostgreSQL's log says about it."""

    number: int
    commit_lsn: int
    committed_at: float
    changes: int


@dataclass(frozen=True, slots=True)
class _Turn:
    """One side in one round, and the steps that were done meanwhile."""

    sample: Sample
    steps: range


class _Loops:
    """Both loops over the same source."""

    def __init__(self, session: SparkSession, operational: OperationalDatabase) -> None:
        self.session, self.operational, self.runs = session, operational, itertools.count()
        specs = (HISTORY, USERS, replace(USERS, name="bronze/users_whole"))
        self.history, self.latest, self.whole = (Table(s, Path(settings().lake) / s.name, session) for s in specs)
        self.counters = Counters(session)

    def turn(self, number: int, *, seconds: float) -> dict[str, _Turn]:
        """Let each side follow the workload for some seconds, and then until it holds everything."""
        sides = [("ours", self.capture, self.latest), ("theirs", self.reload, self.whole)]
        found = {}
        for name, load, target in sides if number % 2 == 0 else sides[::-1]:
            self.capture()  # neither side begins with what the other one left
            before = self._steps_done()
            sample = timed(lambda load=load: self._follow(load, seconds), counters=self.counters)  # type: ignore[misc]
            self._require_equal(target)
            found[name] = _Turn(sample, range(before + 1, self._steps_done() + 1))
            assert len(found[name].steps) == int(seconds * _PER_SECOND), "the workload broke off"
        self.capture()
        return found

    def explained(self) -> str:
        """Where the time of a capture goes."""
        self.work(_PER_SECOND)
        inside = ["resume", "peek", "stage_rows", "publish", "apply_changes", "misfits", "merge", "rewrite"]
        return "one capture of a second's changes, " + explain(self.capture, inside)

    def warm_up(self, times: int) -> None:
        """Let the compiler of the JVM see both sides: a capture has the longer way."""
        for number in range(times):
            self.work(_PER_SECOND)
            self.capture()
            if number % 2:
                self.reload()

    def work(self, steps: int) -> None:
        """Some steps of the workload at once."""
        with self.operational.connect(autocommit=True) as connection:
            work(connection, at=Clock().now(), steps=steps)

    def capture(self) -> None:
        """One capture."""
        run = Provenance(asset=HISTORY.name, run_id=f"capture-{next(self.runs)}")
        source = self.operational.table(SOURCE, slot=USERS_SLOT)
        capture_changes(source, self.history.target(run), self.latest.target(run), keys=KEYS)

    def reload(self) -> None:
        """One full load."""
        run_id = f"reload-{next(self.runs)}"
        run = Provenance(asset=self.whole.name, run_id=run_id, inputs={SOURCE: run_id})
        load_full(self._source(), self.whole.target(run))

    def steps(self) -> list[_Step]:
        """Every step of the workload, as captured: each inserts users that bear its number."""
        number = "max(CAST(nullif(regexp_extract(key, '\"u([0-9]+)-', 1), '') AS BIGINT)) AS number"
        moment = "unix_micros(max(committed_at)) / 1e6D AS committed_at"
        changes = self.history.read().filter("operation IN ('insert', 'update', 'delete')").groupBy("commit_lsn")
        found = changes.agg(F.expr(number), F.expr(moment), F.expr("count(1) AS changes")).orderBy("commit_lsn")
        return [_Step(**row.asDict()) for row in found.collect()]

    def _follow(self, load: Callable[[], None], seconds: float) -> dict[str, float]:
        def follow() -> dict[str, float]:
            writer = Thread(target=self._write, args=(seconds,), daemon=True)
            writer.start()
            loads = 0
            while writer.is_alive():
                load()
                loads += 1
            load()
            return {"loads": loads + 1}

        return database.with_server(follow)

    def _write(self, seconds: float) -> None:
        with self.operational.connect(autocommit=True) as connection:
            began = time.perf_counter()
            for number in range(int(seconds * _PER_SECOND)):
                time.sleep(max(0.0, began + number / _PER_SECOND - time.perf_counter()))
                work(connection, at=Clock().now())

    def _steps_done(self) -> int:
        with self.operational.connect() as connection:
            found = connection.execute("SELECT coalesce(max(number), 0) FROM workload_steps").fetchone()
        assert found is not None
        return int(found[0])

    def _source(self) -> DataFrame:
        return self.session.read.format("jdbc").options(**self.operational.jdbc(), dbtable=SOURCE).load()

    def _require_equal(self, table: Table) -> None:
        content = digest(row_hash(fields_of(table.read(), USERS.columns)))
        there, here = (rows.selectExpr("count(1)", content).first() for rows in (self._source(), table.read()))
        assert there == here, (table.name, there, here)


def _by_log(table: Table) -> Arrivals:
    """When a table that follows PostgreSQL's log had come to which position of it."""
    records = [(commit.record, commit.timestamp.timestamp()) for commit in table.ledger.commits()]
    return [(record.sequence, at) for record, at in records if record and record.sequence is not None]


def _by_workload(table: Table) -> Arrivals:
    """When a table that was reloaded had come to which step: the newest users of its files bear its number."""
    found = []
    for commit in table.ledger.commits():
        files = [table.location / unquote(name) for name in commit.files_added]
        users = [user for file in files for user in pq.read_table(file, columns=["user_id"])["user_id"].to_pylist()]
        numbers = [int(step[1]) for step in map(_STEP.match, users) if step]
        found += [(max(numbers), commit.timestamp.timestamp())] if numbers else []
    return found


def _lags(steps: Sequence[_Step], arrivals: Arrivals, position: str) -> dict[int, list[float]]:
    """Step -> the lag of each of its changes, in seconds; without the steps that never arrived."""
    reached = [place for place, _ in arrivals]
    assert reached == sorted(reached)
    places = {step: bisect_left(reached, getattr(step, position)) for step in steps}
    arrived = {step: arrivals[place][1] for step, place in places.items() if place < len(arrivals)}
    return {step.number: [at - step.committed_at] * step.changes for step, at in arrived.items()}


def _judged(name: str, turns: Sequence[_Turn], lags: dict[int, list[float]]) -> Side:
    samples = []
    for turn in turns:
        found = [lag for step in turn.steps for lag in lags[step]]
        assert min(found) > -0.01, "a change was there before it was committed"
        parts = quantiles(found, n=20)
        figures = {"s p50": parts[9], "s p95": parts[18], "changes": len(found)}
        samples.append(replace(turn.sample, counters={**figures, **turn.sample.counters}))
    return Side(name, samples)


def _ratio(ours: Side, theirs: Side, what: str) -> str:
    found = [a.counters[what] / b.counters[what] for a, b in zip(ours.samples, theirs.samples, strict=True)]
    return f"{median(found):.2f}x [{min(found):.2f}-{max(found):.2f}]"
