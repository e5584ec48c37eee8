"""Rewritten files: staged files with the rows of active files, merged, in order, or unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.layout import LAID_OUT, written_by
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.delta.commit import commits, file_exchange
from dedp_assets.patterns.delta.commit.sessions import private
from dedp_assets.patterns.delta.log.partition_values import Partition, partition_name
from dedp_assets.patterns.delta.log.table_state import Files, TableState
from dedp_assets.patterns.delta.maintenance.file_order import FileOrder
from dedp_assets.patterns.delta.snapshots.reading import read_files
from dedp_assets.patterns.delta.staging.guards import layout_of
from dedp_assets.patterns.delta.staging.metrics import Measuring
from dedp_assets.patterns.delta.staging.stage_files import stage_rows
from dedp_assets.patterns.delta.staging.stages import Stage, new_stage
from dedp_assets.patterns.delta.tables import Table

__all__ = [
    "Rewritten",
    "described_file",
    "discard_stages",
    "each_file",
    "merged_files",
    "staged_files",
]

_ROWS = f"{RESERVED}rows"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Files of one partition before and after: active files, staged add actions, the stage."""

    key: Partition
    old: Sequence[Mapping[str, Any]]
    new: Sequence[Mapping[str, Any]]
    stage: Stage


def discard_stages(rewritten: Sequence[Rewritten]) -> None:
    """Remove the stages of files that no commit names."""
    for stage in {part.stage.store.name: part.stage for part in rewritten}.values():
        stage.discard()


def staged_files(
    table: Table, state: TableState, files: Files, order: FileOrder | None, target_bytes: int
) -> Iterator[Rewritten]:
    """Stage the rows of each partition, in order or unchanged, with a count in the same pass."""
    tags = order.tags() if order else {}
    if made := written_by(state.properties):
        tags = {**tags, "tags": {**tags.get("tags", {}), LAID_OUT: made}}
    for key, part in files.items():
        owned: dict[str, Any] = dict(key)
        counts: list[Any] = [file.get("num_records") for file in part]
        size = sum(file["size_bytes"] for file in part)
        rows = read_files(table.session, table.store, state, [(file, key) for file in part])
        measuring = Measuring({_ROWS: "count(1)"}, landed={None: (_ROWS,)})
        count, total = -(-size // target_bytes), None if None in counts else sum(counts)
        arranged = order.arranged(rows, count, total) if order else rows.coalesce(count)
        stage = stage_rows(Split.of(arranged), layout_of(table, state, owned), measuring=measuring)
        new = [{**file_exchange.add_action(add, data_change=False), **tags} for add in stage.adds]
        try:
            yield _same_rows(table.name, Rewritten(key, part, new, stage))
        except ContractError:
            stage.discard()
            raise


def merged_files(table: Table, state: TableState, files: Files, settings: Mapping[str, str]) -> list[Rewritten]:
    """Run OPTIMIZE in a stage; return old and new files by partition."""
    stage = new_stage(table.store)
    try:
        return _optimised(table, state, stage, files, settings)
    except Exception:
        stage.discard()
        raise


def _optimised(
    table: Table, state: TableState, stage: Stage, files: Files, settings: Mapping[str, str]
) -> list[Rewritten]:
    sources = {f"{table.store.uri}/{file['path']}": (key, file) for key, file in each_file(files)}
    adds = [
        {"add": {**described_file(file, key), "path": uri, "modificationTime": file["modification_time"]}}
        for uri, (key, file) in sources.items()
    ]
    commits.write(stage.store, 0, [*_declaration(state), *adds])
    with private(table.session, settings) as own:
        own.sql(f"OPTIMIZE delta.`{stage.store.address}`").collect()
    old: dict[Partition, list[Mapping[str, Any]]] = {}
    new: dict[Partition, list[Mapping[str, Any]]] = {}
    for action in commits.read_actions(stage.store, 1):
        if remove := action.get("remove"):
            key, file = sources[remove["path"]]
            old.setdefault(key, []).append(file)
        elif add := action.get("add"):
            made = {**add, "path": f"{stage.store.name}/{add['path']}"}
            new.setdefault(tuple(sorted(add["partitionValues"].items())), []).append(made)
    if set(old) != set(new):
        # Values that Spark writes in another way than they were read: nothing tells the partitions apart.
        old, new = {(): [file for _, file in each_file(old)]}, {(): [add for _, add in each_file(new)]}
    found = [_same_rows(table.name, Rewritten(key, old[key], new[key], stage)) for key in old if new[key]]
    if not found:
        stage.discard()
    return found


def _same_rows(table: str, rewritten: Rewritten) -> Rewritten:
    before: list[Any] = [file.get("num_records") for file in rewritten.old]
    after = sum(json.loads(add["stats"])["numRecords"] for add in rewritten.new)
    if None not in before and sum(before) != after:
        raise ContractError(
            f"{table} {partition_name(rewritten.key)}: the log says that its files hold {sum(before)} rows, "
            f"{after} were read from them. Nothing was exchanged: compare the files with the log"
        )
    return rewritten


def described_file(file: Mapping[str, Any], key: Partition) -> dict[str, Any]:
    """Return the fields of an active file that add and remove actions share, without a change of data."""
    return {**file_exchange.shared_fields(file, key), "dataChange": False}


def _declaration(state: TableState) -> Iterator[dict[str, Any]]:
    """Build protocol and metadata actions with the columns and statistics properties of ``state``."""
    statistics = {name: value for name, value in state.properties.items() if name.startswith("delta.dataSkipping")}
    yield from commits.declaration(
        state.snapshot.schema().to_json(),
        state.partition_columns,
        configuration=statistics,
        protocol=_without_clustering(state.protocol),
    )


def _without_clustering(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protocol for a stage, whose log states no clustering columns."""
    features = protocol.get("writerFeatures")
    kept = [each for each in features or () if each not in ("clustering", "domainMetadata")]
    return {**protocol, **({"writerFeatures": kept} if features is not None else {})}


def each_file(files: Mapping[Partition, Iterable[Any]]) -> Iterator[tuple[Partition, Any]]:
    """List files with their partitions."""
    return ((key, file) for key, part in files.items() for file in part)
