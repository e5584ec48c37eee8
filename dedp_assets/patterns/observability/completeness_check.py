"""Completeness Check: rows, values and referenced keys are present, within stated bounds.

Problem: half of a load, a required field that is NULL or the id of a customer that nobody knows go on to every table
    behind, and are noticed in a report.
Solution: count rows, NULLs, unknown values and orphans in one pass, hold them against bounds and against the count of
    the source, and name what is beyond with counts and samples. A known event widens a bound, and the finding says so.
Consequences: one aggregation over the rows, joined to the keys of each reference; a further one for samples, if
    something is wrong. The batch is judged as a whole, late rows with the next check.
Choose instead: Dead-Letter, if a rule is about a single record; Skew Detector, if the source has no count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, NAMED, require_columns, require_named, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Failure, Finding
from dedp_assets.patterns.core.types.meeting import equal

__all__ = ["check_completeness", "SourceCount"]

_NAME = "rows_values_and_references_are_present"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCount:
    """Number of rows at the source, and the allowed difference.

    Attributes:
        rows: rows that the source has.
        tolerance: allowed difference, as a share of them.
        known_event: name of an event that explains another number, such as a promotion or a planned outage.
        event_tolerance: allowed difference with the event; ``None`` for any.

    Raises:
        ConfigError: for a number below 0, or a tolerance for an event without a name.
    """

    rows: int
    tolerance: float = 0.0
    known_event: str = ""
    event_tolerance: float | None = None

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("rows", "tolerance", "event_tolerance"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} must be 0 or more, not {value:g}")
        if self.event_tolerance is not None and not self.known_event:
            raise ConfigError(
                f"known_event must name the event of event_tolerance={self.event_tolerance:g}, not nothing"
            )

    @property
    def allowed(self) -> float | None:
        """Greatest allowed difference, as a share of the source rows.

        ``None`` without a limit.
        """
        return self.event_tolerance if self.known_event else self.tolerance


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule about a column: a condition that rows at fault satisfy, and their greatest share.

    Attributes:
        column: the column.
        what: name of the rows at fault, as in "nulls of id".
        at_fault: the condition, never NULL.
        value: the value as text, for samples.
        most: greatest allowed share of the rows.
    """

    column: str
    what: str
    at_fault: Column
    value: Column
    most: float = 0.0


@typed
def check_completeness(
    rows: DataFrame,
    references: Mapping[str, DataFrame] = {},
    *,
    max_null_shares: Mapping[str, float] = {},
    known_values: Mapping[str, Sequence[str]] = {},
    source: SourceCount | None = None,
    allow_empty: bool = False,
    samples: int = 5,
    severity: Failure = "fail",
) -> Finding:
    """Check that the rows, the values and the referenced keys of a batch are present.

    Args:
        rows: the batch.
        references: column -> frame of one column with the keys that exist. Rows with another key are orphans; a NULL
            is none, and neither is a key that the reference has twice.
        max_null_shares: column -> greatest share of rows with NULL; 0 for a required column.
        known_values: column -> the values that are known, as texts. NULL is no unknown value.
        source: number of rows at the source, with the allowed difference.
        allow_empty: whether a batch without rows passes; a source that delivers nothing is usually broken.
        samples: how many unknown values and orphans to name, the most frequent first.
        severity: whether a failure refuses the rows or warns.

    Returns:
        The finding, with the counts of all rules among its figures, and a sentence about each broken rule.

    Raises:
        ConfigError: for a column that is not there or allows no such rule, a share that is not between 0 and 1, a
            reference of several columns, or a number below 0.
        SchemaMismatch: if a column and the keys of its reference cannot be compared.

    Example:
        >>> visits = frame("user INT, device STRING", (1, "tv"), (2, "radio"), (None, "tv"), (7, None))
        >>> users = frame("id INT", (1,), (2,))
        >>> found = check_completeness(
        ...     visits, {"user": users}, max_null_shares={"user": 0.25, "device": 0}, known_values={"device": ["tv"]}
        ... )
        >>> print(found.note.replace("; ", chr(10)))
        device: 1 of 4 rows are nulls, allowed are 0 %
        device: 1 of 4 rows are unknown values, allowed are 0 %: 'radio' (1)
        user: 1 of 4 rows are orphans, allowed are 0 %: '7' (1)
    """
    _require(rows, references, max_null_shares, known_values, samples)
    columns = {name.lower(): name for name in (*max_null_shares, *known_values, *references)}
    places = {name: f"{RESERVED}{n}" for n, name in enumerate(columns)}
    joined = rows.select(*[F.col(identifier(name)).alias(place) for name, place in places.items()])
    for number, (name, keys) in enumerate(references.items()):
        joined = _with_found(joined, places[name.lower()], keys, f"{RESERVED}found_{number}", name)
    rules = list(_rules(places, references, max_null_shares, known_values))
    counted = joined.agg(F.count("*"), *[F.count_if(rule.at_fault) for rule in rules]).first()
    total, *faults = tuple(counted) if counted else (0,) * (len(rules) + 1)
    figures: dict[str, Any] = {"rows": total} | ({"source rows": source.rows} if source else {})
    figures |= {f"{rule.what} of {rule.column}": count for rule, count in zip(rules, faults, strict=True)}
    broken = {n: faults[n] for n, rule in enumerate(rules) if faults[n] > Fraction(str(rule.most)) * total}
    shown = _samples(joined, rules, [n for n in broken if rules[n].what != "nulls"], samples)
    sentences = [_sentence(rules[n], count, total, shown.get(n, [])) for n, count in broken.items()]
    empty = ["there are no rows"] if not total and not allow_empty else []
    off, remark = _against(source, total)
    problems = [*empty, *off, *sentences]
    note = "; ".join([*problems, *remark])
    return Finding(_NAME, not problems, severity, figures, note, approvable=True)


