"""Fine-Grained Accessor for Tables: each audience reads the rows, columns and cells of a policy.

Problem: a table is readable as a whole or not at all, so that each audience gets everything, or a copy of its own.
Solution: a policy for each audience (columns, masks, a filter of rows; what is not named is denied), applied where the
    table is opened, so that joins, aggregates, subqueries and time travel pass it. Copies by audience, and the same
    policies in PostgreSQL, where a policy has to hold for those who do not read through the platform.
Consequences: filters of readers choose no files of a filtered table, only partitions that they name. Nothing holds
    against whoever can read the files, or runs code of their own in the engine (docs/access.md).
Choose instead: Vertical Partitioner, if columns are to be deleted by person; Encryptor, if files get into other hands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.classes import loosened
from dedp_assets.patterns.core.errors import ConfigError, Conflict, NotReady
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.policies import ALL_ROWS, ColumnMask, Policy, secured
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.running.digests import digest_of
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.delta import BaseChanges, Commit, Table, Target, require_partition, version_at
from dedp_assets.patterns.security._policy_log import PolicyLog
from dedp_assets.patterns.security._postgres_policies import PostgresPolicies

__all__ = ["read_for", "refresh_copy", "grant_in_postgres", "ColumnMask", "Policy", "PolicyLog"]

_NOTE = "copy for an audience"


@typed
def read_for(
    table: Table,
    key: MaskingKey | None = None,
    *,
    policies: Sequence[Policy],
    audience: str,
    version: int | str | None = None,
    partitions: Sequence[Mapping[str, str]] = (),
) -> DataFrame:
    """Read a table for an audience, by the policy in force; lazy.

    A version of the past is read by the policy of today, and a policy that changed holds from the next call on. A copy
    for the audience (:func:`refresh_copy`) is read as it is, if it was written by the same policy.

    Args:
        table: the table, or a copy.
        policies: the policies of the table.
        key: key of hashes.
        audience: who reads.
        version: version, instant or milestone; the newest version if ``None``.
        partitions: partitions to read, by columns that the audience sees in the clear.

    Raises:
        ConfigError: for an audience without a policy, to which nothing is shown; partitions of a hidden or masked
            column; and as :func:`~dedp_assets.patterns.core.policies.secured`.
        NotReady: for a copy that was written by an older policy: refresh it; or for another audience.

    Example:
        >>> found = ((1, "123-45-6789", "US"), (2, "987-65-4321", "EU"))
        >>> users = table("users", "id INT, ssn STRING, region STRING", *found)
        >>> ssn = ColumnMask(by="shape", value="999-99-9999")
        >>> policies = [Policy("us analysts", ["id", "ssn"], {"ssn": ssn}, rows="region = 'US'")]
        >>> rows(read_for(users, policies=policies, audience="us analysts"))
        [(1, 'XXX-XX-6789')]
        >>> read_for(users, policies=policies, audience="interns")
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: interns has no policy for users, so that nothing is shown: ...
    """
    policy = _policy_of(audience, policies, table.name)
    ledger = table.ledger
    pinned = version_at(ledger, version) if isinstance(version, str) else version
    pinned = ledger.version() if pinned is None else pinned
    if copied := _copied(table, pinned):
        _require_current(copied, policy, key, table.name)
        # By the version that was looked at: a refresh by another policy may follow.
        rows = table.read(*partitions, version=pinned)
        return secured(rows, replace(policy, masks={}, rows=ALL_ROWS), of=table.name)
    clear = {column.lower() for column in policy.columns if policy.mask_of(column) is None}
    if hidden := sorted({column for each in partitions for column in each if column.lower() not in clear}):
        raise ConfigError(f"partitions must be of columns that {audience} sees in the clear, not of {hidden}")
    return secured(table.read(*partitions, version=version), policy, key, of=table.name)


@demanding(as_is=False)
@typed
def refresh_copy(
    base: Table,
    into: Target,
    key: MaskingKey | None = None,
    *,
    policies: Sequence[Policy],
    audience: str,
    version: int | None = None,
) -> WriteResult:
    """Refresh the copy of a table for an audience: the rows of :func:`read_for`, in one commit.

    Called in the run that writes the base, with the partition of that write, it writes this partition, if no other one
    changed since the last refresh and the policy is the same. Otherwise all rows of the copy are replaced, also those
    of a target with a partition. The commit notes policy, key and version; :func:`read_for` refuses a version of the
    copy that another policy wrote, so that a tightened policy leaves nothing behind for readers of the platform. Files
    of older versions stay until a vacuum.

    Args:
        base: the table.
        into: target of the copy, which declares the columns of the policy.
        policies: the policies of the table.
        key: key of hashes.
        audience: who reads the copy.
        version: version of the base; the newest if ``None``.

    Raises:
        ConfigError: for an audience without a policy, or a copy that declares a column, shown in the clear, as of a
            class that leaves for more places than that of the base.
        Conflict: if the copy shows a newer version of the base, or somebody else wrote it meanwhile.
        AuditFailed: if an audit refuses the rows; the copy stays as it was, and is refused to readers if its policy is
            another one.

    Example:
        >>> visits = table("visits", "id INT, page STRING, day STRING", (1, "/a", "mon"), (2, "/b", "tue"))
        >>> policies = [Policy("agency", ["id", "page"], rows="day = 'mon'")]
        >>> copy = table("visits for the agency", "id INT, page STRING")
        >>> done = refresh_copy(visits, copy.target(run), policies=policies, audience="agency")
        >>> rows(read_for(copy, policies=policies, audience="agency"))
        [(1, '/a')]
    """
    into, copy = into.by("security.fine_grained_accessor_for_tables", "partition", "audits"), into.table
    policy = _policy_of(audience, policies, base.name)
    _require_classes(policy, base.spec.columns, copy.spec.columns, copy.name)
    pinned = base.ledger.version() if version is None else version
    state, held = base.ledger.state(pinned), copy.ensure()
    note = {"base": base.name, "table": state.table_id, "version": pinned, **_identity(policy, key)}
    before = _copied(copy, held.version) or {}
    shown = before.get("version") if {**before, "version": pinned} == note else None
    if shown is not None and shown > pinned:
        raise Conflict(f"{copy.name} shows version {shown} of {base.name}: version must be newer, not {pinned}")
    owned = require_partition(copy.name, held, into.owned) if into.owned else {}
    changed = BaseChanges.since(base.ledger, state, {column: column for column in owned}, shown).parts
    if changed == []:
        reason = f"{base.name} has the same rows as at version {shown}, and the policy is the same: nothing to do"
        return WriteResult(copy.name, held.version, applied=False, changed=False, reason=reason)
    is_part = bool(owned) and changed == [owned] and not {*map(str.lower, owned)} & {*map(str.lower, policy.masks)}
    rows = secured(base.read(*([owned] if is_part else []), version=pinned), policy, key, of=base.name)
    inputs = {base.name: pinned, f"policy of {audience}": digest_of(note), **into.run.inputs}
    into = replace(into, run=replace(into.run, inputs=inputs), partition=into.partition if is_part else {})
    return into.noting({_NOTE: note}).stage(rows).publish(since=held.version, held={})


@typed
def grant_in_postgres(
    connect: Callable[..., Any],
    *,
    policies: Sequence[Policy],
    table: str,
    keep: Sequence[str] = (),
    apply: bool = False,
) -> Finding:
    """Judge whether a table of a PostgreSQL has the policies alone; apply the policies first, if asked.

    An audience is a role of that name, which has to exist. It may select the columns without a mask from the table
    itself, and all its columns from a view ``<table> for <audience>``, if it has masks. All other grants are revoked.

    Args:
        connect: opens a connection as owner of the table, or as a superuser; takes psycopg's options.
        policies: the policies of the table, with predicates that PostgreSQL understands as well.
        table: ``schema.table``.
        keep: other roles that keep their grants, such as the one that writes.
        apply: whether to make it so, in one transaction.

    Returns:
        ``the_grants_are_the_policies``: the differences by number and name: a policy, view or grant that is missing, is
        another one or too much, row security that is off or not forced, a role that no policy holds for (superuser,
        BYPASSRLS), a view of somebody else through which rows pass unfiltered.

    Raises:
        ConfigError: for a role or table that is not there, a mask by hash, for which the key would be in the server, or
            a predicate that PostgreSQL does not understand; nothing is changed.
        NotReady: if the server does not answer.
    """
    found = PostgresPolicies(connect, tuple(policies), table, tuple(keep))
    changed = found.apply() if apply else 0
    wrong = found.differences()
    figures = {"policies": len(policies), "differences": len(wrong), "changed": changed}
    return Finding("the_grants_are_the_policies", not wrong, figures=figures, note="; ".join(wrong))


def _policy_of(audience: str, policies: Sequence[Policy], table: str) -> Policy:
    found = [each for each in policies if each.audience == audience]
    if len(found) > 1:
        raise ConfigError(
            f"policies must have one policy of {audience} for {table}, not {len(found)}: merge them first"
        )
    if not policies:
        raise ConfigError(f"policies must say what of {table} is shown to whom, not be empty: nothing is shown")
    if not found:
        raise ConfigError(
            f"{audience} has no policy for {table}, so that nothing is shown: let the owner of the table declare one"
        )
    return found[0]


def _identity(policy: Policy, key: MaskingKey | None) -> dict[str, str]:
    """Return audience, policy digest and key id of a copy."""
    hashed = any(mask.by == "hash" for mask in policy.masks.values())
    return {"audience": policy.audience, "policy": policy.digest, "key": key.id if key and hashed else ""}


def _copied(table: Table, version: int) -> Mapping[str, Any] | None:
    """Return the note of the refresh that wrote the rows of a version; ``None`` if anybody else did.

    What somebody else wrote into a copy is read by the policy, as of any table.
    """

    def noted(commit: Commit) -> Mapping[str, Any]:
        return commit.record.notes.get(_NOTE, {}) if commit.record else {}

    last = table.ledger.last(lambda commit: commit.changed or noted(commit), until=version)
    return noted(last) or None if last else None


def _require_current(copied: Mapping[str, Any], policy: Policy, key: MaskingKey | None, name: str) -> None:
    """Refuse a copy for another audience, by another policy, or under another key."""
    now = _identity(policy, key)
    if copied["audience"] != policy.audience:
        raise NotReady(
            f"{name} is a copy for {copied['audience']}, not for {policy.audience}: read the base, or own copy"
        )
    if copied["policy"] != now["policy"] or (key and copied["key"] != now["key"]):
        raise NotReady(
            f"{name} was written by another policy of {policy.audience} than the one of today, or under another key: "
            "refresh it (refresh_copy)"
        )


def _require_classes(policy: Policy, base: Mapping[str, Column], copy: Mapping[str, Column], name: str) -> None:
    """Refuse a copy that declares values in the clear as harmless."""
    ours, theirs = ({column.lower(): each for column, each in columns.items()} for columns in (copy, base))
    for column in (each.lower() for each in policy.columns):
        mask = policy.mask_of(column)
        if (mask is None or mask.unless) and column in ours and column in theirs:
            before, now = theirs[column].classification, ours[column].classification
            if loosened(before, now):
                raise ConfigError(
                    f"{name} must declare {column} as {before}, as the base does, not as {now or 'nothing'}"
                )
