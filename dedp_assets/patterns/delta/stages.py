"""Stages: one Spark job writes the rows as Parquet inside the table's folder and measures them on the way.

Staged files belong to nobody until a commit names them: readers of the table never see them, a crash leaves nothing but
a folder, and a refused stage stays readable for inspection (it is a Delta table of its own). As long as somebody may
still publish a stage it is claimed, and no vacuum touches it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from deltalake.transaction import AddAction
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier, unused
from dedp_assets.patterns.core.partitions import folder_value, from_folder, literal, to_folder
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import fields_of, observed, row_hash
from dedp_assets.patterns.core.sql_options import reason_of
from dedp_assets.patterns.delta import commits
from dedp_assets.patterns.delta.locations import Located, literal_path
from dedp_assets.patterns.delta.statistics import file_statistics
from dedp_assets.patterns.delta.store import Claim, Store, require

__all__ = [
    "OTHERS",
    "STAGE",
    "Choice",
    "Layout",
    "Stage",
    "claim_of",
    "empty_stage",
    "identity_hash",
    "new_stage",
    "stage_rows",
]

STAGE = "staged-"
"""What begins the names of stages' folders."""

OTHERS = f"{RESERVED}others"
"""Figure: how many rows were written that nothing else was measured of."""

_COUNT = "count(1)"
_IDENTITY = f"{RESERVED}identity_"


@dataclass(frozen=True, slots=True)
class Layout:
    """The place and the form in which the kept rows are laid out.

    Attributes:
        store: the table's.
        columns: the kept part's columns in the table's order, partition columns included.
        partition_by: partition columns of the table, with their type as the log stores it.
        partition: partition values the write owns, spelled as in the log.
        quiet: columns without statistics in the log.
        protocol: the table's, for the stage that is a table of its own.
    """

    store: Store
    columns: tuple[str, ...]
    partition_by: Mapping[str, str]
    partition: Mapping[str, str]
    quiet: tuple[str, ...] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage(Located):
    """Rows written beside a table but not part of it.

    Attributes:
        store: the stage's, inside the table's.
        adds: the kept part's files as Delta add actions, relative to the table.
        observed: every number measured in the pass, by the name of its measure.
        keep: the kept part of a split.
        held: the parts of a split of which files hold rows; ``None`` among them, if plain rows do.
        apart: column of the files that tells the parts of a split apart.
        session: reads the rows back.
        schema: of the files, the names of folders included.
        shown: column -> SQL expression that reads it back from the files.
        claim: held until the stage is published, discarded or forgotten.
    """

    store: Store
    adds: tuple[AddAction, ...] = ()
    observed: Mapping[str, Any] = field(default_factory=dict)
    keep: str | None = None
    held: frozenset[str | None] = frozenset()
    apart: str = ""
    session: SparkSession | None = field(default=None, repr=False)
    schema: StructType = field(default_factory=StructType, repr=False)
    shown: Mapping[str, str] = field(default_factory=dict, repr=False)
    claim: Claim | None = field(default=None, repr=False, compare=False)

    @property
    def files(self) -> int:
        """The number of files of the kept part."""
        return len(self.adds)

    @property
    def rows(self) -> int:
        """The number of rows of the kept part, by the files."""
        return sum(json.loads(add.stats)["numRecords"] for add in self.adds)

    def read(self, part: str | None = None) -> DataFrame:
        """Read the staged rows of one part (the kept one if ``None``) back from the files."""
        if self.session is None:
            raise ConfigError(f"{self.store.name} was staged without rows")
        wanted = part or self.keep
        files = self.session.read.schema(self.schema)
        held = wanted in self.held
        frame = (
            files.parquet(literal_path(self.store.address)) if held else self.session.createDataFrame([], self.schema)
        )
        rows = frame if wanted is None else frame.filter(F.col(self.apart) == wanted)
        return rows.select(*[F.expr(sql).alias(column) for column, sql in self.shown.items()])

    def settle(self) -> None:
        """Drop what only the audit needed, once a commit owns the kept files."""
        self.store.delete_folder("_delta_log")
        kept = {unquote(add.path) for add in self.adds}
        for file in self.store.files():
            if file.path.endswith(".parquet") and f"{self.store.name}/{file.path}" not in kept:
                self.store.delete(file.path)
        self._give_up_claim()

    def discard(self) -> None:
        """Remove the stage, of which no file became part of the table."""
        self.store.delete_folder("")
        self._give_up_claim()

    def _give_up_claim(self) -> None:
        if self.claim is not None:
            self.store.above().delete(claim_of(self.store.name))
            self.claim.release()


