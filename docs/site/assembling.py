"""All pages of the site, those of ``docs`` with links that lead inside and those made of the code; the navigation."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from dedp_assets.patterns import catalog
from docs.site.benchmarks import benchmark_page
from docs.site.pages import CHECKOUT, Page
from docs.site.pattern_pages import by_chapter, path_of, pattern_page, symptoms, title_of
from docs.site.trees import TITLES, tree_pages

__all__ = ["PICTURES", "navigation", "pages"]

PICTURES = "pictures"
_FENCE = re.compile(r"(?ms)^ *```.*?^ *```$")
_LINK = re.compile(r"(?s)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_REPORT = "benchmarks/REPORT.md"
_SECTIONS = {
    "Start": (
        "own_project",
        "checkout",
        "own_table_in_yaml",
        "own_files_in_yaml",
        "existing_tables",
        "commands",
        "settings",
    ),
    "Explained": ("how_it_runs", "flow", "tables", "why_not_automation_condition", "contributing"),
    "Reference": ("glossary", "promises", "stability", "benchmarks", "doors", "changelog"),
}
"""Section -> pages by name; every other page of ``docs`` is one of the section How to."""


def pages() -> list[Page]:
    """Return all pages of the site."""
    patterns = list(catalog.patterns())
    made = [pattern_page(each, patterns) for each in patterns]
    made += [*tree_pages({each.id: each for each in patterns}), benchmark_page(), _decisions()]
    made.append(Page("which_pattern.md", "Which pattern do I need?", _which(symptoms(patterns))))
    return [*_hand_written(), *made]


def navigation(found: list[Page]) -> list[Any]:
    """Return the navigation of all pages, as ``mkdocs.yml`` has it."""
    titles = {each.path: each.title for each in found}
    sections = {title: [f"{name}.md" for name in names] for title, names in _SECTIONS.items()}
    placed = {"index.md", "patterns.md", "which_pattern.md", *chain(*sections.values())}
    patterns = {each.id: path_of(each) for each in catalog.patterns()}
    listed: list[Any] = [{"Overview": "patterns.md"}]
    for chapter, members in by_chapter(list(catalog.patterns())):
        listed.append({chapter: [{title_of(each): patterns[each.id]} for each in members]})

    def entries(*paths: str) -> list[dict[str, str]]:
        return [{titles[path]: path} for path in paths]

    def below(folder: str) -> list[str]:
        return sorted(path for path in titles if path.startswith(f"{folder}/"))

    others = [path for path in titles if "/" not in path and path not in placed]
    return [
        {"Home": "index.md"},
        {"Start": entries(*sections["Start"])},
        {"Which pattern?": entries("which_pattern.md", *(f"choose/{tree}.md" for tree in TITLES))},
        {"Patterns": listed},
        {"How to": entries(*below("how_to"), *others)},
        {"Explained": entries(*sections["Explained"])},
        {"Reference": entries(*sections["Reference"])},
        {"Decisions": entries("decisions/index.md", *(path for path in below("decisions") if "index" not in path))},
    ]


def _hand_written() -> Iterator[Page]:
    """Yield the pages of ``docs`` and of the repository's folder, with links between pages of the site."""
    sources = {path.relative_to(CHECKOUT).as_posix(): path for path in sorted((CHECKOUT / "docs").rglob("*.md"))}
    places = {name: name.removeprefix("docs/") for name in sources} | _OUTSIDE | {_REPORT: "benchmarks.md"}
    places |= {f"docs/{PICTURES}/{path.name}": f"{PICTURES}/{path.name}" for path in _pictures()}
    places["docs/decisions"] = "decisions/index.md"
    for name in [*sources, *_OUTSIDE]:
        text = (CHECKOUT / name).read_text()
        text = _with_tests(text) if name == "docs/promises.md" else text
        title = re.search(r"(?m)^# (.+)$", text)
        shown = "Home" if name == "README.md" else title[1].replace("`", "") if title else name
        yield Page(places[name], shown, _relinked(text, name, places))


def _pictures() -> list[Path]:
    return sorted((CHECKOUT / "docs" / PICTURES).glob("*.png"))


def _relinked(text: str, name: str, places: Mapping[str, str]) -> str:
    """Let the links of a page lead to pages of the site; a link to a file of the code becomes the file's name."""
    parts, at = [], 0
    for block in _FENCE.finditer(text):
        parts += [_led(text[at : block.start()], name, places), block[0]]
        at = block.end()
    return "".join([*parts, _led(text[at:], name, places)])


def _led(text: str, name: str, places: Mapping[str, str]) -> str:
    own = PurePosixPath(places[name]).parent

    def one(found: re.Match[str]) -> str:
        mark, shown, target = found.groups()
        file, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not file:
            return found[0]
        meant = os.path.normpath((PurePosixPath(name).parent / file).as_posix())
        if meant in places:
            led = os.path.relpath(places[meant], own)
            return f"{mark}[{shown}]({led}{'#' if anchor else ''}{anchor})"
        if (CHECKOUT / meant).exists():
            return shown if "`" in shown else f"{shown} (`{meant}`)"
        return found[0]

    return _LINK.sub(one, text)


def _which(problems: str) -> str:
    """Write the page that leads from a symptom to a pattern."""
    trees = "\n".join(f"- [{title}](choose/{tree}.md)" for tree, title in TITLES.items())
    return (
        "# Which pattern do I need?\n\nBy a question about your data, four decision trees:\n\n"
        f"{trees}\n\n`dedp_assets.patterns.choosing.choose` follows the same trees in Python. Or by what you see:\n\n"
        f"{problems}"
    )


def _decisions() -> Page:
    """Write the list of the decisions."""
    lines = []
    for path in sorted((CHECKOUT / "docs" / "decisions").glob("*.md")):
        title = path.read_text().splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return Page(
        "decisions/index.md", "All decisions", "# Decisions\n\nWhy it is built this way.\n\n" + "\n".join(lines) + "\n"
    )


def _with_tests(text: str) -> str:
    """Name the tests beside the key of each promise."""
    tests = _marked()
    text = text.replace("| Promise | Key |\n|---|---|", "| Promise | Key | Held by |\n|---|---|---|")
    return re.sub(
        r"(?m)^(\| .+ \| `([a-z0-9-]+)` \|)$", lambda found: f"{found[1]} {'<br>'.join(tests[found[2]])} |", text
    )


def _marked() -> dict[str, list[str]]:
    """Return the tests that are marked with each promise."""
    found: dict[str, list[str]] = {}
    for path in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "mark.promise(" not in text:
            continue
        for node in ast.parse(text).body:
            marks = " ".join(map(ast.unparse, node.decorator_list)) if isinstance(node, ast.FunctionDef) else ""
            for key in re.findall(r"mark\.promise\('([^']*)'\)", marks):
                name = node.name if isinstance(node, ast.FunctionDef) else ""
                found.setdefault(key, []).append(
                    f"`{path.relative_to(CHECKOUT / 'tests')}` {name.replace('_', ' ')[5:]}"
                )
    return found
