"""Policies on resources: statements attached to an identity or a resource, as documents of AWS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, get_args

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.running.permissions import Action, covers, place_of

__all__ = ["ACTIONS", "ANY", "AccessPolicy", "Statement", "identities_of"]

ACTIONS: Sequence[str] = get_args(Action)
ANY = "*"
_BUCKET = "s3://"
_ARN = "arn:aws:s3:::"
_CALLS: Mapping[str, Sequence[str]] = {
    "read": ("s3:GetObject",),
    "write": ("s3:PutObject", "s3:AbortMultipartUpload"),
    "delete": ("s3:DeleteObject",),
    "list": ("s3:ListBucket",),
}
"""Action -> calls of S3's API for the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One rule of a policy.

    Attributes:
        effect: whether the rule allows or denies; a denial wins.
        actions: ``read``, ``write``, ``delete`` and ``list``.
        resources: locations: an object, or a folder with ``/*`` behind; empty for all that have the tags, and in the
            policy of a resource for that resource.
        principals: identities, in the policy of a resource; empty in the policy of an identity.
        tags: tag -> value that a resource must have.
    """

    effect: Literal["allow", "deny"] = "allow"
    actions: Sequence[str]
    resources: Sequence[str] = ()
    principals: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_types(self)
        if not self.actions:
            raise ConfigError(f"actions must name some of {', '.join(ACTIONS)}, not none")

    def is_about(self, action: str, place: str, tags: Mapping[str, str]) -> bool:
        """Return whether the rule is about an action on a resource with these tags."""
        named = any(each in (action, ANY) for each in self.actions)
        return named and self.tags.items() <= tags.items() and (not self.resources or self.names(place))

    def names(self, place: str) -> bool:
        """Return whether a location is among the resources, also by a wildcard of a careless policy."""
        return any(covers(each, place) or _fits(each, place) for each in map(place_of, self.resources))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """Statements that are attached to an identity or to a resource.

    Attributes:
        name: name of the policy.
        statements: the rules.
        identity: who holds the policy, of an identity-based one.
        resource: location that the policy is attached to, of a resource-based one; a folder with ``/*`` behind.

    Raises:
        ConfigError: for a policy that is attached to both or to nothing, and rules of the other kind.
    """

    name: str
    statements: Sequence[Statement]
    identity: str = ""
    resource: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        if bool(self.identity) == bool(self.resource):
            raise ConfigError(f"policy {self.name} must be attached to an identity or to a resource, to one of them")
        for each in self.statements:
            if bool(each.principals) != bool(self.resource):
                raise ConfigError(
                    f"policy {self.name}: statements must name principals in the policy of a resource, and in that of "
                    "an identity none"
                )
            if not (each.resources or each.tags or self.resource):
                raise ConfigError(f"policy {self.name}: a statement must name resources or tags, not neither")

    @classmethod
    def of(cls, access: Access) -> AccessPolicy:
        """Return an access as the policy of the identity."""
        by_grants: dict[tuple[str, ...], list[str]] = {}
        for action, grants in access.allowed.items():
            by_grants.setdefault(tuple(grants), []).append(action)
        rules = [Statement(actions=actions, resources=grants) for grants, actions in by_grants.items() if grants]
        return cls(name=access.identity, statements=rules, identity=access.identity)

    def concerns(self, principal: str, place: str) -> Iterator[Statement]:
        """Yield the statements for a principal at a location."""
        if self.identity == principal:
            yield from self.statements
        elif self.resource and covers(place_of(self.resource), place):
            yield from (each for each in self.statements if {principal, ANY} & {*each.principals})

    def document(self) -> dict[str, Any]:
        """Return the policy as a document of AWS, which servers of S3 enforce.

        Raises:
            ConfigError: for a resource in a folder of a machine, and an unknown action.
        """
        return {"Version": "2012-10-17", "Statement": [made for each in self.statements for made in self._stated(each)]}

    def _stated(self, rule: Statement) -> Iterator[dict[str, Any]]:
        head: dict[str, Any] = {"Effect": rule.effect.capitalize()}
        if rule.principals:
            head["Principal"] = ANY if ANY in rule.principals else {"AWS": list(rule.principals)}
        actions = ACTIONS if ANY in rule.actions else rule.actions
        if unknown := sorted({*actions} - {*ACTIONS}):
            raise ConfigError(f"policy {self.name}: actions must be of {', '.join(ACTIONS)}, not {unknown[0]!r}")
        keys = [self._key(each) for each in rule.resources or ([self.resource] if self.resource else [])]
        if calls := [call for action in actions if action != "list" for call in _CALLS[action]]:
            tagged = {f"s3:ExistingObjectTag/{tag}": value for tag, value in rule.tags.items()}
            condition = {"Condition": {"StringEquals": tagged}} if tagged else {}
            yield {**head, "Action": calls, "Resource": [_ARN + key for key in keys] or ["*"], **condition}
        # A listing is a call to the bucket, which knows no tags: by a tag none is allowed.
        if "list" in actions and rule.tags and rule.effect == "deny":
            raise ConfigError(
                f"policy {self.name}: a listing must be denied by name, not by tag, which no server looks at"
            )
        if "list" in actions and not rule.tags:
            for bucket in dict.fromkeys(key.partition("/")[0] for key in keys):
                inside = [key.partition("/")[2] for key in keys if key.partition("/")[0] == bucket]
                limit = {"Condition": {"StringLike": {"s3:prefix": inside}}}
                yield {**head, "Action": [*_CALLS["list"]], "Resource": [_ARN + bucket], **limit}

    def _key(self, resource: str) -> str:
        place = place_of(resource)
        if not place.startswith(_BUCKET):
            raise ConfigError(
                f"policy {self.name}: {place} must be in a bucket, not in a folder, which no server guards"
            )
        return place.removeprefix(_BUCKET)


def identities_of(policies: Iterable[AccessPolicy]) -> dict[str, Any]:
    """Return the configuration of SeaweedFS (``-s3.config``): identities and policies, no credentials."""
    held = sorted((each for each in policies if each.identity), key=lambda each: each.identity)
    of = {name: [each.name for each in some] for name, some in groupby(held, lambda each: each.identity)}
    return {
        "identities": [{"name": name, "policyNames": policies} for name, policies in of.items()],
        "policies": [{"name": each.name, "content": json.dumps(each.document())} for each in held],
    }


def _fits(resource: str, place: str) -> bool:
    """Return whether a location fits a resource with wildcards, by the rules of S3's servers."""
    return ANY in resource and bool(re.fullmatch(".*".join(map(re.escape, resource.split(ANY))), place, re.DOTALL))
