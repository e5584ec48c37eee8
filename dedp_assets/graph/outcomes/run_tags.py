"""Run tags and the names of requests: the cause of a run, decisions of people, and results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import dagster as dg
import psutil

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Approval, Provenance

__all__ = [
    "APPROVED_AUDITS",
    "APPROVED_BECAUSE",
    "APPROVED_BY",
    "BECAUSE",
    "CAUSE",
    "CODE",
    "COMPARE",
    "DEGRADED",
    "FORCE",
    "REQUEST",
    "TRIGGER",
    "approval_of",
    "cause_of",
    "copied_results",
    "goal_of",
    "is_backlog",
    "is_comparing",
    "is_forced",
    "keys_of",
    "partitions_named",
    "process_of",
    "provenance_of",
    "ran_by",
    "range_request",
    "range_tags",
    "refusal",
    "refusals",
    "request_of",
    "running_process_of",
    "event_attributes",
    "unchanged",
]

CAUSE = "dedp/cause"
FORCE = "dedp/force"
COMPARE = "dedp/compare"
"""Tag that requests a comparison with the stored rows: differences are refused until a person approves the rows."""
REQUEST = "dedp/request"
BECAUSE = "dedp/because"
"""Tag of a requested run: the reasons of the plan for which the partitions are computed."""
CODE = "dedp/code"
"""Tag of a requested run: version of the code and the declaration that it was requested by."""
TRIGGER = "dedp.trigger/"
DEGRADED = "dedp/degraded"
"""Tag of a degraded run: the value is the table of the failed step, whose later steps went on."""
APPROVED_BY = "dedp/approved_by"
APPROVED_BECAUSE = "dedp/approved_because"
APPROVED_AUDITS = "dedp/approved_audits"
_PARTITION = "dagster/partition"
_FIRST, _LAST = (f"dagster/asset_partition_range_{end}" for end in ("start", "end"))
_FURTHER = "dedp/goals"
"""Tag of a run of several partitions: what is requested of the partitions after the first one, as JSON."""
_PROCESS = "dedp/process"
_REFUSED = "dedp.refused/"
_UNCHANGED = "dedp.unchanged/"
_OF_PARENT = "run "
_LONGEST = 63


def ran_by(process: int, run_id: str) -> dict[str, str]:
    """Return the process tag of a run: process id, run id, and start of the process in seconds since boot.

    The run id tells a tag that was copied to another run.
    """
    try:
        start = _start(psutil.Process(process))
    except psutil.NoSuchProcess:  # ended already
        start = ""
    return {_PROCESS: f"{process} {run_id} {start}".strip()}


def process_of(run: dg.DagsterRun) -> int | None:
    """Return the process id in the process tag of a run, or ``None``."""
    tagged = _tagged_process(run)
    return tagged[0] if tagged else None


def running_process_of(run: dg.DagsterRun) -> psutil.Process | None:
    """Return the running process in the process tag of a run, or ``None``.

    Other processes, and on Linux threads, get the ids of processes that have ended: id and start have to be the tag's.
    """
    if tagged := _tagged_process(run):
        number, start = tagged
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(number)
            if psutil.pid_exists(number) and start in ("", _start(process)):
                return process
    return None


def _tagged_process(run: dg.DagsterRun) -> tuple[int, str] | None:
    """Return process id and start (empty if unknown) in the process tag of a run, or ``None``."""
    process, run_id, start, *_ = [*run.tags.get(_PROCESS, "").split(" "), "", "", ""]
    return (int(process), start) if run_id == run.run_id else None


def _start(process: psutil.Process) -> str:
    """Return the start of a process in seconds since boot, which setting the clock does not change."""
    return f"{process.create_time() - psutil.boot_time():.2f}"


def refusal(table: str, key: str, sequence: object) -> dict[str, str]:
    """Return the tag of a refusal by data: table and partition, with the refused upstream version."""
    return {f"{_REFUSED}{_tag_name(table, key)}": str(sequence)}


def refusals(tags: Mapping[str, str]) -> list[tuple[str, str]]:
    """List table and partition key (empty for a whole table) of every refusal in the run's tags."""
    own = [tag for tag, value in tags.items() if tag.startswith(_REFUSED) and not value.startswith(_OF_PARENT)]
    names = [tag.removeprefix(_REFUSED).split(".", 2) for tag in own]
    return [(f"{layer}/{dataset}", "".join(key)) for layer, dataset, *key in names]


def unchanged(table: str, text: str) -> dict[str, str]:
    """Return the tag of a table that was up to date, so that the run did not compute the table."""
    return {f"{_UNCHANGED}{_tag_name(table, '')}": text}


def copied_results(run: dg.DagsterRun, table: str) -> dict[str, str]:
    """Return a table's results among the copied tags of a run, with the parent run named.

    Dagster copies tags to a run that is executed again: without this, a successful one would be tagged as degraded.
    """
    if not (parent := run.parent_run_id):
        return {}
    own = tuple(f"{kind}{_tag_name(table, '')}." for kind in (_REFUSED, _UNCHANGED))
    results = {t: text for t, text in run.tags.items() if f"{t}.".startswith(own) or (t, text) == (DEGRADED, table)}
    return {t: f"{_OF_PARENT}{parent[:8]}: {text}" for t, text in results.items() if not text.startswith(_OF_PARENT)}


