"""What the tags of a run say: why it runs, who decided what about it, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Approval

__all__ = [
    "APPROVED_AUDITS",
    "APPROVED_BECAUSE",
    "APPROVED_BY",
    "CAUSE",
    "FORCE",
    "REQUEST",
    "TRIGGER",
    "approval_of",
    "cause_of",
    "goal_of",
    "is_forced",
    "process_of",
    "ran_by",
    "refusal",
    "refusals",
    "told",
    "unchanged",
]

CAUSE = "dedp/cause"
FORCE = "dedp/force"
REQUEST = "dedp/request"
TRIGGER = "dedp.trigger/"
APPROVED_BY = "dedp/approved_by"
APPROVED_BECAUSE = "dedp/approved_because"
APPROVED_AUDITS = "dedp/approved_audits"
_PROCESS = "dedp/process"
_REFUSED = "dedp.refused/"
_UNCHANGED = "dedp.unchanged/"
_LONGEST = 63


def ran_by(process: int, run_id: str) -> dict[str, str]:
    """Make the run tag that says which process runs it; a run that is a copy of this one copies its tags, too."""
    return {_PROCESS: f"{process} {run_id}"}


def process_of(run: dg.DagsterRun) -> int | None:
    """Read which process runs a run, if its tags say so."""
    process, _, run_id = run.tags.get(_PROCESS, "").partition(" ")
    return int(process) if run_id == run.run_id else None


def refusal(table: str, key: str, sequence: object) -> dict[str, str]:
    """Make the run tag that says: the partition was refused at this upstream version, by its data and not by chance."""
    return {f"{_REFUSED}{_tag_name(table, key)}": str(sequence)}


def refusals(tags: Mapping[str, str]) -> list[tuple[str, str]]:
    """Table and partition key (empty for a whole table) of everything that a run with these tags refused."""
    names = [tag.removeprefix(_REFUSED).split(".", 2) for tag in tags if tag.startswith(_REFUSED)]
    return [(f"{layer}/{dataset}", "".join(key)) for layer, dataset, *key in names]


def unchanged(table: str, said: str) -> dict[str, str]:
    """Make the run tag that says: this table was not computed, because what it is computed from is as it was."""
    return {f"{_UNCHANGED}{_tag_name(table, '')}": said}


def goal_of(tags: Mapping[str, str], table: str, key: str) -> str | None:
    """Read which upstream version or delivery a run was asked to bring into a partition, if it was asked for that."""
    asked, _, goal = tags.get(REQUEST, "").rpartition("@")
    return goal.partition("~")[0] if asked == f"{table}:{key or table}" else None


def told(tags: Mapping[str, str]) -> dict[str, str]:
    """Read what the event that started a run told it, by name; empty for other runs."""
    return {tag.removeprefix(TRIGGER): value for tag, value in tags.items() if tag.startswith(TRIGGER)}


def is_forced(tags: Mapping[str, str]) -> bool:
    """Tell whether the run's tags ask to compute what is unchanged.

    Raises:
        ConfigError: for a value that is neither ``true`` nor ``false``.
    """
    value = tags.get(FORCE, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"the tag {FORCE}={tags[FORCE]} is not offered; choose true or false")
    return value == "true"


def cause_of(run: dg.DagsterRun) -> str:
    """Name the cause of a run in a word."""
    tags = run.tags
    named = {"dagster/backfill": "backfill", "dagster/schedule_name": "schedule", "dagster/sensor_name": "sensor"}
    return tags.get(CAUSE) or next((cause for tag, cause in named.items() if tag in tags), "manual")


def approval_of(run: dg.DagsterRun) -> Approval | None:
    """Read the decision of a person that a run carries."""
    by, because = run.tags.get(APPROVED_BY, ""), run.tags.get(APPROVED_BECAUSE, "")
    audits = tuple(name.strip() for name in run.tags.get(APPROVED_AUDITS, "").split(",") if name.strip())
    return Approval(by, because, audits) if by or because or audits else None


def _tag_name(table: str, key: str) -> str:
    return ".".join([*table.split("/"), *([key] if key else [])])[:_LONGEST]
