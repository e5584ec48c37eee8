"""Fine-Grained Accessor for Resources: a job reaches the declared locations, and no others.

Problem: a job that reads one folder and writes another one holds rights to the whole lake. A fault of it, or a thief
    of its credentials, reads and removes everything.
Solution: from the locations that a job reads and writes follow its exact permissions. The library refuses other
    locations in the run, and a server of S3 by the policies that are rendered for it.
Consequences: as many policies as jobs, and providers limit their number. A wildcard saves policies, and lets a job
    into folders that nobody thought of. In a folder of a machine, code that opens files by itself is not stopped.
Choose instead: Fine-Grained Accessor for Tables, where readers of one table may see some of its rows or columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Access, Finding
from dedp_assets.patterns.core.running.permissions import FOLDER, place_of
from dedp_assets.patterns.delta import beside
from dedp_assets.patterns.security._resource_policies import ACTIONS, ANY, AccessPolicy, Statement

__all__ = ["grant_resources", "decide_access", "lint_policies", "AccessPolicy", "Statement"]

_FULL = 0.8
"""Share of the greatest number of policies from which on the lint warns."""


@typed
def grant_resources(reads: Sequence[str], writes: Sequence[str], *, identity: str) -> Access:
    """Grant an identity the tables and folders of the declared reads and writes, and no others.

    Who reads may read and list what lies in the folder; who writes may also write and delete there, and hold the locks
    and keep the notes beside it that writers of a table need.

    Args:
        reads: locations that are read, each a path or an unescaped ``s3://bucket/prefix``.
        writes: locations that are written.
        identity: who gets the permissions: a job, an asset.

    Returns:
        The access, by action; each folder by its own name and by all names below.

    Raises:
        ConfigError: for a location that is a whole bucket or disk, relative, or a pattern.

    Example:
        >>> access = grant_resources(["s3://lake/visits"], ["s3://lake/totals"], identity="gold/totals")
        >>> of_job = {"policies": [AccessPolicy.of(access)], "principal": "gold/totals"}
        >>> for asked in ("s3://lake/visits/a", "s3://lake/visits-payroll/a"):
        ...     print(decide_access(**of_job, action="read", resource=asked).reason)
        allowed by gold/totals
        denied: no policy allows gold/totals to read it
    """
    read = [grant for location in reads for grant in _folder("reads", location)]
    written = [grant for location in writes for grant in _written(location)]
    both, own = tuple(dict.fromkeys([*read, *written])), tuple(dict.fromkeys(written))
    allowed = {"read": both, "list": both, "write": own, "delete": own}
    reason = f"{identity} declares {len({*reads})} locations that it reads, and {len({*writes})} that it writes"
    return Access(identity, {action: grants for action, grants in allowed.items() if grants}, reason)


@typed
def decide_access(
    policies: Sequence[AccessPolicy],
    *,
    principal: str,
    action: str,
    resource: str,
    tags: Mapping[str, str] | None = None,
) -> Access:
    """Decide on an action by a principal, by the policies of identities and of resources.

    What no statement allows is denied, and a statement that denies wins over all others.

    Args:
        policies: the policies of all identities and resources.
        principal: who asks.
        action: ``read``, ``write``, ``delete`` or ``list``.
        resource: location of the object or folder.
        tags: tags of the resource.

    Returns:
        The access to this resource: allowed for the action, or denied with the reason.

    Raises:
        ConfigError: for another action.
    """
    if action not in ACTIONS:
        raise ConfigError(f"action must be one of {', '.join(ACTIONS)}, not {action!r}")
    place = place_of(resource)
    about = [
        (each.effect, policy.name)
        for policy in policies
        for each in policy.concerns(principal, place)
        if each.is_about(action, place, tags or {})
    ]
    by = {effect: ", ".join(dict.fromkeys(name for found, name in about if found == effect)) for effect, _ in about}
    if "deny" in by:
        return Access(principal, {}, f"denied by {by['deny']}", denied={place: f"{action} is denied by {by['deny']}"})
    if "allow" in by:
        return Access(principal, {action: (place,)}, f"allowed by {by['allow']}")
    why = f"no policy allows {principal} to {action} it"
    return Access(principal, {}, f"denied: {why}", denied={place: why})


@typed
def lint_policies(policies: Sequence[AccessPolicy], *, most: int = 1500) -> Finding:
    """Judge whether policies allow exact actions on exact resources, and are not too many.

    Args:
        policies: the policies of all identities and resources.
        most: greatest number of policies that the provider takes; from 80 % on a warning.

    Returns:
        The finding: a failure for wildcards, unknown actions and too many policies; ``note`` names each one.

    Raises:
        ConfigError: for ``most`` below 1.
    """
    if most < 1:
        raise ConfigError(f"most must be at least 1, not {most}")
    faults = [
        f"{policy.name}: {fault}"
        for policy in policies
        for each in policy.statements
        for fault in _faults(each, [*each.resources, *([policy.resource] if policy.resource else [])])
    ]
    count = len(policies)
    if count > most:
        faults.append(f"{count} policies are more than the {most} that the provider takes: let jobs share policies")
    near = [f"{count} of at most {most} policies are in use"] if most >= count >= _FULL * most else []
    return Finding(
        "policies_are_exact",
        passed=not faults and not near,
        severity="fail" if faults else "warn",
        figures={"policies": count, "most": most, "faults": len(faults)},
        note="; ".join([*faults, *near]),
    )


def _folder(option: str, location: str) -> tuple[str, str]:
    place = place_of(location)
    if {*"*?{}"} & {*place} or not place.startswith(("/", "s3://")) or _is_whole(place):
        raise ConfigError(
            f"{option} must name folders or prefixes in full, such as /lake/silver/visits, not {location!r}"
        )
    return place, place + FOLDER


def _written(location: str) -> tuple[str, ...]:
    place, below = _folder("writes", location)
    folders, locks = beside(place)
    return (place, below, *(grant for each in folders for grant in (each, each + FOLDER)), *locks)


def _is_whole(resource: str) -> bool:
    """Return whether a resource is a whole disk or bucket, or more."""
    place = resource.removesuffix(FOLDER)
    return place in ("", "/", ANY, "s3:", "s3:/", "s3://") or (place.startswith("s3://") and place.count("/") <= 2)


def _faults(rule: Statement, resources: Sequence[str]) -> Iterator[str]:
    """Yield the wide and the mistaken parts of a statement; a denial may be wide."""
    denies, known = rule.effect == "deny", ", ".join(ACTIONS)
    wrong = [each for each in rule.actions if each not in ACTIONS and not (denies and each == ANY)]
    yield from (f"{action} is no single action: name {known}" for action in wrong)
    if denies:
        if rule.tags:
            yield "a denial by tag spares a resource whose tag is mistyped: deny by name, or allow by tag"
        return
    yield from ("* allows everybody: name the principals" for each in rule.principals if each == ANY)
    yield from filter(None, map(_width, resources))


def _width(resource: str) -> str:
    """Return why a resource is not exact; empty for an exact one."""
    if _is_whole(place_of(resource)):
        return f"{resource} is a whole bucket or disk: name folders"
    if ANY in resource.removesuffix(FOLDER):
        return f"{resource} allows names that nobody thought of ({resource.replace(ANY, 'payroll')}): name folders"
    return f"{resource} allows nothing below: end it with {FOLDER}" if resource.endswith("/") else ""
