"""Triggers and order of partition runs: the source of jobs, schedules and sensors.

A way of starting runs is a record of its own, so that another one is another record and no further option of a table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import dagster as dg

from dedp_assets.graph.declare.isolated import OnMarkers
from dedp_assets.graph.declare.sequencing import InSequence
from dedp_assets.patterns.connectors.landing.deliveries import MARKED, Ends
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Target
from dedp_assets.patterns.flow.exclusive_choice import Router

__all__ = [
    "AtOnce",
    "Branch",
    "Every",
    "Follow",
    "InOrder",
    "Job",
    "Nightly",
    "OnDelivery",
    "OnEvent",
    "OnMarkers",
    "OnRequest",
    "Polls",
    "Runs",
    "Start",
]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Job:
    """A job: public name, description, and asset selection.

    Attributes:
        name: name of the job.
        description: purpose of the job.
        selection: assets of the job in Dagster's selection syntax; empty for the tables of the declaration alone.
        computes: names of the selected tables, as far as nobody else has to ask for a partition that the job computes.
    """

    name: str
    description: str
    selection: str = ""
    computes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Follow:
    """The reconciler requests each partition with a change in an upstream partition."""


@dataclass(frozen=True, slots=True)
class OnRequest:
    """Only a person or a job of another table requests partitions."""


@dataclass(frozen=True, slots=True)
class Nightly:
    """A schedule requests the newest complete partition, and earlier partitions with upstream changes.

    Attributes:
        cron: time of the schedule, in UTC.
        lookback: number of partitions before the newest complete one that are looked at.
        description: purpose of the schedule.
        follows_late: whether the reconciler asks at once for a partition that was computed before and changed upstream.
    """

    cron: str
    lookback: int = field(kw_only=True)
    description: str = field(default="", kw_only=True)
    follows_late: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class InOrder:
    """Partitions run one at a time, each after the success of the previous partition.

    A run that is launched earlier is refused, whoever launches it. Of a table whose partitions are executions, each
    changes the rows of the previous execution, and runs again if one before it changes.

    Attributes:
        by: asks for the partitions. By night, one run takes the range from the oldest one that is not current.
        hands_over: a table of the declaration whose rows of the previous partition a run reads, as one more ``Pinned``
            after the upstream tables; before the first partition there are none. A change there makes the next
            partition stale.
        pending: most runs of the table that may be queued; the newest beyond that are rejected.
    """

    by: Follow | Nightly = Follow()
    hands_over: TableSpec | None = field(default=None, kw_only=True)
    pending: int = field(default=100, kw_only=True)


@dataclass(frozen=True, slots=True)
class Branch:
    """Partitions that a router sends to the table; a run skips all others, visibly and without a failure.

    Attributes:
        router: the rules of all branches; the tables of the other branches name the same router.
        branch: the table's branch.
        by: asks for the branch's partitions.
    """

    router: Router
    branch: str
    by: Follow | Nightly = Follow()

    def __post_init__(self) -> None:
        require_types(self)
        if self.branch not in self.router.branches:
            raise ConfigError(f"branch must be one of {', '.join(self.router.branches)}, not {self.branch!r}")

    def takes(self, key: str) -> bool:
        """Return whether to ask for a partition: ``True`` for the own branch, and without a branch.

        A run refuses a partition without a branch by its name, which is better than silence.
        """
        try:
            return self.router.choose(key).branch == self.branch
        except ConfigError:
            return True


@dataclass(frozen=True, slots=True)
class OnDelivery:
    """The reconciler requests the partition of each complete delivery in a dataset of the landing zone.

    A table without partitions holds one delivery, complete each time. The commit that loaded a delivery names it
    (``notes["delivery"]``).

    Attributes:
        dataset: dataset of the landing zone.
        ends: sign of a complete delivery.
    """

    dataset: str
    ends: Ends = field(default=MARKED, kw_only=True)


@dataclass(frozen=True, slots=True)
class OnEvent:
    """An announced event starts the job.

    Attributes:
        attributes: alternatives, each the attributes of an event and their values.
    """

    attributes: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Every:
    """A schedule starts the job, or calls a function that returns the due runs.

    Attributes:
        cron: time of the schedule, in UTC.
        description: purpose of the schedule.
        ask: function of the schedule's context and resources that returns run requests, or a reason for none.
        name: name of the schedule; that of ``ask`` or of the job if empty.
        running: whether the schedule is switched on from the beginning.
    """

    cron: str
    description: str = field(kw_only=True)
    ask: Callable[..., Any] | None = field(default=None, kw_only=True)
    name: str = field(default="", kw_only=True)
    running: bool = field(default=True, kw_only=True)


@dataclass(frozen=True, slots=True)
class Polls:
    """A sensor calls a function that polls a source, and requests a run for new data.

    Attributes:
        ask: function of the sensor's context and resources that returns run requests, or a reason for none; the
            sensor has its name.
        every_seconds: time between two looks.
        description: purpose of the sensor.
        running: whether the sensor is switched on from the beginning.
    """

    ask: Callable[..., Any]
    every_seconds: int = field(kw_only=True)
    description: str = field(kw_only=True)
    running: bool = field(default=True, kw_only=True)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Runs of several partitions at the same time, within slots of the table alone.

    Attributes:
        runs: most runs of the table at once, and the limit of the table's pool.
        by: asks for the partitions.
        shares: state besides the partition that every run changes, such as a file or a pointer; a table that declares
            some has one run at once.
        priority: priority of the runs in the queue; a higher one starts first. By default 1 for a table with a greatest
            age (``fresh_hours``), otherwise 0.
    """

    runs: int
    by: Follow | Nightly | OnDelivery | OnEvent | OnRequest | Every | Polls = field(default=Follow(), kw_only=True)
    shares: str = field(default="", kw_only=True)
    priority: int = field(default=0, kw_only=True)


