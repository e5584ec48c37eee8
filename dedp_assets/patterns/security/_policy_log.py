"""Record of policy changes: who, when, table and audience, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.policies import ColumnMask, Policy
from dedp_assets.patterns.core.running.digests import as_plain
from dedp_assets.patterns.core.running.json_lines import append_lines, stored_lines

__all__ = ["PolicyLog"]


@dataclass(frozen=True, slots=True)
class PolicyLog:
    """Record of the policies of tables, in a file of JSON lines that is appended to and never rewritten.

    Attributes:
        file: the file.
    """

    file: Path

    def __post_init__(self) -> None:
        require_types(self)

    @typed
    def declare(self, table: str, policies: Sequence[Policy], *, by: str, at: datetime) -> int:
        """Put the policies of a table in force, and record each change; policies that are not named end.

        Args:
            table: the table's name.
            policies: all policies of the table.
            by: who decided.
            at: when.

        Returns:
            The number of changes: the same policies, declared again or by several runs at once, are none.

        Raises:
            ConfigError: for an audience with two policies.
        """
        now = {each.audience: as_plain(each) for each in policies}
        if len(now) < len(policies):
            raise ConfigError(f"policies must have one policy for each audience of {table}, not {len(policies)}")
        stated = {"at": at.astimezone(timezone.utc).isoformat(), "by": by, "table": table}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.file}.lock"):
            before = self._in_force(table)
            changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            lines = [{**stated, "audience": n, "before": before.get(n), "after": now.get(n)} for n in changed]
            append_lines(self.file, lines)
        return len(lines)

    def current(self, table: str) -> list[Policy]:
        """Return the policies of a table in force; none of a table without a record."""
        return [
            Policy(**{**stated, "masks": {c: ColumnMask(**mask) for c, mask in stated.get("masks", {}).items()}})
            for stated in self._in_force(table).values()
        ]

    def changes(self, table: str = "") -> list[Mapping[str, Any]]:
        """List the changes of a table, or of all, the oldest first: at, by, table, audience, before, after."""
        return [each for each in stored_lines(self.file) if table in ("", each.get("table"))]

    def _in_force(self, table: str) -> dict[str, Any]:
        found = {each["audience"]: each["after"] for each in self.changes(table)}
        return {audience: stated for audience, stated in found.items() if stated is not None}
