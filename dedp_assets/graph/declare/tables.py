"""Declaration of a table by a decorator over the function that computes a partition.

The function holds the idea and nothing else: it gets its inputs pinned and the tables it writes, and returns what the
pattern returned. Everything that Dagster needs follows from the declaration.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, ParamSpec

import dagster as dg

from dedp_assets.graph.catalogue.lineage import column_lineage
from dedp_assets.graph.catalogue.specs import LAUNCHPAD, asset_key, asset_spec, check_specs, code_of
from dedp_assets.graph.declare import rules
from dedp_assets.graph.declare.layers import (
    SaysAbout,
    SaysGates,
    SaysReads,
    SaysRuns,
    about_of,
    gates_of,
    reads_of,
    reasons_of,
    runs_of,
)
from dedp_assets.graph.declare.parameters import Given, arguments, resources_of
from dedp_assets.graph.declare.records import About, Gates, Reads, Request
from dedp_assets.graph.declare.runs import Job, OnDelivery, OnEvent, OnMarkers, Runs
from dedp_assets.graph.declare.touching import access_to, declared_only
from dedp_assets.graph.inputs.fan_in import NO_BRANCH, RunStates, alerting, handled, note_of, without_runs
from dedp_assets.graph.inputs.feeds import Feed, Pinned, pin, whole
from dedp_assets.graph.inputs.revisions import Revisions
from dedp_assets.graph.inputs.staleness import is_computed_from
from dedp_assets.graph.inputs.upstream_runs import repository_of, run_states
from dedp_assets.graph.outcomes.failures import hiding_secrets
from dedp_assets.graph.outcomes.refusals import Refusals
from dedp_assets.graph.outcomes.run_tags import event_attributes
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.batches import Inputs, Step, Work, latest
from dedp_assets.graph.run.column_traces import ColumnTraces, identity_of
from dedp_assets.graph.run.ordering import earlier_keys, fed_keys, handed_over, require_turn
from dedp_assets.graph.run.runner import run
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.results import Access, WriteResult
from dedp_assets.patterns.core.running.digests import as_plain, digest_of
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table, Target

__all__ = ["LakeTable", "lake_table"]

P = ParamSpec("P")
Patterns = Sequence[Callable[..., Any]]
NOTHING: Mapping[TableSpec, Patterns] = MappingProxyType({})
_OF_PERSONS = ("classification", "purpose", "subject", "subject_by")
"""Options of columns by which no value of a row is computed."""


@dataclass(frozen=True, eq=False)
class LakeTable(Generic[P]):
    """A declared table: the function that computes a partition, and the table's Dagster assets.

    Attributes:
        function: computes and publishes one partition.
        spec: the table.
        reads: inputs.
        runs: when and in which order partitions are computed.
        gates: rules that decide on a publish.
        about: facts for the catalogue.
        patterns: the patterns at work in the function, the main one first.
        code_version: to be raised when the function computes something else.
        beside: further tables that the function writes -> the patterns at work in each.
    """

    function: Callable[P, WriteResult]
    spec: TableSpec
    reads: Reads
    runs: Runs
    gates: Gates
    about: About
    patterns: Patterns
    code_version: str
    beside: Mapping[TableSpec, Patterns] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules.require_sound(self.spec.name, self.reads, self.runs, self.gates, self.about, self.patterns)
        rules.require_named(self.tables)
        rules.require_owned(self.tables, self.runs)
        rules.require_fit(self.spec, self.runs, self.patterns)
        rules.require_apart(self.tables, self.runs)
        rules.require_leaving(self.tables, self.reads)
        rules.require_targets(self.spec.name, self.function)
        self.resources()
        self.lineage()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> WriteResult:
        """Compute one partition without Dagster."""
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The table's step and pool in Dagster."""
        return self.spec.name.replace("/", "_")

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """Every table that the function writes."""
        return (self.spec, *self.beside)

    @property
    def hands_over(self) -> TableSpec | None:
        """The table whose rows of the previous partition a run reads; ``None`` for most tables."""
        return self.runs.order.hands_over if self.runs.order else None

    @property
    def job(self) -> Job:
        """The job that computes the table."""
        stated = self.runs.job
        if isinstance(stated, str):
            return Job(stated, (inspect.getdoc(self.function) or "").partition("\n")[0])
        return stated or Job(f"compute_{self.name}", f"Partitions of {self.spec.name}.")

    @property
    def lands(self) -> Mapping[str, str]:
        """Dataset of the landing zone -> job that loads a delivery of the dataset."""
        return {each.dataset: self.job.name for each in self.runs.of(OnDelivery)}

    @property
    def started_by(self) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """Job -> filters over the attributes of the events that start the job."""
        filters = [each for event in self.runs.of(OnEvent) for each in event.attributes]
        return {self.job.name: filters} if filters else {}

    @property
    def declaration(self) -> str:
        """Digest of the declared columns and gates, by which rows are refused."""
        audits = [[type(audit).__name__, as_plain(audit)] for audit in self.gates.audits]
        return digest_of(as_plain(self.tables, without=["comment", *_OF_PERSONS]), audits, sorted(self.gates.blocking))

    @property
    def code(self) -> str:
        """Version of the code with the digest of the declaration: another one is a reason to ask again."""
        return f"{self.code_version} {self.declaration}"

    @property
    def fresh(self) -> timedelta | None:
        """Greatest age of the newest data."""
        return timedelta(hours=self.about.fresh_hours) if self.about.fresh_hours is not None else None

    @property
    def priority(self) -> int:
        """Priority of the runs in Dagster's queue; by default 1 for a table with a greatest age."""
        return self.runs.priority or int(self.about.fresh_hours is not None)

    @property
    def unchecked(self) -> Mapping[str, str]:
        """Kind of default check that the table does without -> the reason."""
        return reasons_of(self)

    def access(self, lake: Lake) -> Access:
        """Return the places of a lake for the functions; a run refuses all others."""
        producers = [each.producer for each in self.runs.of(OnMarkers)]
        producers += [found] if (found := getattr(self.reads.inputs, "producer", None)) else []
        return access_to(lake, (*self.reads.upstream, *producers), self.tables, self.reads.touches)

    def lineage(self) -> dict[str, dg.TableColumnLineage]:
        """Name the upstream columns that each column of each table is computed from."""
        derived = self.about.derived
        if strange := sorted({*derived} - {column for table in self.tables for column in table.columns}):
            raise ConfigError(f"{self.spec.name}: derived= names {', '.join(strange)}, which no table here has")
        return {table.name: column_lineage(table, self.reads.upstream, derived) for table in self.tables}

    def resources(self) -> set[str]:
        """Name the resources that the functions ask for, by parameter, and that of a fan-in's error handler."""
        find, read, written = self.reads.inputs, len(self.reads.tables), len(self.tables)
        handed = self.hands_over is not None
        counts = {Step: 1, Pinned: len(self.reads.upstream) + handed, Target: written}
        names = resources_of(self.spec.name, self.function, counts)
        seen = {Request: 1, Pinned: read, Table: written, Step: 0, Target: 0}
        handler = {"alerts"} if self.reads.waits_for_runs else set[str]()
        return names | handler | (resources_of(self.spec.name, find, seen) if find else set())

    def definition(self) -> dg.AssetsDefinition:
        """Return Dagster's assets of the table, made once."""
        return self._definition

    @cached_property
    def _definition(self) -> dg.AssetsDefinition:
        patterns = {self.spec: self.patterns, **self.beside}
        shown = {name: text for name, text in self._shown().items() if text}
        gates, partitions = self.gates, self.runs.partitions

        @dg.multi_asset(
            specs=[
                asset_spec(
                    table,
                    patterns=patterns[table],
                    owners=[self.about.owner],
                    code_version=self.code_version,
                    deps=[
                        *(_upstream(read, feed) for read, feed in self.reads.tables.items()),
                        *map(asset_key, self.reads.references),
                        *(source.key for source in self.reads.sources),
                        *self._before(table),
                    ],
                    partitions=partitions,
                    fresh=self.fresh,
                    metadata={**shown, "dagster/code_references": code_of(self.function)},
                )
                for table in self.tables
            ],
            check_specs=check_specs(self.spec, gates.audits, gates.blocking, gates.reports, partitions=partitions),
            config_schema=LAUNCHPAD,
            required_resource_keys={"lake", "clock", *self.resources()},
            name=self.name,
            pool=self.name,
            op_tags=dict(self.runs.profile),
            description=inspect.getdoc(self.function),
        )
        def compute(context: dg.AssetExecutionContext) -> Iterator[Any]:
            at = context.resources.clock.now()
            with self._as_step(context), hiding_secrets(self.spec.name):
                yield from run(context, self._work(context, at), at=at)

        return compute

    def _shown(self) -> dict[str, str]:
        """Return the readers, and the default checks that the table does without, for the catalogue."""
        reasons = [f"{kind.replace('_', ' ')}: {reason}" for kind, reason in self.unchecked.items()]
        return {"used by": self.about.used_by, "not checked": "; ".join(reasons)}

    def is_current(self, lake: Lake, key: str, at: datetime) -> bool:
        """Return whether the logs show a partition as computed from the current inputs by the current code.

        Raises:
            NotReady: if a run of it would not be ready.
        """
        upstream = {spec: lake.table(spec) for spec in self.reads.upstream}
        tables = [lake.table(table) for table in self.tables]
        found = self._find_inputs(
            Request(key, at, "", {}), tables, upstream, {}, Refusals(lake.refused(self.spec.name))
        )
        return is_computed_from(latest(tables[0], key), found.identities, self.code_version)

    def _before(self, table: TableSpec) -> list[dg.AssetDep]:
        """Return the dependencies on the previous partition and on stopping steps.

        The previous partition counts for a table in order, the steps for a table in a sequence. A table depends on
        itself and not on those beside it: Dagster plans no backfill for tables in a circle.
        """
        mapping = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
        previous = [dg.AssetDep(asset_key(table), partition_mapping=mapping)] if self.runs.in_order else []
        steps = self.runs.sequence.waits_for(self.spec.name) if self.runs.sequence else ()
        return [*previous, *(dg.AssetDep(name.split("/")) for name in steps)]

    def _as_step(self, context: dg.AssetExecutionContext) -> AbstractContextManager[None]:
        """Return the context of a step of a sequence; a failure within names the blocked steps."""
        sequence = self.runs.sequence
        return sequence.failing(context, self.spec.name) if sequence else nullcontext()

    def _work(self, context: dg.AssetExecutionContext, at: datetime) -> Work:
        lake = context.resources.lake
        tables = [lake.table(table) for table in self.tables]
        upstream = {table: lake.table(table) for table in self.reads.upstream}
        more = {name: getattr(context.resources, name) for name in self.resources()}
        ended = self.reads.waits_for_runs
        states = run_states(context.instance, repository_of(context), lake.refused) if ended else without_runs
        refusals = Refusals(lake.refused(self.spec.name))
        traces = self._traces(lake)
        traces.watch(tables, upstream.values())
        access = self.access(lake)

        def inputs_of(key: str) -> Inputs:
            request = Request(key, at, context.run.run_id, event_attributes(context.run.tags))
            with handled(alerting(context, self.spec.name)), declared_only(access):
                found = self._find_inputs(request, tables, upstream, more, refusals, states)
            if ended:
                context.resources.alerts.clear(NO_BRANCH, self.spec.name, key)
            return found

        def build(step: Step) -> WriteResult:
            given: Given = {Step: [step], Pinned: step.inputs.pinned, Target: self._targets(step, tables)}
            compute: Callable[..., WriteResult] = self.function
            with declared_only(access):
                return compute(**arguments(compute, given, more))

        beside, figures, branch = tuple(tables[1:]), self.about.figures, self.runs.branch
        return Work(
            tables[0],
            inputs_of,
            build,
            beside,
            figures,
            self.lineage(),
            refusals,
            router=branch.router if branch else None,
            branch=branch.branch if branch else "",
            sources=self.reads.sources,
            owner=self.about.owner,
            traces=traces,
            declaration=self.declaration,
            references=tuple(upstream[spec] for spec in self.reads.references),
        )

    def _traces(self, lake: Lake) -> ColumnTraces:
        """Return the traces of the tables."""
        stores = {table.name: lake.column_lineage(table.name) for table in self.tables}
        identity = identity_of(self.code_version, *self.tables, *self.reads.upstream)
        return ColumnTraces(stores, identity, [table.name for table in self.reads.upstream])

    def _targets(self, step: Step, tables: Sequence[Table]) -> list[Target]:
        """Return the target of each table; the first one alone gets the audits, and the cost of the rows read.

        All of the tables are written from one pass.
        """
        own, *beside = tables
        free = replace(step, provenance=replace(step.provenance, read=Cost(rows_read=0, files_read=0, bytes_read=0)))
        return [step.target(own, tuple(self.gates.audits)), *map(free.target, beside)]

    def _find_inputs(
        self,
        request: Request,
        tables: Sequence[Table],
        upstream: Mapping[TableSpec, Table],
        more: Mapping[str, Any],
        refusals: Refusals,
        states: RunStates = without_runs,
    ) -> Inputs:
        """Pin the upstream tables and find the inputs in the sources, before the computation."""
        handed = self._in_turn(request, tables, upstream, refusals)
        pinned = tuple(
            pin(upstream[table], feed, request.key, at=request.at, states=states)
            for table, feed in self.reads.tables.items()
        )
        versions = {each.table.name: each.changed for each in (*pinned, *handed) if each.partitions}
        references = tuple(pin(upstream[table], whole(), "") for table in self.reads.references)
        for each in references:
            if each.table.spec in self.reads.revised_by:
                revisions = Revisions.of(each.table.ledger, until=each.version)
                versions[each.table.name] = revisions.newest(request.key)
        found = Inputs({})
        if self.reads.inputs is not None:
            given: Given = {Request: [request], Pinned: pinned, Table: tables}
            found = self.reads.inputs(**arguments(self.reads.inputs, given, more))
        # A change of any upstream table raises the sum.
        sequence = sum(versions.values()) if pinned and found.sequence is None else found.sequence
        noted: dict[str, Mapping[str, Any]] = {
            "references": {each.table.name: each.version for each in references},
            "branches": {each.table.name: note_of(each.branches) for each in pinned if each.branches},
        }
        notes = {name: facts for name, facts in noted.items() if facts}
        return replace(
            found,
            identities={**versions, **found.identities},
            sequence=sequence,
            notes={**found.notes, **notes},
            pinned=(*pinned, *references, *handed),
        )

    def _in_turn(
        self, request: Request, tables: Sequence[Table], upstream: Mapping[TableSpec, Table], refusals: Refusals
    ) -> tuple[Pinned, ...]:
        """Return the rows handed over by the previous partition, of a table in order.

        Raises:
            NotReady: if an earlier partition has not succeeded.
        """
        if not self.runs.in_order or self.runs.partitions is None:
            return ()
        before = earlier_keys(self.runs.partitions, request.key, request.at)
        feeds = {upstream[table]: feed for table, feed in self.reads.tables.items()}
        require_turn(
            tables[0], request.key, before=before, fed=lambda: fed_keys(feeds), refused=lambda: refusals.by_key().keys()
        )
        return tuple(handed_over(each, before) for each in tables if each.spec == self.hands_over)


