"""Order of data files: sort columns, curves through several columns, files out of order.

A curve gives a row a place among all rows by several columns at once: each value becomes a rank among quantiles, and
the ranks together are a cell that the curve passes once. Quantiles, because ranks of raw values would put skewed values
into a single cell. Files that were sorted together carry a tag of their sort in the log, which Delta keeps, so that
nothing has to be read to tell them from files that came later.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import is_collated, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.layout import SORTED, Curve
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import held_types
from dedp_assets.patterns.delta.snapshots.stored_spec import clustered_by

__all__ = ["SORTED", "Curve", "FileOrder", "depth"]

_BITS = {2: 6, 3: 5, 4: 4}
"""Number of sort columns -> bits of a rank; the cells of four columns are as many as two bytes can number."""
_SAMPLE_ROWS = 20_000
_SORTABLE = (T.NumericType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)
_LIQUID = ("ZCUBE_ID", "ZCUBE_ZORDER_BY")
"""Tags of files that Delta's liquid clustering put into one cube."""


@dataclass(frozen=True, slots=True)
class FileOrder:
    """Order of the rows within and between the files of a partition.

    Attributes:
        by: the sort columns, as the table spells them.
        curve: how several columns make one order.
        liquid: whether the order is the table's liquid clustering, which Spark's OPTIMIZE keeps, too.
    """

    by: tuple[str, ...]
    curve: Curve
    liquid: bool = False

    @classmethod
    def of(cls, name: str, state: TableState, by: Sequence[str], curve: Curve, *, liquid: bool = False) -> FileOrder:
        """Make the order of a table's files.

        Args:
            name: the table's.
            state: the table.
            by: sort columns, in any case.
            curve: how several columns make one order; of one column, every curve is the lexicographic order.
            liquid: whether it is the table's liquid clustering.

        Raises:
            ConfigError: for columns that the table does not have, that it is partitioned by, or whose values have no
                order in the log.
        """
        require_distinct("by=", by)
        columns = tuple(spelled_as(state.columns, by))
        missing = [c for c in columns if c not in state.columns]
        if not columns or missing:
            known = ", ".join(state.columns)
            raise ConfigError(f"by must name columns of {name}, not {missing or 'none'}: it has {known}")
        if met := [c for c in columns if c in state.partition_columns]:
            raise ConfigError(
                f"by must name columns within a partition of {name}, not {met}, which it is partitioned by"
            )
        kinds = {field.name: field.dataType for field in held_types(state).fields}
        for column in columns:
            kind = kinds[column]
            if not isinstance(kind, _SORTABLE) or is_collated(kind):
                raise ConfigError(
                    f"by must name numbers, texts without a collation, dates or times, not {column}, which is "
                    f"{kind.simpleString().upper()}: the log has no least and greatest value of it"
                )
        if len(columns) > 1 and curve != "lexicographic" and len(columns) not in _BITS:
            raise ConfigError(f"by must name at most 4 columns for the curve {curve}, not {len(columns)}")
        return cls(columns, curve if len(columns) > 1 else "lexicographic", liquid)

    @classmethod
    def stored(cls, ledger: Ledger, state: TableState) -> FileOrder | None:
        """Read the stated order of a table: liquid clustering, or the last sort's; ``None`` if none.

        ``None``, too, for a clustering by fields inside of columns, and where a column of the order was dropped.
        """
        if clustering := clustered_by(ledger, state):
            columns = [path[0] for path in clustering]
            fits = len(columns) <= max(_BITS) and all(len(path) == 1 for path in clustering)
            return cls.of(ledger.name, state, columns, "hilbert", liquid=True) if fits else None
        if not (stated := state.properties.get(SORTED)):
            return None
        found = json.loads(stated)
        if not {*found["by"]} <= {*state.columns}:
            return None
        return cls.of(ledger.name, state, found["by"], found["curve"])

    @property
    def stated(self) -> str:
        """The order as JSON, for the table's property."""
        return json.dumps({"by": list(self.by), "curve": self.curve})

    @property
    def parameters(self) -> dict[str, str]:
        """The order as the operation parameters of a commit."""
        return {"sortBy": self._cube, "curve": self.curve}

    def __str__(self) -> str:
        return f"{', '.join(self.by)} ({self.curve})"

    def tags(self) -> dict[str, Any]:
        """Return fields for the add actions of files of one sort: a tag of this sort alone."""
        run = str(uuid.uuid4())
        if not self.liquid:
            return {"tags": {SORTED: f"{self.stated} {run}"}}
        return {"clusteringProvider": "liquid", "tags": dict(zip(_LIQUID, (run, self._cube), strict=True))}

    @property
    def _cube(self) -> str:
        return json.dumps(list(self.by), separators=(",", ":"))

    def sort_of(self, add: Mapping[str, Any]) -> str:
        """Return the tag of the sort that wrote a file in this order, or an empty text."""
        tags = add.get("tags") or {}
        if self.liquid:
            return str(tags.get(_LIQUID[0]) or "") if tags.get(_LIQUID[1]) == self._cube else ""
        tag = str(tags.get(SORTED) or "")
        return tag if tag.startswith(f"{self.stated} ") else ""

    def unsorted(
        self, files: Sequence[Mapping[str, Any]], adds: Callable[[], Mapping[str, Mapping[str, Any]]]
    ) -> list[Mapping[str, Any]]:
        """List the files of a partition out of order with most of the bytes, by the log alone.

        Files of one sort are in order, whatever the order is. By a first column alone, any files are whose ranges do
        not overlap, whoever wrote them.

        Args:
            files: the active files of the partition.
            adds: reads the add actions of the table's files, by path.
        """
        if len(files) < 2 or (self.curve == "lexicographic" and _are_apart(files, self.by[0])):
            return []
        sorts = {file["path"]: self.sort_of(adds().get(file["path"], {})) for file in files}
        sizes = {sort: 0 for sort in sorts.values() if sort}
        for file in files:
            if sort := sorts[file["path"]]:
                sizes[sort] += file["size_bytes"]
        largest = max(sizes, key=lambda sort: sizes[sort], default=None)
        return [file for file in files if largest is None or sorts[file["path"]] != largest]

    def arranged(self, rows: DataFrame, files: int, count: int | None) -> DataFrame:
        """Put rows in order, in partitions by range, after a Spark job that samples the columns.

        Args:
            rows: the rows of one partition of the table.
            files: the number of partitions, of which each becomes a file.
            count: number of the rows, if it is known.
        """
        columns = [F.col(identifier(column)) for column in self.by]
        if self.curve == "lexicographic":
            return rows.repartitionByRange(files, *columns).sortWithinPartitions(*columns)
        place = f"{RESERVED}place"
        keyed = rows.withColumn(place, F.expr(self._place(rows, count)))
        return keyed.repartitionByRange(files, place, *columns).sortWithinPartitions(place, *columns).drop(place)

    def _place(self, rows: DataFrame, count: int | None) -> str:
        """Write the SQL of a row's place on the curve, as two bytes."""
        bits = _BITS[len(self.by)]
        ranks = [_rank(identifier(c), bounds) for c, bounds in zip(self.by, self._bounds(rows, count), strict=True)]
        cell = "0"
        for rank in ranks:
            cell = f"({cell}) * {1 << bits} + {rank}"
        return f"substring(X'{_curve(self.curve, len(self.by))}', ({cell}) * 2 + 1, 2)"

    def _bounds(self, rows: DataFrame, count: int | None) -> list[list[str]]:
        """Return quantiles of each sort column in a sample, as SQL literals, in order and without repetition."""
        share = min(1.0, _SAMPLE_ROWS / count) if count else 1.0
        cells = 1 << _BITS[len(self.by)]
        sample = rows.select(*[F.col(identifier(c)).alias(f"c{n}") for n, c in enumerate(self.by)])
        sample = sample.sample(share, seed=7) if share < 1 else sample
        kinds = [sample.schema[f"c{n}"].dataType.simpleString() for n in range(len(self.by))]
        sorted_up = sample.agg(*[F.sort_array(F.collect_list(f"c{n}")).alias(f"c{n}") for n in range(len(self.by))])
        value = f"get(c{{0}}, CAST(floor(n * size(c{{0}}) / {cells}) AS INT))"
        texts = f"transform(sequence(1, {cells - 1}), n -> CAST({value} AS STRING))"
        picked = [texts.format(n) for n in range(len(self.by))]
        (found,) = sorted_up.selectExpr(*picked).collect()
        return [
            [f"CAST({quoted(text)} AS {kind})" for text in dict.fromkeys(t for t in texts if t is not None)]
            for texts, kind in zip(found, kinds, strict=True)
        ]


