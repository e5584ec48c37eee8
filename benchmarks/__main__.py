"""``python -m benchmarks [NAME ...] [--quick] [--date DAY]``: measure, print a table, write ``benchmarks/REPORT.md``.

Each benchmark runs in a process, with a home and a JVM of its own, and everything it wrote is removed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.measure import Row, each_side_once
from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings

NAMES = (
    "publish",
    "metering",
    "column_lineage",
    "appends",
    "step",
    "ticks",
    "plans",
    "estimates",
    "throughput",
    "size",
    "warm_engine",
    "increment",
    "capture",
    "compaction",
    "layouts",
    "jdbc",
    "fingerprint",
    "merge",
    "merge_size",
    "filter_accounting",
    "bin_packing",
    "as_of_join",
    "salting",
    "local_aggregation",
    "sessionizing",
    "cleaner",
    "replay",
    "late_integration",
    "parallel_split",
    "routing",
    "versions",
    "latency",
    "activity",
    "rounds",
    "declarations",
    "observers",
    "drift",
    "encryption",
    "erasure",
)
COMMAND: list[str] = [sys.executable, "-m", "benchmarks"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, all if none is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed as ratios, both sides in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)} (default: all)")
    once = "each side once on tiny data, to see that it works; no goal counts"
    parser.add_argument("--quick", action="store_true", help=once)
    parser.add_argument("--date", default="", help="day to put into the report")
    parser.add_argument("--report", type=Path, help="where it goes (default: REPORT.md if all run, else nowhere)")
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose of {', '.join(NAMES)}")
    if chosen.result:
        warnings.simplefilter("ignore")  # previews of Dagster, said by the platform where they are used
        rows = measured(chosen.names[0], quick=chosen.quick)
        chosen.result.write_text(json.dumps([asdict(row) for row in rows]))
        return 0
    results = {name: found for name in chosen.names or NAMES if (found := in_process(name, quick=chosen.quick))}
    report.show(results)
    place = chosen.report or (None if chosen.names else Path(__file__).parent / "REPORT.md")
    if place and not chosen.quick:
        place.write_text(report.markdown(results, on=chosen.date))
    return 0 if len(results) == len(chosen.names or NAMES) else 1


def measured(name: str, *, quick: bool) -> list[Row]:
    """Run a benchmark in this process; each side once on tiny data with ``quick``."""
    with each_side_once() if quick else nullcontext():
        found: list[Row] = import_module(f"benchmarks.{name}").run(quick=quick)
    return found


def in_process(name: str, *, quick: bool) -> dict[str, Any]:
    """Run a benchmark in a process of its own; return rows and seconds, or nothing if it failed."""
    with tempfile.TemporaryDirectory(prefix="dedp-bench-", ignore_cleanup_errors=True) as folder:
        home, result = Path(folder, "home"), Path(folder, "result.json")
        environment = child_environment(
            {
                "DEDP_HOME": str(home),
                "DAGSTER_HOME": str(home / "dagster"),
                "DEDP_CACHE": str(settings().cache),
                "DEDP_DRIVER_MEMORY": "2g",
                "DEDP_JIT": "full",
                # By default the calendar begins with the data of today, and the benchmarks' days are always the same.
                "DEDP_FIRST_DAY": "2025-12-01",
            },
            without=("SPARK_REMOTE", "DEDP_SPARK_MASTER", "DEDP_POSTGRES", "DEDP_KAFKA"),
        )
        command = [*COMMAND, name, "--result", str(result), *(["--quick"] if quick else [])]
        print(f"{name} ...", file=sys.stderr, flush=True)
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, cwd=CHECKOUT, check=False)
        if done.returncode or not result.exists():
            print(f"{name} failed (exit code {done.returncode})", file=sys.stderr)
            return {}
        seconds = time.perf_counter() - started
        return {"rows": json.loads(result.read_text()), "seconds": seconds}


if __name__ == "__main__":
    sys.exit(main())