@dataclass(frozen=True, slots=True)
class Choice:
    """The measured rows that are written, and what is written beside them.

    Attributes:
        where: SQL predicate of the measured rows that are written; all of them, if empty.
        seen_only: columns for the measures and ``where``, which are not written.
        others: further rows of the table, which are written and nothing but counted, under :data:`OTHERS`: to measure
            more of a row costs as much as to read it.
        in_one_task: whether one task writes everything, into one file.
        counted: the number of the others.
    """

    where: str = ""
    seen_only: Sequence[str] = ()
    others: DataFrame | None = None
    in_one_task: bool = False
    counted: Observation = field(default_factory=Observation, repr=False)

    def of(self, measured: DataFrame) -> DataFrame:
        """Select the rows to write; lazy."""
        rows = measured.filter(self.where) if self.where else measured
        if self.others is not None:
            others = self.others.observe(self.counted, F.expr(_COUNT).alias(OTHERS))
            rows = rows.unionByName(others, allowMissingColumns=True)
        return rows.coalesce(1) if self.in_one_task else rows

    def figures(self) -> dict[str, int]:
        """Read how many others were written; waits for the job that writes them."""
        return {} if self.others is None else observed(self.counted, self.others, {OTHERS: _COUNT})


def new_stage(table: Store) -> Stage:
    """Make and claim an empty stage inside the table.

    Raises:
        ConfigError: if nothing could be published there.
    """
    stage = empty_stage(table)
    return replace(stage, claim=table.claim(claim_of(stage.store.name)))


def claim_of(stage: str) -> str:
    """Name the hidden file beside a stage that says whether somebody may still publish it."""
    return f".{stage}.claim"


def empty_stage(table: Store) -> Stage:
    """Make a stage without rows, without Spark: publishing it empties the partition.

    Raises:
        ConfigError: if nothing could be published there.
    """
    require(table, "lock", "put_if_absent")
    return Stage(table.within(f"{STAGE}{uuid.uuid4().hex[:16]}"))


def identity_hash(split: Split) -> str:
    """Write SQL for the hash of a split's identity columns, as the measures of a stage see them."""
    return row_hash([StructField(f"{_IDENTITY}{f.name}", f.dataType) for f in fields_of(split.rows, split.identity)])


def stage_rows(
    split: Split,
    layout: Layout,
    *,
    measures: Mapping[str, str],
    keep: str = "valid",
    also: Sequence[str] = (),
    choice: Choice | None = None,
) -> Stage:
    """Write rows beside the table and measure them, in one Spark job.

    Args:
        split: the rows, of which the part ``keep`` is meant for this table and ``also`` for others.
        layout: where the kept part goes.
        measures: name -> SQL aggregate, observed in the same pass.
        keep: the part that is meant for this table.
        also: parts that are staged along, for other tables.
        choice: which of plain rows are written, and what beside them; all of them, if ``None``.

    Raises:
        ConfigError: if Spark cannot analyse the rows or a measure; the text names the expression.
    """
    stage, choice = new_stage(layout.store), choice or Choice()
    kept = keep if split.outcome else None
    parts = (keep, *also) if split.outcome else ()
    apart, folders = _named_folders(split, layout, parts, also)
    try:
        frame = _projected(split, layout, parts, choice.seen_only)
        session = frame.sparkSession
        seen = Observation()
        out = frame.observe(seen, *[F.expr(sql).alias(name) for name, sql in measures.items()])
        out = out.filter(F.col(OUTCOME).isin(*parts)) if parts else choice.of(out)
        columns = [c for c in out.columns if not c.startswith(RESERVED) and c not in choice.seen_only]
        stored = [c for c in columns if c not in folders and not (c in layout.partition and c in layout.partition_by)]
        spelled = [F.expr(to_folder(c, layout.partition_by[c])).alias(folder) for c, folder in folders.items()]
        outcome = [F.col(OUTCOME).alias(apart)] if parts else []
        files = out.select(*[F.col(identifier(c)) for c in stored], *spelled, *outcome)
        files.write.partitionBy(*folders.values(), *filter(None, [apart])).parquet(stage.store.address)
    except AnalysisException as error:
        stage.discard()
        culprit = _culprit(lambda: _projected(split, layout, parts, choice.seen_only), measures)
        raise ConfigError(f"{layout.store.name}: {culprit or reason_of(error)}") from error
    shown = {c: _read_back(c, layout, folders) for c in columns}
    staged = list(_staged_files(stage.store, layout, folders, apart))
    told = [*[out.schema[c] for c in columns], *[StructField(apart, StringType()) for _ in outcome]]
    _describe(stage.store, StructType(told), layout, staged, apart)
    return replace(
        stage,
        adds=tuple(add for add, outcome in staged if outcome == kept),
        observed={**observed(seen, frame, measures), **choice.figures()},
        keep=kept,
        held=frozenset(outcome for _, outcome in staged),
        apart=apart,
        session=session,
        schema=files.schema,
        shown=shown,
    )