def depth(files: Sequence[Mapping[str, Any]], column: str) -> float:
    """Return in how many of the files a value of a column may lie, on average, by the bounds in the log.

    The values are the bounds themselves. A file without bounds may hold any value, and one with only NULL holds none.
    """
    held = [file for file in files if file.get(f"null_count.{column}") != file.get("num_records")]
    ranges: list[tuple[Any, Any]] = [(file.get(f"min.{column}"), file.get(f"max.{column}")) for file in held]
    known = [pair for pair in ranges if None not in pair]
    lows, highs = sorted(low for low, _ in known), sorted(high for _, high in known)
    if not known:
        return float(len(held))
    over = [bisect_right(lows, value) - bisect_left(highs, value) for value in (*lows, *highs)]
    return sum(over) / len(over) + len(held) - len(known)


def _are_apart(files: Sequence[Mapping[str, Any]], column: str) -> bool:
    """Return whether the ranges of files in a column are known and overlap in no more than their bounds."""
    ranges: list[tuple[Any, Any]] = [(file.get(f"min.{column}"), file.get(f"max.{column}")) for file in files]
    if any(None in pair for pair in ranges):
        return False
    return all(high <= low for (_, high), (low, _) in pairwise(sorted(ranges)))


def _rank(value: str, bounds: Sequence[str], below: int = 0) -> str:
    """Write the SQL of the number of bounds below a value, by halves; 0 of NULL."""
    if not bounds:
        return str(below)
    middle = len(bounds) // 2
    more, less = _rank(value, bounds[middle + 1 :], below + middle + 1), _rank(value, bounds[:middle], below)
    return f"IF({value} > {bounds[middle]}, {more}, {less})"


