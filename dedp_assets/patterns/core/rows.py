"""Rows of a batch: hashes, digests, counts and tallies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.columns import COMPARED, fields_of
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.measuring.observing import Unmeasured, Watch
from dedp_assets.patterns.core.names import RESERVED, identifier, reserved
from dedp_assets.patterns.core.results import Finding, Split
from dedp_assets.patterns.core.types.nesting import inside
from dedp_assets.patterns.core.types.partitions import quoted

__all__ = [
    "DROPPED",
    "Decoded",
    "ERASED",
    "Measures",
    "READ_IDENTITY",
    "RowsRead",
    "Tally",
    "count_where",
    "counted",
    "digest",
    "evaluated_once",
    "quoted",
    "row_hash",
    "rows_digest",
    "same",
    "tally",
    "value_hash",
]

READ_IDENTITY = f"{RESERVED}read_identity"
"""Figure of a tally: an order-free digest of the identities read, without those of dropped parts."""
DROPPED = f"{RESERVED}dropped_"
"""What begins the figures of a tally that count the rows of a split's parts that it dropped."""
ERASED = "erased"
"""Figure: the number of rows of erased persons that a write leaves out."""


class Decoded(str):
    """An SQL aggregate with several figures in a single value.

    Attributes:
        figures: makes of that value as many figures as there are names.
    """

    figures: Callable[[Any], Sequence[Any]]

    def __new__(cls, sql: str, figures: Callable[[Any], Sequence[Any]]) -> Decoded:
        """Create the aggregate with the function that decodes the aggregate's value into figures."""
        made = super().__new__(cls, sql)
        made.figures = figures
        return made


Measures: TypeAlias = Mapping[str, str] | Mapping[str | tuple[str, ...], str]
"""Name of a figure -> its SQL aggregate; several names -> the aggregate that says all of them, :class:`Decoded`."""

_PART = f"{RESERVED}part"
"""Column with the number of a row's part: 0 is the one to keep."""

_EXACT = (
    T.BooleanType,
    T.NumericType,
    T.StringType,
    T.CharType,
    T.VarcharType,
    T.BinaryType,
    T.DatetimeType,
    T.AnsiIntervalType,
    T.NullType,
)
_SHAPE = "map('ignoreNullFields', 'false', 'timeZone', 'UTC')"


def row_hash(fields: Iterable[T.StructField]) -> str:
    """Write SQL for a 64-bit hash of the columns ``fields``, independent of their order.

    Two rows have the same hash only if they have the same content: a NULL differs from nothing and from a struct of
    NULLs, -0.0 from 0.0, and every NaN is the same; the order of a map's entries does not count. Of a VARIANT, the
    JSON text and its schema as Spark tells it count, so that 1.5 as DECIMAL and as DOUBLE differ.

    Raises:
        ConfigError: for a type that has no exact hash (one that users define); the text names the column.
    """
    ordered = sorted(fields, key=lambda f: f.name)
    parts = [part for f in ordered for part in _parts(identifier(f.name), f.dataType, f.name)]
    return f"xxhash64({', '.join(parts or ['NULL'])})"


def value_hash(value: str, kind: T.DataType, name: str) -> str:
    """Write SQL for the 64-bit hash of a value of type ``kind``, named ``name`` in a refusal.

    Raises:
        ConfigError: as :func:`row_hash`.
    """
    return f"xxhash64({', '.join(_parts(value, kind, name))})"


def same(field: T.StructField, one: str, other: str) -> str:
    """Write SQL that compares two values of the column ``field`` for equality, including NULL and maps.

    Raises:
        ConfigError: as :func:`row_hash`.
    """
    if COMPARED.fits(field.dataType):
        _require_exact(field.dataType, field.name)
        return f"{one} <=> {other}"
    return " = ".join(value_hash(value, field.dataType, field.name) for value in (one, other))


def digest(row: str, *, where: str = "true") -> str:
    """Write an SQL aggregate: the order-free digest of row hashes ``row`` over the rows of the predicate.

    XOR alone would not see a row that is there twice; the sum of the lower halves does.
    """
    counted = row if where == "true" else f"if({where}, {row}, 0L)"
    return f"concat_ws('.', bit_xor({counted}), sum({counted} & 4294967295L))"


def count_where(predicate: str) -> str:
    """Write an SQL aggregate: the number of rows that satisfy the predicate.

    It counts what ``count_if`` does, for which Spark adds a column to the rows, each time it is asked for.
    """
    return f"count(CASE WHEN {predicate} THEN 1 END)"


def counted(rows: DataFrame) -> int:
    """Count the rows in a separate Spark job, for rules that cannot rely on counts in the log."""
    return rows.count()