def request_of(table: str, key: str, goal: object, *, restored: int | None = None) -> str:
    """Return the name of a request: table, partition, and upstream version or delivery to bring in.

    The version of a restore gives the same goal a new name.
    """
    return f"{table}:{key or table}@{goal}" + ("" if restored is None else f"~{restored}")


def goal_of(tags: Mapping[str, str], table: str, key: str) -> str | None:
    """Return the requested upstream version or delivery of a partition; ``None`` for other runs."""
    asked, _, goal = tags.get(REQUEST, "").rpartition("@")
    if asked == f"{table}:{key or table}":
        return goal.partition("~")[0]
    further: dict[str, str] = json.loads(tags.get(_FURTHER, "{}")) if asked.startswith(f"{table}:") else {}
    return further.get(key)


def partitions_named(tags: Mapping[str, str]) -> str:
    """Return the partition of a run, or the ends of a range of partitions, in words.

    The text is empty for a run without partitions.
    """
    return tags.get(_PARTITION) or " to ".join(tags[end] for end in (_FIRST, _LAST) if tags.get(end))


def is_backlog(tags: Mapping[str, str]) -> bool:
    """Return whether a run was requested for several partitions, with a goal for each."""
    return _FURTHER in tags


def keys_of(tags: Mapping[str, str], partitions: dg.PartitionsDefinition[str] | None) -> Sequence[str]:
    """List the partition keys in run tags, of one partition or of a range; empty for an unpartitioned run.

    Of a range that the present partitions do not have, the two ends.
    """
    if tags.get(_FIRST) and tags.get(_LAST) and partitions:
        ends = tags[_FIRST], tags[_LAST]
        try:
            return partitions.get_partition_keys_in_range(dg.PartitionKeyRange(*ends))
        except (dg.DagsterError, ValueError):  # the declaration changed while the run waits
            return ends
    return [tags[_PARTITION]] if _PARTITION in tags else []


def range_request(table: str, first: str, last: str, goal: str, *, cause: str) -> dg.RunRequest:
    """Return the ``RunRequest`` of a partition range; the run key ends with ``goal``."""
    return dg.RunRequest(run_key=f"{table}:{first}..{last}{goal}", tags={**range_tags(first, last), CAUSE: cause})


def range_tags(first: str, last: str, goals: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the tags of a run of several partitions.

    Args:
        first: key of the first partition, which a request is named after.
        last: key of the last partition.
        goals: key of each further partition -> requested upstream version or delivery.
    """
    return {_FIRST: first, _LAST: last, **({_FURTHER: json.dumps(goals)} if goals else {})}


def event_attributes(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of the event that started a run, by name; empty for other runs."""
    return {tag.removeprefix(TRIGGER): value for tag, value in tags.items() if tag.startswith(TRIGGER)}


def is_forced(tags: Mapping[str, str]) -> bool:
    """Return whether the run's tags request a computation of unchanged partitions.

    Raises:
        ConfigError: for a value that is neither ``true`` nor ``false``.
    """
    return _stated(tags, FORCE)


def is_comparing(tags: Mapping[str, str]) -> bool:
    """Return whether the run's tags request that differences from the stored rows are refused.

    Raises:
        ConfigError: for a value that is neither ``true`` nor ``false``.
    """
    return _stated(tags, COMPARE)


def _stated(tags: Mapping[str, str], tag: str) -> bool:
    value = tags.get(tag, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"the tag {tag} must be true or false, not {tags[tag]}")
    return value == "true"


def cause_of(run: dg.DagsterRun) -> str:
    """Return the cause of a run as a word."""
    tags = run.tags
    named = {"dagster/backfill": "backfill", "dagster/schedule_name": "schedule", "dagster/sensor_name": "sensor"}
    return tags.get(CAUSE) or next((cause for tag, cause in named.items() if tag in tags), "manual")


def approval_of(run: dg.DagsterRun) -> Approval | None:
    """Return a person's approval from the run's tags."""
    by, because = run.tags.get(APPROVED_BY, ""), run.tags.get(APPROVED_BECAUSE, "")
    audits = tuple(name.strip() for name in run.tags.get(APPROVED_AUDITS, "").split(",") if name.strip())
    return Approval(by, because, audits) if by or because or audits else None


def provenance_of(run: dg.DagsterRun, asset: str, *, code_version: str, at: datetime) -> Provenance:
    """Return the provenance of a run's write to a table: run, code, cause, approval and start."""
    return Provenance(
        asset=asset,
        run_id=run.run_id,
        code_version=code_version,
        cause=cause_of(run),
        approval=approval_of(run),
        at=at,
    )


def _tag_name(table: str, key: str) -> str:
    return ".".join([*table.split("/"), *([key] if key else [])])[:_LONGEST]
