"""Purpose-Based Access Control: rows are opened for a stated purpose, for a time, logged.

Problem: roles are too coarse: what an analyst may see depends on whether the work is support, fraud or marketing.
Solution: purposes name tables, personal values, row limits, exports and budgets; tiers, which follow from the classes
    of columns, name trainings, approvers, watermarks and usual accesses. A grant ends; masks lie on each table's read.
Consequences: what no purpose allows is denied, and each decision is one row of an audit. Enforced by the reader, not
    against whoever opens a table's files; identities come from who authenticated them. A row limit suits look-ups only.
    A watermark is a column: a query that leaves the column out drops it. A budget counts the jobs that were charged.
Choose instead: Fine-Grained Accessor for Tables, if the right to rows and columns follows from a role alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError, Denied
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.policies import Policy, strictest
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.running.digests import as_plain, digest_of
from dedp_assets.patterns.core.sql.sql_options import require_of_one_row
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.governance._decisions import AccessDecision, UsualAccess, stamp
from dedp_assets.patterns.governance._grants import Grant, Grants
from dedp_assets.patterns.governance._opening import names_of, opened_by
from dedp_assets.patterns.governance._purposes import (
    AccessRequest,
    AccessRules,
    AccessTier,
    Purpose,
    limits_of,
    obstacles,
    policy_of,
    unapproved,
)

__all__ = [
    "request_access",
    "open_for",
    "charged",
    "AccessRequest",
    "AccessDecision",
    "Grants",
    "Purpose",
    "AccessRules",
    "AccessTier",
    "UsualAccess",
]

_MOST_HOURS = 87_600
"""Ten years."""


@typed
def request_access(
    tables: Sequence[Table],
    ask: AccessRequest,
    grants: Grants,
    *,
    at: datetime,
    hours: float = 8,
    approved_by: str = "",
    rules: AccessRules | None = None,
) -> Access:
    """Grant a user access to all tables or to no table for a purpose, with one row in the audit.

    Grants that stand are kept as they are; others begin now.

    Args:
        tables: the tables.
        ask: who, what for and why.
        grants: the store of grants.
        at: current time, with time zone.
        hours: how long new grants stand, in hours.
        approved_by: who approves, as whoever authenticated them says; empty for a request without approval.
        rules: purposes, tiers and qualifications; the guide's, without qualified users, unless stated.

    Returns:
        The access: what may be read and exported until when, with masks and row limit; or why each table is denied.

    Raises:
        ConfigError: without a table.
        NotReady: if the store of grants cannot be used.

    Example:
        >>> import tempfile
        >>> from datetime import datetime, timedelta, timezone
        >>> from pathlib import Path
        >>> grants = Grants(Path(tempfile.mkdtemp()) / "grants.db")
        >>> sales = table("gold/sales", "id INT", (1,))
        >>> ask, now = AccessRequest(user="ada", purpose="analytics"), datetime(2026, 1, 5, tzinfo=timezone.utc)
        >>> request_access([sales], ask, grants, at=now).reason
        'granted for analytics until 2026-01-05T08:00:00.000000+00:00'
        >>> rows(open_for([sales], ask, grants, at=now)["gold/sales"])
        [(1,)]
        >>> open_for([sales], ask, grants, at=now + timedelta(hours=8))
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.Denied: gold/sales: ada has no grant for analytics at that time
        >>> [(row.event, row.outcome) for row in grants.audit()]
        [('request', 'granted'), ('open', 'granted'), ('open', 'denied')]
    """
    rules = rules or AccessRules()
    if not 0 < hours <= _MOST_HOURS:
        raise ConfigError(f"hours must be more than 0 and at most {_MOST_HOURS}, not {hours:g}")
    denied, held = _checked(tables, ask, rules, grants, at)
    ends = stamp(at + timedelta(hours=hours))
    made = dict[str, Grant]()
    for table in tables:
        tier, known = rules.tier(table.spec), held.get(table.name)
        if known and (known.may_export or not (ask.export and tier.export == "approved")):
            continue
        if why := unapproved(tier, ask, hours, approved_by):
            denied.setdefault(table.name, why)
        given = (ask.user, table.name, ask.purpose, stamp(at), ends, approved_by, ask.justification)
        made[table.name] = Grant(uuid.uuid4().hex, *given, may_export=ask.export and bool(approved_by))
    held = {table.name: made.get(table.name) or held[table.name] for table in tables}
    policies = _policies(tables, ask, rules, held, denied)
    until = min(each.ends for each in held.values())
    decision = replace(
        _decision("request", tables, ask, rules, denied, at=at, reason=f"granted for {ask.purpose} until {until}"),
        approved_by=approved_by,
        grants=() if denied else tuple(each.id for each in held.values()),
    )
    decision = grants.write(decision, () if denied else made.values(), rules.usual(each.spec for each in tables))
    version = digest_of(as_plain(rules))
    if denied:
        return Access(ask.user, {}, decision.reason, denied, version=version)
    leaving = tuple(name for name, policy in policies.items() if policy.may_export)
    allowed = {"read": tuple(policies), **({"export": leaving} if leaving else {})}
    limits = dict(limits_of(policies))
    return Access(ask.user, allowed, decision.reason, {}, limits, version, datetime.fromisoformat(until))


@typed
def open_for(
    tables: Sequence[Table],
    ask: AccessRequest,
    grants: Grants,
    key: MaskingKey | None = None,
    *,
    at: datetime,
    rules: AccessRules | None = None,
    where: Mapping[str, str] | None = None,
    also: Mapping[str, Policy] | None = None,
) -> Mapping[str, DataFrame]:
    """Open tables for a purpose, with one row in the audit; lazy.

    Each table is masked where it is read, so that no alias, filter or join sees a hidden value. Of tables that are
    opened together, the smallest row limit holds for each, and rows leave the platform only if all allow it.

    Args:
        tables: the tables that a query reads.
        ask: who, what for and why; with ``export`` if the rows shall leave.
        grants: the store of grants.
        key: key of masks by hash.
        at: current time, with time zone.
        rules: as of :func:`request_access`; held against the ask again.
        where: dataset -> SQL predicate over the shown values, applied before the row limit.
        also: dataset -> policy of the user's role, such as rows of a region; the stricter of both holds.

    Returns:
        Dataset -> its rows as the purpose shows them, with the watermark of its tier as last column.

    Raises:
        Denied: names each table and why, or by what the access is unusual; nothing is opened.
        ConfigError: without a table, for names in ``where`` or ``also`` that are no tables, for predicates and policies
            that do not fit, and a watermark that is a column of the table.
        NotReady: if the store of grants cannot be used.
    """
    rules = rules or AccessRules()
    for option, given in {"where": where or {}, "also": also or {}}.items():
        if strange := given.keys() - {table.name for table in tables}:
            raise ConfigError(f"{option} must be of tables to open, not of {', '.join(sorted(strange))}")
    require_of_one_row("where: predicate", where or {})
    denied, held = _checked(tables, ask, rules, grants, at)
    for table in tables:
        if table.name not in held:
            denied.setdefault(table.name, f"{ask.user} has no grant for {ask.purpose} at that time")
    policies = _policies(tables, ask, rules, held, denied, also or {})
    by = [] if denied else [held[table.name] for table in tables]
    marks = {table.name: column for table in tables if (column := rules.tier(table.spec).watermark)}
    decision = replace(
        _decision("open", tables, ask, rules, denied, at=at, reason="opened"),
        approved_by=", ".join(sorted({each.granted_by for each in by} - {""})),
        grants=[each.id for each in by],
        mark=uuid.uuid4().hex if marks and not denied else "",
    )
    opened = {} if denied else opened_by(policies, tables, key, where or {}, marks, decision.mark)
    decision = grants.write(decision, usual=rules.usual(each.spec for each in tables))
    if decision.is_denial:
        raise Denied(decision.reason)
    return opened


@contextmanager
@typed
def charged(tables: Sequence[Table], ask: AccessRequest, grants: Grants, *, at: datetime) -> Iterator[datetime]:
    """Charge the Spark jobs of a block to the grants of the tables.

    A frame is lazy: the block has to hold the jobs, of the thread that entered it. CPU is charged where the engine
    tells it, and time over Spark Connect, of more than 90 jobs, and of a block that fails.

    Args:
        tables: the tables.
        ask: who reads, and what for.
        grants: the store of grants.
        at: when the tables were opened, with time zone.

    Yields:
        When the first of the grants ends.

    Raises:
        ConfigError: without a table, and where no grant of the tables stands; before the block.
        NotReady: if the store of grants cannot be used.
    """
    names = names_of(tables)
    held = [each for each in grants.standing(ask.user, ask.purpose, at) if each.dataset in names]
    if not held:
        raise ConfigError(f"at must lie within a grant of {ask.user} for {ask.purpose}, not be {stamp(at)}")
    meter = Meter()
    try:
        with meter.jobs(tables[0].session):
            yield datetime.fromisoformat(min(each.ends for each in held))
    finally:
        grants.charge(ask, held, meter.cost(), at=at)


def _checked(
    tables: Sequence[Table], ask: AccessRequest, rules: AccessRules, grants: Grants, at: datetime
) -> tuple[dict[str, str], dict[str, Grant]]:
    """Return why tables are denied, with and without a grant, and the grants that stand."""
    names, standing, purpose = names_of(tables), grants.standing(ask.user, ask.purpose, at), rules.purpose(ask)
    tiers = {table.name: rules.tier(table.spec) for table in tables}
    denied = {table.name: why for table in tables if (why := "; ".join(obstacles(table.spec, ask, rules)))}
    if purpose and purpose.budget is not None:
        spent = sum(map(rules.priced, grants.charges(standing)))
        why = f"{ask.user} has spent {spent:,.2f} of {purpose.budget:,.2f} for {ask.purpose} under the present grants"
        denied = {**dict.fromkeys(names if spent >= purpose.budget else (), why), **denied}
    known = (each for each in standing if each.dataset in tiers)
    return denied, {g.dataset: g for g in known if not unapproved(tiers[g.dataset], ask, g.hours, g.granted_by)}


def _policies(
    tables: Sequence[Table],
    ask: AccessRequest,
    rules: AccessRules,
    held: Mapping[str, Grant],
    denied: dict[str, str],
    also: Mapping[str, Policy] = MappingProxyType({}),
) -> dict[str, Policy]:
    """Return the policy of each table, none if one is denied; deny rows that shall leave and may not."""
    purpose, found = rules.purpose(ask), dict[str, Policy]()
    if denied or purpose is None:
        return found
    for table in tables:
        name, tier = table.name, rules.tier(table.spec)
        own = policy_of(table.spec, purpose, tier, approved_export=held[name].may_export)
        found[name] = strictest(own, also[name]) if name in also else own
    staying = [name for name, policy in found.items() if ask.export and not policy.may_export]
    denied.update(dict.fromkeys(staying, f"rows may not leave the platform for {ask.purpose}"))
    return found


def _decision(
    event: str,
    tables: Sequence[Table],
    ask: AccessRequest,
    rules: AccessRules,
    denied: Mapping[str, str],
    *,
    at: datetime,
    reason: str,
) -> AccessDecision:
    purpose, tiers = rules.purpose(ask), [rules.tier(table.spec) for table in tables]
    return AccessDecision(
        at=stamp(at),
        event=event,
        outcome="denied" if denied else "granted",
        datasets=[table.name for table in tables],
        reason="; ".join(f"{name}: {why}" for name, why in denied.items()) or reason,
        alert=(purpose is not None and purpose.alert) or any(tier.alert for tier in tiers),
        tiers=[tier.name for tier in tiers],
        **asdict(ask),
    )
