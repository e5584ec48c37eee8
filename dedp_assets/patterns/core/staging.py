"""Staging: one Spark job writes the rows as Parquet inside the table's folder and measures them on the way.

Staged files belong to nobody until a commit names them: readers of the table never see them, a crash leaves nothing but
a folder, and a refused stage stays readable for inspection (it is a Delta table of its own). As long as somebody may
still publish a stage it is claimed, and no vacuum touches it.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import Field, Schema, convert_to_deltalake
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction
from filelock import FileLock
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.lines import literal_path
from dedp_assets.patterns.core.locks import claim
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import observed, row_hash

__all__ = ["Layout", "Stage", "claim_of", "empty_stage", "identity_hash", "new_stage", "stage_rows"]

_OUTCOME = "outcome"
_IDENTITY = "identity of "
_PLAIN = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where and how the kept rows are laid out.

    Attributes:
        folder: the table's folder.
        columns: the kept part's columns in the table's order, partition columns included.
        partition_by: partition columns of the table, with their Delta type.
        partition: partition values the write owns.
        quiet: columns without statistics in the log.
    """

    folder: Path
    columns: tuple[str, ...]
    partition_by: Mapping[str, str]
    partition: Mapping[str, str]
    quiet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows written beside a table but not part of it.

    Attributes:
        folder: the stage's folder, inside the table's folder.
        adds: the kept part's files as Delta add actions, relative to the table.
        figures: every number measured in the pass, by name.
        claim: held until the stage is published, discarded or forgotten.
    """

    folder: Path
    adds: tuple[AddAction, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    keep: str | None = None
    session: SparkSession | None = field(default=None, repr=False)
    schema: StructType = field(default_factory=StructType, repr=False)
    claim: FileLock | None = field(default=None, repr=False, compare=False)

    @property
    def files(self) -> int:
        """How many files the kept part has."""
        return len(self.adds)

    def read(self, part: str | None = None) -> DataFrame:
        """The staged rows of one part (the kept one if ``None``), read back from the files."""
        if self.session is None:
            raise ConfigError(f"{self.folder.name} was staged without rows")
        wanted = part or self.keep
        count = self.figures.get("written" if wanted in (None, self.keep) else f"outcome {wanted}", 0)
        if not count:
            columns = [field for field in self.schema.fields if field.name != _OUTCOME]
            return self.session.createDataFrame([], StructType(columns))
        frame = self.session.read.schema(self.schema).parquet(literal_path(self.folder))
        return frame if wanted is None else frame.filter(F.col(_OUTCOME) == wanted).drop(_OUTCOME)

    def settle(self) -> None:
        """Drop what only the audit needed, once a commit owns the kept files."""
        shutil.rmtree(self.folder / "_delta_log", ignore_errors=True)
        kept = {self.folder.parent / add.path for add in self.adds}
        for file in self.folder.rglob("*.parquet"):
            if file not in kept:
                file.unlink()
        self._give_up_claim()

    def discard(self) -> None:
        """Remove the stage: nothing of it became part of the table."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._give_up_claim()

    def _give_up_claim(self) -> None:
        if self.claim is not None:
            claim_of(self.folder).unlink(missing_ok=True)
            self.claim.release()


def new_stage(folder: Path) -> Stage:
    """A claimed stage inside the table's ``folder``, with nothing in it yet."""
    stage = _name(folder)
    return Stage(stage, claim=claim(claim_of(stage)))


def claim_of(stage: Path) -> Path:
    """The file that says whether somebody may still publish ``stage``; hidden, beside it."""
    return stage.with_name(f".{stage.name}.claim")


def empty_stage(folder: Path) -> Stage:
    """A stage without rows, made without Spark: publishing it empties the partition."""
    return Stage(_name(folder))


def identity_hash(columns: Sequence[str]) -> str:
    """SQL for the hash of a split's identity columns, as the measures of a stage see them."""
    return row_hash([f"{_IDENTITY}{column}" for column in columns])


