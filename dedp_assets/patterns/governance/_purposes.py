"""Declarations of purposes and tiers, with the guide's as defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from dedp_assets.patterns.core.classes import Classification
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.policies import ALL_ROWS, ColumnMask, Policy
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.partitions import stored_type
from dedp_assets.patterns.governance._decisions import UsualAccess

__all__ = ["AccessRequest", "Purpose", "AccessRules", "AccessTier", "limits_of", "obstacles", "policy_of", "unapproved"]

TierName = Literal["public", "internal", "restricted", "confidential"]
_PERSONAL: Sequence[Classification] = ("personal", "sensitive", "free text")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """Who wants which access, and why; stands in the audit, so without values of rows.

    Attributes:
        user: the identity, as whoever authenticated it says.
        purpose: name of the purpose.
        justification: why, in a sentence.
        ticket: id of the ticket that is worked on.
        case: id of the case that is audited.
        export: whether rows shall leave the platform.

    Raises:
        ConfigError: without user or purpose.
    """

    user: str
    purpose: str
    justification: str = ""
    ticket: str = ""
    case: str = ""
    export: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if not self.user.strip() or not self.purpose.strip():
            raise ConfigError(f"user and purpose must say who asks what for, not be {self.user!r} and {self.purpose!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """Policy of a purpose.

    Attributes:
        name: of the purpose.
        tables: names of datasets, with ``*`` for any characters.
        personal: whether personal, sensitive and free texts are shown in the clear, and unclassified columns at all.
        mask: mask of personal texts, unless they are shown; values of other types and classes are NULL then.
        max_rows: most rows of each opened table; ``None`` for no limit.
        export: whether rows may leave the platform, as far as tiers and classes of columns allow.
        needs: what each ask has to state.
        alert: whether the audit rows of the purpose are alerts.
        budget: what jobs over opened rows may cost under the grants of a user that stand, by the price of the rules;
            nothing is opened from there on. ``None`` for no limit. Jobs that nobody charged do not count.

    Raises:
        ConfigError: for a budget that is not above 0.
    """

    name: str
    tables: Sequence[str]
    personal: bool = False
    mask: Literal["hash", "partial", "null"] = "partial"
    max_rows: int | None = None
    export: bool = False
    needs: Sequence[Literal["ticket", "case", "justification"]] = ()
    alert: bool = False
    budget: float | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if self.budget is not None and self.budget <= 0:
            raise ConfigError(f"budget must be above 0, not {self.budget:g}")

    def shown(self, spec: TableSpec) -> dict[str, Column]:
        """Return the columns of a table that are shown, masked or not; never secrets."""
        left_out = {"secret"} if self.personal else {"secret", ""}
        return {name: column for name, column in spec.columns.items() if column.classification not in left_out}

    def mask_of(self, column: Column) -> ColumnMask | None:
        """Return the mask of a column; ``None`` for a column in the clear."""
        if self.personal or column.classification not in _PERSONAL:
            return None
        is_text = stored_type(column.type) == "string" and column.classification == "personal"
        return ColumnMask(self.mask if is_text else "null")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTier:
    """Requirements of a tier of sensitivity.

    Attributes:
        name: of the tier.
        needs: qualifications that the user must have (:attr:`AccessRules.qualified`).
        approval: whether one of ``approvers`` has to approve each grant.
        approvers: users who may, for others than themselves.
        justification: whether an ask has to state one.
        export: whether rows may leave: ``yes``, by a grant that was ``approved`` for an export, or ``no``.
        most_hours: longest time of a grant, in hours.
        alert: whether the audit rows of its tables are alerts.
        watermark: name of a last column of opened tables with a text that the audit row of the opening has as its
            ``mark``; empty for none.
        usual: rule of usual accesses, by which decisions become alerts; ``None`` for none.
    """

    name: TierName
    needs: Sequence[str] = ()
    approval: bool = False
    approvers: Sequence[str] = ()
    justification: bool = False
    export: Literal["yes", "approved", "no"] = "yes"
    most_hours: float = 2160
    alert: bool = False
    watermark: str = ""
    usual: UsualAccess | None = None

    def __post_init__(self) -> None:
        require_types(self)


_PURPOSES = (
    Purpose(name="analytics", tables=("gold/*", "silver/aggregated_*"), export=True),
    Purpose(name="ml_training", tables=("silver/*", "gold/*"), export=True, budget=1000),
    Purpose(
        name="operations", tables=("silver/customers", "silver/orders"), personal=True, max_rows=1000, needs=("ticket",)
    ),
    Purpose(name="fraud_detection", tables=("silver/*",), personal=True, alert=True),
    Purpose(name="audit", tables=("*",), personal=True, export=True, needs=("case",)),
)
_CHECKED = ("background check", "PII Handling", "GDPR Compliance")
_TIERS = (
    AccessTier(name="public"),
    AccessTier(name="internal", needs=("Data Handling 101",)),
    AccessTier(name="restricted", needs=_CHECKED, approval=True, justification=True, export="approved"),
    AccessTier(
        name="confidential",
        needs=("NDA", "MFA"),
        approval=True,
        justification=True,
        export="no",
        most_hours=8,
        alert=True,
        watermark="opened_as",
        usual=UsualAccess(),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """Purposes, tiers, and the users who fulfil the requirements; by default the guide's.

    Attributes:
        purposes: the policies; a purpose without one is denied.
        tiers: the requirements of the four tiers.
        tier_of: dataset, with ``*`` for any characters -> tier, in place of the one of :meth:`tier`.
        qualified: user -> qualifications, such as trainings.
        cpu_hour_price: price of an hour of CPU, in the currency of the budgets; where the engine tells no CPU, of an
            hour of time.

    Raises:
        ConfigError: for two policies of a purpose, other tiers, and a price below 0.
    """

    purposes: Sequence[Purpose] = _PURPOSES
    tiers: Sequence[AccessTier] = _TIERS
    tier_of: Mapping[str, TierName] = field(default_factory=dict)
    qualified: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cpu_hour_price: float = 0.05

    def __post_init__(self) -> None:
        require_types(self)
        require_distinct("purposes", [each.name for each in self.purposes])
        if sorted(each.name for each in self.tiers) != sorted(each.name for each in _TIERS):
            raise ConfigError(f"tiers must be {', '.join(each.name for each in _TIERS)}, once each")
        if self.cpu_hour_price < 0:
            raise ConfigError(f"cpu_hour_price must be 0 or more, not {self.cpu_hour_price:g}")

    def purpose(self, ask: AccessRequest) -> Purpose | None:
        """Return the policy of an ask; ``None`` without one."""
        return next((each for each in self.purposes if each.name == ask.purpose), None)

    def tier(self, spec: TableSpec) -> AccessTier:
        """Return the tier of a table: the stated one, or by the classes of the columns.

        Confidential with a secret, restricted with personal, sensitive or free texts, public if all are public.
        """
        classes = {column.classification for column in spec.columns.values()}
        derived = "public" if classes == {"public"} else "restricted" if classes & {*_PERSONAL} else "internal"
        derived = "confidential" if "secret" in classes else derived
        name = next((tier for glob, tier in self.tier_of.items() if fnmatchcase(spec.name, glob)), derived)
        return next(tier for tier in self.tiers if tier.name == name)

    def usual(self, specs: Iterable[TableSpec]) -> dict[str, UsualAccess]:
        """Return the rules of usual accesses to tables, by tier."""
        return {tier.name: tier.usual for spec in specs if (tier := self.tier(spec)).usual}

    def priced(self, cost: Cost) -> float:
        """Return the price of a measured cost, in the currency of the budgets."""
        seconds = cost.seconds if cost.cpu_seconds is None else cost.cpu_seconds
        return (seconds or 0.0) / 3600 * self.cpu_hour_price


def obstacles(spec: TableSpec, ask: AccessRequest, rules: AccessRules) -> Iterator[str]:
    """Yield the reasons for which a table is denied with and without a grant."""
    purpose, tier = rules.purpose(ask), rules.tier(spec)
    if purpose is None:
        yield f"no policy allows anything for {ask.purpose}"
        return
    if not any(fnmatchcase(spec.name, glob) for glob in purpose.tables):
        yield f"{ask.purpose} is for {', '.join(purpose.tables)} alone"
    needs = dict.fromkeys([*purpose.needs, *(["justification"] if tier.justification else [])])
    stated = {"ticket": ask.ticket, "case": ask.case, "justification": ask.justification}
    if missing := [need for need in needs if not stated[need].strip()]:
        yield f"{ask.purpose} needs a {' and a '.join(missing)} here"
    if lacking := [need for need in tier.needs if need not in rules.qualified.get(ask.user, ())]:
        yield f"{ask.user} lacks {', '.join(lacking)}, as {tier.name} tables need"
    if not purpose.shown(spec):
        yield f"no column is shown for {ask.purpose}"


def unapproved(tier: AccessTier, ask: AccessRequest, hours: float, approved_by: str) -> str:
    """Return the reason for which a new grant is denied; empty for an allowed one."""
    if hours > tier.most_hours:
        return f"a grant of {tier.name} tables is for at most {tier.most_hours:g} hours, not {hours:g}"
    others = [each for each in tier.approvers if each != ask.user]
    if tier.approval and approved_by not in others:
        return f"{tier.name} tables need the approval of {' or '.join(others) or 'an approver, and there is none'}"
    return ""


def policy_of(spec: TableSpec, purpose: Purpose, tier: AccessTier, *, approved_export: bool) -> Policy:
    """Return the policy of a table for a purpose, under a grant."""
    shown = purpose.shown(spec)
    masks = {name: mask for name, column in shown.items() if (mask := purpose.mask_of(column))}
    by_class = purpose.personal or all(column.shows("export") for name, column in shown.items() if name not in masks)
    by_tier = tier.export == "yes" or (tier.export == "approved" and approved_export)
    may_export = purpose.export and by_class and by_tier
    return Policy(purpose.name, [*shown], masks, ALL_ROWS, purpose.max_rows, may_export)


def limits_of(policies: Mapping[str, Policy]) -> Iterator[tuple[str, str]]:
    """Yield the row limits and masks of policies, for people."""
    for name, policy in policies.items():
        if policy.max_rows is not None:
            yield name, f"at most {policy.max_rows} rows"
        yield from ((f"{name}.{column}", f"mask by {mask.by}") for column, mask in policy.masks.items())
