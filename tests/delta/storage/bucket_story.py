"""A story of one table, told at a location by a process with an engine of its own: rows and versions step by step.

``python -m tests.delta.storage.bucket_story LOCATION...`` prints them as JSON, for each location.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns import Audit, compact, merge_changes
from dedp_assets.patterns.core.buckets import Layout
from dedp_assets.patterns.core.errors import AuditFailed
from dedp_assets.patterns.core.layout import TableLayout
from dedp_assets.patterns.delta import Table, store_at
from dedp_assets.patterns.delta.maintenance import apply_layout, layout_differences
from dedp_assets.patterns.delta.maintenance.abandoned import Stages, discard_stage, remove_stages
from dedp_assets.patterns.delta.maintenance.vacuum import remove_unneeded
from dedp_assets.patterns.delta.storage.store import delta_table
from dedp_assets.patterns.storage.format_migration import append_both, migrate_format, read_by_name
from dedp_assets.patterns.storage.horizontal_partitioner import change_partitions
from tests.helpers import EVENTS, NOW, a_run, rows_at

DAY = {"event_date": "2026-01-05"}
ENOUGH = Audit(name="enough", of="written", fail_below=2)


def rows_of(
    spark: SparkSession, count: int, *, start: int = 0, day: str = "2026-01-05", amount: str = "id * 1.5D"
) -> Any:
    """As many rows for the table of the story."""
    return spark.range(start, start + count).selectExpr(
        "id", "concat('u', id) AS user_id", f"{amount} AS amount", f"DATE '{day}' AS event_date"
    )


def seen(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows in a stable order, as texts."""
    return sorted([[str(row[c]) for c in EVENTS.columns] for row in rows])