def _named_folders(
    split: Split, layout: Layout, parts: Sequence[str], also: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """Choose folder names that no column has: for a split's parts, and for partition columns that the rows tell.

    These are the ones not owned, or told by a part that is staged along, too. A vacuum passes over names like ``_x``.
    """
    taken = [*layout.columns, *(column for part in parts for column in split.parts[part])]
    others = {column for part in also for column in split.parts[part]}
    loose = [column for column in layout.partition_by if column not in layout.partition or column in others]
    apart = unused("outcome", taken) if parts else ""
    return apart, {column: unused(f"partition{number}", taken) for number, column in enumerate(loose)}


def _read_back(column: str, layout: Layout, folders: Mapping[str, str]) -> str:
    if column in folders:
        return folder_value(folders[column], layout.partition_by[column])
    if column in layout.partition_by:
        return literal(layout.partition[column], layout.partition_by[column])
    return identifier(column)


def _culprit(projected: Callable[[], DataFrame], measures: Mapping[str, str]) -> str:
    """Name the one of ``measures`` that Spark cannot evaluate, and why; empty if it is the rows themselves."""
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


def _projected(split: Split, layout: Layout, parts: Sequence[str], seen_only: Sequence[str]) -> DataFrame:
    """Select plain rows in the table's order; of a split, each column only in the rows of the parts that own it."""
    if not split.outcome:
        wanted = [*layout.columns, *seen_only]
        if split.rows.columns == wanted:
            return split.rows
        return split.rows.select(*[F.col(identifier(column)).alias(column) for column in wanted])
    owners: dict[str, list[str]] = {}
    for part in parts:
        for column in split.parts[part]:
            owners.setdefault(column, []).append(part)
    outcome = F.col(identifier(split.outcome))
    shown = [F.when(outcome.isin(*owned), F.col(identifier(c))).alias(c) for c, owned in owners.items()]
    identity = [F.col(identifier(column)).alias(f"{_IDENTITY}{column}") for column in split.identity]
    return split.rows.select(outcome.alias(OUTCOME), *shown, *identity)


def _staged_files(
    stage: Store, layout: Layout, folders: Mapping[str, str], apart: str
) -> Iterator[tuple[AddAction, str | None]]:
    """List the files of a stage that hold rows, each with the part of the split that they belong to."""
    hidden = {*layout.quiet, *layout.partition_by}
    shown = [column for column in layout.columns if column not in hidden]
    for file in stage.files():
        if not file.path.endswith(".parquet"):
            continue
        named = dict(segment.split("=", 1) for segment in file.path.split("/")[:-1])
        with stage.open(file.path) as opened:
            rows, statistics = file_statistics(opened, shown)
        if not rows:
            continue
        values = {
            column: from_folder(unquote(named[folders[column]]), kind)
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
        yield add, named.get(apart)


def _describe(
    stage: Store, schema: StructType, layout: Layout, files: Sequence[tuple[AddAction, str | None]], apart: str
) -> None:
    """Make the stage a Delta table of its own, so that refused rows can be looked at."""
    by = [*layout.partition_by, *filter(None, [apart])]
    adds = []
    for add, outcome in files:
        values = {**add.partition_values, **({apart: outcome} if apart else {})}
        path = add.path.partition("/")[2]
        described = {"path": path, "partitionValues": values, "size": add.size, "dataChange": True}
        adds.append({"add": {**described, "modificationTime": add.modification_time, "stats": add.stats}})
    commits.write(stage, 0, [*commits.declaration(schema.json(), by, protocol=layout.protocol), *adds])
