"""Profiles: mergeable states of a table's columns, and figures of the states.

A state holds exact counts and bounds, and sketches with a stated error: distinct values (HLL), quantiles (KLL),
frequent values and shapes of texts. Spark computes the states in a pass over the rows; merging and answering need no
JVM. Any parts of a table (hours, stores, tasks) merge to the state of the whole, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import reduce
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional

__all__ = ["ColumnProfile", "Profile", "same_type"]

datasketches = optional("datasketches")

_REGISTERS = 12
"""Logarithm of a distinct sketch's number of registers: two standard errors of 4,096 are 3.25 % of the count."""
_COUNTS = ("rows", "nulls", "nans", "infinities", "empties", "sampled")
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def same_type(one: str, other: str) -> bool:
    """Return whether two types are one; earlier releases kept ``ARRAY`` of an ``ARRAY<INT>``."""
    short, long = sorted((one, other), key=len)
    return short == long or long.startswith(f"{short}<")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """State of a column, or of a field within a column; without rows the identity of the merge.

    Attributes:
        column: name of the column; ``address.city`` for a field of a struct.
        type: Spark SQL type in capitals, of a STRUCT without the fields, which are columns of the profile themselves.
        rows: all rows.
        nulls: rows without a value; a field of a NULL struct has none.
        nans: NaN values of a floating point column.
        infinities: infinite values of a floating point column.
        empties: empty texts, binaries, arrays and maps.
        minimum: least finite value as text, of a text the first 64 characters; ``None`` for columns
            of a withheld class, and for types without an order.
        maximum: greatest value, likewise.
        shortest: least length of a text (characters), binary (bytes), array or map (elements).
        longest: greatest length.
        sampled: rows that the sketches saw: all rows, or fewer of a sample.
        distinct: sketch of the distinct values (HLL); empty without values.
        quantiles: sketch of the values as DOUBLE (KLL): numbers, seconds since 1970 of times, days of dates.
        values: sketch of the frequent values as text; empty for columns of a withheld class.
        shapes: sketch of the frequent shapes of texts, such as ``digits 5``.
    """

    column: str
    type: str
    rows: int = 0
    nulls: int = 0
    nans: int = 0
    infinities: int = 0
    empties: int = 0
    minimum: str | None = None
    maximum: str | None = None
    shortest: int | None = None
    longest: int | None = None
    sampled: int = 0
    distinct: bytes = field(default=b"", repr=False)
    quantiles: bytes = field(default=b"", repr=False)
    values: bytes = field(default=b"", repr=False)
    shapes: bytes = field(default=b"", repr=False)

    def __add__(self, other: ColumnProfile) -> ColumnProfile:
        if self.column != other.column or not self.is_of_type(other):
            raise ConfigError(
                f"profiles of {self.column} {self.type} and {other.column} {other.type} must be of one column and type"
            )
        low = [each for each in (self.minimum, other.minimum) if each is not None]
        high = [each for each in (self.maximum, other.maximum) if each is not None]
        return replace(
            self,
            type=max(self.type, other.type, key=len),
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTS},
            minimum=min(low, key=self._order, default=None),
            maximum=max(high, key=self._order, default=None),
            shortest=min((n for n in (self.shortest, other.shortest) if n is not None), default=None),
            longest=max((n for n in (self.longest, other.longest) if n is not None), default=None),
            distinct=_merged_distinct(self.distinct, other.distinct),
            quantiles=_merged(datasketches.kll_doubles_sketch, self.quantiles, other.quantiles),
            values=_merged(datasketches.frequent_strings_sketch, self.values, other.values),
            shapes=_merged(datasketches.frequent_strings_sketch, self.shapes, other.shapes),
        )

    def is_of_type(self, other: ColumnProfile) -> bool:
        """Return whether two states are of one type."""
        return same_type(self.type, other.type)

    @property
    def is_sampled(self) -> bool:
        """``True`` if the sketches saw a sample of the rows: distinct counts are lower bounds then."""
        return self.sampled < self.rows

    @property
    def null_share(self) -> float | None:
        """Share of the rows without a value.

        ``None`` without rows.
        """
        return self.nulls / self.rows if self.rows else None

    @property
    def distinct_count(self) -> float:
        """Estimated number of distinct values of the sampled rows, within 3.25 % in 95 % of the cases."""
        return float(datasketches.hll_sketch.deserialize(self.distinct).get_estimate()) if self.distinct else 0.0

    def categories(self, *, scaled: bool = False) -> dict[str, int]:
        """Return the number of rows of each frequent value, greatest first; see :attr:`category_error`.

        Args:
            scaled: whether counts of a sample are scaled to all rows.
        """
        return self._scaled(_frequent(self.values), scaled=scaled)

    def shape_counts(self, *, scaled: bool = False) -> dict[str, int]:
        """Return the number of texts of each frequent shape, greatest first; ``scaled`` as for categories."""
        return self._scaled(_frequent(self.shapes), scaled=scaled)

    @property
    def category_error(self) -> int:
        """Greatest error of a category's count, in rows: 0 as long as all values are kept (up to 384)."""
        if not self.values:
            return 0
        found = _items(self.values)
        return max((upper - lower for _, _, lower, upper in found), default=0)

    @property
    def counted(self) -> int:
        """Number of values in the sketch of frequent values, without NULL."""
        return int(datasketches.frequent_strings_sketch.deserialize(self.values).total_weight) if self.values else 0

    def shares(self) -> dict[str, float]:
        """Return the share of each frequent value in the values that are not NULL, greatest first."""
        total = self.counted
        return {value: rows / total for value, rows in self.categories().items()}

    @property
    def measured(self) -> int:
        """Number of values in the quantile sketch."""
        return int(datasketches.kll_doubles_sketch.deserialize(self.quantiles).n) if self.quantiles else 0

    @property
    def rank_error(self) -> float:
        """Error of a quantile's rank, as a share of the values; 0 without values."""
        if not self.measured:
            return 0.0
        return float(datasketches.kll_doubles_sketch.deserialize(self.quantiles).normalized_rank_error(False))  # noqa: FBT003

    def quantile(self, share: float) -> float | None:
        """Return the value below which ``share`` of the values lie.

        ``None`` without values.

        Raises:
            ConfigError: for a share that is not between 0 and 1.
        """
        if not 0 <= share <= 1:
            raise ConfigError(f"share must be between 0 and 1, not {share:g}")
        if not self.measured:
            return None
        return float(datasketches.kll_doubles_sketch.deserialize(self.quantiles).get_quantile(share))

    def bin_edges(self, bins: int) -> tuple[float, ...]:
        """Return the inner edges of ``bins`` bins with equal shares of the values; equal edges are one edge.

        Raises:
            ConfigError: for fewer than two bins.
        """
        if bins < 2:
            raise ConfigError(f"bins must be 2 or more, not {bins}")
        edges = [self.quantile(n / bins) for n in range(1, bins)]
        return tuple(sorted({edge for edge in edges if edge is not None}))

    def bin_counts(self, edges: Sequence[float]) -> tuple[int, ...]:
        """Return the number of values in each bin: up to the first edge, between edges, above the last."""
        if not self.measured:
            return (0,) * (len(edges) + 1)
        sketch = datasketches.kll_doubles_sketch.deserialize(self.quantiles)
        ranks = [round(sketch.get_rank(edge, True) * sketch.n) for edge in edges]  # noqa: FBT003 - the edge included
        return tuple(high - low for low, high in zip([0, *ranks], [*ranks, sketch.n], strict=True))

    def _order(self, value: str) -> Decimal | str:
        return Decimal(value) if self.type.startswith(_NUMBERS) else value

    def _scaled(self, counts: dict[str, int], *, scaled: bool) -> dict[str, int]:
        if not (scaled and self.is_sampled and self.sampled):
            return counts
        return {name: round(count * self.rows / self.sampled) for name, count in counts.items()}

    def summary(self) -> dict[str, Any]:
        """Return the figures for a commit record, without values of the column."""
        shown = {name: getattr(self, name) for name in (*_COUNTS, "shortest", "longest")}
        figures = {"distinct": round(self.distinct_count), **{name: value for name, value in shown.items() if value}}
        return {**figures, "shapes": dict(list(self.shape_counts().items())[:5])} if self.shapes else figures


