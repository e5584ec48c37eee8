"""Places of rows: the file of a row, the position in the file, rows that deletion vectors delete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.delta.log.vectors import deleted_positions
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["FILE", "PLACES", "PLACE_TYPES", "PLAIN_PATH", "ROW", "plain_uri", "plain_uri_of", "without_deleted"]

FILE, ROW = f"{RESERVED}file", f"{RESERVED}row"
"""Columns with the place of a row: the URI of a data file, and the position in the file, counted from 0."""

PLACES, PLACE_TYPES = {FILE: "_metadata.file_path", ROW: "_metadata.row_index"}, {FILE: "STRING", ROW: "BIGINT"}
"""SQL and type of the columns with the place of a row, where a file is read."""

PLAIN_PATH = re.compile(r"[A-Za-z0-9._=/-]+")
"""Path that Spark and a log spell alike."""

_SLASHES = "^([^:/]+):/+"
_MOST_BROADCAST = 5_000_000
"""Most deleted rows that are broadcast to the tasks."""
_OF_FILE, _POSITION = f"{RESERVED}of_file", f"{RESERVED}position"


def plain_uri(uri: str) -> str:
    """Normalise a file's URI, so that URIs of Spark and of the log compare equal."""
    return re.sub(_SLASHES, r"\1:/", unquote(uri))


def plain_uri_of(uri: str) -> str:
    """Write the SQL of :func:`plain_uri` for the SQL expression of a URI."""
    # To decode a plus sign would make a blank of the sign.
    return f"regexp_replace(url_decode(replace({uri}, '+', '%2B')), '{_SLASHES}', '$1:/')"


def without_deleted(
    store: Store, rows: DataFrame, paths: Sequence[str], vectors: Mapping[str, Mapping[str, Any]]
) -> DataFrame:
    """Filter out the rows that deletion vectors delete; lazy.

    Args:
        store: the store of the table.
        rows: rows with :data:`FILE` and :data:`ROW`.
        paths: the files that the rows come from.
        vectors: path of a file -> the descriptor of the file's deletion vector.

    Raises:
        ContractError: if a vector cannot be read.
    """
    depth = max(path.count("/") for path in paths) + 1
    uris = {path: plain_uri(store.uri_of(path)) for path in paths}
    ends = {path: "/".join(uri.split("/")[-depth:]) for path, uri in uris.items()}
    # The end of a plain path costs less than the whole of a URI.
    plain = all(map(PLAIN_PATH.fullmatch, ends.values()))
    shown, named = (f"substring_index({FILE}, '/', -{depth})", ends) if plain else (plain_uri_of(FILE), uris)
    deleted = [(named[path], deleted_positions(store, vector)) for path, vector in vectors.items()]
    gone = pa.table(
        {
            _OF_FILE: pa.array([file for file, positions in deleted for _ in positions], pa.string()),
            _POSITION: pa.array([row for _, positions in deleted for row in positions], pa.int64()),
        }
    )
    marks = rows.sparkSession.createDataFrame(gone)
    marks = F.broadcast(marks) if gone.num_rows <= _MOST_BROADCAST else marks
    return rows.join(marks, F.expr(f"{shown} = {_OF_FILE} AND {ROW} = {_POSITION}"), "left_anti")
