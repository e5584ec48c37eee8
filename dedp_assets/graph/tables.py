"""Tables of the graph, declared by one decorator over one function.

The function holds the idea and nothing else: it gets its inputs pinned and the tables it writes, and returns what the
pattern returned. Everything that Dagster needs follows from the declaration.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, Generic, Literal, ParamSpec, get_type_hints

import dagster as dg

from dedp_assets.graph.batches import Inputs, Step, Work, owned_by
from dedp_assets.graph.feeds import Feed, Pinned, pin, whole
from dedp_assets.graph.figures import Figure
from dedp_assets.graph.lineage import column_lineage
from dedp_assets.graph.refusals import Refusals
from dedp_assets.graph.revisions import Revisions
from dedp_assets.graph.run_tags import told
from dedp_assets.graph.runner import run
from dedp_assets.graph.sources import Source
from dedp_assets.graph.specs import LAUNCHPAD, asset_key, asset_spec, check_specs, code_of
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.tables import Table
from resources.lake import Lake

__all__ = ["LakeTable", "Request", "declared", "lake_table", "sources"]

P = ParamSpec("P")
Given = Mapping[type, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Request:
    """What a run asks of a table, for the function that looks at the sources before anything is computed.

    Attributes:
        key: partition key; empty for a table without partitions.
        at: when the run started.
        run_id: Dagster's id of the run.
        trigger: what the event that started the run told it, by name; empty for other runs.
    """

    key: str
    at: datetime
    run_id: str
    trigger: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class LakeTable(Generic[P]):
    """A declared table: the function that computes it, still callable, and what Dagster makes of it.

    Attributes:
        function: computes and publishes one partition, from a :class:`Step`.
        spec: the table.
        beside: further tables that the function writes.
        reads: upstream table -> how its partitions feed this one's.
        references: tables that the function looks something up in, by the time of its rows: read whole, as they are
            when a run begins. A change of one asks for nothing; before all are there, nothing is asked for.
        revised_by: those of them whose commits say which day they begin to be about (``TRUE_SINCE``): days from there
            on are asked for again.
        inputs: looks at sources that are no tables of the lake; called with a :class:`Request`.
        partitions: the table's partitions in the graph.
        audits: rules over the rows, each a check.
        checks: further checks that block, by name, with what they say.
        reports: checks that say something and block nothing.
        patterns: the patterns at work in the function, the main one first.
        beside_patterns: the patterns at work in each table beside it.
        owner: who answers for the table.
        code_version: to be raised when the function computes something else.
        follows: whether a change upstream asks for the partitions that it feeds; ``"late"``: for those that the table
            has computed before, while the first time something else asks (a look-back, once their time is over).
        needs: says why a service that the function needs beside tables does not answer; empty, if it does. Until then
            the table waits and nothing else does: it is computed in runs of its own.
        in_order: whether each partition is an execution that changes what the ones before it left: it is run after
            them, and they are asked for again where one before them changes.
        lands: dataset of the landing zone -> job that loads a delivery of it. Each folder below the dataset is a
            partition of the table; without partitions it holds one delivery, complete each time. The commit that loaded
            a delivery names it (``notes["delivery"]``).
        started_by: job -> filters over the attributes of the events that start it.
        sources: where outside of the lake the rows come from.
        derived: column -> upstream columns that it is computed from, where it is not the one of the same name.
        fresh: how old the newest data may be: for a partitioned table the time since its newest partition with rows
            ended, otherwise since the last publish.
        figures: how figures are shown, where their name does not say enough.
        used_by: who reads a table that no table of the graph reads.
        replay: processes the dead letters of one partition alone, from a :class:`Step`; an asset of its own runs it.
    """

    function: Callable[P, WriteResult]
    spec: TableSpec
    patterns: Sequence[Callable[..., Any]]
    owner: str
    code_version: str
    beside: Mapping[TableSpec, Sequence[Callable[..., Any]]] = field(default_factory=dict)
    reads: Mapping[TableSpec, Feed] = field(default_factory=dict)
    references: Sequence[TableSpec] = ()
    revised_by: Sequence[TableSpec] = ()
    inputs: Callable[..., Inputs] | None = None
    partitions: dg.PartitionsDefinition[str] | None = None
    audits: Sequence[Audit] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, str] = field(default_factory=dict)
    follows: bool | Literal["late"] = True
    needs: Callable[[], str] | None = None
    in_order: bool = False
    lands: Mapping[str, str] = field(default_factory=dict)
    started_by: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    sources: Sequence[Source] = ()
    derived: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fresh: timedelta | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    used_by: str = ""
    replay: Callable[[Step, Table, Table], WriteResult] | None = None

    def __post_init__(self) -> None:
        if not self.reads and self.inputs is None:
            raise ConfigError(f"{self.spec.name} reads nothing: name tables (reads=) or look at a source (inputs=)")
        if {*self.revised_by} - {*self.references} or (self.revised_by and not _is_daily(self.partitions)):
            raise ConfigError(
                f"{self.spec.name}: revised_by= is for references of a table with a partition for each day"
            )
        self._resources()
        self.lineage()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> WriteResult:
        """Compute one partition, without Dagster."""
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The step and the pool that the table is computed in."""
        return self.spec.name.replace("/", "_")

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """Every table that the function writes."""
        return (self.spec, *self.beside)

    def lineage(self) -> dict[str, dg.TableColumnLineage]:
        """Name the upstream columns that each column of each table is computed from."""
        if strange := sorted({*self.derived} - {column for table in self.tables for column in table.columns}):
            raise ConfigError(f"{self.spec.name}: derived= names {', '.join(strange)}, which no table here has")
        upstream = (*self.reads, *self.references)
        return {table.name: column_lineage(table, upstream, self.derived) for table in self.tables}

    def definition(self) -> dg.AssetsDefinition:
        """Make the assets that Dagster materializes."""
        patterns = {self.spec: self.patterns, **self.beside}
        used = {"used by": self.used_by} if self.used_by else {}

        @dg.multi_asset(
            specs=[
                asset_spec(
                    table,
                    patterns=patterns[table],
                    owners=[self.owner],
                    code_version=self.code_version,
                    deps=[
                        *(_upstream(read, feed) for read, feed in self.reads.items()),
                        *map(asset_key, self.references),
                        *(source.key for source in self.sources),
                        *self._before(table),
                    ],
                    partitions=self.partitions,
                    fresh=self.fresh,
                    metadata={**used, "dagster/code_references": code_of(self.function)},
                )
                for table in self.tables
            ],
            check_specs=check_specs(self.spec, self.audits, self.checks, self.reports, partitions=self.partitions),
            config_schema=LAUNCHPAD,
            required_resource_keys={"lake", "clock", *self._resources()},
            name=self.name,
            pool=self.name,
            description=inspect.getdoc(self.function),
        )
        def compute(context: dg.AssetExecutionContext) -> Iterator[Any]:
            at = context.resources.clock.now()
            yield from run(context, self._work(context, at), at=at)

        return compute

    def is_current(self, lake: Lake, key: str, at: datetime) -> bool:
        """Tell by the logs whether a partition was computed from what a run would read now, by the code of now.

        Raises:
            NotReady: if a run of it would not be ready.
        """
        tables, upstream = [lake.table(table) for table in self.tables], {spec: lake.table(spec) for spec in self.reads}
        found = self._look(Request(key, at, "", {}), tables, upstream, {})
        owned = owned_by(key, self.spec)
        commit = tables[0].ledger.latest(owned) if tables[0].ledger.exists() else None
        if commit is None or commit.record is None:
            return False
        return (commit.record.inputs, commit.record.code_version) == (found.identities, self.code_version)

    def _before(self, table: TableSpec) -> list[dg.AssetDep]:
        """Make each partition of a table in order depend on the partition before it.

        A table depends on itself and not on those beside it: Dagster plans no backfill for tables in a circle.
        """
        mapping = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
        return [dg.AssetDep(asset_key(table), partition_mapping=mapping)] if self.in_order else []

    def _work(self, context: dg.AssetExecutionContext, at: datetime) -> Work:
        lake = context.resources.lake
        tables = [lake.table(table) for table in self.tables]
        upstream = {table: lake.table(table) for table in (*self.reads, *self.references)}
        more = {name: getattr(context.resources, name) for name in self._resources()}

        def look(key: str) -> Inputs:
            request = Request(key, at, context.run.run_id, told(context.run.tags))
            return self._look(request, tables, upstream, more)

        def build(step: Step) -> WriteResult:
            given: Given = {Step: [step], Pinned: step.inputs.pinned, Table: tables}
            compute: Callable[..., WriteResult] = self.function
            return compute(**_arguments(compute, given, more))

        refusals = Refusals(lake.refused(self.spec.name))
        return Work(tables[0], look, build, tuple(tables[1:]), self.figures, self.lineage(), refusals)

    def _look(
        self, request: Request, tables: Sequence[Table], upstream: Mapping[TableSpec, Table], more: Mapping[str, Any]
    ) -> Inputs:
        """Pin the upstream tables and look at the sources, before anything is computed."""
        pinned = tuple(pin(upstream[table], feed, request.key) for table, feed in self.reads.items())
        versions = {each.table.name: each.changed for each in pinned}
        looked_up = tuple(pin(upstream[table], whole(), "") for table in self.references)
        for each in looked_up:
            if each.table.spec in self.revised_by:
                revisions = Revisions.of(each.table.ledger, until=each.version)
                versions[each.table.name] = revisions.newest(request.key)
        found = Inputs({})
        if self.inputs is not None:
            given: Given = {Request: [request], Pinned: pinned, Table: tables}
            found = self.inputs(**_arguments(self.inputs, given, more))
        # A change of any upstream table raises the sum.
        sequence = sum(versions.values()) if pinned and found.sequence is None else found.sequence
        notes = {"references": {each.table.name: each.version for each in looked_up}} if looked_up else {}
        return replace(
            found,
            identities={**versions, **found.identities},
            sequence=sequence,
            notes={**found.notes, **notes},
            pinned=(*pinned, *looked_up),
        )

    def _resources(self) -> set[str]:
        """Name the resources that the functions ask for, by parameter."""
        read, counts = len(self.reads), {Step: 1, Table: len(self.tables)}
        names = _others(self.spec.name, self.function, {**counts, Pinned: read + len(self.references)})
        seen = {**counts, Pinned: read, Request: 1, Step: 0}
        looks = _others(self.spec.name, self.inputs, seen) if self.inputs else set()
        return names | looks


