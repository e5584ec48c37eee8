"""Files that a query read, by the metrics of its scans."""

from __future__ import annotations

from typing import Any


def files_read(frame: Any) -> int:
    """Run a query of an embedded session, and return the number of data files that its scans read."""
    frame = frame.select("*")  # of a plan that ran before, a scan counts its files no second time
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    scans = [leaves.apply(number) for number in range(leaves.size())]
    return sum(scan.metrics().apply("numFiles").value() for scan in scans if scan.metrics().contains("numFiles"))
