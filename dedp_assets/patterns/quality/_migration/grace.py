"""The grace period of a migration: readers of the old columns, deadline, and price in bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from urllib.parse import unquote

import pyarrow.parquet as pq

from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.sql.column_lineage import overlap
from dedp_assets.patterns.core.types.nesting import inside
from dedp_assets.patterns.delta import Table, TableState
from dedp_assets.patterns.quality._migration.moves import Migration, Path
from dedp_assets.patterns.quality._migration.phases import Stored

__all__ = ["grace_is_over", "nobody_reads", "report"]

_FOOTERS = 16
"""Number of the largest files whose footers are read to estimate bytes of columns."""


def nobody_reads(migration: Migration, readers: Mapping[str, Collection[str]]) -> Finding:
    """Judge whether a declared consumer or an observed reader reads an old column."""
    gone = [".".join(old) for old in migration.old_columns]
    found = {
        who: sorted({column for column in columns if any(overlap(column, old) for old in gone)})
        for who, columns in (*migration.consumers.items(), *readers.items())
    }
    reading = {who: columns for who, columns in found.items() if columns}
    note = "; ".join(f"{who} reads {', '.join(columns)}" for who, columns in reading.items())
    return Finding("nobody_reads_the_old_columns", not reading, figures={"readers": len(reading)}, note=note)


def grace_is_over(known: Stored, now: datetime) -> Finding:
    """Judge the deadline of the old columns; a named approval overrules an early removal."""
    over = known.days_over(now)
    note = "" if over >= 0 else f"the old columns were promised until {known.deadline}"
    return Finding("grace_is_over", over >= 0, figures={"days_over": round(over, 3)}, note=note, approvable=True)


def report(
    table: Table, state: TableState, migration: Migration, known: Stored, now: datetime, most_fields: int
) -> tuple[Finding, ...]:
    """Report an overdue grace period, the bytes of the old columns, and too many fields, without a scan."""
    total = sum(file["size_bytes"] for file in state.files())
    figures = {"deadline": known.deadline, "extra_bytes": _bytes_of(table, state, migration), "bytes": total}
    over = known.days_over(now)
    overdue = known.phase != "removed" and over > 0
    note = f"{migration.name} is {over:.1f} days over its deadline, in phase {known.phase}" if overdue else ""
    fields = sum(isinstance(each, str) for column in state.columns.values() for each in inside(column["type"]))
    many = f"{fields} fields are more than {most_fields}: end this migration first" if fields > most_fields else ""
    return (
        Finding("grace_is_not_overdue", not overdue, "warn", figures, note),
        Finding("fields_are_few", not many, "warn", {"fields": fields}, many),
    )


def _bytes_of(table: Table, state: TableState, migration: Migration) -> int:
    """Estimate the bytes of the old columns in the data files, by the footers of the largest files."""
    files = sorted(state.files(), key=lambda file: -file["size_bytes"])[:_FOOTERS]
    held = old = 0
    for file in files:
        with table.store.open(unquote(file["path"])) as opened:
            footer = pq.ParquetFile(opened).metadata
            for group in range(footer.num_row_groups):
                for place in range(footer.num_columns):
                    chunk = footer.row_group(group).column(place)
                    path = chunk.path_in_schema.lower()
                    held += chunk.total_compressed_size
                    old += chunk.total_compressed_size if _is_old(path, migration.old_columns) else 0
    total = sum(file["size_bytes"] for file in state.files())
    return round(total * old / held) if held else 0


def _is_old(path: str, olds: Collection[Path]) -> bool:
    names = [".".join(old).lower() for old in olds]
    return any(path == name or path.startswith(f"{name}.") for name in names)
