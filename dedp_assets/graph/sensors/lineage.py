"""Lineage: a sensor that delivers events of runs, with facts of the logs, to a server for OpenLineage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.rendering import findings_of
from dedp_assets.graph.inputs.feeds import Pinned
from dedp_assets.graph.mail.lineage_outbox import LineageOutbox, LineageReceiver
from dedp_assets.graph.mail.openlineage import completed
from dedp_assets.graph.mail.openlineage_datasets import InputField, Touched, place_at
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.column_traces import traced_last
from dedp_assets.patterns.core.running.lineage import LAKE
from dedp_assets.patterns.delta import LocalStore

__all__ = ["LakeFacts", "lineage"]

LOGGER = logging.getLogger("dedp.lineage")

_LEAST_SECONDS = 30


@dataclass(frozen=True)
class LakeFacts:
    """Facts of the datasets of an event, by the logs and the traced columns of a lake.

    Attributes:
        lake: the lake.
    """

    lake: Lake

    def complete(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an event with counts and verdicts of inputs, and the traced columns of outputs."""
        try:
            return completed(event, read=self.read, written=self.written)
        except (KeyError, TypeError, ValueError, AttributeError):
            # Somebody else's event has another form, and is delivered as it is.
            return event

    def read(self, dataset: Touched) -> Touched:
        """Return an input with counts and verdicts of the rows that were read."""
        return self._known(dataset, lambda: self._read(dataset))

    def written(self, dataset: Touched, inputs: Sequence[Touched]) -> Touched:
        """Return an output with the origins of the columns, and the columns that decide on rows."""
        return self._known(dataset, lambda: self._written(dataset, inputs))

    def _known(self, dataset: Touched, look_up: Callable[[], Touched]) -> Touched:
        if not dataset.known_as or dataset.known_as.namespace != LAKE:
            return dataset
        try:
            return look_up()
        except Exception:  # whatever it is: a log that is gone, or cannot be read, holds no event back
            LOGGER.warning("an event of lineage has less about %s", dataset.known_as, exc_info=True)
            return dataset

    def _read(self, dataset: Touched) -> Touched:
        table = self.lake.stored(str(dataset.known_as))
        if dataset.version is None or place_at(table.store.uri) != (dataset.namespace, dataset.name):
            return dataset
        version, partitions = int(dataset.version), tuple(dataset.partitions) or ({},)
        commit = table.ledger.changed(*partitions, until=version)
        pinned = Pinned(table, partitions, version, commit.version if commit else -1)
        size = pinned.size()
        found = [*findings_of(commit)]
        return replace(dataset, rows=pinned.count(), size=size.bytes_read, files=size.files_read, findings=found)

    def _written(self, dataset: Touched, inputs: Sequence[Touched]) -> Touched:
        traced = traced_last(self.lake.column_lineage(str(dataset.known_as)))
        if traced is None:
            return dataset
        opened = {str(each.known_as): partial(InputField, namespace=each.namespace, name=each.name) for each in inputs}
        return replace(
            dataset,
            origins={
                column: [
                    opened[each.table](column=each.path, subtype=each.transformation)
                    for each in origin.inputs
                    if each.table in opened
                ]
                for column, origin in traced.columns.items()
                if origin.inputs and not origin.opaque
            },
            influences=[
                opened[each.table](column=each.path, kind="INDIRECT", subtype=each.effect)
                for each in traced.influences
                if each.table in opened
            ],
        )


def lineage(url: str) -> dg.SensorDefinition:
    """Make the sensor that delivers events of lineage; the sensor requests no run.

    Args:
        url: address of the server.

    Raises:
        ConfigError: for an address that is none of HTTP.
    """
    receiver = LineageReceiver(url)

    @dg.sensor(
        name="lineage",
        minimum_interval_seconds=max(_LEAST_SECONDS, settings().tick_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="What runs read and wrote is sent to the server of DEDP_LINEAGE_URL, in order and at least once; "
        "what it does not take waits.",
        required_resource_keys={"clock", "lake"},
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        lake, now = context.resources.lake, context.resources.clock.now()
        if not lake.lineage:
            return dg.SkipReason("the lake has no folder for events of lineage")
        completing = replace(receiver, complete=LakeFacts(lake).complete)
        report = LineageOutbox(LocalStore(lake.lineage)).deliver([completing], now)
        return dg.SkipReason(report.get(receiver.name, "another process delivers"))

    return evaluate
