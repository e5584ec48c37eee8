"""UI metadata of the branches of a fan-in: completeness, names and durations, from a commit's notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

__all__ = ["branch_metadata"]


def branch_metadata(notes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the UI metadata of a partition's branches.

    Args:
        notes: upstream table -> facts about the partition's branches there.
    """
    found: dict[str, Any] = {}
    for upstream, facts in notes.items():
        of = f" of {upstream}" if len(notes) > 1 else ""
        found |= {f"{name}{of}": value for name, value in _of_upstream(facts)}
    return found


def _of_upstream(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "branches", f"{facts['succeeded']} of {facts['expected']}"
    yield "completeness", facts["completeness"]
    if facts["missing"]:
        yield "missing branches", ", ".join(facts["missing"])
    if facts["slowest"]:
        yield "slowest branch", facts["slowest"]
        yield "slowest branch [seconds]", facts["seconds"][facts["slowest"]]
        yield "seconds by branch", dg.MetadataValue.json(dict(facts["seconds"]))