def lake_table(
    spec: TableSpec,
    *,
    reads: SaysReads,
    patterns: Patterns,
    about: SaysAbout = None,
    code_version: str = "1",
    runs: SaysRuns = None,
    gates: SaysGates = (),
    beside: Mapping[TableSpec, Patterns] = NOTHING,
) -> Callable[[Callable[P, WriteResult]], LakeTable[P]]:
    """Declare the table that the decorated function computes.

    The function's parameters say by their types what it gets: a :class:`Pinned` for each table of ``reads``, for each
    of its references and for the table that an order hands over, a :class:`Target` for the declared table (with the
    audits of ``gates``) and for each one ``beside`` it, in the order of the declaration, and the :class:`Step`; any
    other parameter is the resource of its name.

    Args:
        spec: the table.
        reads: inputs; or upstream tables alone, each of which feeds a partition by the partition with the same value,
            and a table without partitions by all its rows; or upstream tables with their mappings.
        patterns: the patterns at work, the main one first.
        about: owner, and other facts for the catalogue, with those of the layer; or a text, who reads the table.
        code_version: to be raised when the function computes something else.
        runs: when and in which order partitions are computed; or the partitions alone, or what asks for them alone. By
            default the table follows the tables that it reads: by day if ``reads`` is a list of tables and the table
            is partitioned by a DATE, otherwise as a whole.
        gates: rules that decide on a publish; or the audits alone.
        beside: further tables that the function writes -> the patterns at work in each.

    Raises:
        ConfigError: names the table, and the option that is wrong or does not go with another one.
    """

    def declare(function: Callable[P, WriteResult]) -> LakeTable[P]:
        when, facts = runs_of(runs, spec, reads), about_of(about, spec.name, function.__module__)
        found, judged = reads_of(reads, spec, when), gates_of(gates, spec, patterns)
        return LakeTable(function, spec, found, when, judged, facts, patterns, code_version, beside)

    return declare


def _upstream(table: TableSpec, feed: Feed) -> dg.AssetDep:
    """Make the dependency on an upstream table.

    Where a key takes several upstream keys, Dagster has to be told that the first ones may be no partition: it would
    refuse to backfill the week in which the calendar begins.
    """
    mapping = dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True) if feed.spans else None
    return dg.AssetDep(asset_key(table), partition_mapping=mapping)
