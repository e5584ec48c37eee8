"""Layout of a table: order of files, statistics, filters, retention."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dedp_assets.patterns.core.buckets import Layout
from dedp_assets.patterns.core.column import Column, withheld
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.running.digests import digest_of
from dedp_assets.patterns.core.types.partitions import stored_type

__all__ = [
    "LAID_OUT",
    "MOST_SORTED",
    "PARQUET",
    "SORTED",
    "STATISTICS",
    "Curve",
    "TableLayout",
    "bounded",
    "require_layout",
    "stated_names",
    "written_by",
]

Curve = Literal["lexicographic", "z-order", "hilbert"]
SORTED = "dedp.sorted"
"""Table property with the order of the table's files, as JSON; and the tag of files that were sorted together."""
LAID_OUT = "dedp.laid_out"
"""Table property with the digest of filters and pages of all files; and tag of rewritten files with their own."""
PARQUET = "parquet."
"""Beginning of table properties that Parquet's writers follow."""
STATISTICS = "delta.dataSkippingStatsColumns"
"""Table property with the columns whose bounds and NULL counts stand in the log."""
MOST_SORTED = 4
"""The greatest number of sort columns along a curve."""
_WEEK_HOURS = 7 * 24
_BLOOM = "parquet.bloom.filter"
_PAGES = "parquet.page.row.count.limit"
_RETENTION = "delta.deletedFileRetentionDuration"
_UNIFORM = "delta.universalFormat.enabledFormats"
_SEARCHED = ("char", "date", "decimal", "double", "float", "integer", "long", "string", "timestamp")
_ORDERED = (*_SEARCHED, "byte", "short")
_NESTED = ("array", "map", "struct", "variant")
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The layout of a table's rows within the partitions.

    The writer follows buckets, statistics, filters and pages; maintenance keeps the order and removes what is old. A
    change of a stored table is a rewrite that somebody asks for (``dedp layout TABLE --apply``).

    Attributes:
        sort_by: columns that filters name, the most frequent one first; files are kept in that order.
        curve: how several sort columns make one order, as of :func:`dedp_assets.patterns.sort_files`.
        cluster_by: columns of Delta's liquid clustering, for a table without partitions, which Spark's OPTIMIZE and the
            library both keep.
        buckets: buckets of a key: a further partition column, filled by each write.
        statistics: columns with bounds and NULL counts in the log; by default all whose class allows it.
        bloom: columns with a Bloom filter in each file -> number of different values that a file may hold.
        page_rows: rows of a page, which is what a page index skips; Spark's choice if 0.
        keep_days: age in days, by the first partition column, from which partitions are removed; 0 keeps all.
        retention_hours: time for which replaced files stay readable, in hours, a week at least; the policy of the
            table's class decides if 0.
    """

    sort_by: tuple[str, ...] = ()
    curve: Curve = "hilbert"
    cluster_by: tuple[str, ...] = ()
    buckets: Layout | None = None
    statistics: tuple[str, ...] = ()
    bloom: Mapping[str, int] = field(default_factory=dict)
    page_rows: int = 0
    keep_days: int = 0
    retention_hours: int = 0

    def __post_init__(self) -> None:
        require_types(self)

    @property
    def parquet_properties(self) -> dict[str, str]:
        """The table properties by which Parquet's writers make filters and pages."""
        found: dict[str, str] = {}
        for name, values in self.bloom.items():
            found |= {f"{_BLOOM}.enabled#{name}": "true", f"{_BLOOM}.expected.ndv#{name}": str(values)}
        return found | ({_PAGES: str(self.page_rows)} if self.page_rows else {})

    @property
    def table_properties(self) -> dict[str, str]:
        """The table properties that every writer follows, and the vacuum."""
        kept = {_RETENTION: f"interval {self.retention_hours} hours"} if self.retention_hours else {}
        return self.parquet_properties | kept

    @property
    def of_new_table(self) -> dict[str, str]:
        """The table properties that are true of a table without files, and of another one after a rewrite."""
        marked = {LAID_OUT: written_by(made)} if (made := self.parquet_properties) else {}
        return {**({SORTED: self.order} if self.order else {}), **marked}

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> TableLayout:
        """Make a layout of plain values, such as the log of a table holds."""
        lists: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stated.items()
        }
        if buckets := lists.get("buckets"):
            lists["buckets"] = Layout(**{**buckets, "by": tuple(buckets["by"])})
        return cls(**lists)

    def spelled(self, columns: Iterable[str]) -> TableLayout:
        """Return the layout with the spelling of the table's columns, since Spark does not tell case apart."""
        known = {name.lower(): name for name in columns}
        lists = ("sort_by", "cluster_by", "statistics")
        named = {option: tuple(known.get(n.lower(), n) for n in getattr(self, option)) for option in lists}
        bloom = {known.get(name.lower(), name): values for name, values in self.bloom.items()}
        buckets = self.buckets and replace(self.buckets, by=tuple(known.get(n.lower(), n) for n in self.buckets.by))
        return replace(self, **named, bloom=bloom, buckets=buckets)  # type: ignore[arg-type]

    @property
    def order(self) -> str:
        """The declared order as JSON, as in the property of a table; empty without an order."""
        curve = self.curve if len(self.sort_by) > 1 else "lexicographic"
        return json.dumps({"by": list(self.sort_by), "curve": curve}) if self.sort_by else ""


