"""Row counts of a write: written, dead and filtered rows, by the parts of a split.

``read = written + dead + duplicates + filtered``, by count and by identity: the digest of the identities at the read
has to equal the digest of the identities that reached an outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier, reserved
from dedp_assets.patterns.core.results import Finding, RowCounts, Split
from dedp_assets.patterns.core.rows import DROPPED, ERASED, READ_IDENTITY, RowsRead, quoted, row_hash
from dedp_assets.patterns.delta.staging.metrics import Account, RowMetrics
from dedp_assets.patterns.delta.staging.row_accounting import ACCOUNTED, COUNTED

__all__ = ["Parts"]

_CONTENT, _IDENTITY = f"{RESERVED}content_hash", f"{RESERVED}identity_hash"


@dataclass(frozen=True, slots=True)
class Parts:
    """Balance of written rows: one part for each row read.

    Attributes:
        keep: the part that is meant for the table.
        outcomes: the parts of a split; none, if the rows are plain.
        content: SQL of a hash of a row's content.
        identity: SQL of a hash of what identifies a row; empty if nothing does.
        rows_read: what is known about the rows read.
        hashes: columns that ``content`` and ``identity`` name -> SQL over the rows.
        where: SQL predicate of the plain rows that are meant for the table, if others are measured, too.
        erased: whether these others are rows of erased persons.
        chosen: the same over the rows of a split or plain ones, as they are given.

    Raises:
        ConfigError: if ``rows_read`` brings a figure that is measured.
    """

    keep: str = "valid"
    outcomes: tuple[str, ...] = ()
    content: str = ""
    identity: str = ""
    rows_read: RowsRead = field(default_factory=RowsRead)
    hashes: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    chosen: str = "true"
    erased: bool = False

    def __post_init__(self) -> None:
        tallied, brought = self._tallied, self.rows_read.figures
        free = set() if "read" in tallied else {"read"}
        if taken := [name for name in brought if name in {*COUNTED, *tallied} - free] + reserved(brought):
            raise ConfigError(
                f"what is known of the rows read brings the figure {', '.join(taken)}, which is measured: give it "
                "another name"
            )

    @classmethod
    def of(cls, split: Split, keep: str, content: Iterable[str], rows_read: RowsRead, present: str = "") -> Parts:
        """Make the balance of a split, with ``content`` as the columns of the content digest.

        ``present`` is the SQL predicate of plain rows that are not of erased persons; empty if none is.
        """
        tally = rows_read.tally
        where = tally.kept if tally and tally.along else present
        named: tuple[str, ...] = ()
        if tally and not tally.along:
            named = split.identity or (() if rows_read.represented else tally.identity)
        kept = f"{identifier(split.outcome)} = {quoted(keep)}" if split.outcome else where
        hashed = row_hash(fields_of(split.rows, content))
        hashes = {_CONTENT: f"if({kept}, {hashed}, 0L)" if kept else hashed}
        if named:
            hashes[_IDENTITY] = row_hash(fields_of(split.rows, named))
        outcomes = tuple(split.parts) if split.outcome else ()
        identity, chosen = _IDENTITY if named else "", kept or "true"
        return cls(keep, outcomes, _CONTENT, identity, rows_read, hashes, where, chosen, bool(present))

    @property
    def kept(self) -> str:
        """SQL predicate of the rows meant for the table."""
        return f"{OUTCOME} = {quoted(self.keep)}" if self.outcomes else self.where or "true"

    @property
    def landed(self) -> dict[str | None, tuple[str, ...]]:
        """Part -> the outcome of the same name; ``None`` -> empty for plain rows."""
        return {outcome: (outcome,) for outcome in self.outcomes} or {None: ()}

    @property
    def others(self) -> str:
        """Name of the other rows: every part of the split; empty for plain rows."""
        return "every part of the split" if self.outcomes else ""

    @property
    def known(self) -> set[str]:
        """The figures that are counted, tallied, or known from elsewhere."""
        return {*COUNTED, *self._tallied, *self.rows_read.figures}

    def account(self, measured: RowMetrics) -> Account:
        """Add up the parts; parts without a separate count are filtered rows.

        What a tally observed where the rows were read may be of some of them only, or of a job before that failed. So
        if it does not agree, the rows read are counted in a pass of their own.
        """
        tally = self.rows_read.tally
        if tally is None or tally.along:
            return self._account(measured, tally.figures(measured.observed) if tally else {})
        account = self._account(measured, tally.figures())
        return account if account.finding.passed else self._account(measured, tally.figures(again=True))

    def _account(self, measured: RowMetrics, tallied: Mapping[str, Any]) -> Account:
        known = {name: tallied[name] for name in self._tallied if name in tallied} | dict(self.rows_read.figures)
        dropped = {n.removeprefix(DROPPED): rows for n, rows in tallied.items() if n.startswith(DROPPED)}
        gone = {ERASED: measured.rows - measured.kept} if self.erased else {}
        figures = {"read": measured.rows, "written": measured.kept, **measured.audited, **gone, **known}
        counts = self._counts(measured, figures, dropped if self.rows_read.represented else {**dropped, **gone})
        compared = READ_IDENTITY in tallied and measured.identity is not None
        same = not compared or (tallied[READ_IDENTITY] or "") == measured.identity
        note = "" if same else "other records came out than went in"
        return Account(
            counts,
            Finding(ACCOUNTED, counts.unaccounted == 0 and same, figures=counts.as_dict(), note=note),
            {**figures, **counts.as_dict()},
            content=f"{counts.written} rows {measured.content or 0}",
            inputs=self.rows_read.findings,
        )

    def _counts(self, measured: RowMetrics, figures: Mapping[str, Any], dropped: Mapping[str, int]) -> RowCounts:
        others = {**dropped, **{part: rows for part, rows in measured.parts.items() if part != self.keep}}
        dead, duplicates = others.pop("dead", 0), others.pop("duplicate", 0)
        represented = self.rows_read.represented
        return RowCounts(
            read=figures["read"],
            written=measured.kept,
            dead=dead,
            duplicates=duplicates,
            filtered=sum(others.values()),
            represented=int(figures.get(represented) or 0) if represented else None,
        )

    @property
    def _tallied(self) -> list[str]:
        """Figures counted where the rows are read."""
        tally = self.rows_read.tally
        return [name for name in tally.names if not reserved([name])] if tally else []
