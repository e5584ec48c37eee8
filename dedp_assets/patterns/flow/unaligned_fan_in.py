"""Unaligned Fan-In: a partition is computed once all branches have ended, labelled if incomplete.

Problem: all or nothing is too strict: a report on 23 of 24 hours is better than none, unless it looks like one on 24.
Solution: wait until no branch may still succeed, or until a deadline without a running one; compute from those that
    succeeded, and label what is incomplete: a column of the rows, the completeness, and the names of those missing.
    Where none succeeded, an error handler runs in the place of the aggregation.
Consequences: in a graph the edge looks like one that asks for success; the label is what readers go by. A branch that
    succeeds later makes the partition stale: the rerun replaces it, and the past keeps the incomplete version.
Choose instead: Aligned Fan-In, if an incomplete result must never be seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import require_free
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Plan
from dedp_assets.patterns.flow._branches import BranchState, counted, newest, require_branches, without_success

__all__ = ["plan_unaligned", "judge_branches", "label_partial", "FALLBACK"]

FALLBACK = "fallback"
"""Cause of a partition with ended branches and no success: the error handler runs in place of the aggregation."""
_OPEN = ("running", "waiting")


@typed
def plan_unaligned(branches: Mapping[str, Mapping[str, BranchState]], *, due: Collection[str] = ()) -> Plan:
    """Choose the partitions of which every branch has ended, in order.

    Args:
        branches: downstream partition -> each upstream partition that it is computed from -> its state.
        due: partitions whose deadline has passed: they wait for what is running alone.

    Returns:
        A plan with the cause ``complete`` (all branches succeeded), ``partial`` (some did) or :data:`FALLBACK` (none
        did, so that the error handler runs and nothing is written). Its ``cursor`` holds the newest upstream version of
        the successes, and ``held`` names the branches that a partition waits for.

    Raises:
        ConfigError: for a partition without branches, and one that is due and not among them.

    Example:
        >>> hours = {"10": BranchState("succeeded", 4), "11": BranchState("failed")}
        >>> plan = plan_unaligned({"mon": hours, "tue": {**hours, "12": BranchState("running")}})
        >>> plan.partitions, dict(plan.causes), dict(plan.held)
        (('mon',), {'mon': 'partial'}, {'tue': 'waits for 1 of 3: 12 (running)'})
    """
    require_branches(branches)
    if strange := sorted({*due} - branches.keys()):
        raise ConfigError(f"due must name partitions of branches, not {', '.join(strange)}")
    causes, held = dict[str, str](), dict[str, str]()
    for key, each in sorted(branches.items()):
        missing = without_success(each)
        waits = _OPEN[:1] if key in due else _OPEN
        if awaited := {name: state for name, state in missing.items() if state in waits}:
            held[key] = f"waits for {counted(awaited, len(each))}"
        else:
            causes[key] = FALLBACK if len(missing) == len(each) else "partial" if missing else "complete"
    return Plan(
        tuple(causes),
        f"{len(causes)} of {len(branches)} partitions have no branch that may still succeed",
        causes=causes,
        held=held,
        cursor={key: newest(branches[key]) for key, cause in causes.items() if cause != FALLBACK},
    )


@typed
def judge_branches(branches: Mapping[str, BranchState], *, name: str = "every_branch_is_there") -> Finding:
    """Judge whether every branch succeeded: a warning without some branches, a failure without any.

    Args:
        branches: each upstream partition -> its state.
        name: of the finding.

    Returns:
        The finding: ``expected``, ``succeeded`` and ``completeness`` (the share that succeeded) as figures, and the
        branches without a success by name.

    Raises:
        ConfigError: without a branch.
    """
    require_branches({"the partition": branches})
    missing = without_success(branches)
    succeeded = len(branches) - len(missing)
    return Finding(
        name,
        passed=not missing,
        severity="warn" if succeeded else "fail",
        figures={
            "expected": len(branches),
            "succeeded": succeeded,
            "completeness": succeeded / len(branches),
        },
        note=f"without {counted(missing, len(branches))}" if missing else "",
    )


@typed
def label_partial(
    rows: DataFrame, judged: Finding, *, column: str = "is_approximate", completeness: str = ""
) -> DataFrame:
    """Add a column that says whether fewer branches than expected are in the rows; lazy.

    Args:
        rows: the result.
        judged: the verdict of :func:`judge_branches` on the branches that the result was computed from.
        column: BOOLEAN column to add.
        completeness: DOUBLE column to add, the share of the branches that succeeded; none if empty.

    Raises:
        AuditFailed: if no branch succeeded, so that there is nothing to label.
        ConfigError: for a column that is there already, and for a verdict without a completeness.
    """
    if judged.refuses:
        raise AuditFailed(f"nothing is labelled, no branch succeeded: {judged.note}", findings=[judged])
    share = judged.figures.get("completeness")
    if not isinstance(share, float):
        raise ConfigError(f"judged must be a verdict of judge_branches, not {judged.name} without a completeness")
    added = [column, *([completeness] if completeness else [])]
    if not column or len({name.lower() for name in added}) < len(added):
        raise ConfigError(f"column must be a name, and another one than completeness, not {column!r}")
    labels = {column: F.lit(share < 1), completeness: F.lit(share)}
    return require_free(rows, *added).select("*", *[labels[name].alias(name) for name in added])
