"""Grants by purpose, and the audit of all decisions, in a file of SQLite.

No Delta table: a grant and its audit row stand in one transaction. Audit rows are added alone: triggers of the file
refuse a change. Whoever owns the file can replace it, as any file.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from dedp_assets.patterns.connectors.secrets.private_database import private_database
from dedp_assets.patterns.core.options import require_types

__all__ = ["AccessDecision", "Grant", "Grants", "stamp"]

_OF = "store of grants"
_TABLES = """
    CREATE TABLE IF NOT EXISTS grants (
        id TEXT PRIMARY KEY, user TEXT, dataset TEXT, purpose TEXT, begins TEXT, ends TEXT, granted_by TEXT,
        justification TEXT, may_export INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS audit (number INTEGER PRIMARY KEY, at TEXT, decision TEXT);
    CREATE TRIGGER IF NOT EXISTS audit_stays BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows stay'); END;
    CREATE TRIGGER IF NOT EXISTS audit_is_true BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows stay'); END;
    CREATE TRIGGER IF NOT EXISTS audit_grows BEFORE INSERT ON audit WHEN NEW.number IN (SELECT number FROM audit)
        BEGIN SELECT RAISE(ABORT, 'audit rows stay'); END;
"""
_STANDING = """
    SELECT id, user, dataset, purpose, begins, ends, granted_by, justification, may_export FROM grants
    WHERE user = ? AND purpose = ? AND begins <= ? AND ends > ? ORDER BY may_export, ends
"""
_GRANT = """
    INSERT INTO grants
    VALUES (:id, :user, :dataset, :purpose, :begins, :ends, :granted_by, :justification, :may_export)
"""


@dataclass(frozen=True, slots=True)
class Grant:
    """Access of a user to a dataset for a purpose from ``begins`` until before ``ends``, ISO 8601 in UTC."""

    id: str
    user: str
    dataset: str
    purpose: str
    begins: str
    ends: str
    granted_by: str
    justification: str
    may_export: bool

    @property
    def hours(self) -> float:
        """The time of the grant, in hours."""
        return (datetime.fromisoformat(self.ends) - datetime.fromisoformat(self.begins)) / timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """One row of the audit.

    Attributes:
        at: when (ISO 8601 in UTC).
        event: ``request`` of a grant, or ``open`` for the reading of rows.
        outcome: ``granted`` or ``denied``.
        reason: until when, or why not.
        grants: ids of the grants by which rows are read.
        alert: whether somebody has to look at the access.
    """

    at: str
    event: str
    outcome: str
    user: str
    purpose: str
    datasets: Collection[str]
    justification: str
    ticket: str
    case: str
    export: bool
    reason: str
    approved_by: str = ""
    grants: Collection[str] = ()
    alert: bool = False


@dataclass(frozen=True, slots=True)
class Grants:
    """Store of grants and audit rows, shared by the processes of one machine.

    Attributes:
        file: the SQLite file, made at the first use and readable by its owner alone; its folder exists.

    Raises:
        NotReady: if the file cannot be opened.
        ConfigError: if the file is no database.
    """

    file: Path

    def __post_init__(self) -> None:
        require_types(self)
        with private_database(self.file, of=_OF, tables=_TABLES):
            pass

    def standing(self, user: str, purpose: str, at: datetime) -> list[Grant]:
        """Return the grants of a user for a purpose at a time, for exports and the longest last."""
        now = stamp(at)
        with private_database(self.file, of=_OF) as database:
            rows = database.execute(_STANDING, (user, purpose, now, now)).fetchall()
        return [replace(Grant(*row), may_export=bool(row[-1])) for row in rows]

    def write(self, decision: AccessDecision, grants: Collection[Grant] = ()) -> None:
        """Add an audit row and new grants; with new grants, ended grants are removed."""
        with private_database(self.file, of=_OF) as database:
            database.execute("BEGIN IMMEDIATE")
            if grants:
                database.execute("DELETE FROM grants WHERE ends <= ?", (decision.at,))
                database.executemany(_GRANT, map(asdict, grants))
            database.execute(
                "INSERT INTO audit (at, decision) VALUES (?, ?)", (decision.at, json.dumps(asdict(decision)))
            )
            database.execute("COMMIT")

    def audit(self, *, after: int = 0) -> list[AccessDecision]:
        """Return the audit rows in order, without the first ``after`` rows."""
        with private_database(self.file, of=_OF) as database:
            rows = database.execute("SELECT decision FROM audit WHERE number > ? ORDER BY number", (after,)).fetchall()
        return [AccessDecision(**json.loads(row)) for (row,) in rows]


def stamp(at: datetime) -> str:
    """Return a time in ISO 8601 in UTC, so that texts sort as times."""
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds")
