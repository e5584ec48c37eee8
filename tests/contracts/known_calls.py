"""A call of each public function of the catalogue that works: for contracts that change one of its arguments."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock, patch

from pyspark.sql.classic.dataframe import DataFrame as Classic

from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
from dedp_assets.patterns.connectors.landing.deliveries import DeliveredFile, Delivery
from dedp_assets.patterns.connectors.postgres import PostgresTable
from dedp_assets.patterns.connectors.web.events import Arrival, Event
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.measuring.activity import Activity, PartitionSize
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.measuring.profiles import ColumnProfile, Profile
from dedp_assets.patterns.core.measuring.usual import Baseline
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.running.lineage import Dataset, LineageGraph, LineageJob
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.dead_letter import LETTER, Field, divert_unprocessable
from dedp_assets.patterns.flow.aligned_fan_in import BranchState
from dedp_assets.patterns.flow.concurrent_runner import PipelineRun
from dedp_assets.patterns.flow.local_sequencer import SequenceStep, StepState
from dedp_assets.patterns.flow.single_runner import PartitionProgress
from dedp_assets.patterns.flow.unaligned_fan_in import judge_branches
from dedp_assets.patterns.governance.data_contract import Consumer, Contract, request_change
from dedp_assets.patterns.idempotency.proxy import load_version
from dedp_assets.patterns.idempotency.transactional_writer import DatabaseTarget, RowSet, TableRows, publish_group
from dedp_assets.patterns.ingestion.change_data_capture import CHANGES
from dedp_assets.patterns.ingestion.passthrough_replicator import declare_replica
from dedp_assets.patterns.ingestion.transformation_replicator import declare_transformed
from dedp_assets.patterns.modeling.current_dimension import NEWEST, ChangeStream
from dedp_assets.patterns.modeling.versioned_dimension import VERSION
from dedp_assets.patterns.observability.flow_interruption_detector import EndOffset
from dedp_assets.patterns.observability.sla_misses_detector import BatchTimes
from dedp_assets.patterns.quality.constraints_enforcer import References
from dedp_assets.patterns.quality.offline_observer import PROFILE, PROFILED_BY, ProfileRules
from dedp_assets.patterns.quality.schema_migrator import Migration
from dedp_assets.patterns.value.dynamic_joiner import JoinTimes
from dedp_assets.patterns.value.fifo_orderer import RecordColumns
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule
from dedp_assets.patterns.value.local_aggregator import Layout
from dedp_assets.patterns.value.static_joiner import ANSWER, judge_reference
from dedp_assets.patterns.value.wrapper import wrap_records
from tests.helpers import NOW, a_run
from tests.sinks import Inbox

RUN = a_run(sequence=1, at=NOW)
_RENAMES = Migration(name="v2", rename={"page": "path"})
LANDED, DAILY = Dataset("lake", "bronze/visits"), Dataset("lake", "silver/daily")


class Begun(BaseException):
    """A call that would start a job of Spark's, or go to a database: its arguments were taken."""


def _begin(*_: object, **__: object) -> None:
    raise Begun


@contextmanager
def without_jobs():
    """Raise :class:`Begun` where Spark would be asked for rows, or told to write some."""
    methods = ("collect", "toLocalIterator", "count", "localCheckpoint", "persist", "cache", "checkpoint")
    streams = PropertyMock(side_effect=Begun)
    with patch.multiple(Classic, **dict.fromkeys(methods, _begin), write=streams, writeStream=streams):
        yield


