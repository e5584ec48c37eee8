"""Leases: who works on a partition right now, kept in the table's own log.

A lease is a Delta transaction id whose version is the time the lease ends, in seconds since 1970. It is taken by an
empty commit under the table's lock, so of several planners exactly one gets it; the commit's note names the owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import publishing
from dedp_assets.patterns.delta.locks import table_lock
from dedp_assets.patterns.delta.log import Ledger

__all__ = ["give_back", "take"]


def take(ledger: Ledger, partition: Mapping[str, str], *, owner: str, now: datetime, seconds: float) -> bool:
    """Take the lease of ``partition`` until ``now`` + ``seconds``; tell whether nobody else holds it."""
    app_id = f"{ledger.name}/{slice_name(partition)}/lease"
    with table_lock(ledger.store):
        ends = ledger.transaction(app_id)
        if ends is not None and ends > now.timestamp():
            return False
        publishing.commit_transaction(ledger, app_id, int(now.timestamp() + seconds), _note(owner))
        return True


def give_back(ledger: Ledger, partition: Mapping[str, str], *, owner: str, now: datetime) -> None:
    """End the lease of ``partition`` now, unless ``owner`` lost it to somebody else meanwhile."""
    app_id = f"{ledger.name}/{slice_name(partition)}/lease"
    with table_lock(ledger.store):
        last = next((commit for commit in ledger.history() if app_id in commit.transactions), None)
        if last is not None and last.note == _note(owner):
            publishing.commit_transaction(ledger, app_id, int(now.timestamp()), f"given back by {owner}")


def _note(owner: str) -> str:
    return f"leased by {owner}"