def written_by(properties: Mapping[str, str]) -> str:
    """Return the digest of the properties that Parquet's writers follow; empty without one."""
    followed = {name: value for name, value in properties.items() if name.startswith(PARQUET)}
    return digest_of(followed) if followed else ""


def bounded(columns: Mapping[str, Column], partition_by: Sequence[str]) -> tuple[str, ...]:
    """List the columns of data files with a minimum and a maximum in Delta's statistics."""
    return tuple(n for n, column in columns.items() if n not in partition_by and _kind(column).startswith(_ORDERED))


def _kind(column: Column) -> str:
    """Return the log's name of a column's type; the declared name of a nested type."""
    return stored_type(column.type) or column.type.lower()


def stated_names(columns: Iterable[str]) -> str:
    """Write names of columns as a list of SQL names, for Delta's properties."""
    return ",".join(name if _PLAIN.fullmatch(name) else identifier(name) for name in columns)


def require_layout(
    name: str,
    columns: Mapping[str, Column],
    partition_by: Sequence[str],
    properties: Mapping[str, str],
    layout: TableLayout,
) -> None:
    """Refuse a layout that cannot be.

    Raises:
        ConfigError: in one sentence that names the table and the option.
    """
    if _UNIFORM in properties:
        raise ConfigError(
            f"{name}: properties must not have {_UNIFORM}, for which Delta writes no Iceberg metadata of a table by "
            "path: hand out a manifest (storage.manifest.write_manifest) or an export (storage.snapshot_export)"
        )
    named = {
        "sort_by": layout.sort_by,
        "cluster_by": layout.cluster_by,
        "buckets": layout.buckets.by if layout.buckets else (),
        "statistics": layout.statistics,
        "bloom": tuple(layout.bloom),
    }
    for option, names in named.items():
        require_distinct(f"{name}: {option}=", names)
        if unknown := [each for each in names if each not in columns]:
            raise ConfigError(f"{name}: {option} must name columns of the table ({', '.join(columns)}), not {unknown}")
        if option not in ("buckets", "cluster_by") and (held := [each for each in names if each in partition_by]):
            raise ConfigError(f"{name}: {option} must name columns within partitions, not {held}, a partition column")
        if option != "buckets" and (shown := [each for each in names if each in withheld(columns, "log")]):
            raise ConfigError(
                f"{name}: {option} must name columns whose class lets bounds into the log, not {shown}: "
                "what readers skip by tells values"
            )
    _require_kinds(name, columns, partition_by, layout)
    _require_numbers(name, columns, partition_by, layout)


def _require_kinds(name: str, columns: Mapping[str, Column], partition_by: Sequence[str], layout: TableLayout) -> None:
    """Refuse columns of types that an option has no use for, and options that exclude each other."""
    if layout.cluster_by and (partition_by or layout.sort_by):
        raise ConfigError(
            f"{name}: cluster_by must be for a table without partitions and without sort_by, not for one with "
            f"{', '.join((*partition_by, *layout.sort_by))}"
        )
    ordered, scalars = bounded(columns, partition_by), "numbers, texts, dates or times"
    hashed = {each for each, column in columns.items() if not _kind(column).startswith(_NESTED)}
    searched = {each for each, column in columns.items() if _kind(column).startswith((*_SEARCHED, "binary"))}
    _require_fit(f"{name}: buckets must be of {scalars}", layout.buckets.by if layout.buckets else (), hashed, columns)
    for option in ("sort_by", "cluster_by", "statistics"):
        _require_fit(f"{name}: {option} must name {scalars}", getattr(layout, option), ordered, columns)
    _require_fit(f"{name}: bloom must name columns with many values to look up", layout.bloom, searched, columns)
    curved = layout.sort_by if layout.curve != "lexicographic" else ()
    for option, chosen in (("sort_by", curved), ("cluster_by", layout.cluster_by)):
        if len(chosen) > MOST_SORTED:
            raise ConfigError(f"{name}: {option} must name at most {MOST_SORTED} columns, not {len(chosen)}")
    counted = layout.statistics or ordered
    if lost := [each for each in (*layout.sort_by, *layout.cluster_by) if each not in counted]:
        raise ConfigError(f"{name}: statistics must name each column that files are ordered by, not leave out {lost}")


def _require_fit(what: str, named: Iterable[str], fit: Collection[str], columns: Mapping[str, Column]) -> None:
    if kinds := ", ".join(f"{each} ({columns[each].type})" for each in named if each not in fit):
        raise ConfigError(f"{what}, not {kinds}")


def _require_numbers(
    name: str, columns: Mapping[str, Column], partition_by: Sequence[str], layout: TableLayout
) -> None:
    for column, values in layout.bloom.items():
        if values < 1:
            raise ConfigError(f"{name}: bloom must state at least 1 value for {column}, not {values}")
    for option in ("page_rows", "keep_days", "retention_hours"):
        if (number := getattr(layout, option)) < 0:
            raise ConfigError(f"{name}: {option} must be at least 0, not {number}")
    if 0 < layout.retention_hours < _WEEK_HOURS:
        raise ConfigError(
            f"{name}: retention_hours must be at least {_WEEK_HOURS}, a week, which readers and writers at work need, "
            f"or 0, not {layout.retention_hours}"
        )
    if layout.keep_days:
        first = partition_by[0] if partition_by else ""
        if not first or stored_type(columns[first].type) not in ("date", "timestamp"):
            by = f"{first}, a {columns[first].type}" if first else "nothing"
            raise ConfigError(f"{name}: keep_days must be for a table partitioned by a DATE or TIMESTAMP, not by {by}")
