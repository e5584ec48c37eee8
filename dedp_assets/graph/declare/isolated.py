"""Consumption of another team's table: a start by markers, and a contract on place and columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dedp_assets.graph.declare.records import Request
from dedp_assets.graph.inputs.feeds import Feed, hour_to_day, pin, same
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.batches import Inputs
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Glimpse, Ledger, LogFold, Table
from dedp_assets.patterns.flow.isolated_sequencer import ProducerMarker, judge_contract, plan_by_markers

__all__ = ["MarkerLog", "OnMarkers", "finished", "require_contract"]


@dataclass(frozen=True, slots=True)
class OnMarkers:
    """A sensor starts the job for each finished partition of another team's table.

    The marker of a partition is the producer's newest commit for it: rows and marker are there together.

    Attributes:
        producer: the contract: name, columns and partition column of the producer's table. Its location is that name
            below the root of the lake, and its declaration is the consumer's own.
        period: whether a partition of the consumer is the ``same`` as the producer's, or the ``day`` of 24 hours.
        start: ``all_markers`` of a day, or the ``last_marker``, that of its last hour.
    """

    producer: TableSpec
    period: Literal["same", "day"] = "same"
    start: Literal["all_markers", "last_marker"] = "all_markers"

    def __post_init__(self) -> None:
        require_types(self)
        if len(self.producer.partition_by) != 1:
            raise ConfigError(f"producer must have one partition column, not {list(self.producer.partition_by)}")

    @property
    def column(self) -> str:
        """The partition column of the producer's table that holds the keys."""
        return self.producer.partition_by[0]

    @property
    def feed(self) -> Feed:
        """The mapping between the producer's partitions and the consumer's."""
        return hour_to_day(self.column) if self.period == "day" else same(self.column)

    def plan(self, markers: Mapping[str, int], processed: Mapping[str, int]) -> Plan:
        """Plan the consumer's partitions with markers newer than the version of the last computation.

        Args:
            markers: the producer's partition -> version of the newest commit for it.
            processed: the consumer's partition -> version of the producer's table that it read.
        """
        by_key: dict[str, dict[str, int]] = {}
        for partition, version in markers.items():
            for key in self.feed.feeds({self.column: partition}):
                by_key.setdefault(key, {})[partition] = version
        changed = [mine for key, mine in by_key.items() if max(mine.values()) > processed.get(key, -1)]
        new = [ProducerMarker(partition, str(version)) for mine in changed for partition, version in mine.items()]
        return plan_by_markers(new, processed={}, period=self.period, start=self.start)


@dataclass(slots=True)
class MarkerLog:
    """The markers of a producer's table: the newest commit for each partition, with or without rows.

    Attributes:
        column: the partition column.
        newest: partition -> version of the newest commit for it; 0 for one that the log no longer tells.
    """

    column: str
    newest: dict[str, int] = field(default_factory=dict)
    _fold: LogFold[Glimpse] = field(init=False)

    def __post_init__(self) -> None:
        self._fold = LogFold(lambda ledger, since: ledger.glimpses(since=since, records=True), self._take, self._forget)

    def poll(self, ledger: Ledger) -> Mapping[str, int]:
        """Read the commits since the last poll, and return the markers.

        Raises:
            ContractError: if the log is damaged; the next poll reads the log from its beginning.
        """
        self._fold.poll(ledger)
        return self.newest

    def _take(self, glimpse: Glimpse) -> None:
        partitions = [glimpse.stated.get("partition", {}), *map(dict, glimpse.changed)]
        version = 0 if glimpse.forgotten else glimpse.version
        self.newest |= {str(each[self.column]): version for each in partitions if each.get(self.column)}

    def _forget(self) -> None:
        self.newest = {}


def finished(markers: OnMarkers) -> Callable[[Request, Lake], Inputs]:
    """Return the function that finds a finished partition of another team's table (``Reads(inputs=)``).

    The table's function reads ``step.inputs.found``, a :class:`~dedp_assets.graph.declare.Pinned`. Before that, a
    producer's table elsewhere or with other columns is refused, and a partition that is not finished is not ready.
    """

    def find(request: Request, lake: Lake) -> Inputs:
        producer = lake.table(markers.producer)
        require_contract(producer)
        read = pin(producer, markers.feed, request.key)
        wanted = {partition[markers.column] for partition in markers.feed.reads(request.key)}
        newest = {p: v for p, v in MarkerLog(markers.column).poll(producer.ledger).items() if p in wanted}
        if held := markers.plan(newest, {}).held:
            raise NotReady(f"{producer.name}: {'; '.join(held.values())}")
        marked = max(newest.values())
        notes = {"delivery": str(read.version)}
        return Inputs({producer.name: marked}, sequence=marked, notes=notes, found=read)

    find.producer = markers.producer  # type: ignore[attr-defined]  # for the places that the table may touch
    return find


def require_contract(producer: Table) -> None:
    """Refuse a producer's table that breaks the contract by place or columns, before any row is read.

    Raises:
        ContractError: says what was expected and what was found.
    """
    columns = {name: column.type for name, column in producer.spec.columns.items()}
    judged = judge_contract(producer, columns=columns, partition_by=producer.spec.partition_by)
    if judged.refuses:
        raise ContractError(judged.note)
