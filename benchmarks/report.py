"""The table on the terminal and the report in Markdown."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from dedp_assets.graph.resources import engine
from dedp_assets.graph.resources.environments import settings

__all__ = ["markdown", "show"]

_HEADINGS = ("case", "side", "work", "CPU s", "wall s", "CPU ratio", "wall ratio", "goal", "reached")
_PACKAGES = ("dagster", "pyspark", "delta-spark", "deltalake", "pyarrow")


def show(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a table for each benchmark."""
    console = Console(width=200)
    for name, result in results.items():
        grid = Grid(*_HEADINGS, title=f"{name} ({result['seconds']:.0f} s)", title_justify="left", show_lines=False)
        for row in result["rows"]:
            first, second = _lines(row)
            grid.add_row(*first)
            grid.add_row(*second, end_section=True)
        console.print(grid)
        for row in result["rows"]:
            if row["why"]:
                console.print(f"  {row['case']}: {row['why']}", soft_wrap=True)


def markdown(results: Mapping[str, Mapping[str, Any]], *, on: str) -> str:
    """The report."""
    return "\n".join(_report(results, on)) + "\n"


def _report(results: Mapping[str, Mapping[str, Any]], on: str) -> Iterator[str]:
    yield "# Benchmarks"
    yield ""
    yield f"Made by `make bench`{f' on {on}' if on else ''}. {_machine()}"
    yield ""
    yield _method()
    for name, result in results.items():
        title, _, rest = _docstring(name).partition("\n")
        yield f"\n## {name}: {title.rstrip('.')}\n{rest}\n"
        yield "| " + " | ".join(_HEADINGS) + " |"
        yield "|" + "|".join([" -- "] * 3 + [" --: "] * 4 + [" -- "] * 2) + "|"
        for row in result["rows"]:
            for line in _lines(row):
                yield "| " + " | ".join(line) + " |"
        notes = [row for row in result["rows"] if row["why"]]
        yield from ["", *[f"- {row['case']}: {row['why']}" for row in notes]]


def _lines(row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    ratios = {what: _range(found) for what, found in row["ratios"].items()}
    verdict = {True: "met", False: "MISSED", None: "for orientation"}[row["met"]]
    result = f"{row['reached']} {verdict}" if row["goal"] or row["met"] is not None else f"{row['reached']} ({verdict})"
    ours, theirs = row["ours"], row["theirs"]
    judged = [ratios.get("cpu", ""), ratios.get("wall", ""), row["goal"], result]
    return (
        [row["case"], ours["name"], _work(ours), f"{ours['cpu']:.3g}", f"{ours['wall']:.3g}", *judged],
        ["", theirs["name"], _work(theirs), f"{theirs['cpu']:.3g}", f"{theirs['wall']:.3g}", "", "", "", ""],
    )


def _work(side: Mapping[str, Any]) -> str:
    return ", ".join(f"{value:.4g} {name}" for name, value in side["counters"].items() if value)


def _range(found: list[float]) -> str:
    return f"{found[0]:.2f} [{found[1]:.2f}-{found[2]:.2f}]"


def _docstring(name: str) -> str:
    return ast.get_docstring(ast.parse((Path(__file__).parent / f"{name}.py").read_text())) or name


def _method() -> str:
    return (
        "Both sides take turns in one run, over the same files; after warm-up rounds, medians. Work counters first, "
        "then CPU seconds of the process tree (Python and JVM), then wall time. A ratio is ours divided by theirs, the "
        "median over the rounds [smallest-largest]; where a goal is a ratio, both the CPU and the wall ratio have to "
        "meet it. The page cache is warm."
    )


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = engine.java_home(settings()) / "bin" / "java"
    said = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    parts = [f"{package} {version(package)}" for package in _PACKAGES]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, driver heap 2 GiB; {said[0] if said else 'Java'}; "
        f"Python {platform.python_version()}, {', '.join(parts)}."
    )
