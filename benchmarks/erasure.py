"""Removal of persons, and rows by policy, against what they replace.

Ours: one of 10,000 persons erased from a table of days with its past; requests of many persons in one batch; a read by
a policy with a row filter and a mask; a read of a copy for the audience.
Theirs: the whole table written again; the same requests one by one; a plain read; a read by the policy.

Fair, because both sides change or read the same table in one session. Requests one by one are a tenth of the batch's,
which a line says: all of them would take minutes.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import SuppressionList, Table, store_at
from dedp_assets.patterns.governance.gdpr_erase import Erasure, erase_person
from dedp_assets.patterns.security.fine_grained_accessor_for_tables import ColumnMask, Policy, read_for, refresh_copy
from dedp_assets.patterns.security.in_place_overwriter import Removal, remove_rows

__all__ = ["run"]

_MANY, _PERSONS, _DAYS, _BATCH = 2_000_000, 10_000, 20, 1_000
_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
_KEY = MaskingKey("benchmark", bytes(range(32)))
_COLUMNS = {
    "id": Column("BIGINT", classification="public"),
    "person": Column("STRING", classification="personal", subject="user"),
    "amount": Column("DOUBLE", classification="public"),
    "day": Column("INT", classification="public"),
}
_POLICY = Policy("agency", ["id", "person", "amount", "day"], {"person": ColumnMask("partial")}, rows="amount >= 0.5")
_GOAL = 1.2


def run(*, quick: bool) -> list[Row]:
    """Measure the erasure of a person, a batch of removals, and reads by policy."""
    session, counters = SparkEngine().session, Counters(SparkEngine().session)
    count, days, batch = (2_000, 2, 20) if quick else (_MANY, _DAYS, _BATCH)
    rows = session.range(count).selectExpr(
        "id", f"concat('p', lpad(id % {_PERSONS}, 5, '0')) person", "rand(1) amount", f"CAST(id % {days} AS INT) day"
    )
    rows = rows.localCheckpoint()
    return [
        _erasure(session, rows, counters, count),
        _batch(session, rows, counters, batch),
        *_reads(session, rows, counters, count),
    ]


def _table(session: SparkSession, rows: DataFrame, name: str) -> Table:
    """Make a table of days with the rows."""
    table = Table(TableSpec(f"silver/{name}", _COLUMNS, ("day",)), settings().home / "benchmark" / name, session)
    table.overwrite(rows, provenance=Provenance(asset=table.name, run_id="made", at=_AT))
    return table


def _erasure(session: SparkSession, rows: DataFrame, counters: Counters, count: int) -> Row:
    table, other = _table(session, rows, "erased"), _table(session, rows, "rewritten")
    table.suppression = SuppressionList(store_at(settings().home / "benchmark" / "_suppressed"), _KEY)

    def erased(number: int) -> None:
        asked = Erasure(request=f"T-{number}", ids={"user": [f"p{number:05}"]}, at=_AT)
        run = Provenance(asset=table.name, run_id=f"erase-{number}", at=_AT + timedelta(days=1 + number))
        erase_person(asked, [table.target(run)], table.suppression or SuppressionList(table.store, _KEY))

    def rewritten(number: int) -> None:
        run = Provenance(asset=other.name, run_id=f"again-{number}", at=_AT + timedelta(days=1 + number))
        other.overwrite(rows.filter(f"person <> 'p{number:05}'"), provenance=run)

    sides = interleave({"erased": erased, "rewritten": rewritten}, rounds=3, warm_up=1, counters=counters)
    return compare(f"{count:,} rows, one of {_PERSONS:,} persons erased, its past purged", *sides)


def _batch(session: SparkSession, rows: DataFrame, counters: Counters, batch: int) -> Row:
    together, single, few = _table(session, rows, "batch"), _table(session, rows, "single"), max(batch // 10, 1)

    def asked(number: int, of: int) -> list[Removal]:
        return [Removal(request=f"R-{each}", id=f"p{(number * batch + each) % _PERSONS:05}") for each in range(of)]

    def removed(table: Table, requests: list[Removal], number: int) -> None:
        run = Provenance(asset=table.name, run_id=f"r-{number}-{requests[0].request}", at=_AT + timedelta(days=number))
        remove_rows(requests, table.target(run), key="person", now=_AT, most=1.0)

    def one_by_one(number: int) -> None:
        for each in asked(number, few):
            removed(single, [each], number)

    sides = interleave(
        {"batch": lambda number: removed(together, asked(number, batch), number), "one by one": one_by_one},
        rounds=1,
        warm_up=0,
        counters=counters,
    )
    return compare(f"{batch:,} requests in a batch, against {few:,} one by one", *sides)


def _reads(session: SparkSession, rows: DataFrame, counters: Counters, count: int) -> list[Row]:
    base = _table(session, rows, "read")
    copy = Table(TableSpec("serving/read", _COLUMNS), settings().home / "benchmark" / "copy", session)
    run = Provenance(asset=copy.name, run_id="copied", at=_AT)
    refresh_copy(base, copy.target(run), policies=[_POLICY], audience=_POLICY.audience)

    def read(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    plain, policy, copied = interleave(
        {
            "plain": lambda _: read(base.read()),
            "policy": lambda _: read(read_for(base, policies=[_POLICY], audience=_POLICY.audience)),
            "copy": lambda _: read(read_for(copy, policies=[_POLICY], audience=_POLICY.audience)),
        },
        rounds=7,
        warm_up=2,
        counters=counters,
    )
    return [
        compare(f"{count:,} rows read by a policy", policy, plain, at_most=_GOAL),
        compare(f"{count:,} rows, a copy for the audience against the policy", copied, policy),
    ]
