"""Deletion of the rows for which a predicate is true, by copy-on-write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.rows import touched_files
from dedp_assets.patterns.delta.rows.row_change import Rewrite
from dedp_assets.patterns.delta.rows.touched_files import touched
from dedp_assets.patterns.delta.snapshots.pruning import inside
from dedp_assets.patterns.delta.snapshots.reading import read_files
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["Deletion"]


@dataclass(frozen=True)
class Deletion:
    """A deletion of the rows for which a predicate is true.

    Attributes:
        where: SQL predicate, or a column for values that may stand in no text; a row for which it is NULL stays.
        owned: partition values that the rows lie in.
        session: the Spark session.
        store: the table's.
        about: description of the rows, for a predicate that is no SQL.
    """

    where: str | Column
    owned: Mapping[str, str]
    session: SparkSession
    store: Store
    about: str = ""
    operation: str = field(default="DELETE", init=False)
    source: int | None = field(default=None, init=False)

    @property
    def content(self) -> str:
        """The deletion as SQL."""
        return f"DELETE WHERE ({self.about or self.where}) IN {dict(sorted(self.owned.items()))}"

    def candidates(self, state: TableState) -> list[KeyedFile]:
        """List the files of the partition."""
        return list(inside(state, self.owned))

    @contextmanager
    def plan(self, state: TableState, files: Sequence[KeyedFile], *, placed: bool) -> Iterator[Rewrite]:
        """Plan the rewrite of a small partition whole, otherwise of the files with a row to delete."""
        where = F.expr(f"({self.where})") if isinstance(self.where, str) else self.where
        gone = F.coalesce(where, F.expr("false"))
        if placed:
            rows = read_files(self.session, self.store, state, files, placed=True).filter(gone)
            yield Rewrite(files, rows.withColumn(OUTCOME, F.lit("deleted")), placed=True)
            return
        one = len({key for _, key in files}) == 1
        if not one or sum(file["size_bytes"] for file, _ in files) > touched_files.SMALL_BYTES:
            named = read_files(self.session, self.store, state, files, named=True)
            files = touched(self.store, files, named.filter(gone))
        rows = read_files(self.session, self.store, state, files)
        yield Rewrite(files, rows.withColumn(OUTCOME, F.when(gone, "deleted").otherwise("kept")))
