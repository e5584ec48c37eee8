"""Branches of a fan-in: the state of each upstream partition, and their names in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types

__all__ = ["BranchState", "State", "counted", "newest", "require_branches", "without_success"]

State = Literal["succeeded", "failed", "running", "waiting"]
"""State of a branch: committed, failed for good, queued or running, or not yet started."""


@dataclass(frozen=True, slots=True)
class BranchState:
    """An upstream partition that a downstream partition is computed from.

    Attributes:
        state: ``succeeded`` (committed, with or without rows), ``failed`` (nobody tries again), ``running`` (queued or
            started), or ``waiting`` (not yet started).
        version: version of the upstream table whose commit the success is; ``None`` without a success.
        seconds: duration from the start of the run to the commit, in seconds; ``None`` if the log does not tell.
    """

    state: State
    version: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if (self.state == "succeeded") != (self.version is not None):
            raise ConfigError(f"version must be that of a success alone, not {self.version} ({self.state})")


def require_branches(branches: Mapping[str, Mapping[str, BranchState]]) -> None:
    """Refuse a downstream partition without an upstream partition.

    Raises:
        ConfigError: names the downstream partition.
    """
    if empty := [key for key, each in branches.items() if not each]:
        raise ConfigError(f"branches must name the upstream partitions of {empty[0] or 'the table'}, not none")


def without_success(branches: Mapping[str, BranchState]) -> dict[str, State]:
    """Return the branches without a success, by name in order, with the state of each."""
    return {name: each.state for name, each in sorted(branches.items()) if each.state != "succeeded"}


def newest(branches: Mapping[str, BranchState]) -> int:
    """Return the newest version among the successes."""
    return max(each.version for each in branches.values() if each.version is not None)


def counted(states: Mapping[str, str], of: int) -> str:
    """Write the number of branches and their names, such as ``1 of 24: 2026-01-05-07 (failed)``."""
    return f"{len(states)} of {of}: {', '.join(_with_states(states))}"


def _with_states(states: Mapping[str, str]) -> Iterable[str]:
    return (f"{name} ({state})" for name, state in states.items())