@dataclass(frozen=True)
class Known:
    """What known calls are made of: rows and tables, made once."""

    spark: Any
    folder: Path

    def frame(self, columns, *rows):
        return self.spark.createDataFrame(rows, columns)

    def table(self, name, columns, *rows, by=(), **more):
        """A table that is there, with rows or without."""
        if isinstance(columns, str):
            each = (column.split() for column in columns.split(","))
            columns = {name: Column(kind.rstrip("!"), required=kind.endswith("!")) for name, kind in each}
        made = self.at(TableSpec(name, columns, partition_by=by, **more))
        made.ensure()
        if rows:
            typed = ", ".join(f"{column} {declared.type}" for column, declared in columns.items())
            made.overwrite(self.frame(typed, *rows), provenance=a_run(sequence=1))
        return made

    def at(self, spec):
        return Table(spec, self.folder / spec.name, self.spark)

    @cached_property
    def visits(self):
        return self.frame("id INT, user STRING, page STRING, at TIMESTAMP, day STRING", (1, "Ada", "/", NOW, "mon"))

    @cached_property
    def stream(self):
        return self.spark.readStream.format("rate").load().selectExpr("timestamp AS at", "value AS id", "'Ada' AS user")

    @cached_property
    def daily(self):
        columns = "id INT, user STRING, page STRING, at TIMESTAMP, day STRING"
        return self.table("silver/daily", columns, (1, "Ada", "/", NOW, "mon"), by=("day",))

    @cached_property
    def split(self):
        lines = self.frame("n INT, raw STRING, day STRING", (1, "{}", "mon"))
        schema = {"payload": "raw", "schema": {"id": "BIGINT"}, "identity": ["n"], "carry": ["day"]}
        return divert_unprocessable(lines, **schema)

    @cached_property
    def letters(self):
        """The tables that the parts of the split go to."""
        columns = "id BIGINT, n INT!, was_dead_lettered BOOLEAN, day STRING"
        kept = {"raw": Column("STRING"), "n": Column("INT"), **LETTER, "day": Column("STRING")}
        return self.table("silver/valid", columns, by=("day",)), self.table("silver/dead", kept, by=("day",))

    def calls(self):
        """Function -> its arguments, by chapter."""
        return {
            **self._error_management(),
            **self._flow(),
            **self._governance(),
            **self._idempotency(),
            **self._ingestion(),
            **self._modeling(),
            **self._value(),
            **self._deliveries_and_sessions(),
            **self._fan_in(),
            **self._skew(),
            **self._lineage(),
            **self._detectors(),
            **self._profiles(),
        }

    def _profiles(self):
        profiles = self.at(TableSpec("quality/profiles", PROFILE, PROFILED_BY))
        profiles.ensure()
        seen = ColumnProfile(column="id", type="INT", rows=1000, minimum="1", maximum="9")
        profile = Profile({"id": seen})
        return {
            "observe_ahead": {
                "rows": self.visits,
                "table": self.daily,
                "into": profiles.target(RUN),
                "partition": "day=mon",
                "sample": 0.5,
                "sample_by": ["id"],
            },
            "reconcile_profile": {"table": self.daily, "into": profiles.target(RUN)},
            "judge_profile": {
                "profile": profile,
                "history": [profile],
                "now": NOW,
                "table": "silver/daily",
                "partition": "day=mon",
                "rules": ProfileRules(),
            },
            "propose_rule": {"profile": profile, "column": "id", "rule": "bounds"},
        }

    def _detectors(self):
        late = Measurement(metric="pipeline_seconds", table="silver/daily", at=NOW, verdict="fail")
        batch = BatchTimes(event_at=NOW, started_at=NOW, written_at=NOW)
        limits = {"event_within_seconds": 600.0, "processing_within_seconds": 60.0}
        graph = LineageGraph.of([LineageJob("load", (LANDED,), (DAILY,))])
        return {
            "severity_of": {"measured": Measured((late,))},
            "at_risk": {"misses": Measured((late,)), "downstream": {"a": ["b"]}, "deadlines": ["b"]},
            "measure_latency": {
                "batches": [batch],
                "now": NOW,
                "table": "t",
                "producer": "p",
                "judged": "p95",
                **limits,
            },
            "detect_silent_partitions": {
                "progress": [EndOffset(partition="0", offset=1, seen_at=NOW)],
                "now": NOW,
                "topic": "visits",
                "max_gap_seconds": 300.0,
                "quiet": [QuietHours(zone="UTC", start="22:00", end="06:00")],
            },
            "affected_by": {"graph": graph, "dataset": LANDED},
            "root_of": {"graph": graph, "faults": [DAILY]},
        }

    def _skew(self):
        sizes = {f"2026-01-0{n}": PartitionSize(rows=n, size=n, files=1, first_at=NOW) for n in (3, 4)}
        known = {"activity": Activity(table="silver/daily", partitions=sizes), "now": NOW}
        return {
            "detect_partition_skew": {**known, "max_variation": 0.5},
            "require_usual_volume": {**known, "partition": "2026-01-05", "volume": 4.0, "baseline": Baseline()},
        }

    def _lineage(self):
        return {
            "trace_columns": {"rows": self.visits, "tables": {"users": "silver/users"}},
            "without_stamps": {"rows": self.visits},
        }

    def _fan_in(self):
        hours = {"mon-01": BranchState("succeeded", 1), "mon-02": BranchState("failed")}
        judged = judge_branches(hours)
        other = self.frame("id INT, name STRING", (1, "Ada"))
        return {
            "plan_aligned": {"branches": {"mon": hours}},
            "unite_branches": {"rows": self.visits, "other": self.visits, "missing": "null"},
            "join_branches": {"rows": self.visits, "other": other, "keys": ["id"], "keep": "all"},
            "plan_unaligned": {"branches": {"mon": hours}, "due": ["mon"]},
            "judge_branches": {"branches": hours, "name": "every_hour_is_there"},
            "label_partial": {"rows": self.visits, "judged": judged, "column": "partial", "completeness": "share"},
        }

    def _error_management(self):
        visits, daily, (valid, dead) = self.visits, self.daily, self.letters
        checkpoint, monday = str(self.folder / "checkpoint"), {"day": "mon"}
        late = {"changed": {"mon": 3}, "current": "tue", "oldest": "", "now": NOW, "table": daily}
        back = {"changed": {"mon": 3}, "applied": {"mon": 1}, "current": ["tue"], "partitions": ["mon", "tue"]}
        appended = self.table("silver/appended", "at TIMESTAMP, id BIGINT, user STRING")
        replayed = {
            "split": self.split,
            "into": valid.target(RUN, partition=monday),
            "dead": dead.target(RUN, partition=monday),
        }
        return {
            "append_checkpointed": {
                "stream": self.stream,
                "into": appended.target(RUN),
                "checkpoint": checkpoint,
                "keys": ["id"],
            },
            "judge_checkpoint": {"ledger": appended.ledger, "checkpoint": checkpoint},
            "checkpoint_rows": {"rows": visits, "checkpoint": checkpoint, "identity": "visits@7"},
            "as_letters": {"dead": self.split["dead"], "run": RUN},
            "divert_unprocessable": {
                "rows": visits,
                "earlier": None,
                "schema": {"page": "STRING", "at": Field("TIMESTAMP", lenient=True, event_time=True)},
                "identity": ["id"],
                "payload": "",
                "carry": ["day"],
                "raw": [],
                "rules": {"has_a_page": "page IS NOT NULL"},
            },
            "route": replayed,
            "replay_letters": {**replayed, "keys": ["n"], "since": 0},
            "open_letters": {"dead": dead, "filed_under": monday, "version": 0},
            "plan_replay": {"open_letters": {"mon": 3}, "refused_by": {"mon": "1"}, "code_version": "2"},
            "claim_late_partitions": {**late, "owner": "me", "lease_seconds": 60},
            "judge_late_partitions": late,
            "plan_late_partitions": {
                "changed": {"mon": 3},
                "applied": {"mon": 1},
                "current": "tue",
                "in_flight": ["mon"],
                "limit": 1,
            },
            "filter_audits": {"ledger": daily.ledger, "conditions": {"known": "id > 0"}, "partition": monday},
            "filter_measures": {"conditions": {"known": "id > 0"}},
            "intercept_filters": {"rows": visits, "conditions": {"known": "id > 0"}, "identity": ["id"]},
            "advance_watermark": {
                "watermark": NOW,
                "newest": {"p0": NOW},
                "allowed_lateness_seconds": 60,
                "idle": ["p0"],
            },
            "detect_late_data": {
                "events": visits,
                "event_time": "at",
                "watermark": NOW,
                "earliest": NOW - timedelta(days=9),
                "latest": NOW,
                "arrived": "at",
            },
            "judge_lateness": {"late": {"shop": 1}, "total": {"shop": 2}},
            "judge_beyond_lookback": {**back, "lookback": 1},
            "plan_lookback": {**back, "lookback": 1},
            "order_steps": {"plan": Plan(("mon",), "", {"mon": "late-data"})},
            "deduplicate": {"rows": visits, "earlier": None, "keys": ["id"], "order_by": ["at"]},
            "deduplicate_stream": {"stream": self.stream, "keys": ["id"], "event_time": "at", "window": "1 hour"},
            "judge_uniqueness": {"rows": visits, "keys": ["id"]},
        }

    def _flow(self):
        done, ingest = PartitionProgress("committed", version=1), PipelineRun("ingest", ("database",), priority=1)
        steps = {"steps": [SequenceStep("a"), SequenceStep("b", ["a"])]}
        return {
            "compare_by_key": {"legacy": self.visits, "new": self.visits, "keys": ["id"]},
            "judge_steps": {**steps, "states": {"a": StepState("done")}},
            "chain_steps": {"rows": self.visits, "steps": [lambda rows: rows]},
            "judge_contract": {"upstream": self.daily, "columns": {"id": "INT"}, "partition_by": ["day"]},
            "plan_in_order": {"progress": {"mon": done, "tue": PartitionProgress("waiting")}},
            "require_place": {"queued": ["mon"], "request": "tue", "limit": 2},
            "judge_catch_up": {"durations": [30.0, 90.0], "interval_seconds": 60.0},
            "plan_starts": {
                "queued": {"b": ingest},
                "running": {"a": ingest},
                "slots": {"ingest": 2},
                "pools": {"database": 2},
                "shares": {"report": "latest.json"},
            },
            "advance_latest": {"into": self.daily.target(RUN), "position": 3},
            "latest_of": {"table": self.daily},
        }

    def _governance(self):
        columns = {"day": Column("DATE"), "user": Column("STRING")}
        old = Contract(name="gold/daily", version="1.0.0", owner="team:web", columns=columns)
        new = replace(old, columns={"day": Column("DATE")}, consumers=[Consumer("dashboards")])
        read = ColumnLineage({"user": ColumnOrigin((ColumnInput("gold/daily", "user"),))})
        change = {"old": old, "new": new, "lineages": {"gold/report": read}, "now": NOW, "perspectives": ["consumer"]}
        request = request_change(old, new, {}, NOW)
        return {
            "judge_change": {**change, "request": request},
            "request_change": change,
            "verify_producer": {
                "contract": old,
                "records": [{"day": date(2026, 1, 5), "user": "Ada"}],
                "whole_day": True,
            },
        }

    def _idempotency(self):
        visits, daily, monday = self.visits, self.daily, {"day": "mon"}
        units = self.table("gold/units", "id INT, day STRING, week STRING", by=("week",))
        keyed = self.table("gold/keyed", "id INT, day STRING", by=("day",), key=("id",))
        users, changes = self.table("gold/users", "id INT, name STRING, at INT, gone BOOLEAN"), "id INT, name STRING"
        executed = self.table("gold/executed", "id INT, name STRING", executed_by="day")
        shown = self.at(TableSpec("gold/shown", {"id": Column("INT")}))
        few = self.frame("id INT, day STRING", (1, "2026-01-05"))
        grouped = [self.table(f"gold/group_{name}", "id INT") for name in "ab"]
        sets = [TableRows(few.select("id"), each.target(RUN)) for each in grouped]
        publish_group(sets)
        load_version(few.select("id"), shown.target(a_run(sequence=1)))
        database = RowSet("public.users", few, keys=["id"])
        return {
            "overwrite_partition": {"rows": visits, "into": daily.target(RUN, partition=monday)},
            "freeze_units": {"into": units.target(RUN), "before": date(2026, 3, 2)},
            "load_unit": {"rows": few, "into": units.target(RUN), "days": {"2026-01-05": 1}, "by": "day"},
            "plan_units": {"present": {"2026-01-05": 1}, "ledger": units.ledger, "asked": ["2026-01-05"]},
            "add_stable_key": {
                "rows": visits,
                "known": None,
                "entity": ["user"],
                "appended": ["id"],
                "event_time": [],
                "group": ["page"],
                "key": "key",
            },
            "key_of": {"rows": visits, "values": ["id"]},
            "upsert_keyed": {"rows": few, "into": keyed.target(RUN), "since": 0},
            "merge_changes": {
                "changes": self.frame(f"{changes}, at INT, gone BOOLEAN", (1, "Ada", 7, False)),
                "into": users.target(RUN),
                "keys": ["id"],
                "order_by": ["at"],
                "deleted": "gone",
            },
            "load_version": {"rows": few.select("id"), "into": shown.target(RUN), "min_rows": 1},
            "judge_exposure": {"target": shown},
            "switch_version": {"into": shown.target(RUN), "version": "run-1-1", "because": "it was right"},
            "merge_execution": {
                "increment": self.frame(f"{changes}, gone BOOLEAN", (1, "Ada", False)),
                "into": executed.target(RUN, partition={"day": "2026-01-05"}),
                "keys": ["id"],
                "update": {"name": "s.name"},
                "deleted": "gone",
                "due": [],
            },
            "publish_group": {"sets": sets},
            "read_group": {"tables": grouped},
            "write_transaction": {"sets": [database], "into": DatabaseTarget("users", _begin, RUN)},
        }

    def _ingestion(self):
        visits, daily, monday = self.visits, self.daily, {"day": "mon"}
        source = PostgresTable("public.users", "slot", connect=_begin)
        history = self.table("bronze/history", {**CHANGES}, by=("committed_on",))
        latest = self.at(TableSpec("bronze/users", {"id": Column("INT")})).target(RUN)
        event = Event(id="7", source="shop", type="published", time=NOW, data={"objects": ["a.jsonl"]})
        started = {"pipelines": {"refresh": [{"type": "published"}]}}
        sold = self.table("bronze/sold", "id INT, seq BIGINT, part STRING", by=("part",))
        delivered = Delivery("mon", (DeliveredFile("a.jsonl", 10, 1),), marker=DeliveredFile("_SUCCESS", 0, 2))
        secret = {"id": Column("INT"), "email": Column("STRING", personal=True)}
        users = self.table("silver/users", secret, (1, "ada@example.org"))
        (self.folder / "files").mkdir()
        (self.folder / "files" / "a.txt").write_text("a")
        return {
            "apply_changes": {"history": history, "into": latest, "keys": ["id"]},
            "capture_changes": {
                "source": source,
                "into": history.target(RUN),
                "latest": latest,
                "keys": ["id"],
                "max_messages": 10,
            },
            "judge_slot": {"source": source},
            "compact": {"into": daily.target(RUN, partition=monday)},
            "plan_compaction": {"ledger": daily.ledger, "partition": monday},
            "vacuum": {"into": daily.target(RUN), "retention_hours": 200, "now": NOW},
            "plan_triggers": {
                "arrivals": [Arrival("a.json", NOW, event)],
                **started,
                "known": {"shop/8": "x"},
                "started": ["x"],
                "now": NOW,
            },
            "starts_of": {"event": event, **started},
            "send_event": {"inbox": self.folder / "inbox", "event": event},
            "load_full": {"snapshot": visits, "into": daily.target(RUN)},
            "volume_guard": {"min_rows": 1},
            "load_increment": {
                "rows": self.frame("id INT, seq BIGINT", (1, 100)),
                "into": sold.target(RUN, partition={"part": "100"}),
                "delta": "seq",
                "window": (100, 200),
                "keys": ["id"],
            },
            "load_partition": {
                "rows": visits,
                "into": daily.target(RUN, partition=monday),
                "ready": Plan(("mon",), ""),
            },
            # with a window before 0, so that the largest value of a wrong option makes more windows than can be planned
            "plan_windows": {"ledger": sold.ledger, "column": "part", "origin": -100, "length": 100, "until": 250},
            "declare_replica": {"source": daily.spec, "name": "staging/daily"},
            "replicate_files": {
                "source": self.folder / "files",
                "target": self.folder / "copied",
                "run": RUN,
                "declared": daily.spec,
                "name": "staging/files",
                "bytes_per_second": 1e9,
            },
            "replicate_table": {
                "source": sold,
                "into": self.at(declare_replica(sold.spec, name="staging/sold")).target(RUN),
                "version": 0,
                "bytes_per_second": 1e9,
            },
            "delivering": {"folder": self.folder / "landing"},
            "plan_ready": {"deliveries": [delivered], "consumed": {"sun": "x"}, "now": NOW},
            "declare_transformed": {"source": users.spec, "name": "staging/users"},
            "replicate_transformed": {
                "source": users,
                "into": self.at(declare_transformed(users.spec, name="staging/users")).target(RUN),
                "key": MaskingKey("k", b"x" * 32),
                "version": users.ledger.version(),
            },
        }

    def _modeling(self):
        columns = {"id": Column("INT", required=True), "name": Column("STRING")}
        current, history = self.table("gold/now", {**columns, **NEWEST}), self.table("gold/all", {**columns, **VERSION})
        changes = {"changes": self.frame("id INT, name STRING, at TIMESTAMP", (1, "Ada", NOW))}
        options = {**changes, "stream": ChangeStream(keys=["id"], event_time="at")}
        versions = history.read()
        daily, monday = self.daily, {"day": "mon"}
        return {
            "keep_newest": {**options, "into": current.target(RUN)},
            "keep_current_and_history": {**options, "into": current.target(RUN), "history": history.target(RUN)},
            "keep_versions": {**options, "into": history.target(RUN), "current": [], "previous": []},
            "show_previous_values": {"versions": versions, "keys": ["id"], "previous": ["name"]},
            "judge_versions": {"dimension": versions, "keys": ["id"]},
            "audit_write_audit_publish": {
                "rows": self.visits,
                "into": daily.target(RUN, partition=monday),
                "quarantine": None,
            },
            "require_pass": {"upstream": daily.ledger, "partitions": ({},), "version": 1, "audits": ["sound"]},
            "usual": {"ledger": daily.ledger, "figure": "visits", "partition": monday, "days": 7},
            "enforce_constraints": {
                "rows": self.visits,
                "into": daily.target(RUN, partition=monday),
                "parents": {"known": self.visits},
                "quarantine": None,
                "references": [References("known", {"page": "page"})],
            },
            "enforce_compatibility": {"new": self.visits, "table": daily, "mode": "BACKWARD", "new_columns": True},
            "mark_violations": {"rows": self.visits, "table": daily, "parents": {}, "references": []},
            "add_constraint": {"table": daily, "name": "positive", "check": "id > 0"},
            "both_forms": {"rows": self.visits, "into": None, "migration": _RENAMES},
            "as_version": {"rows": self.visits, "migration": _RENAMES, "version": "old"},
        }

    def _value(self):
        visits, daily, measures = self.visits, self.daily, {"visits": "count(*)"}
        facts = visits.withColumnsRenamed({"at": "seen_at"})
        others = self.frame("ad INT, ad_page STRING, shown_at TIMESTAMP", (7, "/", NOW))
        late = JoinTimes(fact="at", other="shown_at", fact_lateness_seconds=60, other_lateness_seconds=60)
        times = {"keys": {"page": "ad_page"}, "times": late}
        users = self.frame("uid INT, email STRING, valid_from STRING, valid_to STRING", (1, "a", "09", None))
        layout = Layout(by=("user",), buckets=2)
        placed = {"user": Column("STRING"), "page": Column("STRING"), **layout.declared}
        laid = self.table("gold/laid", placed, by=("bucket",), checks=layout.checks)
        answers = {"user": Column("STRING", required=True), "land": Column("STRING"), **ANSWER, "day": Column("STRING")}
        envelope = wrap_records(visits.select("id", "page"), computed={"twice": "id * 2"})
        return {
            "aggregate": {"rows": visits, "keys": ["day"], "measures": measures, "sets": [["day"]], "salt": 2},
            "aggregate_query": {"relation": "visits", "keys": ["day"], "measures": measures, "sets": [["day"]]},
            "merge_aggregates": {
                "states": self.frame("day STRING, visits BIGINT", ("mon", 1)),
                "keys": ["day"],
                "measures": measures,
            },
            "join_within": {"facts": visits, "others": others, **times, "from_seconds": -9, "to_seconds": 0},
            "join_latest": {
                "facts": visits,
                "others": others,
                "identity": ["id"],
                **times,
                "within_seconds": 9,
                "order_by": ["ad"],
            },
            "aggregate_locally": {
                "table": laid,
                "keys": ["user"],
                "measures": {"pages": "collect_list(page)"},
                "layout": layout,
                "partitions": [],
                "version": 0,
                "placed": None,
            },
            "judge_placement": {"table": laid, "keys": ["user"], "partitions": [], "version": 0},
            "lay_out": {"rows": visits.select("user", "page"), "into": laid.target(RUN), "layout": layout},
            "contexts_of": {"table": daily, "partition": {"day": "mon"}, "until": 1},
            "decorate": {"rows": visits, "context": {"run_id": "1"}, "storage": "column"},
            "view_for_users": {"table": daily, "view": "shown", "hidden": ["user"]},
            "join_static": {
                "facts": facts,
                "reference": users,
                "former": None,
                "keys": {"id": "uid"},
                "columns": {"email": "mail"},
                "judged": judge_reference(users, keys=["uid"]),
                "as_of": None,
                "matched": "met",
            },
            "judge_reference": {
                "reference": users,
                "former": None,
                "keys": ["uid"],
                "valid": ("valid_from", "valid_to"),
            },
            "keep_answers": {
                "facts": visits.select("user"),
                "into": self.table("gold/answers", answers, by=("day",)).target(RUN, partition={"day": "mon"}),
                "key": "user",
                "ask": _begin,
            },
            "change_layout": {"wrapped": envelope, "layout": "computed_flat", "to": "flat"},
            "separate": {"wrapped": envelope, "key": ["id"]},
            "wrap_records": {"rows": visits, "computed": {"twice": {"/": "id * 2"}}, "by": "page"},
        }

    def _deliveries_and_sessions(self):
        visits, stream = self.visits, self.stream
        receipts = self.table("gold/receipts", {"day": Column("STRING"), **RECEIPT}, by=("day",))
        into = receipts.target(RUN, partition={"day": "mon"})
        sent = {"rows": visits, "into": into, "sink": Inbox(partial=False)}
        columns = RecordColumns(identity="id", order_by=["at"], entity="user", payload=["page"])
        order = {"destination": "day", "columns": columns}
        rule = SessionRule(["user"], event_time="at", event_id="id", gap_seconds=60, keep=["page"])
        sessions = self.frame("session_id STRING", ("a",))
        records = self.frame("destination STRING, unit STRING, entity STRING, place INT", ("x", "", "Ada", 1))
        return {
            "deliver_in_bins": {**sent, **order, "unit": "day"},
            "deliver_in_order": {**sent, **order, "workers": 2, "at_once": 2},
            "number_bins": {"records": records},
            "sessionize_partition": {
                "events": visits,
                "pending": None,
                "until": NOW + timedelta(days=1),
                "rule": replace(rule, ends="id = 1"),
            },
            "show_partial": {"completed": sessions, "pending": sessions},
            "sessionize_stream": {"stream": stream, "rule": replace(rule, keep=[]), "lateness": "1 minute"},
            "sessionize_with_state": {
                "stream": stream,
                "rule": replace(rule, keep=[], ends="id = 1"),
                "lateness": "1 minute",
            },
        }