Start = Follow | OnRequest | Nightly | InOrder | AtOnce | Branch | OnDelivery | OnEvent | OnMarkers | Every | Polls


@dataclass(frozen=True, slots=True)
class Runs:
    """Triggers and order of a table's partition runs.

    Attributes:
        partitions: the table's partitions; ``None`` for a table that is computed as a whole.
        when: one way of starting runs, or several.
        job: the job that the starts ask for, or its name alone: it then computes the declared tables, and its purpose
            is what the table's function says; one is made where it is needed.
        needs: says why a service besides the tables does not answer; empty if it does. Until then the table waits, in
            runs of its own, so that no other table does.
        replay: processes the dead letters of one partition alone, from the targets of the table and of its letters; an
            asset of its own runs it.
        profile: tags of the table's runs and step, by which queues and executors choose resources
            (``dagster-k8s/config``, ``ecs/cpu``). Tables with different profiles are computed in runs of their own, so
            that a slow one holds up no other.
        sequence: the sequence that the table is a step of.
    """

    partitions: dg.PartitionsDefinition[str] | None = None
    when: Start | Sequence[Start] = Follow()
    job: Job | str | None = field(default=None, kw_only=True)
    needs: Callable[[], str] | None = field(default=None, kw_only=True)
    replay: Callable[[Target, Target], WriteResult] | None = field(default=None, kw_only=True)
    profile: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    sequence: InSequence | None = field(default=None, kw_only=True)

    @property
    def stated(self) -> Sequence[Start]:
        """The starts as declared, orders and branches included."""
        return self.when if isinstance(self.when, Sequence) else (self.when,)

    @property
    def starts(self) -> tuple[Start, ...]:
        """Ways of starting runs; of an order, a branch and of runs at once, the start in ``by``."""
        return tuple(each.by if isinstance(each, InOrder | AtOnce | Branch) else each for each in self.stated)

    @property
    def branch(self) -> Branch | None:
        """The branch whose partitions the table takes; ``None`` for all partitions."""
        return next((each for each in self.stated if isinstance(each, Branch)), None)

    def takes(self, key: str) -> bool:
        """Return whether a partition may be asked for."""
        return self.branch is None or self.branch.takes(key)

    @property
    def order(self) -> InOrder | None:
        """The declared order of the partitions; ``None`` without an order."""
        return next((each for each in self.stated if isinstance(each, InOrder)), None)

    @property
    def in_order(self) -> bool:
        """Order of the partitions: ``True`` if each partition runs after the previous partition."""
        return self.order is not None

    @property
    def at_once(self) -> AtOnce | None:
        """The declared number of runs at once; ``None`` if undeclared."""
        return next((each for each in self.stated if isinstance(each, AtOnce)), None)

    @property
    def priority(self) -> int:
        """Priority of the runs in Dagster's queue."""
        return self.at_once.priority if self.at_once else 0

    @property
    def follows(self) -> bool | Literal["late"]:
        """Partitions requested by the reconciler after an upstream change: all, none, or existing partitions."""
        if self.of(Follow):
            return True
        return "late" if any(each.follows_late for each in self.of(Nightly)) else False

    def of(self, kind: type[S]) -> tuple[S, ...]:
        """List the starts of a kind."""
        return tuple(each for each in self.starts if isinstance(each, kind))
