"""Grants by purpose, and the audit of all decisions, in a file of SQLite.

No Delta table: a grant and its audit row stand in one transaction, and so do a decision and the look at earlier ones.
Audit rows are added alone: triggers of the file refuse a change. Whoever owns the file can replace it, as any file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from dedp_assets.patterns.connectors.secrets.private_database import private_database
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.governance._decisions import AccessDecision, UsualAccess, judged, remembered_since, stamp
from dedp_assets.patterns.governance._purposes import AccessRequest

__all__ = ["Grant", "Grants"]

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
    CREATE INDEX IF NOT EXISTS audit_of ON audit (json_extract(decision, '$.user'), at);
"""
_OF_USER = """
    SELECT decision FROM audit WHERE json_extract(decision, '$.user') = ? AND at >= ? AND at <= ? ORDER BY at, number
"""
_STANDING = """
    SELECT id, user, dataset, purpose, begins, ends, granted_by, justification, may_export FROM grants
    WHERE user = ? AND purpose = ? AND begins <= ? AND ends > ? ORDER BY may_export, ends
"""
_LATEST = "~"
"""Text behind every time."""
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

    @classmethod
    def of(cls, home: Path) -> Grants:
        """Open the store of a home."""
        return cls(home / "grants.db")

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

    def write(
        self,
        decision: AccessDecision,
        grants: Collection[Grant] = (),
        usual: Mapping[str, UsualAccess] = MappingProxyType({}),
    ) -> AccessDecision:
        """Add an audit row and new grants; with new grants, ended grants are removed.

        Args:
            decision: the decision.
            grants: new grants.
            usual: tier -> rule of usual accesses, by which the decision becomes an alert, or a denial.

        Returns:
            The decision as the audit has it.
        """
        with private_database(self.file, of=_OF) as database:
            database.execute("BEGIN IMMEDIATE")
            if usual:
                since = remembered_since(datetime.fromisoformat(decision.at), usual)
                decision = judged(decision, _of_user(database, decision.user, stamp(since), decision.at), usual)
            if grants:
                database.execute("DELETE FROM grants WHERE ends <= ?", (decision.at,))
                database.executemany(_GRANT, map(asdict, grants))
            database.execute(
                "INSERT INTO audit (at, decision) VALUES (?, ?)", (decision.at, json.dumps(asdict(decision)))
            )
            database.execute("COMMIT")
        return decision

    def audit(self, *, after: int = 0) -> list[AccessDecision]:
        """Return the audit rows in order, without the first ``after`` rows."""
        with private_database(self.file, of=_OF) as database:
            rows = database.execute("SELECT decision FROM audit WHERE number > ? ORDER BY number", (after,)).fetchall()
        return [AccessDecision(**json.loads(row)) for (row,) in rows]

    def unusual(self, at: datetime) -> list[AccessDecision]:
        """Return the unusual decisions of the 24 hours before a time, in order."""
        since, until = stamp(at - timedelta(days=1)), stamp(at)
        return [each for each in self.audit() if each.unusual and since < each.at <= until]

    def charge(self, ask: AccessRequest, grants: Sequence[Grant], cost: Cost, *, at: datetime) -> None:
        """Charge the cost of jobs over opened rows to grants, by a row of the audit.

        Args:
            ask: who read, and what for.
            grants: the grants by which the rows were read.
            cost: CPU, or time where the engine tells no CPU, in seconds; further figures are kept.
            at: when the rows were read, with time zone.

        Raises:
            ConfigError: for a cost without either, or below 0, and without a grant.
            NotReady: if the file cannot be used.
        """
        if not grants:
            raise ConfigError(f"grants must be those by which {ask.user} read, not none")
        spent = cost.seconds if cost.cpu_seconds is None else cost.cpu_seconds
        if spent is None or not 0 <= spent < float("inf"):
            raise ConfigError(f"cost must have cpu_seconds or seconds of 0 or more, not {spent}")
        decision = AccessDecision(
            at=stamp(at),
            event="charge",
            outcome="charged",
            datasets=[each.dataset for each in grants],
            reason=f"{spent:,.3f} seconds of {'time' if cost.cpu_seconds is None else 'CPU'}",
            grants=[each.id for each in grants],
            cost=cost.known,
            **asdict(ask),
        )
        self.write(decision)

    def charges(self, grants: Sequence[Grant]) -> list[Cost]:
        """Return the costs charged to any of a user's grants, in order of time."""
        if not grants:
            return []
        ids, since = {each.id for each in grants}, min(each.begins for each in grants)
        with private_database(self.file, of=_OF) as database:
            rows = _of_user(database, grants[0].user, since, _LATEST)
        return [Cost.read(row.cost) or Cost() for row in rows if row.event == "charge" and ids & {*row.grants}]


def _of_user(database: sqlite3.Connection, user: str, since: str, until: str) -> list[AccessDecision]:
    """Read the audit rows of a user, in order of time."""
    rows = database.execute(_OF_USER, (user, since, until)).fetchall()
    return [AccessDecision(**json.loads(row)) for (row,) in rows]