@cache
def _curve(curve: Curve, columns: int) -> str:
    """Return the places of all cells on a curve, by ranks, as hexadecimal digits of two bytes each."""
    bits = _BITS[columns]
    cells = product(range(1 << bits), repeat=columns)
    bent = _hilbert if curve == "hilbert" else lambda cell, _: cell
    return b"".join(_interleaved(bent(list(cell), bits), bits).to_bytes(2, "big") for cell in cells).hex()


def _interleaved(ranks: Sequence[int], bits: int) -> int:
    """Interleave the bits of ranks into one number, the first bits of all ranks first."""
    place = 0
    for bit in range(bits - 1, -1, -1):
        for rank in ranks:
            place = place << 1 | (rank >> bit & 1)
    return place


def _hilbert(x: list[int], bits: int) -> list[int]:
    """Transform ranks into numbers whose interleaved bits are a place on Hilbert's curve.

    J. Skilling, Programming the Hilbert curve, AIP Conference Proceedings 707 (2004).
    """
    last = len(x) - 1
    for q in (1 << bit for bit in range(bits - 1, 0, -1)):
        for i in range(len(x)):
            if x[i] & q:
                x[0] ^= q - 1
            else:
                swapped = (x[0] ^ x[i]) & (q - 1)
                x[0] ^= swapped
                x[i] ^= swapped
    for i in range(1, len(x)):
        x[i] ^= x[i - 1]
    turned = 0
    for q in (1 << bit for bit in range(bits - 1, 0, -1)):
        if x[last] & q:
            turned ^= q - 1
    return [each ^ turned for each in x]
