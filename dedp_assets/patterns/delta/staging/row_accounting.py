"""Row accounting: the figures observed while rows are staged, and the verdict on the figures.

An :class:`Accounting` names the aggregates to observe in the pass that stages the rows, and judges what was observed:
by the rules that every write keeps (every row read has an outcome, the rows lie in their partition, the table's
constraints hold), and by the write's own audits. Which outcomes there are and how they add up is the write's
:class:`Balance`: by the parts of a split (``parts.py``), or by what becomes of rows that are changed (``outcomes.py``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dedp_assets.patterns.core.audits import Audit, judge, overrule, summary, verdict
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.observing import Unmeasured
from dedp_assets.patterns.core.names import OUTCOME, RESERVED
from dedp_assets.patterns.core.records import Approval, CommitRecord, Provenance
from dedp_assets.patterns.core.results import Finding, RowCounts
from dedp_assets.patterns.core.rows import count_where, digest, quoted
from dedp_assets.patterns.core.sql.sql_options import truth
from dedp_assets.patterns.core.types.partitions import equals
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import constraints
from dedp_assets.patterns.delta.staging.metrics import OTHERS, Account, Balance, RowMetrics

__all__ = ["ACCOUNTED", "Accounting", "COUNTED", "StageVerdict"]

ACCOUNTED = "rows_are_accounted_for"
"""The rule that every row has an outcome; a balance judges it."""


COUNTED = frozenset(RowCounts(represented=0).as_dict())
"""Figures that every write counts."""

_INSIDE, _SOUND = "rows_lie_in_their_partition", "constraints_hold"


_NAMES_OUTCOME = re.compile(rf"\b{OUTCOME}\b", re.IGNORECASE)

# Internal figures are observed under names that no audit can have.
_ROWS, _CONTENT, _IDENTITY = (f"{RESERVED}{name}" for name in ("rows", "content", "identity"))


_KEPT, _OUTSIDE = f"{RESERVED}kept", f"{RESERVED}outside"


_SHARING = f"{RESERVED}sharing"


_PART, _CONSTRAINT = f"{RESERVED}part_", f"{RESERVED}constraint_"


@dataclass(frozen=True, slots=True)
class StageVerdict:
    """The verdict on rows that are staged.

    Attributes:
        account: what became of the rows.
        findings: every rule and audit, judged; refusals that a person overruled are warnings.
        verdict: what the ledger says of the rows, the verdicts on the input included.
        figures: the numbers for the ledger, by name.
        faults: SQL predicates of the rows at fault.
    """

    account: Account
    findings: tuple[Finding, ...]
    verdict: str
    figures: Mapping[str, Any]
    faults: tuple[str, ...] = ()

    @property
    def refused(self) -> str:
        """Every refusal in one sentence; empty if the rows may be published."""
        return summary(self.findings)

    def also(self, finding: Finding, approval: Approval | None) -> StageVerdict:
        """Return the verdict with a further finding, which an approval may overrule."""
        findings = (*self.findings, *overrule([finding], approval))
        return replace(self, findings=findings, verdict=verdict((*self.account.inputs, *findings)))

    def record(self, provenance: Provenance, owned: Mapping[str, str], content: str = "") -> CommitRecord:
        """Build the record of the publishing commit; ``content`` replaces the digest of the rows."""
        return CommitRecord.of(
            provenance,
            content=content or self.account.content,
            owned=owned,
            counts=self.account.counts,
            findings=self.findings,
            verdict=self.verdict,
            figures=self.figures,
        )


@dataclass(frozen=True, slots=True)
class Accounting:
    """Rules of one write: the measures to observe, and the verdict on the figures.

    Attributes:
        balance: how the rows are accounted for.
        audits: rules over the kept rows.
        rules: the table's constraints, name -> SQL predicate.
        outside: SQL predicate of the rows outside of the partition that the write owns; empty if it owns the table.
        repeated: SQL predicate of the rows without a declared key, or with that of another row; empty if none is.

    Raises:
        ConfigError: if two audits share a name, two numbers a figure, or an audit would measure other rows, too.
    """

    balance: Balance
    audits: tuple[Audit, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)
    outside: str = ""
    repeated: str = ""

    def __post_init__(self) -> None:
        names = Counter(audit.name for audit in self.audits)
        taken = (ACCOUNTED, _INSIDE, _SOUND)
        if repeated := [name for name in names if names[name] > 1 or name in taken]:
            named = ", ".join(repeated)
            raise ConfigError(f"there is more than one audit named {named}: give each of the audits a name of its own")
        ways: dict[str, str] = {}
        for audit in self.audits:
            self._require_own_rows(audit)
            how = audit.measure
            if how and (audit.figure in self.balance.known or ways.setdefault(audit.figure, how) != how):
                raise ConfigError(
                    f"audit {audit.name} measures the figure {audit.figure}, which is another number already: name its "
                    "own figure by of"
                )

    @classmethod
    def of(
        cls,
        table: str,
        balance: Balance,
        state: TableState,
        owned: Mapping[str, str],
        audits: Collection[Audit] = (),
        *,
        repeated: str = "",
    ) -> Accounting:
        """Account for a write to the partition ``owned`` of the table at ``state``."""
        outside = " OR ".join(f"NOT ({equals(column, value, state.kinds[column])})" for column, value in owned.items())
        return cls(balance, tuple(audits), constraints(table, state), outside, repeated)

    @property
    def measures_others(self) -> bool:
        """Return whether an audit measures rows of every outcome by separate SQL."""
        return any(audit.sees_all for audit in self.audits)

    def measures(self) -> dict[str, str]:
        """List the SQL aggregates to observe in the staging pass, by name."""
        balance = self.balance
        found = {_ROWS: "count(1)", _KEPT: self._count("true"), _OUTSIDE: self._count(self.outside or "false")}
        found |= {_SHARING: self._count(self.repeated)} if self.repeated else {}
        if balance.content:
            found[_CONTENT] = digest(balance.content, where=balance.kept)
        if balance.identity:
            found[_IDENTITY] = digest(balance.identity)
        found |= {_PART + outcome: count_where(f"{OUTCOME} = {quoted(outcome)}") for outcome in balance.outcomes}
        found |= {_CONSTRAINT + name: self._count(_broken(rule)) for name, rule in self.rules.items()}
        return found

    def asked(self) -> dict[str, str]:
        """List the SQL aggregates of the audits, by figure."""
        wheres = {audit.figure: self._count(truth(audit.where)) for audit in self.audits if audit.where is not None}
        return {**{audit.figure: audit.measure for audit in self.audits if audit.measure}, **wheres}

    def landed(self) -> dict[str | None, tuple[str, ...]]:
        """Name the measures that add up to the rows in the files of each part."""
        return {
            part: (*([_PART + outcome for outcome in outcomes] or [_KEPT]), OTHERS)
            for part, outcomes in self.balance.landed.items()
        }

    def judge(
        self,
        observed: Mapping[str, Any],
        approval: Approval | None = None,
        *,
        staged: int = 0,
        replaced: int | None = None,
    ) -> StageVerdict:
        """Judge the figures observed under the names of :meth:`measures` and :meth:`asked`.

        Args:
            observed: all of the numbers; none of them, if there was no row to stage.
            approval: a person's decision on audits that fail; the rules that every write keeps nobody can overrule.
            staged: rows in the files that the pass wrote, by the files.
            replaced: rows in the files that those take the place of, by the log; ``None`` if it does not say.
        """
        measured = self._measured(observed, staged, replaced) if observed else RowMetrics()
        account = self.balance.account(measured)
        figures = {**account.figures, **measured.audited}
        sharing = {"rows without a key of their own": measured.repeated} if measured.repeated else {}
        broken = {**measured.broken, **sharing}
        own = (
            account.finding,
            Finding(_INSIDE, passed=not measured.outside, figures={"outside": measured.outside}),
            Finding(_SOUND, passed=not broken, figures=broken),
        )
        why = {name: value.why for name, value in observed.items() if isinstance(value, Unmeasured)}
        findings = overrule((*own, *judge(self.audits, {**account.aside, **figures}, why)), approval)
        failed = {finding.name for finding in findings if finding.refuses}
        faults = [_broken(self.rules[name]) for name in measured.broken]
        faults += [a.where for a in self.audits if a.where and a.name in failed and a.figure not in why]
        return StageVerdict(account, findings, verdict((*account.inputs, *findings)), figures, tuple(faults))

    def _measured(self, observed: Mapping[str, Any], staged: int, replaced: int | None) -> RowMetrics:
        others, broken = observed[OTHERS], {name: observed[_CONSTRAINT + name] for name in self.rules}
        audited = {audit.figure: observed[audit.figure] for audit in self.audits if audit.measure}
        return RowMetrics(
            rows=observed[_ROWS] + others,
            kept=observed[_KEPT],
            parts={o: observed[_PART + o] + (others if o == "kept" else 0) for o in self.balance.outcomes},
            content=(observed[_CONTENT] or "") if self.balance.content else "",
            identity=(observed[_IDENTITY] or "") if self.balance.identity else None,
            outside=observed[_OUTSIDE],
            repeated=observed[_SHARING] if self.repeated else 0,
            broken={name: rows for name, rows in broken.items() if rows},
            audited={name: None if isinstance(value, Unmeasured) else value for name, value in audited.items()},
            observed=observed,
            staged=staged,
            replaced=replaced,
        )

    def _count(self, where: str) -> str:
        kept = self.balance.kept
        return "count(1)" if (kept, where) == ("true", "true") else count_where(f"{kept} AND ({where})")

    def _require_own_rows(self, audit: Audit) -> None:
        others = self.balance.others
        if others and audit.sees_all and not _NAMES_OUTCOME.search(audit.sql or ""):
            raise ConfigError(
                f"audit {audit.name} would measure {others}: name the rows it is about by where, or by the column "
                f"{OUTCOME} in its sql"
            )


def _broken(rule: str) -> str:
    """Write the SQL predicate of the rows that violate a constraint, NULL results included."""
    return f"NOT coalesce({rule}, false)"
