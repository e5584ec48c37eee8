"""Row counts of a change of stored rows: six outcomes, and the check of the sums.

Every row of a file that is rewritten, and every row of the source that meets no such row, has one outcome. What is
counted on the way is held against numbers that come from elsewhere: how many rows the log says that the files hold, and
how many the files that were written do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Finding, RowCounts
from dedp_assets.patterns.delta.staging.metrics import Account, RowMetrics
from dedp_assets.patterns.delta.staging.row_accounting import ACCOUNTED, COUNTED

__all__ = ["OUTCOMES", "WRITTEN", "Outcomes", "rows_in"]

OUTCOMES = ("inserted", "updated", "deleted", "kept", "unused", "confirmed")
"""A row is new, other than it was, gone, as it was; or a row of the source that met none and was not inserted.

One that is ``confirmed`` is as it was for whoever reads it, and only what is kept of its changes is other.
"""

WRITTEN = f"`{OUTCOME}` IN ('inserted', 'updated', 'confirmed', 'kept')"
"""SQL: rows that are written."""

_TOTALS = ("source", "untouched", "before", "after")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The balance of rows that are changed.

    Attributes:
        source: the number of rows that the change brings, ``None`` if it brings no rows.
        before: the number of rows of the table, ``None`` if the log does not say.
    """

    source: int | None = None
    before: int | None = None

    kept: ClassVar[str] = f"`{OUTCOME}` IN ('inserted', 'updated', 'confirmed')"
    outcomes: ClassVar[tuple[str, ...]] = OUTCOMES
    landed: ClassVar[Mapping[str | None, tuple[str, ...]]] = {None: ("inserted", "updated", "confirmed", "kept")}
    others: ClassVar[str] = "rows that were there before, too"
    known: ClassVar[frozenset[str]] = COUNTED | {*OUTCOMES, *_TOTALS}
    content: ClassVar[str] = ""
    identity: ClassVar[str] = ""

    def account(self, measured: RowMetrics) -> Account:
        """Add up the outcomes, and check the sums against the log and the written files."""
        rows = {outcome: measured.parts.get(outcome, 0) for outcome in OUTCOMES}
        faults, counts = "; ".join(self._faults(rows, measured)), self._counts(rows)
        # Outcomes that do not add up say nothing of the rest of the table.
        totals = replace(self, before=None if faults else self.before)._totals(rows)
        by_outcome = {name: count for name, count in rows.items() if count or name != "confirmed"}
        shown = {**by_outcome, **{name: totals[name] for name in _TOTALS if name in totals}}
        return Account(
            counts,
            Finding(ACCOUNTED, not faults, figures=shown, note=faults),
            {**{name: count for name, count in by_outcome.items() if name != "kept"}, **counts.as_dict(), **totals},
            aside={"kept": rows["kept"]},
            metrics=self._metrics(rows),
        )

    def _faults(self, rows: Mapping[str, int], measured: RowMetrics) -> Iterator[str]:
        stay = rows["kept"] + rows["updated"] + rows["confirmed"]
        read, written = stay + rows["deleted"], stay + rows["inserted"]
        unmatched = rows["inserted"] + rows["unused"]
        if measured.replaced not in (None, read):
            yield f"the replaced files hold {measured.replaced} rows, {read} were read"
        if measured.staged != written:
            yield f"{written} rows were to be written, {measured.staged} were staged"
        if self.source is not None and unmatched > self.source:
            yield f"{unmatched} rows of the source matched nothing, it has {self.source}"

    def _totals(self, rows: Mapping[str, int]) -> dict[str, int]:
        """Return the row totals of the source, and of the table before and after, where known."""
        brought = {} if self.source is None else {"source": self.source}
        if self.before is None:
            return brought
        return {
            **brought,
            "before": self.before,
            "untouched": self.before - rows["updated"] - rows["deleted"],
            "after": self.before + rows["inserted"] - rows["deleted"],
        }

    def _counts(self, rows: Mapping[str, int]) -> RowCounts:
        """Return the row accounting of a change: source rows are represented or filtered."""
        if self.source is None:
            return RowCounts()
        written, unused = rows["inserted"] + rows["updated"] + rows["confirmed"], rows["unused"]
        return RowCounts(read=self.source, written=written, filtered=unused, represented=self.source - unused)

    def _metrics(self, rows: Mapping[str, int]) -> dict[str, int]:
        """Return the counts under Delta's metric names."""
        if self.source is None:
            return {"numDeletedRows": rows["deleted"], "numCopiedRows": rows["kept"]}
        return {
            "numSourceRows": self.source,
            "numTargetRowsInserted": rows["inserted"],
            "numTargetRowsUpdated": rows["updated"] + rows["confirmed"],
            "numTargetRowsDeleted": rows["deleted"],
            "numTargetRowsCopied": rows["kept"],
            "numOutputRows": rows["kept"] + rows["updated"] + rows["confirmed"] + rows["inserted"],
        }


def rows_in(files: Iterable[Mapping[str, Any]]) -> int | None:
    """Count the rows of ``files`` by the log's statistics; ``None`` if incomplete."""
    rows = [file.get("num_records") for file in files]
    return None if None in rows else sum(rows)  # type: ignore[arg-type]
