"""Bulk requests that keep each entity's order against one request for each record.

Ours: ``deliver_in_bins``, the n-th record of every entity in one request. Theirs: ``deliver_in_order``, one record
after the other, each acknowledged before the next.

Fair, because both deliver the same rows to the same HTTP service over the loopback interface, which knows records by
their id and answers for each, and both note a receipt for each record in a Delta table in one commit. After each round
the entities' records stand in the same order in both inboxes. A real service is further away: a request costs more.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import uvicorn
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Row, compare, interleave
from dedp_assets.case_study.sources.services import application
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.connectors.delivery.http_sink import HttpSink
from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
from dedp_assets.patterns.connectors.web.http import Patience, Service
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.value.bin_pack_orderer import deliver_in_bins
from dedp_assets.patterns.value.fifo_orderer import RecordColumns, deliver_in_order
from tests.faults.processes import wait_until

__all__ = ["run"]

_SPEC = TableSpec("platform/delivered", {"event_date": Column("DATE"), **RECEIPT}, partition_by=("event_date",))
_FIRST = date(2026, 1, 5)
_NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)


def run(*, quick: bool) -> list[Row]:
    """Measure few and many records for each entity."""
    session, home = SparkEngine().session, settings().home
    sizes = ((20, 5),) if quick else ((5_000, 500), (5_000, 50))
    url = _served()
    return [_measure(session, home, url, count, entities) for count, entities in sizes]


def _served() -> str:
    """Serve the HTTP services in a thread of this process, until it ends; returns their URL."""
    server = uvicorn.Server(uvicorn.Config(application(), port=0, ws="none", log_config=None))
    Thread(target=server.run, daemon=True).start()
    assert wait_until(lambda: server.started, seconds=60)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def _measure(session: SparkSession, home: Path, url: str, count: int, entities: int) -> Row:
    sink = HttpSink(Service(f"{url}/partners", Patience(lambda: _NOW)))
    record = RecordColumns(identity="id", order_by=["at"], entity="page")

    def rows(inbox: str) -> DataFrame:
        columns = (
            "CAST(id AS STRING) AS id",
            f"concat('/', id % {entities}) AS page",
            "id AS at",
            f"'{inbox}' AS inbox",
        )
        return session.range(0, count, 1, 2).selectExpr(*columns)

    def bins(inbox: str, receipts: Table, day: Mapping[str, str]) -> Mapping[str, float]:
        made = Provenance(asset=receipts.name, run_id=inbox)
        done = deliver_in_bins(
            rows(inbox), receipts.target(made, partition=day), sink, destination="inbox", columns=record
        )
        return {"requests": done.figures["requests"]}

    def one_by_one(inbox: str, receipts: Table, day: Mapping[str, str]) -> Mapping[str, float]:
        made = Provenance(asset=receipts.name, run_id=inbox)
        done = deliver_in_order(
            rows(inbox), receipts.target(made, partition=day), sink, destination=inbox, columns=record
        )
        return {"requests": done.figures["requests"]}

    case = f"{count}-{entities}"
    sides = interleave(
        {
            "bins": _numbered(bins, f"bins-{case}", Table(_SPEC, home / f"bins-{case}", session)),
            "one by one": _numbered(one_by_one, f"single-{case}", Table(_SPEC, home / f"single-{case}", session)),
        },
        rounds=5,
        warm_up=1,
    )
    assert _by_entity(url, f"bins-{case}-0", count) == _by_entity(url, f"single-{case}-0", count)
    return compare(f"{count:,} records of {entities} entities", *sides, at_most=0.5 if count >= 5_000 else None)


def _numbered(
    deliver: Callable[[str, Table, Mapping[str, str]], Mapping[str, float]], name: str, receipts: Table
) -> Callable[[int], Mapping[str, float]]:
    """Give each execution an inbox and a day of its own, so that nothing was delivered before."""
    numbers = itertools.count()

    def work(_: int) -> Mapping[str, float]:
        number = next(numbers)
        return deliver(f"{name}-{number}", receipts, {"event_date": (_FIRST + timedelta(days=number)).isoformat()})

    return work


def _by_entity(url: str, inbox: str, count: int) -> Mapping[str, list[str]]:
    """List the ids that an inbox took, in order, by entity."""
    found, after = defaultdict[str, list[str]](list), 0
    while after < count:
        with urlopen(f"{url}/partners/{inbox}?after={after}", timeout=60) as reply:  # noqa: S310 - our own service
            taken = json.loads(reply.read())["records"]
        assert taken
        after += len(taken)
        for record in taken:
            found[record["key"]].append(record["id"])
    return found
