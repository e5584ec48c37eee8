"""A join as of each fact's time against the same join by hand, over a history and one of ten times its length.

Ours: ``judge_reference`` over all versions, then ``join_static`` at the fact's time: a left join by key and validity.
Theirs: a left join by key to every version that began before the fact, numbered by a window for each fact, of which the
newest is kept. It relies on nothing but the begin of a version, and judges nothing.

Fair, because both read the same Parquet files in the same session, hand the same rows to the same sink, and what they
hold is compared.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.value.static_joiner import VALID, AsOf, join_static, judge_reference

__all__ = ["run"]

_DAY = 86_400_000
_START = 1_767_571_200_000
_VERSIONS = 4
_DIGEST = ("count(1)", "bit_xor(xxhash64(id, user_id, event_time, login))", "count(login)")


def run(*, quick: bool) -> list[Row]:
    """Measure a history, and one of ten times its length."""
    session, home = SparkEngine().session, settings().home
    facts, users = (200, 20) if quick else (500_000, 20_000)
    path = str(home / "facts")
    _facts(session, facts, users).write.parquet(path)
    return [_measure(session, home, path, users, times) for times in (1, 10)]


def _measure(session: SparkSession, home: Path, facts: str, users: int, times: int) -> Row:
    versions, path = _VERSIONS * times, str(home / f"users-{times}")
    _users(session, users, versions).write.parquet(path)

    def ours() -> DataFrame:
        reference = session.read.parquet(path)
        return join_static(
            session.read.parquet(facts),
            reference,
            keys={"user_id": "user_id"},
            columns={"login": "login"},
            judged=judge_reference(reference, keys=["user_id"], valid=VALID),
            as_of=AsOf("event_time"),
        )

    def theirs() -> DataFrame:
        known = session.read.parquet(path).alias("v")
        begun = F.expr("f.user_id = v.user_id AND v.valid_from <= f.event_time")
        joined = session.read.parquet(facts).alias("f").join(known, begun, "left")
        newest = Window.partitionBy("f.id").orderBy(F.col("v.valid_from").desc_nulls_last())
        numbered = joined.select("f.*", "v.login", F.row_number().over(newest).alias("place"))
        return numbered.filter("place = 1").drop("place")

    sides = interleave(
        {
            "judged and joined as of": lambda _: _consume(ours()),
            "joined, numbered, filtered": lambda _: _consume(theirs()),
        },
        rounds=5,
        warm_up=2,
        counters=Counters(session),
    )
    assert ours().selectExpr(*_DIGEST).collect() == theirs().selectExpr(*_DIGEST).collect()
    return compare(f"{versions} versions of each of {users:,} users", *sides, at_most=1)


def _consume(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _facts(session: SparkSession, count: int, users: int) -> DataFrame:
    """Make facts of one day; one user of eleven is unknown."""
    return session.range(0, count, 1, 2).selectExpr(
        "id",
        f"concat('u', abs(xxhash64(id)) % {users + users // 10}) AS user_id",
        f"timestamp_millis({_START} + abs(xxhash64(id, 1)) % {_DAY}) AS event_time",
    )


def _users(session: SparkSession, users: int, versions: int) -> DataFrame:
    """Make versions of users, spread over the day and the ones before it."""
    step = 2 * _DAY // versions
    begins = f"{_START - _DAY} + version * {step}"
    return (
        session.range(0, users * versions, 1, 2)
        .selectExpr("id", f"id % {users} AS user", f"id DIV {users} AS version")
        .selectExpr(
            "concat('u', user) AS user_id",
            "concat('login-', id) AS login",
            f"timestamp_millis({begins}) AS valid_from",
            f"if(version = {versions - 1}, NULL, timestamp_millis({begins} + {step})) AS valid_to",
        )
    )
