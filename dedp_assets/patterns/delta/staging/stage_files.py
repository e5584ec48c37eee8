"""Staging job: rows written as Parquet files into a stage, and measured in the same pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from deltalake.transaction import AddAction
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from dedp_assets.patterns.core.errors import ConfigError, ContractError, PatternError
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS, is_data_fault
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier, select_list, unused
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.running.disks import refused_write
from dedp_assets.patterns.core.running.relaying import relayed
from dedp_assets.patterns.core.sql.sql_options import reason_of
from dedp_assets.patterns.core.types.meeting import is_held, with_types
from dedp_assets.patterns.core.types.partitions import folder_value, from_folder, literal, quoted, to_folder
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.commit.parquet_statistics import file_statistics
from dedp_assets.patterns.delta.staging.metrics import Measuring
from dedp_assets.patterns.delta.staging.stages import Stage, new_stage, rows_of
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["KEPT_PART", "StageLayout", "stage_rows"]

KEPT_PART = "dedp.kept_part"
"""Property of a stage with the parts of a split: the part that is meant for the table."""


@dataclass(frozen=True, slots=True)
class StageLayout:
    """Location and format of the kept rows in a stage.

    Attributes:
        store: the table's.
        columns: the kept part's columns in the table's order, partition columns included.
        partition_by: partition columns of the table, with their type as the log stores it.
        partition: partition values the write owns, spelled as in the log.
        quiet: columns without statistics in the log.
        protocol: the table's, for the stage that is a table of its own.
        held: the types that the table's columns have; values are stored as that.
        options: settings of Parquet's writer, as the table's properties state them.
    """

    store: Store
    columns: tuple[str, ...]
    partition_by: Mapping[str, str]
    partition: Mapping[str, str]
    quiet: tuple[str, ...] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)
    held: Mapping[str, DataType] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


def stage_rows(
    split: Split,
    layout: StageLayout,
    *,
    measuring: Measuring,
    keep: str = "valid",
    also: Sequence[str] = (),
) -> Stage:
    """Write rows to a stage and measure the rows, in one Spark job.

    Args:
        split: the rows, of which the part ``keep`` is meant for this table and ``also`` for others.
        layout: where the kept part goes.
        measuring: what is measured of them in the same pass, and of plain ones which are written.
        keep: the part that is meant for this table.
        also: parts that are staged along, for other tables.

    Raises:
        ConfigError: if Spark cannot analyse the rows or a measure; the text names the expression.
        ContractError: if figures of some of the rows were lost, and again when they were staged once more.
    """
    stage = None
    try:
        stage = _stage(split, layout, measuring, keep, also)
    except SPARK_ERRORS as error:
        if not (measuring.asked and is_data_fault(error)):
            raise
    # What was asked may be why: now it is measured apart, figure by figure.
    stage = stage or _stage(split, layout, measuring.again(), keep, also)
    if stage is None:
        raise ContractError(
            f"{layout.store.name}: Spark counted other rows than the staged files hold, twice, so their figures say "
            "nothing, and nothing was published: look for 'Failed to update accumulator' in the engine's log"
        )
    return stage


def _stage(split: Split, layout: StageLayout, measuring: Measuring, keep: str, also: Sequence[str]) -> Stage | None:
    """Write and measure rows once; ``None`` if figures of some rows were lost."""
    stage = new_stage(layout.store)
    try:
        filled = _filled(stage, split, layout, measuring, keep, also)
    except AnalysisException as error:
        stage.discard()
        measures = {**measuring.measures, **measuring.asked}
        parts = (keep, *also) if split.outcome else ()
        culprit = _culprit(lambda: _projected(split, layout, parts, measuring), measures)
        raise ConfigError(f"{layout.store.name}: {culprit or reason_of(error)}") from error
    except (PatternError, *SPARK_ERRORS) as error:
        # A task that died leaves its files to a vacuum, as tasks may still be writing.
        if isinstance(error, PatternError) or is_data_fault(error):
            stage.discard()
        raise
    if filled is None:
        stage.discard()
    return filled


def _filled(
    stage: Stage, split: Split, layout: StageLayout, measuring: Measuring, keep: str, also: Sequence[str]
) -> Stage | None:
    kept = keep if split.outcome else None
    parts = (keep, *also) if split.outcome else ()
    apart, folders = _named_folders(split, layout, parts, also)
    frame = _projected(split, layout, parts, measuring)
    out = measuring.watch.on(frame)
    out = out.filter(F.col(OUTCOME).isin(*parts)) if parts else measuring.written(out)
    columns = [c for c in out.columns if c in layout.columns or (parts and not c.startswith(RESERVED))]
    stored = [c for c in columns if c not in folders and not (c in layout.partition and c in layout.partition_by)]
    spelled = {folder: to_folder(c, layout.partition_by[c]) for c, folder in folders.items()}
    outcome = {apart: identifier(OUTCOME)} if parts else {}
    files = out.selectExpr(*map(identifier, stored), *select_list({**spelled, **outcome}))
    _write(files, [*folders.values(), *filter(None, [apart])], stage, layout.options)
    staged = list(_staged_files(stage.store, layout, folders, apart))
    held = Counter[str | None](dict.fromkeys(parts or (None,), 0))
    for add, part in staged:
        held[part] += rows_of(add)
    figures = measuring.figures(frame, held)
    if figures is None:
        return None
    fields = [*[out.schema[c] for c in columns], *[StructField(apart, StringType()) for _ in outcome]]
    _describe(stage.store, StructType(fields), layout, staged, apart, keep)
    return replace(
        stage,
        adds=tuple(add for add, part in staged if part == kept),
        observed=figures,
        keep=kept,
        files_written=tuple((unquote(add.path), add.size) for add, _ in staged),
        held=frozenset(part for _, part in staged),
        apart=apart,
        session=frame.sparkSession,
        schema=files.schema,
        shown={c: _read_back(c, layout, folders) for c in columns},
    )


def _named_folders(
    split: Split, layout: StageLayout, parts: Sequence[str], also: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """Choose unused folder names: for the parts of a split, and for partition columns of the rows.

    These are columns that the write does not own, and columns of a part that is staged along for another table. A
    vacuum passes over names like ``_x``.
    """
    taken = [*layout.columns, *(column for part in parts for column in split.parts[part])]
    others = {column for part in also for column in split.parts[part]}
    loose = [column for column in layout.partition_by if column not in layout.partition or column in others]
    apart = unused("outcome", taken) if parts else ""
    return apart, {column: unused(f"partition{number}", taken) for number, column in enumerate(loose)}


def _read_back(column: str, layout: StageLayout, folders: Mapping[str, str]) -> str:
    if column in folders:
        return folder_value(folders[column], layout.partition_by[column])
    if column in layout.partition_by:
        return literal(layout.partition[column], layout.partition_by[column])
    return identifier(column)


def _write(rows: DataFrame, folders: Sequence[str], stage: Stage, options: Mapping[str, str]) -> None:
    """Write the Parquet files, and raise library errors from inside the query unwrapped."""
    try:
        writer = rows.write.options(**options)
        if "variant" in rows.schema.simpleString():
            # A shredded VARIANT asks for a feature of its own, and without it is read by Spark alone.
            writer = writer.option("spark.sql.variant.inferShreddingSchema", "false")
        writer.partitionBy(*folders).parquet(stage.store.address)
    except SPARK_ERRORS as error:
        if original := relayed(str(error)) or refused_write(stage.store.address, error):
            raise original from error
        raise


def _culprit(projected: Callable[[], DataFrame], measures: Mapping[str, str]) -> str:
    """Name the measure that Spark cannot evaluate, with the reason; empty if the rows are at fault."""
    try:
        frame = projected()
        _ = frame.isStreaming
    except AnalysisException:
        return ""
    for name, sql in measures.items():
        try:
            _ = frame.observe("probe", F.expr(sql).alias("probe")).isStreaming
        except AnalysisException as error:
            return f"{name} cannot be evaluated as {sql}: {reason_of(error)}"
    return ""


def _projected(split: Split, layout: StageLayout, parts: Sequence[str], measuring: Measuring) -> DataFrame:
    """Select the columns to write, in the table's order; of a split, each column for the owning parts."""
    if not split.outcome:
        known = {column.lower() for column in layout.columns}
        wanted = [*layout.columns, *(column for column in measuring.aside if column.lower() not in known)]
        if split.rows.columns == wanted and not measuring.hashes and is_held(split.rows, layout.held):
            return split.rows
        return split.rows.selectExpr(*select_list({**with_types(split.rows, wanted, layout.held), **measuring.hashes}))
    owners: dict[str, list[str]] = {}
    for part in parts:
        for column in split.parts[part]:
            owners.setdefault(column, []).append(part)
    outcome, values = identifier(split.outcome), with_types(split.rows, owners, layout.held)
    shown = {
        column: f"CASE WHEN {outcome} IN ({', '.join(map(quoted, owned))}) THEN {values[column]} END"
        for column, owned in owners.items()
    }
    return split.rows.selectExpr(*select_list({OUTCOME: outcome, **shown, **measuring.hashes}))


