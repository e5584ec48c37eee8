"""The load of a topic: records as the broker received each, appended after the offsets in the log."""

# Without `from __future__ import annotations`: Dagster reads the annotations of a sensor's function.

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import dagster as dg

from dedp_assets.components.landed.landed_loads import (
    AHEAD,
    ALLOWED_LATENESS_SECONDS,
    ON_TIME,
    first_of,
    in_file,
    stated_time,
)
from dedp_assets.components.landed.landings import Landed
from dedp_assets.components.landed.topic_source import TopicSource
from dedp_assets.graph.catalogue.figures import Figure
from dedp_assets.graph.declare import (
    About,
    Gates,
    Inputs,
    Job,
    LakeTable,
    Polls,
    Reads,
    Request,
    Runs,
    Source,
    Target,
    lake_table,
)
from dedp_assets.graph.inputs.landings import LANDING_FIGURES, measures_of_landing
from dedp_assets.graph.inputs.topics import ALL_OFFSETS, inputs_after, newest_by_input, result_of
from dedp_assets.graph.reconcile.topics import requested
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.connectors.encoding.record_texts import as_records
from dedp_assets.patterns.connectors.kafka.topics import append_available, position, read_topic, resume
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.instants import timestamp
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data

__all__ = ["TopicLoad"]

_AT_ONCE = 500_000
_HAPPENED = "happened_at"
_FIGURES = {**LANDING_FIGURES, "offsets": Figure(kind="hidden")}


@dataclass(frozen=True)
class TopicLoad:
    """The load of a topic by bounded runs: each appends the unread records."""

    landed: Landed
    spec: TableSpec

    @property
    def source(self) -> TopicSource:
        """The topic of the landing."""
        return cast("TopicSource", self.landed.stated.topic)

    @property
    def job(self) -> Job:
        """Job that the sensor asks for."""
        return Job(
            f"stream_{self.landed.stated.table.replace('/', '_')}",
            f"Records that wait in topic {self.source.name}, appended to {self.spec.name}; ends when it has read what "
            "was there.",
        )

    def declared(self, *_: TableSpec) -> LakeTable[...]:
        """Declare the table of the landed records, with a sensor that asks for runs."""
        stated = self.landed.stated
        topic = Source(
            f"kafka/{self.landed.dataset}",
            f"Topic {self.source.name} of the brokers in ${self.source.brokers}.",
            kinds=("kafka", "json"),
            owner=stated.about.owner,
            older=lambda at: self.source.kafka().older(at),
        )
        polls = Polls(
            self._polled(),
            every_seconds=2 * settings().tick_seconds,
            description=f"Records of topic {self.source.name} that {self.spec.name} has not read start a run.",
        )
        return lake_table(
            self.spec,
            reads=Reads(sources=[topic], inputs=self.waiting),
            runs=Runs(when=polls, job=self.job),
            gates=Gates((ALL_OFFSETS, ON_TIME)),
            about=About(owner=stated.about.owner, figures=_FIGURES, expects=stated.bronze_expects),
            patterns=[detect_late_data],
            code_version=self.landed.landed_version,
        )(self.append)

    @in_file
    def waiting(self, request: Request) -> Inputs:
        """Name the inputs of a run by the run's id: each run reads another range of offsets."""
        return Inputs({f"kafka/{self.landed.dataset}": request.run_id})

    @in_file
    def append(self, into: Target, clock: Clock) -> WriteResult:
        """Append the topic's records after the offsets in the log; an approved run skips expired offsets."""
        kafka = self.source.kafka()
        topic = kafka.describe()
        start = resume(position(into.table.ledger, topic), topic, give_up=into.run.approval is not None)
        if start.offsets == topic.end and not start.given_up:
            return result_of(into.table, [])
        today = clock.now().date()
        rows = read_topic(
            into.table.session,
            start,
            bootstrap=kafka.bootstrap,
            today=today,
            at_once=_AT_ONCE,
            schemas=self.source.schemas(),
            proof=kafka.proof(),
        )
        inputs = inputs_after(into.table.ledger, allowed_lateness_seconds=ALLOWED_LATENESS_SECONDS)
        dated = self._dated(rows, inputs.watermark)
        made = {"timeliness": OUTCOME, **dict.fromkeys(self.landed.event, "to_date(event_time)")}
        columns = [f"{made.get(name, name)} AS {identifier(name)}" for name in self.spec.columns]
        tombstone = f"if(raw IS NULL, 'tombstone', 'valid') AS {OUTCOME}"
        rows = dated.selectExpr(*columns, "event_time", "lateness_seconds", tombstone)
        commits = append_available(
            Split(rows, {"valid": tuple(self.spec.columns), "tombstone": ()}, identity=("source_file", "line_number")),
            into.table,
            start,
            provenance=into.noting({"inputs": inputs.note}).run,
            audits=into.audits,
            measures={**measures_of_landing("timeliness"), **newest_by_input(start)},
        )
        return result_of(into.table, commits)

    def _dated(self, rows: Any, watermark: datetime | None) -> Any:  # noqa: ANN401 - frames
        # In a column of its own, because the condition names the time several times.
        records = as_records(rows, self.landed.format, self.landed.naming)
        records = records.selectExpr("*", f"{stated_time(self.landed)} AS {_HAPPENED}")
        first, latest = timestamp(first_of(self.landed)), f"landed_on + INTERVAL {AHEAD.days} DAYS"
        plausible = f"if({_HAPPENED} BETWEEN {first} AND {latest}, {_HAPPENED}, NULL)"
        return detect_late_data(records, event_time=plausible, watermark=watermark).rows

    def _polled(self) -> Callable[..., dg.SensorResult | dg.SkipReason]:
        """Return the function of the topic's sensor; Dagster finds no resources in the parameters of a method."""
        table, job, code = self.spec.name, self.job.name, self.landed.landed_version

        def polled(context: dg.SensorEvaluationContext, lake: Lake) -> dg.SensorResult | dg.SkipReason:
            return requested(context.instance, lake.ledger(table), self.source.kafka(), job=job, code=code)

        polled.__name__ = f"{self.landed.stated.table.replace('/', '_')}_streamed"
        return polled
