"""Row accounting: what is measured while rows are written, and the rules every write has to keep.

``read = written + dead + duplicates + filtered``, by count and by identity: the digest of the identities at the read
has to equal the digest of the identities that reached an outcome.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.log import TableState
from dedp_assets.patterns.core.partitions import equals
from dedp_assets.patterns.core.results import Finding, RowCounts, Split
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.staging import identity_hash

__all__ = ["built_in", "count", "kept_rows", "measures", "public", "violations"]

_NAMES_OUTCOME = re.compile(r"\boutcome\b")
_CONSTRAINT = "constraint "
_OUTCOME = "outcome "
_PRIVATE = ("fingerprint", "identity", "read_identity", "outside")


def kept_rows(rows: object, keep: str) -> str:
    """SQL predicate of the rows meant for the table."""
    return f"outcome = '{keep}'" if isinstance(rows, Split) else "true"


def measures(
    split: Split | None,
    kept: str,
    *,
    state: TableState,
    content: Sequence[str],
    owned: Mapping[str, str],
    rules: Mapping[str, str],
    audits: Sequence[Audit],
    identity: Sequence[str] = (),
) -> dict[str, str]:
    """Figure name -> SQL aggregate to observe in the staging pass."""
    outside = [f"NOT ({equals(c, v, state.kinds[c])})" for c, v in owned.items()]
    found = {
        "read": "count(1)",
        "written": f"count_if({kept})",
        "fingerprint": digest(row_hash(content), where=kept),
        "outside": f"count_if({kept} AND ({' OR '.join(outside) or 'false'}))",
    }
    found |= {_CONSTRAINT + name: f"count_if({kept} AND NOT coalesce({rule}, false))" for name, rule in rules.items()}
    for audit in audits:
        if audit.where is not None:
            found[audit.figure] = f"count_if({kept} AND ({audit.where}))"
        elif audit.sql is not None:
            if split is not None and not _NAMES_OUTCOME.search(audit.sql):
                raise ConfigError(
                    f"audit {audit.name} would measure every part of the split: name the rows it is about by where, or "
                    "by the column outcome in its sql"
                )
            found[audit.figure] = audit.sql
    if split is not None:
        found |= {_OUTCOME + part: f"count_if(outcome = '{part}')" for part in split.parts}
    if split is not None and split.identity:
        found["identity"] = digest(identity_hash(split.identity))
    elif identity:
        found["identity"] = digest(row_hash(identity))
    return found


def count(figures: Mapping[str, Any], split: Split | None, keep: str, represented: str) -> RowCounts:
    """The row accounting in the measured ``figures``; diverted parts without a name of their own count as filtered."""
    parts = {part: figures.get(_OUTCOME + part, 0) for part in (split.parts if split else ()) if part != keep}
    dead, duplicates = parts.pop("dead", 0), parts.pop("duplicate", 0)
    return RowCounts(
        read=figures.get("read", 0),
        written=figures.get("written", 0),
        dead=dead,
        duplicates=duplicates,
        filtered=sum(parts.values()),
        represented=int(figures.get(represented) or 0) if represented else None,
    )


def built_in(figures: Mapping[str, Any], counts: RowCounts) -> tuple[Finding, ...]:
    """The rules every write keeps, whatever else is audited; nobody can overrule them."""
    compared = "read_identity" in figures and "identity" in figures
    same = not compared or (figures["read_identity"] or "") == (figures["identity"] or "")
    broken = {k[len(_CONSTRAINT) :]: v for k, v in figures.items() if k.startswith(_CONSTRAINT) and v}
    outside = figures.get("outside", 0)
    return (
        Finding(
            "rows_are_accounted_for",
            passed=counts.unaccounted == 0 and same,
            figures=counts.as_dict(),
            note="" if same else "other records came out than went in",
        ),
        Finding("rows_lie_in_their_partition", passed=not outside, figures={"outside": outside}),
        Finding("constraints_hold", passed=not broken, figures=broken),
    )


def public(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures worth keeping in the ledger."""
    hidden = (_CONSTRAINT, _OUTCOME)
    return {k: v for k, v in figures.items() if k not in _PRIVATE and not k.startswith(hidden)}


def violations(figures: Mapping[str, Any], rules: Mapping[str, str]) -> list[str]:
    """SQL predicates of the rows that break a constraint."""
    return [f"NOT coalesce({rule}, false)" for name, rule in rules.items() if figures.get(_CONSTRAINT + name)]
