"""Text files as rows: every line with file name and line number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.landing.files import count_lines, file_refusal
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.delta import FilePath, literal_path

__all__ = ["Lines", "read_lines"]


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of some text files, numbered.

    Attributes:
        rows: ``raw`` STRING, ``raw_bytes`` BINARY (only where the line is not valid UTF-8, which a STRING cannot hold),
            ``source_file`` STRING (file name), ``line_number`` BIGINT from 1; lazy.
        count: lines by file name, counted in a pass of its own; files without a line are missing.
        headers: lines of the header by file name, which are no rows.
    """

    rows: DataFrame
    count: Mapping[str, int]
    headers: Mapping[str, int] = field(default_factory=dict)

    @property
    def checksum(self) -> int:
        """Sum of the line numbers of all rows, for verification of the numbering of written rows."""
        return sum(n * (n + 1) // 2 for n in self.count.values()) - sum(n * (n + 1) // 2 for n in self.headers.values())


def read_lines(session: SparkSession, files: Sequence[FilePath]) -> Lines:
    """Number the lines of text files without a shuffle.

    Spark numbers rows within a task, not within a file. A first job, which reads without parsing, finds where each
    piece of a file starts; the line numbers follow by addition. Lines end with a line feed; a carriage return before it
    stays part of the line. Of no file there are no lines.

    Files may be compressed as ``.gz``, ``.bz2`` or ``.zst``; what an engine would skip, misread or die of is refused.

    Raises:
        ConfigError: if two files of different folders share a name: their lines could not be told apart.
        ContractError: if a file is called or made in a way that is not read (``connectors.files``), is damaged, or has
            bytes and no line.
    """
    if twice := sorted(name for name, n in Counter(file.name for file in files).items() if n > 1):
        raise ConfigError(f"several files are called {', '.join(twice)}: read each folder on its own")
    for file in files:
        if reason := file_refusal(file):
            raise ContractError(f"{file.name} {reason}")
    if not files:
        schema = "raw STRING, raw_bytes BINARY, source_file STRING, line_number BIGINT"
        return Lines(session.createDataFrame([], schema), {})
    frame = (
        session.read.option("lineSep", "\n")
        .text([literal_path(file) for file in files])
        .select(
            F.col("value"),
            F.col("_metadata.file_name").alias("source_file"),
            F.col("_metadata.file_block_start").alias("piece"),
            F.monotonically_increasing_id().alias("place"),
        )
    )
    counted = frame.groupBy("source_file", "piece").agg(F.min("place").alias("first"), F.count("*").alias("n"))
    try:
        pieces = counted.collect()
    except Exception:
        _require_sound(files)  # what is damaged is named; any other failure is the engine's own
        raise
    count: dict[str, int] = {}
    offsets = []
    for piece in sorted(pieces, key=lambda p: (p["source_file"], p["piece"])):
        before = count.get(piece["source_file"], 0)
        offsets.append((piece["source_file"], piece["piece"], before + 1 - piece["first"]))
        count[piece["source_file"]] = before + piece["n"]
    # Spark names files as in a URI.
    count = {unquote(name): n for name, n in count.items()}
    _require_read(files, count)
    located = [(name, piece, offset, unquote(name)) for name, piece, offset in offsets]
    schema = "uri STRING, piece BIGINT, offset BIGINT, source_file STRING"
    known = F.broadcast(session.createDataFrame(located, schema))
    rows = (
        frame.withColumnRenamed("source_file", "uri")
        .join(known, ["uri", "piece"])
        .select(
            F.expr("make_valid_utf8(value)").alias("raw"),
            F.expr("if(is_valid_utf8(value), NULL, CAST(value AS BINARY))").alias("raw_bytes"),
            "source_file",
            F.expr("place + offset").alias("line_number"),
        )
    )
    return Lines(rows, count)


def _require_sound(files: Sequence[FilePath]) -> None:
    """Refuse the first file that an engine cannot read to the end."""
    for file in files:
        count_lines(file)
        # Spark looks for none in a bucket.
        if isinstance(file, Path) and (sidecar := file.with_name(f".{file.name}.crc")).exists():
            raise ContractError(
                f"{file.name} may not be what {sidecar.name} beside it states, which engines hold it against: deliver "
                "it again, or remove that file"
            )


def _require_read(files: Sequence[FilePath], count: Mapping[str, int]) -> None:
    """Refuse a non-empty file without a line in the engine's count."""
    for file in files:
        if file.name not in count and (size := file.stat().st_size):
            raise ContractError(
                f"{file.name} has {size} bytes, of {count_lines(file)} lines, and none of them was read"
            )