def _staged_files(
    stage: Store, layout: StageLayout, folders: Mapping[str, str], apart: str
) -> Iterator[tuple[AddAction, str | None]]:
    """List the non-empty files of a stage as add actions, each with the part of the split."""
    hidden = {*layout.quiet, *layout.partition_by}
    shown = [column for column in layout.columns if column not in hidden]
    for file in stage.files():
        if not file.path.endswith(".parquet"):
            continue
        by_folder = dict(segment.split("=", 1) for segment in file.path.split("/")[:-1])
        with stage.open(file.path) as opened:
            rows, statistics = file_statistics(opened, shown)
        if not rows:
            continue
        values = {
            column: from_folder(unquote(by_folder[folders[column]]), kind)
            if column in folders
            else layout.partition[column]
            for column, kind in layout.partition_by.items()
        }
        add = AddAction(
            path=quote(f"{stage.name}/{file.path}", safe="/="),
            size=file.size_bytes,
            partition_values=values,
            modification_time=file.modified_ns // 1_000_000,
            data_change=True,
            stats=statistics,
        )
        yield add, unquote(by_folder[apart]) if apart in by_folder else None


def _describe(
    stage: Store,
    schema: StructType,
    layout: StageLayout,
    files: Sequence[tuple[AddAction, str | None]],
    apart: str,
    keep: str,
) -> None:
    """Make the stage a Delta table, for the inspection of refused rows."""
    by = [*layout.partition_by, *filter(None, [apart])]
    adds = []
    for add, outcome in files:
        values = {**add.partition_values, **({apart: outcome} if apart else {})}
        path = add.path.partition("/")[2]
        action = {"path": path, "partitionValues": values, "size": add.size, "dataChange": True}
        adds.append({"add": {**action, "modificationTime": add.modification_time, "stats": add.stats}})
    stated = {KEPT_PART: keep} if apart else {}
    declared = commits.declaration(schema.json(), by, configuration=stated, protocol=layout.protocol)
    commits.write(stage, 0, [*declared, *adds])
