"""Results of patterns; the return type of a pattern's main function is the pattern's kind.

=================================  =========  ====================================================
returns                            kind       rule
=================================  =========  ====================================================
``DataFrame``, ``Split``           transform  lazy: starts no Spark job
``WriteResult``                    write      one commit per table; run twice, same rows
``Finding``, ``Measured``          inspect    changes nothing
``Plan``                           plan       plain Python, no Spark: which partitions, and why
``Access``                         access     never prints a secret
=================================  =========  ====================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.secret import HIDDEN, Secret

__all__ = [
    "BY_NAME", "Access", "Approvable", "Failure", "Finding", "LetterReason", "Plan", "RowCounts", "Split",
    "Verdict", "WriteResult",
]  # fmt: skip

Verdict = Literal["ok", "warn", "fail", "unknown"]
"""Outcome of a judgement. How severe a trouble is, the mail says: info, warning, critical."""
Failure = Literal["fail", "warn"]
"""Outcome of a judgement that was not passed."""
Approvable = bool | Literal["by name"]
BY_NAME: Approvable = "by name"
"""Only an approval that names the audit overrules it; one of everything in a run does not."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The row accounting of a step: ``read = written + dead + duplicates + filtered``.

    ``represented`` counts input rows that live on inside aggregates instead of as rows of their own.
    """

    read: int = 0
    written: int = 0
    dead: int = 0
    duplicates: int = 0
    filtered: int = 0
    represented: int | None = None

    @property
    def unaccounted(self) -> int:
        """Number of input rows without an outcome; any value except 0 is a loss or an invention of rows."""
        kept = self.written if self.represented is None else self.represented
        return self.read - kept - self.dead - self.duplicates - self.filtered

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name, ``represented`` only if set."""
        counts = {name: getattr(self, name) for name in ("read", "written", "dead", "duplicates", "filtered")}
        return counts if self.represented is None else {**counts, "represented": self.represented}


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of an audit or an inspection.

    Attributes:
        name: a sentence that can be true, in snake case (``every_visit_has_a_user``).
        passed: whether it is true.
        severity: what a failure means: ``fail`` refuses the rows, ``warn`` lets them through with a mark.
        figures: the measured numbers behind the verdict, by name.
        note: one sentence for people, empty if the figures say it all.
        approvable: whether a named person may overrule a failure, or only one who names the audit (:data:`BY_NAME`).
        approved_by: who overruled it, if somebody did.
        about: the data and the options that were judged, where another call relies on the verdict.
    """

    name: str
    passed: bool
    severity: Failure = "fail"
    figures: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    approvable: Approvable = False
    approved_by: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def refuses(self) -> bool:
        """``True`` if this finding keeps the rows from being published."""
        return not self.passed and self.severity == "fail"

    def as_dict(self) -> dict[str, Any]:
        """Write the finding as plain values, for the ledger."""
        return {name: value for name, value in asdict(self).items() if name != "about" or value}


@dataclass(frozen=True, slots=True)
class LetterReason:
    """A reason of the dead letters in refused rows.

    Attributes:
        reason: a rule that records broke, or the value that does not fit.
        letters: number of records with this reason, among others or alone.
        example: one of the records, with its place; values of personal and of unknown columns as shapes.
    """

    reason: str
    letters: int
    example: str


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write.

    Attributes:
        table: the table's name.
        version: the table's version after the write.
        applied: whether this call made a commit.
        changed: whether that commit changed any row.
        reason: one sentence on what happened or why nothing did.
        rows: the row accounting of the step.
        partition: the partition values the write owned; empty for a whole table.
        findings: every audit that was judged.
        figures: every number measured in the pass, by name.
        beside: what the same step wrote to further tables.
    """

    table: str
    version: int
    applied: bool
    changed: bool
    reason: str
    rows: RowCounts = field(default_factory=RowCounts)
    partition: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[WriteResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The partitions to work on, and why.

    Attributes:
        partitions: keys in the order to run them.
        reason: one sentence, also when there is nothing to do.
        causes: partition key -> why it was chosen.
        held: partition key -> why it was left out this time.
        cursor: upstream version (or marker identity) each chosen partition has to reach, where there is one.
    """

    partitions: tuple[str, ...]
    reason: str
    causes: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    cursor: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Access:
    """The grant of an identity: allowed and denied resources, and the secret that proves the identity.

    No text of it holds the secret: sentences are stored with ``***`` in its place, and a name or condition with it is
    refused.

    Attributes:
        identity: who has the access: a role, a user, a service account, the subject of a certificate.
        allowed: action -> the resources that it is allowed on, by name: columns, tables, paths, a database. An action
            or a resource that is not named is denied.
        reason: one sentence, also when nothing is allowed.
        denied: resource that was asked for -> why it is not allowed.
        limits: resource -> the condition or expression that limits it: a filter of rows, a mask of a column.
        version: version of the policy or of the secret that decided, so that a later one is told apart.
        until: when it ends, with a time zone; ``None`` if it does not end by itself.
        secret: what proves the identity; ``None`` where nothing but the identity does.

    Raises:
        ConfigError: if a name or a condition holds the secret, or ``until`` has no time zone.
    """

    identity: str
    allowed: Mapping[str, tuple[str, ...]]
    reason: str
    denied: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    until: datetime | None = None
    secret: Secret | None = None

    def __post_init__(self) -> None:
        if self.until is not None and self.until.tzinfo is None:
            raise ConfigError(f"until must be a time with a time zone, not {self.until}")
        if self.secret is None:
            return
        for name, texts in self._names().items():
            if any(self.secret.hide(text) != text for text in texts):
                raise ConfigError(f"{name} must be without the secret of the access, not {HIDDEN}")
        object.__setattr__(self, "reason", self.secret.hide(self.reason))
        object.__setattr__(self, "denied", {name: self.secret.hide(why) for name, why in self.denied.items()})

    def as_dict(self) -> dict[str, Any]:
        """Write the access as plain values, for metadata and logs; the secret as ``***``."""
        stated = {each.name: getattr(self, each.name) for each in fields(self)}
        stated["allowed"] = {action: list(names) for action, names in self.allowed.items()}
        stated |= {"denied": dict(self.denied), "limits": dict(self.limits)}
        stated |= {"until": self.until.isoformat()} if self.until else {}
        stated |= {"secret": str(self.secret)} if self.secret else {}
        return {name: value for name, value in stated.items() if value or name in ("identity", "allowed", "reason")}

    def _names(self) -> dict[str, tuple[str, ...]]:
        """Return the texts that mean something to a machine, by the name of their field."""
        resources = [name for names in self.allowed.values() for name in names]
        return {
            "identity": (self.identity,),
            "allowed": (*self.allowed, *resources),
            "denied": tuple(self.denied),
            "limits": (*self.limits, *self.limits.values()),
            "version": (self.version,),
        }


@dataclass(frozen=True, slots=True)
class Split:
    """Rows with one outcome each, computed once.

    ``rows`` holds every input row exactly once with its outcome; a part is a view of it. Core stages all parts in one
    Spark job, so asking for several parts costs nothing extra there.

    Attributes:
        rows: the flagged rows, lazy.
        parts: outcome -> the columns that belong to it.
        outcome: name of the column that holds the outcome; the default is one that no table has. Empty for plain rows,
            which are all of one part.
        identity: columns that identify one input row; accounting is by them and not only by count.
    """

    rows: DataFrame
    parts: Mapping[str, tuple[str, ...]]
    outcome: str = OUTCOME
    identity: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: DataFrame | Split, keep: str = "valid") -> Split:
        """Return a split unchanged, and plain rows as a split with the only part ``keep``."""
        return rows if isinstance(rows, Split) else cls(rows, {keep: tuple(getattr(rows, "columns", ()))}, outcome="")

    def __getitem__(self, part: str) -> DataFrame:
        """Select the rows and columns of a part; lazy."""
        return self.rows.filter(F.col(identifier(self.outcome)) == part).select(*map(identifier, self.parts[part]))

    def narrowed(self, part: str, columns: Iterable[str]) -> Split:
        """Return the split with only the named columns in a part."""
        return replace(self, parts={**self.parts, part: tuple(columns)})
