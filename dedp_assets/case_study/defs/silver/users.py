"""Users at any time, and current users, from every captured change."""

from collections.abc import Mapping, Sequence
from typing import Any

from dedp_assets.case_study.defs.bronze.users import HISTORY
from dedp_assets.case_study.defs.bronze.users import USERS as BRONZE
from dedp_assets.graph.declare import About, Pinned, Step, lake_table
from dedp_assets.graph.inputs.history import last_note
from dedp_assets.graph.inputs.revisions import TRUE_SINCE
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import (
    Audit,
    Column,
    Encryption,
    SchemaMismatch,
    Table,
    TableSpec,
    Target,
    WriteResult,
    encrypt,
    keep_newest,
    keep_versions,
)
from dedp_assets.patterns.modeling import current_dimension, versioned_dimension
from dedp_assets.patterns.modeling.current_dimension import NEWEST
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, ChangeStream

_USER = {
    "user_id": Column("STRING", "key", required=True, classification="personal", subject="user"),
    "login": Column("BINARY", "name to log in with: an encrypted STRING", classification="personal"),
    "email": Column("BINARY", "address, if the user gave one: an encrypted STRING", classification="personal"),
    "credit": Column("DECIMAL(10,2)", "in euros", classification="sensitive"),
    "active": Column("BOOLEAN", "whether the user may log in", classification="public"),
}
USERS = TableSpec(
    "silver/users", {**_USER, **VERSION}, comment="One row per state of a user, with the time it was true."
)
USERS_CURRENT = TableSpec(
    "silver/users_current", {**_USER, **NEWEST}, comment="One row per user, as the newest change left it."
)
CONTACTS = ("login", "email")
BOUND = Encryption(table=USERS.name, subject="user_id", deterministic=True, shredded="null")
"""Contacts open by the user's key, which an erasure destroys. Equal ones are equal, so that no change is no version."""
ENCRYPTED = Audit.none_where("contacts_are_encrypted", "length(login) < 25 OR length(email) < 25")
STREAM = ChangeStream(keys=["user_id"], event_time="committed_at", sequence="commit_lsn", deleted="is_deleted")
# A snapshot, or an emptied table, deletes who was known before; of one commit a user's last change counts.
QUERY = """
    WITH images AS (
        SELECT commit_lsn, position, committed_at, image['user_id'] AS user_id, image, step
        FROM (
            SELECT commit_lsn, position, committed_at, inline(array(
                named_struct('step', 0, 'image', from_json(before, 'MAP<STRING, STRING>')),
                named_struct('step', 1, 'image', from_json(after, 'MAP<STRING, STRING>'))
            )) FROM {changes} WHERE key IS NOT NULL
        ) WHERE image IS NOT NULL
    ), known AS (
        SELECT user_id, min(struct(commit_lsn, position)) AS since FROM images GROUP BY user_id
    ), emptied AS (
        SELECT commit_lsn, position, committed_at, user_id, CAST(NULL AS MAP<STRING, STRING>) AS image, 0 AS step
        FROM {changes} JOIN known ON since < struct(commit_lsn, position)
        WHERE operation IN ('snapshot', 'truncate')
    ), states AS (
        SELECT user_id, commit_lsn, committed_at, max_by(struct(step, image), struct(position, step)) AS state
        FROM (SELECT * FROM images UNION ALL SELECT * FROM emptied) GROUP BY user_id, commit_lsn, committed_at
    )
    SELECT user_id, state.image['login'] AS login, state.image['email'] AS email,
        CAST(state.image['credit'] AS DECIMAL(10,2)) AS credit, CAST(state.image['active'] AS BOOLEAN) AS active,
        committed_at, commit_lsn, state.step = 0 AS is_deleted
    FROM states WHERE commit_lsn > {after}
"""
_ORIGIN: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("user_id", "login", "email", "credit", "active", "is_deleted"), ("before", "after")),
}
DERIVED = {
    **_ORIGIN,
    **dict.fromkeys(("valid_from", "valid_to"), ("committed_at",)),
    "is_current": ("committed_at", "before", "after"),
    "changes": ("committed_at", "commit_lsn"),
}


@lake_table(
    USERS,
    reads=[HISTORY],
    gates=(*versioned_dimension.AUDITS, ENCRYPTED),
    about=About(
        owner="team:applications",
        used_by="analysts and support, who ask how a user was when something happened",
        derived=DERIVED,
    ),
    patterns=[keep_versions, encrypt],
)
def users(step: Step, history: Pinned, into: Target, secrets: Secrets) -> WriteResult:
    """Apply the changes captured since the last run to the versions of the users."""
    return keep_versions(**_changes(step, history, into, secrets))


@lake_table(
    USERS_CURRENT,
    reads=[HISTORY],
    gates=(*current_dimension.AUDITS, ENCRYPTED),
    about=About(
        owner="team:applications",
        used_by="support, who ask how a user is now",
        derived={**_ORIGIN, "last_change": ["committed_at", "commit_lsn"]},
    ),
    patterns=[keep_newest, encrypt],
)
def users_current(step: Step, history: Pinned, into: Target, secrets: Secrets) -> WriteResult:
    """Apply the changes captured since the last run to the current users."""
    return keep_newest(**_changes(step, history, into, secrets))


def _changes(step: Step, history: Pinned, into: Target, secrets: Secrets) -> dict[str, Any]:
    """Read the changes missing in the table, with encrypted contacts; all changes after a new snapshot."""
    _require_columns_as_in_the_snapshot(history)
    since = step.applied(into.table)
    rebuild = since is None or _snapshot(history.table, since) != _snapshot(history.table, history.version)
    rows = history.rows() if since is None or rebuild else history.rows_since(since)
    # Of the days that changed, what the table has is not compared again: contacts of an erased user are unlike by now.
    after = -1 if since is None or rebuild else _position(history.table, since)
    states = rows.sparkSession.sql(QUERY, changes=rows, after=after)
    changes = encrypt(states, secrets.key_ring(into.name), columns=CONTACTS, bound=BOUND)
    notes = {} if since is None or rebuild else {TRUE_SINCE: _first_day(history.table, since)}
    return {"changes": changes, "into": into.noting(notes), "stream": STREAM, "rebuild": rebuild}


def _first_day(history: Table, since: int) -> str:
    """Return the day of the oldest change captured after version ``since`` of the history."""
    return min((dict(day)["committed_on"] or "" for day in history.ledger.changes(since=since)[1]), default="")


def _require_columns_as_in_the_snapshot(history: Pinned) -> None:
    """Refuse changes of columns dropped, added or rewritten at the source: the log repeats no row.

    Raises:
        SchemaMismatch: names each of these columns.
    """
    changed = _source(history.table, history.version).get("changed", {})
    if faults := [f"{column} {changed[column]}" for column in _USER if column in changed]:
        raise SchemaMismatch(
            f"{HISTORY.name}: columns differ at the source: {'; '.join(faults)}; take a new snapshot of {BRONZE.name}"
        )


def _position(history: Table, version: int) -> int:
    """Return the position of the source's log up to which the history was captured, as of a version of the history."""
    last = history.ledger.last(lambda commit: commit.record and commit.record.sequence is not None, until=version)
    return (last.record.sequence if last and last.record else 0) or 0


def _snapshot(history: Table, version: int) -> object:
    """Return the position of the source's last snapshot, as of a version of the history."""
    return _source(history, version).get("reset")


def _source(history: Table, version: int) -> Mapping[str, Any]:
    """Read the noted definition of the source, as of a version of the history."""
    return last_note(history.ledger, "source", until=version) or {}
