"""Work of a query: files that its scans open, rows that come out of them, exchanges of its plan."""

from __future__ import annotations

from typing import Any


def scanned(frame: Any, *metrics: str) -> tuple[Any, ...]:
    """Run a query of an embedded session; returns each metric summed over its scans, then the rows.

    A stage that adapts is a leaf of the plan, and hides its scans: a query with a shuffle is counted without adaptive
    execution only.
    """
    frame = frame.select("*")  # of a plan that ran before, a scan counts its files no second time
    rows = frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    found = [leaves.apply(number).metrics() for number in range(leaves.size())]
    counted = [sum(each.apply(name).value() for each in found if each.contains(name)) for name in metrics]
    return (*counted, rows)


def files_read(frame: Any) -> int:
    """Run a query of an embedded session; returns the number of data files that its scans read."""
    files, _ = scanned(frame, "numFiles")
    return int(files)


def exchanges(frame: Any) -> int:
    """Count the exchanges in the physical plan of a query of an embedded session."""
    return str(frame._jdf.queryExecution().executedPlan().toString()).count("Exchange ")
