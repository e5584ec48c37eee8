"""The page of the benchmarks: the report as it is, with a picture of the ratios above each table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs.site.pages import CHECKOUT, Page
from docs.site.pictures import bars

__all__ = ["benchmark_page"]

_HEAD = "| case | side |"
_RATIO = re.compile(r"^(\d+(?:\.\d+)?) \[")
_GOAL = re.compile(r"^<= (\d+(?:\.\d+)?)x$")


def benchmark_page() -> Page:
    """Write the report with its pictures.

    Raises:
        ValueError: if no table of the report has ratios, so that a page without pictures would look whole.
    """
    text = (CHECKOUT / "benchmarks" / "REPORT.md").read_text()
    first, *sections = re.split(r"(?m)^(?=## )", text)
    drawn = [_with_picture(each) for each in sections]
    if not any("<svg" in each for each in drawn):
        raise ValueError("benchmarks/REPORT.md must have tables with ratios, as `make bench` writes them")
    return Page("benchmarks.md", "Benchmarks", "".join([first, *drawn]))


def _with_picture(section: str) -> str:
    """Put the bars of a section's ratios above its table."""
    rows = list(_ratios(section))
    if not rows:
        return section
    title = section.partition("\n")[0].removeprefix("## ")
    caption = "CPU, ours divided by theirs: green met its goal (the thick mark), red missed it; the dashed line is 1."
    before, table, after = section.partition(_HEAD)
    return f"{before}{bars(rows, title)}\n{caption}\n\n{table}{after}"


def _ratios(section: str) -> Iterator[tuple[str, float, float | None, bool | None]]:
    """Yield the cases with a ratio: name, ratio of CPU, goal, and whether the goal is reached."""
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if len(cells) == 9 and (ratio := _RATIO.match(cells[5])):
            goal, reached = _GOAL.match(cells[7]), cells[8]
            met = None if not cells[7] else "MISSED" not in reached
            yield cells[0].strip(), float(ratio[1]), float(goal[1]) if goal else None, met
