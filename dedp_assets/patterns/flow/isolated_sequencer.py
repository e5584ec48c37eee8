"""Isolated Sequencer: a consumer starts once for each finished result of another team's producer.

Problem: two teams own producer and consumer, nobody may edit the other's code, and B must start right after A.
Solution: a contract instead of a common pipeline. By markers, the producer leaves one for each finished partition and
    the consumer looks for those that it has not processed; by trigger, the producer starts the consumer's job itself.
Consequences: a marker couples by place and format, and costs a look; a trigger couples by the job's name, so that a
    renamed job fails the producer's trigger. The consumer judges columns and place before it reads a row.
Choose instead: Local Sequencer, for steps of one team; External Trigger, if the producer announces to nobody known.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql.types import StructType

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Finding, Plan
from dedp_assets.patterns.core.types.sql_types import spelled
from dedp_assets.patterns.delta import Table

__all__ = ["plan_by_markers", "judge_contract", "ProducerMarker"]

Start = Literal["all_markers", "last_marker"]
_HOUR = re.compile(r"\d{4}-\d{2}-\d{2}-([01]\d|2[0-3])")
_LAST = 23


@dataclass(frozen=True, slots=True)
class ProducerMarker:
    """A sign that the producer has finished a partition.

    Attributes:
        partition: key of the partition, an hour like ``2026-01-05-13`` if a consumer takes days.
        identity: identity of the finished content; another one after each change of it.
        refusal: why the content is incomplete; empty for complete content.
    """

    partition: str
    identity: str
    refusal: str = ""

    def __post_init__(self) -> None:
        require_types(self)


@typed
def plan_by_markers(
    markers: Iterable[ProducerMarker],
    *,
    processed: Mapping[str, str],
    period: Literal["same", "day"] = "same",
    start: Start = "all_markers",
) -> Plan:
    """Choose the consumer's partitions with unprocessed markers, oldest first.

    The identity of the markers is the cursor: whatever order they come in, and however often a process restarts, each
    content starts one run. A partition of which the producer changes a part starts again, and no other one does.

    Args:
        markers: the newest marker of each of the producer's partitions, in any order.
        processed: the consumer's partition -> identity (``cursor`` of the plan) that it was started for last.
        period: partition of the consumer: ``same`` as the producer's, or the ``day`` of 24 hourly ones.
        start: ``all_markers`` waits for 24 of a day; ``last_marker`` starts a day at the marker of its last hour, as a
            producer's trigger does that fires at that hour alone, and takes the other hours to be there.

    Raises:
        ConfigError: for markers of other partitions than hours, if the period is a day.
        ContractError: for two markers of a partition.

    Example:
        >>> hours = [ProducerMarker(f"2026-01-05-{hour:02}", "v1") for hour in range(24)]
        >>> plan_by_markers(hours[:23], processed={}, period="day").held
        {'2026-01-05': '1 of 24 hours have no marker: 23'}
        >>> plan_by_markers(hours, processed={}, period="day").partitions
        ('2026-01-05',)
    """
    by_key: dict[str, dict[str, ProducerMarker]] = {}
    for marker in markers:
        group = by_key.setdefault(_key_of(marker, period), {})
        if marker.partition in group:
            raise ContractError(f"markers must be one of each partition, not two of {marker.partition}")
        group[marker.partition] = marker
    chosen: dict[str, str] = {}
    held: dict[str, str] = {}
    for key, group in sorted(by_key.items()):
        identity = _identity(group, period)
        if processed.get(key) == identity:
            continue
        if reason := _lacks(key, group, period, start):
            held[key] = reason
        else:
            chosen[key] = identity
    causes = {key: "marker changed" if key in processed else "marker" for key in chosen}
    return Plan(
        tuple(chosen), f"{len(chosen)} to start, {len(held)} held back", causes=causes, held=held, cursor=chosen
    )


@typed
def judge_contract(upstream: Table, *, columns: Mapping[str, str], partition_by: Sequence[str] = ()) -> Finding:
    """Judge place and columns of a producer's table against the contract, by the log alone.

    No row is read. Further columns of the producer break nothing.

    Args:
        upstream: the producer's table, opened at the location of the contract.
        columns: column -> type as Spark spells it in SQL, such as ``BIGINT`` or ``ARRAY<STRING>``.
        partition_by: partition columns in order; any if empty.

    Raises:
        ConfigError: without a column.
    """
    if not columns:
        raise ConfigError("columns must be the columns of the contract, not none")
    faults = [*_breaches(upstream, columns, partition_by)]
    note = f"{upstream.name} breaks the contract: {'; '.join(faults)}" if faults else ""
    return Finding("producer_keeps_the_contract", passed=not faults, figures={"breaches": len(faults)}, note=note)


def _breaches(upstream: Table, columns: Mapping[str, str], partition_by: Sequence[str]) -> Iterator[str]:
    if not upstream.ledger.exists():
        yield f"expected a table at {upstream.store.address}, found none"
        return
    state = upstream.ledger.state()
    stored = StructType.fromJson({"type": "struct", "fields": list(state.columns.values())})
    found = {field.name.lower(): spelled(field.dataType) for field in stored.fields}
    for name, kind in columns.items():
        held = found.get(name.lower(), f"no such column among {', '.join(state.columns)}")
        if _plain(held) != _plain(kind):
            yield f"expected {name} {kind}, found {held}"
    if partition_by and tuple(partition_by) != state.partition_columns:
        yield f"expected partition_by {', '.join(partition_by)}, found {', '.join(state.partition_columns) or 'none'}"


def _plain(kind: str) -> str:
    return "".join(kind.upper().split())


def _key_of(marker: ProducerMarker, period: str) -> str:
    if period == "same":
        return marker.partition
    if not _HOUR.fullmatch(marker.partition):
        raise ConfigError(f"markers must be of hours like 2026-01-05-13 for period=day, not of {marker.partition!r}")
    return marker.partition.rpartition("-")[0]


def _identity(group: Mapping[str, ProducerMarker], period: str) -> str:
    """Return the identity of a period: of the only marker, or a digest over all hours."""
    named = {marker.partition: marker.identity for marker in group.values()}
    if period == "same":
        return next(iter(named.values()))
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]


def _lacks(key: str, group: Mapping[str, ProducerMarker], period: str, start: Start) -> str:
    """Return the reason that a period may not start yet; empty for a finished period."""
    if refused := sorted(marker.partition for marker in group.values() if marker.refusal):
        return "; ".join(f"{each} is incomplete: {group[each].refusal}" for each in refused)
    if period == "same":
        return ""
    wanted = [_LAST] if start == "last_marker" else range(_LAST + 1)
    missing = [f"{hour:02}" for hour in wanted if f"{key}-{hour:02}" not in group]
    return f"{len(missing)} of {len(wanted)} hours have no marker: {', '.join(missing)}" if missing else ""
