"""Stages: folders of Parquet files inside the table that no commit names yet.

Staged files belong to nobody until a commit names them: readers of the table never see them, a crash leaves nothing but
a folder, and a refused stage stays readable for inspection (it is a Delta table of its own). As long as somebody may
still publish a stage it is claimed, and no vacuum touches it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.names import identifier, select_list
from dedp_assets.patterns.core.running.permissions import require_allowed
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta.commit.commits import now_ms
from dedp_assets.patterns.delta.commit.parquet_statistics import may_be_true
from dedp_assets.patterns.delta.snapshots.lost_files import require_files
from dedp_assets.patterns.delta.storage.coordination import has_lock
from dedp_assets.patterns.delta.storage.locations import STAGE, Located, literal_path
from dedp_assets.patterns.delta.storage.store import Store, WorkLock, require

__all__ = ["Stage", "claim_of", "empty_stage", "held_cost", "new_stage", "read_cost", "rows_of", "written"]


@dataclass(frozen=True, slots=True)
class Stage(Located):
    """Rows in staged files inside a table's folder, outside of the table's log.

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
        files_written: path and size of every staged file, of all parts.
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
    files_written: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    claim: WorkLock | None = field(default=None, repr=False, compare=False)

    @property
    def files(self) -> int:
        """The number of files of the kept part."""
        return len(self.adds)

    @property
    def rows(self) -> int:
        """The number of rows of the kept part, by the files."""
        return sum(map(rows_of, self.adds))

    def read(self, part: str | None = None) -> DataFrame:
        """Read the staged rows of one part (the kept part if ``None``) back from the files.

        Raises:
            ConfigError: for a stage without rows.
            Conflict: if somebody removed one of the files.
        """
        if self.session is None:
            raise ConfigError(f"{self.store.name} was staged without rows")
        wanted = part or self.keep
        files = self.session.read.schema(self.schema)
        held = wanted in self.held
        frame = (
            files.parquet(literal_path(self.store.address)) if held else self.session.createDataFrame([], self.schema)
        )
        # Spark reads what it finds in the folder, and has looked by now.
        require_files(self.store.above(), self.files_written)
        rows = frame if wanted is None else frame.filter(f"{identifier(self.apart)} = {quoted(wanted)}")
        return rows.selectExpr(*select_list(self.shown))

    def may_be_true(self, column: str) -> bool:
        """Return whether a BOOLEAN column of the kept part may hold TRUE, by the footers of the files."""
        return any(self._may_be_true(unquote(add.path).partition("/")[2], column) for add in self.adds)

    def _may_be_true(self, path: str, column: str) -> bool:
        with self.store.open(path) as file:
            return may_be_true(file, column)

    def finish(self) -> None:
        """Remove the stage's log and unpublished files after the commit, and release the claim."""
        self.store.delete_folder("_delta_log")
        kept = {unquote(add.path) for add in self.adds}
        staged = [file.path for file in self.store.files() if file.path.endswith(".parquet")]
        self.store.delete(*[path for path in staged if f"{self.store.name}/{path}" not in kept])
        self._give_up_claim()

    def discard(self) -> None:
        """Remove the files of an unpublished stage, and release the claim."""
        self.store.delete_folder("")
        self._give_up_claim()

    def _give_up_claim(self) -> None:
        if self.claim is not None:
            self.store.above().delete(claim_of(self.store.name))
            self.claim.release()


def new_stage(table: Store) -> Stage:
    """Make and claim an empty stage inside the table.

    Raises:
        ConfigError: if nothing could be published there.
    """
    stage = empty_stage(table)
    # Without a lock, no vacuum runs that would ask for claims.
    return replace(stage, claim=table.claim(claim_of(stage.store.name))) if has_lock(table) else stage


def claim_of(stage: str) -> str:
    """Name the claim file of a stage, locked while a write may still publish the stage."""
    return f".{stage}.claim"


def empty_stage(table: Store) -> Stage:
    """Make a stage without rows and without Spark; publishing the stage empties the partition.

    Raises:
        ConfigError: if nothing could be published there.
    """
    require_allowed("write", table.address)  # Spark writes the files, and would not ask
    require(table, "put_if_absent")
    return Stage(table.within(f"{STAGE}{uuid.uuid4().hex[:16]}"))


def rows_of(add: AddAction) -> int:
    """Return the row count of a staged file, from the statistics in the add action."""
    return int(json.loads(add.stats)["numRecords"])


def written(adds: Collection[AddAction]) -> Cost:
    """Return the cost of added files: rows, files and bytes written, and seconds held."""
    figures = Cost(
        rows_written=sum(map(rows_of, adds)), files_written=len(adds), bytes_written=sum(a.size for a in adds)
    )
    return figures + held_cost(adds)


def read_cost(files: Collection[Mapping[str, Any]]) -> Cost:
    """Return the cost of reading data files: files, rows and bytes, by the log."""
    rows = [int(file["num_records"]) for file in files if file.get("num_records") is not None]
    return Cost(
        files_read=len(files),
        rows_read=sum(rows) if len(rows) == len(files) else None,
        bytes_read=sum(file["size_bytes"] for file in files),
    )


def held_cost(adds: Collection[AddAction]) -> Cost:
    """Return the seconds since the newest of the added files was written, as a cost."""
    if not adds:
        return Cost()
    last = max(add.modification_time for add in adds)
    return Cost(held_seconds=max(now_ms() - last, 0) / 1000)