def rows_digest(rows: DataFrame) -> tuple[int, str]:
    """Return number and order-free digest of the rows, by a Spark job.

    Two frames have the same only if each row is in both as often.

    Raises:
        ConfigError: as :func:`row_hash`.
    """
    hashed = F.expr(digest(row_hash(rows.schema.fields)))
    (found,) = rows.agg(F.count("*").alias(f"{RESERVED}rows"), hashed.alias(f"{RESERVED}digest")).collect()
    return int(found[0]), str(found[1])


@contextmanager
def evaluated_once(rows: DataFrame) -> Iterator[DataFrame]:
    """Persist ``rows`` from the first evaluation until the block ends."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


@dataclass(frozen=True, slots=True)
class Tally:
    """The count and the digest of the rows that a step read, mostly observed without a separate pass.

    Attributes:
        identity: columns that identify one row.
        rows: what is counted, to count it in a pass of its own where Spark left the observation out.
        measures: figures -> SQL aggregate.
        watch: what is observed of them, where the rows are read.
        kept: SQL predicate of the counted rows that the step goes on with; all of them, if empty.
        handed: what the step was given to go on with.
        along: whether it is taken in the pass that writes the rows, where identities need no comparison.
    """

    identity: tuple[str, ...]
    rows: DataFrame = field(repr=False)
    measures: Measures = field(repr=False)
    watch: Watch = field(default_factory=lambda: Watch({}), repr=False)
    kept: str = ""
    handed: DataFrame | None = field(default=None, repr=False, compare=False)
    along: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the figures."""
        return [name for names in self.measures for name in _names(names)]

    @property
    def own(self) -> dict[str, str]:
        """The SQL aggregate for each count of the library."""
        return {name: sql for name, sql in self._aggregates.items() if _is_own(name)}

    @property
    def asked(self) -> dict[str, str]:
        """The SQL aggregate for each observed name of a further measure."""
        return {name: sql for name, sql in self._aggregates.items() if not _is_own(name)}

    @property
    def _aggregates(self) -> dict[str, str]:
        return {_names(names)[0]: measure for names, measure in self.measures.items()}

    def figures(self, found: Mapping[str, Any] | None = None, *, again: bool = False) -> dict[str, Any]:
        """Read the number of rows (``read``), the digest of the identities and the further measures.

        Waits for the job that reads the rows; ask only after a write of theirs.

        Args:
            found: what was observed, if it was taken along.
            again: whether to compute them in a pass of its own.

        Raises:
            ContractError: if a measure cannot be evaluated.
        """
        if found is None:
            found = self.watch.completed(self.rows, {}) if again else self.watch.figures(self.rows)
        figures: dict[str, Any] = {}
        for names, measure in self.measures.items():
            value = found[_names(names)[0]]
            if isinstance(value, Unmeasured):
                raise ContractError(f"the figure {_names(names)[0]} of the rows read: {value.why}")
            values = measure.figures(value) if isinstance(measure, Decoded) else [value]
            figures.update(zip(_names(names), values, strict=True))
        return figures


def _is_own(name: str) -> bool:
    return name in ("read", READ_IDENTITY) or name.startswith(DROPPED)


def tally(
    rows: DataFrame | Split,
    *,
    identity: Sequence[str],
    measures: Measures | None = None,
    keep: str = "valid",
) -> tuple[DataFrame, Tally]:
    """Count and digest rows in the pass that reads the rows; of a split, keep the part ``keep`` only.

    The caller writes the returned rows and hands the tally to the write, which compares it with what it accounted for.

    Args:
        rows: what a step reads, or a split of it. Parts that nobody writes are dropped as by a plain filter.
        identity: columns that identify one row.
        measures: further figures to observe here, name -> SQL aggregate; several names -> the one that says them.
        keep: the part of a split to go on with.

    Returns:
        The rows, of a split those of the part ``keep`` with its own columns; and their tally.

    Raises:
        ConfigError: for a column the rows do not have, or a measure with a name that is taken.
    """
    require_distinct("identity=", identity)
    further = dict[str | tuple[str, ...], str]((measures or {}).items())
    named = [name for names in further for name in _names(names)]
    if taken := [name for name in named if name == "read"] + reserved(named):
        raise ConfigError(f"a tally cannot measure {', '.join(taken)}: give the figure another name")
    split = Split.of(rows, keep)
    others = [part for part in split.parts if part != keep]
    hashed = row_hash(fields_of(split.rows, identity))
    counted = _numbered(split, [keep, *others], further.values()) if others else split.rows
    found: dict[str | tuple[str, ...], str] = {
        "read": "count(1)",
        READ_IDENTITY: digest(f"if({_PART} = 0, {hashed}, NULL)" if others else hashed),
        **{DROPPED + part: count_where(f"{_PART} = {number}") for number, part in enumerate(others, 1)},
        **further,
    }
    counter = Tally(tuple(identity), counted, found, kept=f"{_PART} = 0" if others else "")
    counter = replace(counter, watch=Watch(counter.own, counter.asked))
    rest = counter.watch.on(counted)
    if others:
        rest = rest.filter(counter.kept).select(*map(identifier, split.parts[keep]))
    return rest, replace(counter, handed=rest)