def _require(
    rows: DataFrame,
    references: Mapping[str, DataFrame],
    shares: Mapping[str, float],
    known: Mapping[str, Sequence[str]],
    samples: int,
) -> None:
    require_rows("check_completeness", rows)
    for option, named in {"max_null_shares": shares, "known_values": known, "references": references}.items():
        require_named(option, named)
        require_distinct(f"{option}=", named)
    require_columns(rows, shares)
    require_columns(rows, known, NAMED)
    require_columns(rows, references, COMPARED)
    if wrong := [f"{name}: {share:g}" for name, share in shares.items() if not 0 <= share <= 1]:
        raise ConfigError(f"max_null_shares must be shares between 0 and 1, not {wrong[0]}")
    if samples < 0:
        raise ConfigError(f"samples must be 0 or more, not {samples}")
    for name, keys in references.items():
        require_rows("a reference", keys)
        if len(keys.columns) != 1:
            raise ConfigError(f"references must be frames of one column, the key, not of {keys.columns} for {name}")
        require_columns(keys, keys.columns, COMPARED)


def _with_found(rows: DataFrame, place: str, keys: DataFrame, found: str, name: str) -> DataFrame:
    """Add a column that is true for rows whose key is among ``keys``, and NULL for the others."""
    key = f"{found}_key"
    known = keys.select(F.col(identifier(keys.columns[0])).alias(key)).filter(F.col(key).isNotNull()).distinct()
    same = equal(
        rows.select(place).schema.fields[0],
        known.schema.fields[0],
        (identifier(place), identifier(key)),
        sides=("the rows", f"the reference of {name}"),
    )
    return rows.join(known.withColumn(found, F.lit(True)), F.expr(same), "left").drop(key)  # noqa: FBT003 - a literal


def _rules(
    places: Mapping[str, str],
    references: Mapping[str, DataFrame],
    shares: Mapping[str, float],
    known: Mapping[str, Sequence[str]],
) -> Iterator[_Rule]:
    text = {name: F.col(place).cast("STRING") for name, place in places.items() if name in _folded(known, references)}
    for name, share in shares.items():
        yield _Rule(name, "nulls", F.col(places[name.lower()]).isNull(), F.lit(None).cast("STRING"), share)
    for name, values in known.items():
        value = text[name.lower()]
        yield _Rule(name, "unknown values", value.isNotNull() & ~value.isin(list(values)), value)
    for number, name in enumerate(references):
        orphan = F.col(places[name.lower()]).isNotNull() & F.col(f"{RESERVED}found_{number}").isNull()
        yield _Rule(name, "orphans", orphan, text[name.lower()])


def _folded(*named: Mapping[str, object]) -> set[str]:
    return {name.lower() for each in named for name in each}


def _samples(joined: DataFrame, rules: Sequence[_Rule], wanted: Sequence[int], most: int) -> dict[int, list[str]]:
    """Return the most frequent values at fault of each wanted rule with their counts, in one job."""
    if not wanted or not most:
        return {}
    marked = [
        F.when(rules[n].at_fault, F.struct(F.lit(n).alias("rule"), rules[n].value.alias("value"))) for n in wanted
    ]
    each = joined.select(F.explode(F.array_compact(F.array(*marked))).alias("seen"))
    counts = each.groupBy("seen.rule", "seen.value").agg(F.count("*").alias("rows"))
    ordered = Window.partitionBy("rule").orderBy(F.desc("rows"), "value")
    found: dict[int, list[str]] = {}
    top = counts.withColumn("place", F.row_number().over(ordered)).filter(F.col("place") <= most)
    for row in top.orderBy("rule", "place").collect():
        found.setdefault(row["rule"], []).append(f"{row['value']!r} ({row['rows']})")
    return found


def _sentence(rule: _Rule, count: int, total: int, samples: Sequence[str]) -> str:
    """Describe a broken rule with count and samples."""
    named = f": {', '.join(samples)}" if samples else ""
    return f"{rule.column}: {count:,} of {total:,} rows are {rule.what}, allowed are {100 * rule.most:g} %{named}"


def _against(source: SourceCount | None, total: int) -> tuple[list[str], list[str]]:
    """Return the problem with the number of rows, and the remark about a known event."""
    if source is None:
        return [], []
    allowed = source.allowed
    remark = f"known event {source.known_event!r}: " + ("any number of rows" if allowed is None else "")
    if allowed is not None:
        remark += f"allowed are {100 * allowed:g} % instead of {100 * source.tolerance:g} %"
    off = allowed is not None and abs(total - source.rows) > Fraction(str(allowed)) * source.rows
    problem = f"{total:,} rows of {source.rows:,} at the source, allowed are {100 * (allowed or 0):g} % more or less"
    return [problem] if off else [], [remark] if source.known_event else []
