"""Rules of a declaration: combinations of options that are refused at import, each with a sentence."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_type_hints

import dagster as dg

from dedp_assets.graph.catalogue.calendars import first_window, is_within_a_day, unsorted_keys
from dedp_assets.graph.catalogue.table_names import is_table_name
from dedp_assets.graph.declare.expects import Expects
from dedp_assets.graph.declare.records import EMPTY, About, Gates, Reads
from dedp_assets.graph.declare.runs import (
    AtOnce,
    Branch,
    Follow,
    InOrder,
    Nightly,
    OnDelivery,
    OnMarkers,
    OnRequest,
    Runs,
)
from dedp_assets.graph.declare.sequencing import faults_of_sequence
from dedp_assets.graph.inputs.feeds import Feed, Span
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.leaving import is_export, require_classified, require_may_leave
from dedp_assets.patterns.core.measuring.partition_times import TimeSpan, utc_span
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.running.demands import demands_of
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.flow.concurrent_runner import plan_starts

__all__ = [
    "not_a", "require_apart", "require_fit", "require_leaving", "require_named", "require_owned", "require_sound",
    "require_targets",
]  # fmt: skip


def require_sound(
    table: str, reads: Reads, runs: Runs, gates: Gates, about: About, patterns: Sequence[Callable[..., Any]]
) -> None:
    """Refuse a declaration with a wrong option or contradictory options.

    Raises:
        ConfigError: names the table and the option, what it must be, and what it is.
    """
    for record, kind in ((reads, Reads), (runs, Runs), (gates, Gates), (about, About)):
        _require_record(table, record, kind)
    for start in (*runs.stated, *runs.starts):
        _require_record(table, start, type(start))
    faults = [
        *_of_reads(reads, runs),
        *_of_spans(reads, runs),
        *_of_order(runs),
        *_of_starts(reads, runs),
        *_of_markers(reads, runs),
        *_of_gates(gates),
        *_of_partitions(runs),
        *_of_expects(about.expects, reads, runs),
        *_of_about(about),
    ]
    faults += faults_of_sequence(table, reads.upstream, runs.sequence)
    if not patterns:
        faults.append("patterns must name the pattern at work, not nothing")
    if not reads.tables and reads.inputs is None:
        raise ConfigError(f"{table} reads nothing: name tables (Reads(tables=)) or a function (Reads(inputs=))")
    if faults:
        raise ConfigError(f"{table}: {faults[0]}")


def require_named(tables: Sequence[TableSpec]) -> None:
    """Refuse a table name of which no asset key can be made.

    Raises:
        ConfigError: names the table.
    """
    for table in tables:
        if not is_table_name(table.name):
            raise ConfigError(f"{table.name}: name must be layer/dataset, of letters, digits and _, not {table.name!r}")


def require_owned(tables: Sequence[TableSpec], runs: Runs) -> None:
    """Refuse a written table without partitions or executions, if runs compute partitions.

    Each run would replace the whole table.

    Raises:
        ConfigError: names the table.
    """
    for table in tables if runs.partitions is not None else ():
        if not table.partition_by and not table.executed_by:
            raise ConfigError(f"{table.name}: partition_by must name the column of partition keys, not nothing")


def require_fit(table: TableSpec, runs: Runs, patterns: Sequence[Callable[..., Any]]) -> None:
    """Refuse a table, or runs, that one of the patterns cannot write with any options.

    Raises:
        ConfigError: names the table, the pattern, and what the table or its runs must be.
    """
    for pattern in patterns:
        name = pattern.__module__.removeprefix("dedp_assets.patterns.")
        demands_of(pattern).require(name, table, partitioned=runs.partitions is not None)


def require_apart(tables: Sequence[TableSpec], runs: Runs) -> None:
    """Refuse several runs at once that change the same state, and a state that no run of the table writes.

    Raises:
        ConfigError: names the table, and the state.
    """
    name = tables[0].name
    if runs.at_once:
        whole = [table.name for table in tables if runs.partitions is None or table.executed_by]
        shared = [*([runs.at_once.shares] if runs.at_once.shares else []), *(f"the rows of {each}" for each in whole)]
        shares = {name: " and ".join(shared)} if shared else {}
        plan_starts({}, {}, slots={name: runs.at_once.runs}, shares=shares)
    if runs.order and runs.order.hands_over and runs.order.hands_over not in tables:
        raise ConfigError(
            f"{name}: InOrder.hands_over must be among the written tables, not {runs.order.hands_over.name}"
        )
    if runs.order and runs.order.hands_over and not runs.order.hands_over.partition_by:
        raise ConfigError(f"{name}: InOrder.hands_over must be a table with partitions, not an execution's")


def require_leaving(tables: Sequence[TableSpec], reads: Reads) -> None:
    """Refuse a table for others with columns without a class, or with persons and no purpose.

    Raises:
        ConfigError: names the table, the columns and the missing declaration.
    """
    for table in tables:
        if not is_export(table.name):
            continue
        for each in (table, *reads.upstream):
            require_classified(each.name, each.columns, to=table.name)
        require_may_leave(table.name, table.columns, "export", to=table.name, may_hold_personal=True, instead="")
        if vague := [name for name in table.withheld("export") if not table.columns[name].purpose]:
            column = table.columns[vague[0]]
            raise ConfigError(
                f"{table.name}: columns {vague} must state what they leave for, as they lead to persons, not nothing: "
                f'such as Column("{column.type}", classification="{column.classification}", purpose=("research",))'
            )


def require_targets(table: str, function: Callable[..., Any]) -> None:
    """Refuse a function with a ``Table`` parameter: outputs are ``Target``, with table, run and audits.

    Raises:
        ConfigError: names the parameter.
    """
    for name, kind in get_type_hints(function).items():
        if kind is Table:
            raise ConfigError(
                f"{name} must be a Target, not a Table: {function.__name__} of {table} writes to a target"
            )


def not_a(kind: type, table: str, stated: object) -> ConfigError:
    """Return the error of something else where a record must be."""
    return ConfigError(f"{table}: {kind.__name__.lower()} must be {kind.__name__}(...), not {stated!r:.80}")


def _require_record(table: str, record: object, kind: type) -> None:
    if not isinstance(record, kind):
        raise not_a(kind, table, record)
    try:
        require_types(record)
    except ConfigError as error:
        raise ConfigError(f"{table}: {error}") from None


def _of_reads(reads: Reads, runs: Runs) -> Iterator[str]:
    if strange := [spec.name for spec in reads.revised_by if spec not in reads.references]:
        yield f"revised_by must be among the references, not {', '.join(strange)}"
    if reads.revised_by and not isinstance(runs.partitions, dg.DailyPartitionsDefinition):
        yield f"partitions must be days for revised_by, not {_kind(runs.partitions)}"


def _of_spans(reads: Reads, runs: Runs) -> Iterator[str]:
    """Yield the fault of partitions of another time than the upstream partitions."""
    partitions = runs.partitions
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return
    key, window = first_window(partitions)
    for spec, feed in reads.tables.items():
        if isinstance(feed, Span) and feed.fills and not _is_filled(key, window, feed):
            yield (
                f"partitions must be the days in UTC, or weeks from Monday on, that {spec.name} feeds, not {key} from "
                f"{window.begin.isoformat()} to {window.end.isoformat()}"
            )


def _is_filled(key: str, window: TimeSpan, feed: Feed) -> bool:
    try:
        parts = feed.reads(key)
        times = [utc_span(value or "") for part in parts for value in part.values()]
        known = [each for each in times if each]
        ends = (min(each.begin for each in known), max(each.end for each in known))
    except ValueError:  # a key that is no day, such as 2026-01
        return False
    return ends == (window.begin, window.end) and all(key in feed.feeds(part) for part in parts)


def _of_order(runs: Runs) -> Iterator[str]:
    """Yield the faults of ``when``: no start, contradictory starts, or late data within an order."""
    kinds = (Follow, Nightly, InOrder, Branch, OnRequest)
    stated = [each.by if isinstance(each, AtOnce) else each for each in runs.stated]
    asking = [type(each).__name__ for each in stated if isinstance(each, kinds)]
    if not runs.stated:
        yield "when must name what asks for partitions, not nothing"
    if runs.in_order and runs.at_once:
        yield "when must hold one of InOrder and AtOnce, not both: an order has one run at once"
    if runs.order and runs.order.pending < 1:
        yield f"InOrder.pending must be 1 or more, not {runs.order.pending}"
    if len(asking) > 1:
        yield f"when must hold one of Follow, Nightly, InOrder, Branch and OnRequest, not {' and '.join(asking)}"
    if runs.branch and runs.partitions is None:
        yield "partitions must be there for Branch, not none"
    if runs.in_order and any(each.follows_late for each in runs.of(Nightly)):
        yield "Nightly.follows_late must be False within InOrder, not True"


def _of_starts(reads: Reads, runs: Runs) -> Iterator[str]:
    """Yield the faults of starts: requirements on inputs, partitions and options that are not met."""
    timed = isinstance(runs.partitions, dg.TimeWindowPartitionsDefinition)
    for start in runs.starts:
        name = type(start).__name__
        if isinstance(start, (Follow, Nightly)) and not reads.tables:
            yield f"Reads.tables must name the tables that {name} looks at, not nothing"
        if (isinstance(start, Nightly) or runs.in_order) and not timed:
            by = "InOrder" if runs.in_order else name
            yield f"partitions must be days or another time for {by}, not {_kind(runs.partitions)}"
        if isinstance(start, Nightly) and reads.waits_for_runs:
            yield "when must be Follow() or OnRequest() for unaligned upstream partitions, not Nightly"
        if isinstance(start, Nightly) and start.lookback < 0:
            yield f"Nightly.lookback must be 0 or more, not {start.lookback}"
        if isinstance(start, OnDelivery) and runs.partitions is not None and not timed:
            yield f"partitions must be days or another time, or none, for OnDelivery, not {_kind(runs.partitions)}"
        if isinstance(start, OnDelivery) and reads.inputs is None:
            yield "Reads.inputs must be a function that finds the delivery for OnDelivery, not None"


def _of_markers(reads: Reads, runs: Runs) -> Iterator[str]:
    """Yield the faults of a start by markers: no function for the inputs, or no partitions of time."""
    for _ in runs.of(OnMarkers):
        if not isinstance(runs.partitions, dg.TimeWindowPartitionsDefinition):
            yield f"partitions must be days or another time for OnMarkers, not {_kind(runs.partitions)}"
        if reads.inputs is None:
            yield "Reads.inputs must be finished(...) for OnMarkers, not None"


def _of_gates(gates: Gates) -> Iterator[str]:
    empty = [EMPTY] if gates.if_empty else []
    names = Counter([*(audit.name for audit in gates.audits), *gates.checks, *empty, *gates.reports])
    if twice := [name for name, count in names.items() if count > 1]:
        yield f"audits, checks and reports must have names of their own, not {', '.join(twice)} twice"


def _of_partitions(runs: Runs) -> Iterator[str]:
    """Yield the fault of partition keys that do not sort in time."""
    if pair := unsorted_keys(runs.partitions):
        earlier, later = pair
        yield f"partitions must have keys that sort in time, such as 2026-01-31, not {later} before {earlier}"


def _of_about(about: About) -> Iterator[str]:
    if not about.owner:
        yield "about.owner must be the team or person that answers for the table, here or in its layer, not nothing"


def _of_expects(expects: Expects, reads: Reads, runs: Runs) -> Iterator[str]:
    """Yield the faults of expectations that nothing in the declaration could meet."""
    timed = isinstance(runs.partitions, dg.TimeWindowPartitionsDefinition)
    for name in ("volume", "due"):
        if getattr(expects, name) is not None and not timed:
            yield f"expects.{name} must come with partitions of days or another time, not {_kind(runs.partitions)}"
    if expects.volume and expects.volume.season != "none" and not is_within_a_day(runs.partitions):
        yield f"expects.volume.season must be none for partitions longer than a day, not {expects.volume.season}"
    for name in ("lag_minutes", "lag_rows"):
        if getattr(expects, name) is not None and not reads.tables:
            yield f"expects.{name} must come with the tables that it looks at (Reads.tables), not alone"


def _kind(partitions: object) -> str:
    return "none" if partitions is None else type(partitions).__name__
