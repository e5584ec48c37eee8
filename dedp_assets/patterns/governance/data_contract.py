"""Data Contract: a table's promises, in versions, and no breaking change without notice.

Problem: a column is renamed, fifteen dashboards break, and their teams learn of it from empty charts. The producer
    did not know who reads the table, or that anybody relied on it.
Solution: a contract with schema, quality, service level, owner and consumers. Each change of it is judged: a compatible
    one is agreed at once, a breaking one is announced to those whose columns it hits, and waits for them or the notice.
Consequences: a breaking change takes up to 30 days, in which both tables live side by side. Rows are held against the
    contract by the gates of the table, not here. A reader that nobody declared is not asked.
Choose instead: Contract Testing, to prove in a build that both sides agree; Schema Migrator, for how to change a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage
from dedp_assets.patterns.governance._affected import affected_by
from dedp_assets.patterns.governance._changes import Difference, Perspective, differences
from dedp_assets.patterns.governance._contracts import Consumer, Contract, Quality, Sla

__all__ = ["judge_change", "request_change", "ChangeRequest", "Consumer", "Contract", "Quality", "Sla"]

_BOTH: Sequence[Perspective] = ("consumer", "producer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """The announcement of a breaking change to consumers.

    Attributes:
        contract: name of the table.
        version: version of the contract that would change.
        changes: the announced changes; others are not covered.
        affected: who is asked.
        requested_at: time of the announcement.
        deadline: end of the notice; from then on the change is agreed, acknowledged or not.
        acknowledged: who has agreed -> when.
    """

    contract: str
    version: str
    changes: Sequence[str]
    affected: Sequence[str]
    requested_at: datetime
    deadline: datetime
    acknowledged: Mapping[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_types(self)

    def acknowledged_by(self, contact: str, at: datetime) -> ChangeRequest:
        """Return the request with an acknowledgement.

        Raises:
            ConfigError: for somebody who is not asked.
        """
        if contact not in self.affected:
            raise ConfigError(f"an acknowledgement must come from {', '.join(self.affected)}, not {contact}")
        return replace(self, acknowledged={**self.acknowledged, contact: at})

    def as_dict(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        names = ("contract", "version")
        times = {"requested_at": self.requested_at.isoformat(), "deadline": self.deadline.isoformat()}
        acknowledged = {name: at.isoformat() for name, at in self.acknowledged.items()}
        texts = {"changes": [*self.changes], "affected": [*self.affected]}
        return {**{name: getattr(self, name) for name in names}, **texts, **times, "acknowledged": acknowledged}

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> ChangeRequest:
        """Read a request from JSON values.

        Raises:
            ConfigError: for values that are none.
        """
        try:
            times = {name: datetime.fromisoformat(stated[name]) for name in ("requested_at", "deadline")}
            acknowledged = {name: datetime.fromisoformat(at) for name, at in stated["acknowledged"].items()}
            return cls(**{**stated, **times, "acknowledged": acknowledged})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"stated must be a change request, not {stated!r}: {error}") from error


@typed
def judge_change(
    old: Contract,
    new: Contract,
    lineages: Mapping[str, ColumnLineage],
    now: datetime,
    *,
    request: ChangeRequest | None = None,
    perspectives: Sequence[Perspective] = _BOTH,
) -> Finding:
    """Judge a change of a contract: agreed, or waiting for notice and acknowledgements.

    A compatible change is agreed. A breaking one is agreed if everybody whose columns it hits has acknowledged it, or
    once the notice of the old contract has passed since its announcement; at once if it hits nobody.

    Args:
        old: the published contract.
        new: the contract that would replace it. Its version is that of ``old``, or the one that it shall have.
        lineages: dataset -> column lineage of what is computed from the table, directly or further down.
        now: current time, with time zone.
        request: announcement of the change, if there is one.
        perspectives: sides that a change may break: a looser promise breaks a ``consumer``, a tighter one the
            ``producer``, who then is asked by the name of the owner.

    Returns:
        A finding that refuses a change which is not agreed. Its figures are all ``differences``, the ``breaking`` ones,
        ``affected`` consumers, whom it is ``awaiting``, the end of the notice (``deadline``), and the ``version`` of
        the new contract: the major number is raised by a breaking change, the minor one by another, the last by words.

    Raises:
        ConfigError: without a perspective, or for a request of another table.

    Example:
        >>> from datetime import timezone
        >>> from dedp_assets.patterns.core.schema import Column
        >>> columns = {"day": Column("DATE"), "amount": Column("BIGINT")}
        >>> old = Contract(name="gold/sales", version="1.2.0", owner="team:shop", columns=columns,
        ...     consumers=[Consumer("dashboards", columns=["amount"]), Consumer("calendar", columns=["day"])])
        >>> now = datetime(2026, 1, 5, tzinfo=timezone.utc)
        >>> wider = replace(old, columns={**columns, "shop": Column("STRING")})
        >>> judge_change(old, wider, {}, now).figures["version"]
        '1.3.0'
        >>> found = judge_change(old, replace(old, columns={"day": Column("DATE")}), {}, now)
        >>> found.passed, found.figures["affected"], found.figures["version"]
        (False, ['dashboards'], '2.0.0')
    """
    _require_sides(perspectives)
    if request is not None and request.contract != old.name:
        raise ConfigError(f"request must be about {old.name}, not about {request.contract}")
    found = differences(old, new)
    breaking = [each for each in found if {*each.breaks} & {*perspectives}]
    affected = affected_by(old, new, breaking, lineages, perspectives)
    open_request = request if request is not None and request.version == old.version else None
    awaiting, why = _awaited(breaking, affected, open_request, now)
    version = old.raised(0 if breaking else 1 if any(each.promise for each in found) else 2 if found else 3)
    if old.version != new.version and _number_of(new.version) < _number_of(version):
        why = [*why, f"the version must be {version} or later, not {new.version}"]
    deadline = open_request.deadline.isoformat() if open_request else ""
    return Finding(
        "change_is_agreed",
        passed=not why,
        figures={
            "differences": [str(each) for each in found],
            "breaking": [str(each) for each in breaking],
            "affected": [*affected],
            "awaiting": awaiting,
            "deadline": deadline,
            "version": max(version, new.version, key=_number_of),
        },
        note="; ".join(why),
    )


@typed
def request_change(
    old: Contract,
    new: Contract,
    lineages: Mapping[str, ColumnLineage],
    now: datetime,
    *,
    perspectives: Sequence[Perspective] = _BOTH,
) -> ChangeRequest:
    """Announce a breaking change: differences, affected consumers, and the end of the notice.

    Args:
        old: the published contract, whose days of notice count.
        new: the contract that would replace it.
        lineages: as :func:`judge_change`.
        now: current time, with time zone.
        perspectives: as :func:`judge_change`.

    Raises:
        ConfigError: if nothing breaks, and nobody has to be asked.
    """
    _require_sides(perspectives)
    breaking = [each for each in differences(old, new) if {*each.breaks} & {*perspectives}]
    if not breaking:
        raise ConfigError(f"new must have a breaking change of {old.name} to announce, not none: publish it")
    affected = affected_by(old, new, breaking, lineages, perspectives)
    return ChangeRequest(
        contract=old.name,
        version=old.version,
        changes=[str(each) for each in breaking],
        affected=[*dict.fromkeys(affected.values())],
        requested_at=now,
        deadline=now + timedelta(days=old.notice_days),
    )


def _awaited(
    breaking: Sequence[Difference], affected: Mapping[str, str], request: ChangeRequest | None, now: datetime
) -> tuple[list[str], list[str]]:
    """Return the contacts who have not acknowledged, and the reasons why the change is not agreed."""
    acknowledged = {name for name, at in (request.acknowledged if request else {}).items() if at <= now}
    awaiting = [each for each in dict.fromkeys(affected.values()) if each not in acknowledged]
    announced = {*request.changes} if request else set[str]()
    unknown = [str(each) for each in breaking if str(each) not in announced]
    if not breaking or not affected:
        return [], []
    if unknown:
        readers = ", ".join(f"{name} ({asked})" if name != asked else name for name, asked in affected.items())
        return awaiting, [f"not announced: {'; '.join(unknown)}. Affected: {readers}"]
    if request and awaiting and now < request.deadline:
        return awaiting, [f"waits for {', '.join(awaiting)}, or until {request.deadline:%Y-%m-%d %H:%M %Z}"]
    return awaiting, []


def _number_of(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split("."))


def _require_sides(perspectives: Sequence[Perspective]) -> None:
    if not perspectives:
        raise ConfigError("perspectives must be consumer, producer or both, not none")