def lake_table(
    spec: TableSpec,
    *,
    patterns: Sequence[Callable[..., Any]],
    owner: str,
    code_version: str,
    **more: Any,  # noqa: ANN401 - the other attributes of LakeTable
) -> Callable[[Callable[P, WriteResult]], LakeTable[P]]:
    """Declare the table that the decorated function computes.

    The function's parameters say by their types what it gets: the :class:`Step`, a :class:`Pinned` for each table of
    ``reads``, then of ``references``, and a :class:`Table` for the declared table and each one ``beside`` it, in the
    order of the declaration;
    any other parameter is the resource of its name.

    Args:
        spec: the table.
        patterns: the patterns at work, the main one first.
        owner: who answers for the table, ``team:<name>`` or an address.
        code_version: to be raised when the function computes something else.
        **more: the other attributes of :class:`LakeTable`.

    Raises:
        ConfigError: if the table reads nothing, an option is not offered, or the function asks for more tables than are
            declared.
    """
    offered = [each.name for each in fields(LakeTable) if each.name not in ("function", "spec")]
    if unknown := sorted(set(more) - set(offered)):
        raise ConfigError(f"{spec.name}: lake_table takes no {', '.join(unknown)}; it offers {', '.join(offered)}")

    def declare(function: Callable[P, WriteResult]) -> LakeTable[P]:
        return LakeTable(function, spec, patterns, owner, code_version, **more)

    return declare