def stage_rows(
    rows: DataFrame | Split,
    layout: Layout,
    *,
    measures: Mapping[str, str],
    keep: str = "valid",
    also: Sequence[str] = (),
) -> Stage:
    """Write rows beside the table and measure them, in one Spark job.

    Args:
        rows: plain rows, or a split of which ``keep`` is meant for this table and ``also`` for others.
        layout: where the kept part goes.
        measures: figure name -> SQL aggregate, observed in the same pass.
        keep: part of a split that is meant for this table.
        also: parts of a split that are staged along, for other tables.

    Raises:
        ConfigError: if Spark cannot analyse the rows or a measure; the text names the expression.
    """
    stage = new_stage(layout.folder)
    folder = stage.folder
    parts = (keep, *also) if isinstance(rows, Split) else ()
    fixed = {c: v for c, v in layout.partition.items() if _PLAIN.fullmatch(v)}
    loose = [c for c in layout.partition_by if c not in fixed]
    try:
        frame = _projected(rows, layout, parts)
        session = frame.sparkSession
        seen = Observation()
        out = frame.observe(seen, *[F.expr(sql).alias(name) for name, sql in measures.items()])
        if parts:
            out = out.filter(F.col(_OUTCOME).isin(*parts))
        target = folder.joinpath(*[f"{c}={fixed[c]}" for c in layout.partition_by if c in fixed])
        by = [*loose, *([_OUTCOME] if parts else [])]
        out = out.drop(*[c for c in out.columns if c.startswith(_IDENTITY)])
        out.drop(*fixed).write.partitionBy(*by).parquet(str(target))
    except AnalysisException as error:
        stage.discard()
        raise ConfigError(f"{layout.folder.name}: {_culprit(rows, layout, parts, measures) or _line(error)}") from error
    types = {**layout.partition_by, **({_OUTCOME: "string"} if parts else {})}
    adds = tuple(_adds(folder, types, layout, keep if parts else None))
    kept = keep if parts else None
    figures = observed(seen, frame, measures)
    return replace(stage, adds=adds, figures=figures, keep=kept, session=session, schema=out.schema)


def _culprit(rows: DataFrame | Split, layout: Layout, parts: Sequence[str], measures: Mapping[str, str]) -> str:
    """Which of the ``measures`` Spark cannot evaluate, and why; empty if it is the rows themselves."""
    try:
        frame = _projected(rows, layout, parts)
        _ = frame.schema
    except AnalysisException:
        return ""
    for name, sql in measures.items():
        try:
            _ = frame.observe("probe", F.expr(sql).alias("probe")).schema
        except AnalysisException as error:
            return f"{name} cannot be evaluated as {sql}: {_line(error)}"
    return ""


def _line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _name(folder: Path) -> Path:
    return folder / f"staged-{uuid.uuid4().hex[:16]}"


def _projected(rows: DataFrame | Split, layout: Layout, parts: Sequence[str]) -> DataFrame:
    """Plain rows in the table's order; of a split, each column only in the rows of the parts that own it."""
    if not isinstance(rows, Split):
        return rows.select(*layout.columns)
    owners: dict[str, list[str]] = {}
    for part in parts:
        for column in rows.parts[part]:
            owners.setdefault(column, []).append(part)
    shown = [F.when(F.col(rows.outcome).isin(*owned), F.col(column)).alias(column) for column, owned in owners.items()]
    identity = [F.col(column).alias(f"{_IDENTITY}{column}") for column in rows.identity]
    return rows.rows.select(F.col(rows.outcome).alias(_OUTCOME), *shown, *identity)


def _adds(folder: Path, types: Mapping[str, str], layout: Layout, keep: str | None) -> Iterator[AddAction]:
    if next(folder.rglob("*.parquet"), None) is None:
        return
    by = Schema([Field(name, PrimitiveType(kind)) for name, kind in types.items()])
    convert_to_deltalake(str(folder), partition_by=by if types else None, partition_strategy="hive" if types else None)
    log = folder / "_delta_log" / f"{0:020d}.json"
    # The conversion decodes folder names that Spark had to escape; a commit takes them as they are on disk.
    on_disk = {unquote(path): path for path in (p.relative_to(folder).as_posix() for p in folder.rglob("*.parquet"))}
    for line in log.read_text().splitlines():
        add = json.loads(line).get("add")
        stats = json.loads(add["stats"]) if add else {}
        if not stats.get("numRecords") or add["partitionValues"].pop(_OUTCOME, None) != keep:
            continue
        yield AddAction(
            path=f"{folder.name}/{on_disk[unquote(add['path'])]}",
            size=add["size"],
            partition_values=add["partitionValues"],
            modification_time=add["modificationTime"],
            data_change=True,
            stats=json.dumps(_shown(stats, layout)),
        )


def _shown(stats: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Statistics of the table's own columns, without personal ones."""
    hidden = {*layout.quiet, *layout.partition_by}
    shown = [column for column in layout.columns if column not in hidden]
    bounds = {
        kind: {column: stats[kind][column] for column in shown if column in stats.get(kind, {})}
        for kind in ("minValues", "maxValues", "nullCount")
    }
    return {"numRecords": stats["numRecords"], **bounds}
