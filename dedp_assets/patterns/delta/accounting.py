"""Row accounting: what is measured while rows are written, and the rules every write has to keep.

``read = written + dead + duplicates + filtered``, by count and by identity: the digest of the identities at the read
has to equal the digest of the identities that reached an outcome.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructField

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, reserved
from dedp_assets.patterns.core.partitions import equals
from dedp_assets.patterns.core.results import Finding, RowCounts, Split
from dedp_assets.patterns.core.rows import READ_IDENTITY, RowsRead, digest, quoted, row_hash
from dedp_assets.patterns.delta.log import TableState
from dedp_assets.patterns.delta.stages import PART, WRITTEN, identity_hash

__all__ = [
    "FINGERPRINT",
    "IDENTITY",
    "OUTSIDE",
    "built_in",
    "count",
    "kept_rows",
    "measures",
    "public",
    "require_own_figures",
    "violations",
]

FINGERPRINT = f"{RESERVED}fingerprint"
"""Figure: an order-free digest of the content of the rows meant for the table."""
IDENTITY = f"{RESERVED}identity"
"""Figure: an order-free digest of the identities that reached an outcome."""
OUTSIDE = f"{RESERVED}outside"
"""Figure: rows that lie outside of the partition the write owns."""

_NAMES_OUTCOME = re.compile(rf"\b{OUTCOME}\b", re.IGNORECASE)
_CONSTRAINT = f"{RESERVED}constraint_"
_COUNTED = tuple(RowCounts(represented=0).as_dict())
_JUDGED = ("rows_are_accounted_for", "rows_lie_in_their_partition", "constraints_hold")


def kept_rows(split: Split, keep: str) -> str:
    """Write the SQL predicate of the rows meant for the table."""
    return f"{OUTCOME} = {quoted(keep)}" if split.outcome else "true"


def require_own_figures(audits: Sequence[Audit], rows_read: RowsRead) -> None:
    """Refuse figures that would take the place of others: each name stands for one number, measured in one way.

    Raises:
        ConfigError: if two audits share a name, or two numbers a figure.
    """
    names = Counter(audit.name for audit in audits)
    if repeated := [name for name in names if names[name] > 1 or name in _JUDGED]:
        raise ConfigError(f"there is more than one audit named {', '.join(repeated)}: give each a name of its own")
    tallied = set(rows_read.tally.measures if rows_read.tally else ()) - {READ_IDENTITY}
    known = {*_COUNTED, *tallied}
    free = set() if "read" in tallied else {"read"}
    if taken := [name for name in rows_read.figures if name in known - free] + reserved(rows_read.figures):
        raise ConfigError(
            f"what is known of the rows read brings the figure {', '.join(taken)}, which is measured: give it another "
            "name"
        )
    ways: dict[str, str] = {}
    for audit in audits:
        how = audit.measure
        if how and (audit.figure in {*known, *rows_read.figures} or ways.setdefault(audit.figure, how) != how):
            raise ConfigError(
                f"audit {audit.name} measures the figure {audit.figure}, which is another number already: name its own "
                "figure by of"
            )


def measures(
    split: Split,
    kept: str,
    *,
    state: TableState,
    content: Sequence[StructField],
    owned: Mapping[str, str],
    rules: Mapping[str, str],
    audits: Sequence[Audit],
    identity: Sequence[StructField] = (),
) -> dict[str, str]:
    """List the SQL aggregates to observe in the pass that stages the rows, by figure name."""
    outside = [f"NOT ({equals(c, v, state.kinds[c])})" for c, v in owned.items()]
    found = {
        "read": "count(1)",
        WRITTEN: f"count_if({kept})",
        FINGERPRINT: digest(row_hash(content), where=kept),
        OUTSIDE: f"count_if({kept} AND ({' OR '.join(outside) or 'false'}))",
    }
    found |= {_CONSTRAINT + name: f"count_if({kept} AND NOT coalesce({rule}, false))" for name, rule in rules.items()}
    for audit in audits:
        if audit.where is not None:
            found[audit.figure] = f"count_if({kept} AND ({audit.where}))"
        elif audit.sql is not None:
            if split.outcome and not _NAMES_OUTCOME.search(audit.sql):
                raise ConfigError(
                    f"audit {audit.name} would measure every part of the split: name the rows it is about by where, or "
                    f"by the column {OUTCOME} in its sql"
                )
            found[audit.figure] = audit.sql
    if split.outcome:
        found |= {PART + part: f"count_if({OUTCOME} = {quoted(part)})" for part in split.parts}
    if split.identity:
        found[IDENTITY] = digest(identity_hash(split))
    elif identity:
        found[IDENTITY] = digest(row_hash(identity))
    return found


def count(figures: Mapping[str, Any], split: Split, keep: str, represented: str) -> RowCounts:
    """Account for the rows by the measured ``figures``; parts without a name of their own count as filtered."""
    parts = {part: figures.get(PART + part, 0) for part in split.parts if part != keep}
    dead, duplicates = parts.pop("dead", 0), parts.pop("duplicate", 0)
    return RowCounts(
        read=figures.get("read", 0),
        written=figures.get(WRITTEN, 0),
        dead=dead,
        duplicates=duplicates,
        filtered=sum(parts.values()),
        represented=int(figures.get(represented) or 0) if represented else None,
    )


def built_in(figures: Mapping[str, Any], counts: RowCounts) -> tuple[Finding, ...]:
    """List the rules that every write keeps, whatever else is audited; nobody can overrule them."""
    compared = READ_IDENTITY in figures and IDENTITY in figures
    same = not compared or (figures[READ_IDENTITY] or "") == (figures[IDENTITY] or "")
    broken = {k[len(_CONSTRAINT) :]: v for k, v in figures.items() if k.startswith(_CONSTRAINT) and v}
    outside = figures.get(OUTSIDE, 0)
    accounted, inside, sound = _JUDGED
    return (
        Finding(
            accounted,
            passed=counts.unaccounted == 0 and same,
            figures=counts.as_dict(),
            note="" if same else "other records came out than went in",
        ),
        Finding(inside, passed=not outside, figures={"outside": outside}),
        Finding(sound, passed=not broken, figures=broken),
    )


def public(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Select the figures worth keeping in the ledger."""
    return {name: value for name, value in figures.items() if not name.startswith(RESERVED)}


def violations(figures: Mapping[str, Any], rules: Mapping[str, str]) -> list[str]:
    """Write the SQL predicates of the rows that break a constraint."""
    return [f"NOT coalesce({rule}, false)" for name, rule in rules.items() if figures.get(_CONSTRAINT + name)]