def declared(package: ModuleType) -> list[LakeTable[...]]:
    """Collect the declared tables of all modules below a package, by name."""
    found = {}
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, LakeTable):
                found[value.spec.name] = value
    return [found[name] for name in sorted(found)]


def sources(tables: Iterable[LakeTable[...]]) -> list[Source]:
    """List the sources of the declared tables, each once, by name.

    Raises:
        ConfigError: if two differing ones have the same name.
    """
    found: dict[str, Source] = {}
    for source in (source for table in tables for source in table.sources):
        if found.setdefault(source.name, source) != source:
            raise ConfigError(f"{source.name} is declared twice as a source, and differently: import the one declared")
    return [found[name] for name in sorted(found)]


def _arguments(function: Callable[..., Any], given: Given, more: Mapping[str, Any]) -> dict[str, Any]:
    """Match the parameters of a function with what there is: by type and order, or else by name."""
    kinds = get_type_hints(function)
    left = {kind: iter(values) for kind, values in given.items()}
    return {name: next(left[kinds[name]]) if kinds.get(name) in left else more[name] for name in _parameters(function)}


def _upstream(table: TableSpec, feed: Feed) -> dg.AssetDep:
    """Make the dependency on an upstream table.

    Where a key takes several upstream keys, Dagster has to be told that the first ones may be no partition: it would
    refuse to backfill the week in which the calendar begins.
    """
    mapping = dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True) if feed.spans else None
    return dg.AssetDep(asset_key(table), partition_mapping=mapping)


def _is_daily(partitions: dg.PartitionsDefinition[str] | None) -> bool:
    return isinstance(partitions, dg.DailyPartitionsDefinition)


def _others(table: str, function: Callable[..., Any], counts: Mapping[type, int]) -> set[str]:
    """Name the parameters that are resources; refuse more of a kind than is declared."""
    kinds = [get_type_hints(function).get(name) for name in _parameters(function)]
    for kind, count in counts.items():
        if kinds.count(kind) > count:
            raise ConfigError(
                f"{function.__name__} takes {kinds.count(kind)} parameters of type {kind.__name__}, but {table} "
                f"declares {count}: name the others in beside= or reads="
            )
    return {name for name, kind in zip(_parameters(function), kinds, strict=True) if kind not in counts}


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)