@dataclass(frozen=True, slots=True)
class Profile:
    """States of all columns of some rows; without columns the identity of the merge.

    Attributes:
        columns: name -> state. A column of only one of two merged profiles keeps its own rows.
    """

    columns: Mapping[str, ColumnProfile] = field(default_factory=dict)

    def __add__(self, other: Profile) -> Profile:
        names = dict.fromkeys((*self.columns, *other.columns))
        both = {name: [p.columns[name] for p in (self, other) if name in p.columns] for name in names}
        return Profile({name: reduce(ColumnProfile.__add__, states) for name, states in both.items()})

    @classmethod
    def merged(cls, profiles: Iterable[Profile]) -> Profile:
        """Merge profiles; without profiles, return the empty profile.

        Raises:
            ConfigError: if a column is of different types.
        """
        return reduce(Profile.__add__, profiles, cls())

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Profile:
        """Merge the stored rows of :meth:`as_rows`, of one partition and version or of several."""
        found = [{name: _plain(row[name]) for name in _STORED} for row in rows]
        states = [ColumnProfile(**known) for known in found]
        return cls.merged(cls({state.column: state}) for state in states)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return max((state.rows for state in self.columns.values()), default=0)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return a stored row for each column."""
        return [{name: getattr(state, name) for name in _STORED} for state in self.columns.values()]

    def summary(self) -> dict[str, Any]:
        """Return the small figures of each column, for a commit record."""
        return {name: state.summary() for name, state in self.columns.items()}


_STORED = tuple(each.name for each in fields(ColumnProfile))


def _plain(value: Any) -> Any:  # noqa: ANN401 - a stored value
    return bytes(value) if isinstance(value, bytearray) else value


def _merged_distinct(one: bytes, other: bytes) -> bytes:
    if not (one and other):
        return one or other
    union = datasketches.hll_union(_REGISTERS)
    for each in (one, other):
        union.update(datasketches.hll_sketch.deserialize(each))
    return bytes(union.get_result(datasketches.HLL_8).serialize_compact())


def _merged(kind: Any, one: bytes, other: bytes) -> bytes:  # noqa: ANN401 - a class of sketches
    if not (one and other):
        return one or other
    sketch = kind.deserialize(one)
    sketch.merge(kind.deserialize(other))
    return bytes(sketch.serialize())


def _items(sketch: bytes) -> list[tuple[str, int, int, int]]:
    """List value, estimate, and lower and upper bound of the count, most frequent first and then by value."""
    if not sketch:
        return []
    kind = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES
    found = datasketches.frequent_strings_sketch.deserialize(sketch).get_frequent_items(kind)
    return sorted(found, key=lambda item: (-item[1], item[0]))


def _frequent(sketch: bytes) -> dict[str, int]:
    return {value: estimate for value, estimate, _, _ in _items(sketch)}
