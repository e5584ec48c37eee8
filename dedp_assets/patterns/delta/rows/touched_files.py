"""Files of a table that hold given rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta.log.table_state import KeyedFile
from dedp_assets.patterns.delta.snapshots.places import FILE, plain_uri
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["SMALL_ROWS", "files_at", "is_small", "touched", "SMALL_BYTES"]

SMALL_BYTES = 4 << 20


SMALL_ROWS = 100_000
"""Number of rows up to which one task computes a rewrite in less time than a shuffle takes."""


def is_small(files: Sequence[KeyedFile], rows: int) -> bool:
    """Return whether one task can rewrite all files: few source rows, small files, one partition."""
    one = len({key for _, key in files}) == 1
    return one and sum(file["size_bytes"] for file, _ in files) <= SMALL_BYTES and rows <= SMALL_ROWS


def touched(store: Store, files: Sequence[KeyedFile], rows: DataFrame) -> list[KeyedFile]:
    """Select the ``files`` that ``rows`` were read from."""
    return files_at(store, files, (row[0] for row in rows.select(FILE).distinct().collect()))


def files_at(store: Store, files: Sequence[KeyedFile], uris: Iterable[str]) -> list[KeyedFile]:
    """Select the ``files`` at ``uris``, in Spark's spelling.

    Raises:
        ContractError: if one of them is not among the files.
    """
    named = {*map(plain_uri, uris)}
    found = [(file, key) for file, key in files if plain_uri(store.uri_of(unquote(file["path"]))) in named]
    if len(found) != len(named):
        raise ContractError(f"{store.name}: rows come from files that its log does not name, nothing was changed")
    return found
