"""Commit of staged files in place of the files of the owned partition."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from deltalake.transaction import AddAction

from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.commit import file_exchange
from dedp_assets.patterns.delta.commit.commits import Operation
from dedp_assets.patterns.delta.commit.idempotency import Decision
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.staging.stages import Stage, written

__all__ = ["commit_files"]


def commit_files(
    state: TableState,
    stage: Stage,
    record: CommitRecord,
    decision: Decision,
    meter: Meter,
    *,
    append: bool = False,
    only: Collection[Partition] | None = None,
) -> None:
    """Commit the removal of old files and the addition of staged files, with transaction id and record.

    Args:
        state: the table as it was when the write was decided on.
        stage: the staged files, which are not committed if the partition holds the same rows already.
        record: goes into the commit as its user metadata.
        decision: transaction id and version.
        meter: what the write has cost so far.
        append: keep the partition's present files.
        only: replace just these partitions among the ones the write owns.

    Raises:
        Conflict: if another writer changed what this commit replaces.
    """
    adds: Sequence[AddAction] = stage.adds
    gone = [] if append else [f for f in state.keyed_files() if record.partition.items() <= dict(f[1]).items()]
    if decision.same_rows:
        adds, gone = (), []
    elif only is not None and not decision.repair:
        adds = [add for add in adds if _key(add.partition_values) in only]
        gone = [(file, key) for file, key in gone if key in only]
    by = json.dumps(list(state.partition_columns))
    operation = Operation(
        "WRITE",
        {"mode": "Append" if append else "Overwrite", "partitionBy": by},
        {
            "numFiles": len(adds),
            "numOutputRows": record.rows.get("written", 0),
            "numOutputBytes": sum(add.size for add in adds),
        },
    )
    # A repair is like a compaction: other files, the same rows, so nobody downstream has to do anything.
    change = not decision.repair
    file_exchange.exchange_files(
        stage.store.above(),
        state,
        adds,
        gone,
        record=record.costing(meter.cost() + written(adds)),
        decision=decision,
        operation=operation,
        data_change=change,
    )


def _key(values: Mapping[str, str | None]) -> Partition:
    return tuple(sorted(values.items()))