class Story:
    """The table at a location, and what was seen of it so far."""

    def __init__(self, location: str, spark: SparkSession) -> None:
        self.spark, self.store = spark, store_at(location)
        self.table = Table(EVENTS, self.store, spark)
        self.told: dict[str, Any] = {}

    def note(self, step: str, **facts: Any) -> None:
        """Note version, rows by deltalake, requests by the commit record, and what else is said of a step."""
        version = delta_table(self.store).version()
        commit = self.table.ledger.commit(version)
        record = commit.record or commit.maintenance
        known = record.cost.known if record and record.cost else {}
        sent = {name: number for name, number in known.items() if name.startswith("requests")}
        self.told[step] = {"version": version, "rows": seen(rows_at(self.store)), "requests": sent, **facts}

    def tell(self) -> dict[str, Any]:
        """Tell the story."""
        self.write()
        self.change()
        self.race()
        self.keep()
        self.repartition()
        self.lay_out()
        self.migrate()
        return self.told

    def write(self) -> None:
        """Creation, an overwrite with an audit, the same run again, and a refusal."""
        table = self.table
        first = table.overwrite(rows_of(self.spark, 5), partition=DAY, provenance=a_run(sequence=1), audits=[ENOUGH])
        done = [self.store.read(file.path) for file in self.store.files() if file.path.endswith("/_SUCCESS")]
        self.note("created", changed=first.changed, committers=[json.loads(text or "{}") for text in done])
        again = table.overwrite(
            rows_of(self.spark, 5), partition=DAY, provenance=a_run(sequence=1, run_id="run-2"), audits=[ENOUGH]
        )
        self.note("again", changed=again.changed)
        more = table.overwrite(rows_of(self.spark, 7), partition=DAY, provenance=a_run(sequence=2), audits=[ENOUGH])
        self.note("overwritten", changed=more.changed)
        try:
            table.overwrite(rows_of(self.spark, 1), partition=DAY, provenance=a_run(sequence=3), audits=[ENOUGH])
        except AuditFailed as refused:
            stage = store_at(str(refused.stage))
            staged = rows_at(stage)
            discard_stage(str(refused.stage))
            left = stage.name in self.store.list()
            self.note("refused", staged=len(staged), left=left, said="enough" in str(refused))

    def change(self) -> None:
        """A merge, appends and a compaction."""
        table = self.table
        changes = rows_of(self.spark, 4, start=5, amount="100D + id")
        merged = merge_changes(changes, table.target(a_run(sequence=4)), keys=["id"])
        self.note("merged", changed=merged.changed)
        for number in range(3):
            rows = rows_of(self.spark, 1, start=20 + number)
            table.append(rows, provenance=a_run(asset="appends", sequence=10 + number))
        self.note("appended", by_spark=self.by_spark())
        merged_files = compact(table.target("compaction"), min_small_files=2)
        self.note("compacted", reason=merged_files.reason, by_spark=self.by_spark())

    def race(self) -> None:
        """Two writers at once, each of a day of its own: without a lock the commits alone decide."""
        before = self.table.ledger.version()
        free = replace(self.store, can=frozenset({"put_if_absent"}))

        def write(day: str) -> None:
            own = Table(EVENTS, free, self.spark)
            for number in range(2):
                own.overwrite(
                    rows_of(self.spark, 2 + number, day=day), partition={"event_date": day},
                    provenance=a_run(sequence=number + 1),
                )  # fmt: skip

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, ["2026-01-06", "2026-01-07"]))
        self.note("raced", commits=self.table.ledger.version() - before)

    def keep(self) -> None:
        """A restore by Spark's own commit, a vacuum, and reads by version."""
        wanted = self.told["overwritten"]["version"]
        restored = self.table.restore(wanted, provenance=a_run())
        self.note("restored", changed=restored.changed, by_spark=self.by_spark())
        later = Clock().now() + timedelta(days=1)
        vacuum = remove_unneeded(self.table, cutoff=later, provenance=a_run())
        stages: Stages = remove_stages(self.table, cutoff=later)
        kept = {f.path for f in self.store.files() if f.path.endswith(".parquet") and "_delta_log" not in f.path}
        named = {file["path"] for file in self.table.ledger.state().files()}
        self.note("vacuumed", removed=vacuum.figures["files_removed"] > 0, in_use=stages.in_use, exact=kept == named)

    def repartition(self) -> None:
        """The table without partitions, by a copy beside the table and one commit."""
        self.table = Table(replace(EVENTS, partition_by=()), self.store, self.spark)
        done = change_partitions(self.table.target(a_run(run_id="repartition")))
        left = [file.path for file in self.store.files() if "_delta_log" in file.path.partition("/")[2]]
        self.note("repartitioned", reason=done.reason, by_spark=self.by_spark(), left=left)

    def lay_out(self) -> None:
        """Order, filters and buckets by declaration, each a rewrite that changes no row."""
        sorted_by = TableLayout(sort_by=("amount", "id"), bloom={"id": 100})
        for layout in (sorted_by, replace(sorted_by, buckets=Layout(by=("id",), buckets=2))):
            spec = replace(EVENTS, partition_by=(), layout=layout)
            self.table = Table(spec, self.store, self.spark)
            apply_layout(self.table, a_run(run_id="layout"))
        left = [str(each) for each in layout_differences(self.table)]
        self.note("laid out", left=left, by_spark=self.by_spark(), files=len(self.table.ledger.state().files()))

    def migrate(self) -> None:
        """A folder of Parquet files beside the table becomes a table, written on both sides meanwhile."""
        old, new = (self.store.above().within(name) for name in ("folder", "moved"))
        rows_of(self.spark, 4).write.partitionBy("event_date").parquet(old.address)
        into = Table(EVENTS, new, self.spark).target(a_run(run_id="migration"))
        steps = {"now": NOW, "folder": old.address, "grace_days": 0}
        migrate_format(into, to="both", **steps)
        append_both(rows_of(self.spark, 3, start=50), into)
        migrate_format(into, to="switched", **steps)
        read = [seen([row.asDict() for row in read_by_name(into.table).collect()]), seen(rows_at(new))]
        done = migrate_format(into, to="removed", **steps)
        left = [file.path for file in old.files() if file.path.endswith(".parquet") or "_batches" in file.path]
        self.note("migrated", reason=done.reason, figures=done.figures, moved=read, left=left)

    def by_spark(self) -> list[list[list[str]]]:
        """The rows by the library's read, and by Delta's reader."""
        theirs = self.spark.read.format("delta").load(self.store.address)
        return [seen([row.asDict() for row in rows.collect()]) for rows in (self.table.read(), theirs)]


if __name__ == "__main__":
    session = SparkEngine().session
    sys.stdout.write(json.dumps([Story(location, session).tell() for location in sys.argv[1:]]))
