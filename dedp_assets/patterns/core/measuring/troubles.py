"""Troubles of tables and partitions, with figure, limit, reason and the command that helps.

One record for everything that is wrong: what the detectors and the reconciler find, what code raises, what is announced
to channels, and what the terminal, the page and programs show.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.quantities import with_limit
from dedp_assets.patterns.core.options import require_types

__all__ = ["SEVERITIES", "Severity", "Trouble", "TroubleKey"]

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
"""Severities, the least first; ``info`` asks for nobody yet."""
TroubleKey = tuple[str, str, str, str]
"""Identity of a trouble: source, kind, table, partition key (:attr:`Trouble.key`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A trouble of a table or of a partition.

    Attributes:
        kind: word for the trouble, such as ``refused`` or ``stale``.
        table: table that has the trouble, ``layer/dataset``.
        partition: partition key; empty for the whole table.
        severity: ``critical``, ``warning``, or ``info`` for what needs nobody yet; decides on silent hours, too.
        figure: measured value with its unit, such as ``31 h``; empty without one.
        limit: greatest or least value allowed, with its unit, such as ``at most 26 h``.
        reason: a sentence on the cause, and on the remedy if one is known.
        since: when the trouble began, with time zone, if that is known.
        explained_by: upstream table whose own trouble is the cause; nobody is called for the trouble meanwhile.
        command: shell command that helps, or shows more.
        source: who ends the trouble: ``code`` by a call, ``platform`` once an observation finds it no more.
        confirmations: number of observations in a row that find the trouble before its beginning is announced, and
            that miss the trouble before its end is; 1 for both at once.

    Raises:
        ConfigError: without a kind or a table.
    """

    kind: str
    table: str
    partition: str = ""
    severity: Severity = "warning"
    figure: str = ""
    limit: str = ""
    reason: str = ""
    since: datetime | None = None
    explained_by: str = ""
    command: str = ""
    source: Literal["code", "platform"] = "code"
    confirmations: int = 1

    def __post_init__(self) -> None:
        require_types(self)
        if self.confirmations < 1:
            raise ConfigError(f"confirmations must be 1 or more, not {self.confirmations}")
        if not self.kind or not self.table:
            raise ConfigError("a trouble must have a kind and a table, not an empty text")

    @property
    def key(self) -> TroubleKey:
        """Identity of the trouble: findings with equal keys are the same trouble."""
        return (self.source, self.kind, self.table, self.partition)

    @property
    def place(self) -> str:
        """Table and partition."""
        return f"{self.table} {self.partition}".strip()

    @property
    def detail(self) -> str:
        """Figure with limit, then the reason; empty for a trouble without figure and reason."""
        return ": ".join(filter(None, [with_limit(self.figure, self.limit), self.reason]))

    @property
    def needs_somebody(self) -> bool:
        """``True`` for a trouble that asks for a person."""
        return self.severity != "info"