def _numbered(split: Split, parts: Sequence[str], measures: Iterable[str]) -> DataFrame:
    """Return the split's rows with numbered parts and only the columns of the kept part and the measures.

    A number instead of the outcome, and no column that is needless, are half of what the counting would cost.
    """
    kept = {c.lower() for c in split.parts[parts[0]]}
    sql = " ".join(measures).lower()
    shown = [c for c in split.rows.columns if c.lower() in kept or identifier(c)[1:-1].lower() in sql]
    numbers = " ".join(f"WHEN {quoted(part)} THEN {number}" for number, part in enumerate(parts))
    number = F.expr(f"CASE {identifier(split.outcome)} {numbers} END").alias(_PART)
    return split.rows.select(*map(identifier, shown), number)


@dataclass(frozen=True, slots=True)
class RowsRead:
    """A step's facts about the rows read.

    Attributes:
        tally: counts them where they are read; without one, the rows given to a write are the rows read.
        figures: numbers known from elsewhere, for audits to judge or to divide by (``read`` among them).
        represented: figure that says how many of the rows read the written ones stand for (aggregates).
        findings: verdicts on the input, reached before anything was computed.
    """

    tally: Tally | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    represented: str = ""
    findings: tuple[Finding, ...] = ()

    def along(self, rows: object, audits: Iterable[Audit]) -> RowsRead:
        """Merge the tally into the write's observation, if ``rows`` is the frame returned by :func:`tally`.

        An audit's own aggregate would see the rows that a tally drops, too; then each has a pass of its own.
        """
        tally = self.tally
        if tally is None or rows is not tally.handed:
            return self
        if tally.kept and any(audit.sees_all for audit in audits):
            return self
        measures = {names: sql for names, sql in tally.measures.items() if names != READ_IDENTITY}
        return replace(self, tally=replace(tally, measures=measures, along=True))


def _parts(value: str, kind: T.DataType, path: str, depth: int = 0) -> list[str]:
    """Write the SQL expressions to hash for ``value``, equal in number for every value of type ``kind``."""
    null = f"{value} IS NULL"
    if isinstance(kind, T.StructType):
        inner = [(f"{value}[{quoted(f.name)}]", f) for f in kind.fields]
        return [*[part for sql, f in inner for part in _parts(sql, f.dataType, f"{path}.{f.name}", depth)], null]
    if isinstance(kind, T.MapType):
        entries = T.ArrayType(T.StructType().add("key", kind.keyType).add("value", kind.valueType))
        if COMPARED.fits(kind.valueType):
            return [*_whole(f"sort_array(map_entries({value}))", entries, path), null]
        return [*_each(f"map_entries({value})", entries, path, depth, "array_sort({})"), null]
    if isinstance(kind, T.ArrayType):
        hashed = _whole(value, kind, path) if COMPARED.fits(kind) else _each(value, kind, path, depth)
        return [*hashed, null]
    if isinstance(kind, T.VariantType):
        return [f"to_json({value}, {_SHAPE})", f"schema_of_variant({value})", null]
    _require_exact(kind, path)
    # The hash function takes -0.0 for 0.0; looking at the text costs something for zeros only.
    signed = isinstance(kind, (T.FloatType, T.DoubleType))
    zero = [f"if({value} = 0 AND CAST({value} AS STRING) = '-0.0', true, NULL)"] if signed else []
    return [value, null, *zero]


def _whole(value: str, kind: T.ArrayType, path: str) -> list[str]:
    """Write SQL for an array without maps and variants: the values, and the JSON text, which shows NULLs.

    The text alone is not exact, and the values alone have no shape. A function for each element would take four times
    as long.
    """
    _require_exact(kind, path)
    return [value, f"to_json({value}, {_SHAPE})"]


def _each(value: str, kind: T.ArrayType, path: str, depth: int, ordered: str = "{}") -> list[str]:
    """Write SQL for the hashes of an array's elements, and for the array's size."""
    element = f"`{RESERVED}{depth}`"
    parts = ", ".join(_parts(element, kind.elementType, path, depth + 1))
    return [f"size({value})", ordered.format(f"transform({value}, {element} -> xxhash64({parts}))")]


def _require_exact(kind: T.DataType, path: str) -> None:
    for each in inside(kind):
        if not isinstance(each, (*_EXACT, T.StructType, T.ArrayType, T.MapType)):
            raise ConfigError(
                f"column {path} holds {each.simpleString().upper()}, of which equal values cannot be told from others: "
                "store it as STRING, or declare the column as technical"
            )
