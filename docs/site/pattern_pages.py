"""A page for each pattern, made of its module, example, tables and tests; and the list of symptoms."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

from dedp_assets.patterns.catalog import Pattern
from docs.site.examples import call_in_yaml, rows_in, rows_out, text_of
from docs.site.graph import place_of
from docs.site.pages import CHECKOUT, Page, fenced, linked, table

__all__ = ["by_chapter", "path_of", "pattern_page", "symptoms", "title_of"]

_SECTIONS = ("Problem", "Solution", "Consequences", "Choose instead")
_KINDS = {
    "transform": "transforms rows, lazily",
    "write": "writes, in one audited commit for each table",
    "inspect": "inspects, and changes nothing",
    "plan": "plans, in plain Python",
    "access": "gives access, and prints no secret",
}
_GIVEN = (
    "In an example `frame(columns, *rows)` and `table(name, columns, *rows)` make rows, `rows(...)` shows them sorted, "
    "and `run` is who writes."
)
_MOST_ROWS = 4


def path_of(pattern: Pattern) -> str:
    """Return the page of a pattern."""
    return f"patterns/{pattern.id.replace('.', '/')}.md"


def title_of(pattern: Pattern) -> str:
    """Return the name of a pattern."""
    return pattern.summary.partition(": ")[0]


def by_chapter(patterns: Sequence[Pattern]) -> Iterator[tuple[str, list[Pattern]]]:
    """Yield chapters by title in the order of the book, each with the patterns in order of their ids."""
    ordered = sorted(patterns, key=lambda each: (_number(each), each.id))
    for chapter, found in groupby(ordered, key=lambda each: each.id.partition(".")[0]):
        yield chapter.replace("_", " ").capitalize(), list(found)


def pattern_page(pattern: Pattern, patterns: Sequence[Pattern]) -> Page:
    """Write the page of a pattern."""
    name, _, promise = pattern.summary.partition(": ")
    parts = [f"# {name}\n\n**{promise[0].upper()}{linked(promise[1:])}**\n"]
    parts += [f"`dedp_assets.patterns.{pattern.id}` {_KINDS[pattern.kind]}.\n"]
    for title, text in _sections(pattern):
        shown = _with_links(linked(text), pattern, patterns) if title == "Choose instead" else linked(text)
        parts.append(f"## {title}\n\n{shown}\n")
    parts += _example(pattern)
    parts.append(f"## In the case study\n\n{place_of(pattern)}")
    parts.append(f"## What its tests prove\n\n{_proved(pattern)}")
    return Page(path_of(pattern), name, "\n".join(parts))


def symptoms(patterns: Sequence[Pattern]) -> str:
    """Write a table of each chapter: the problem in its own words, and the pattern that solves it."""
    parts = []
    for title, found in by_chapter(patterns):
        rows = [(linked(_problem(each)), f"[{title_of(each)}]({path_of(each)})") for each in found]
        parts.append(f"## {title}\n\n{table(('Symptom', 'Pattern'), rows)}")
    return "\n".join(parts)


def _number(pattern: Pattern) -> int:
    """Return the number in the docstring of a pattern's chapter."""
    package = inspect.getdoc(sys.modules[pattern.module.__name__.rpartition(".")[0]]) or ""
    number = re.search(r"\d+", package)
    return int(number[0]) if number else sys.maxsize


def _sections(pattern: Pattern) -> list[tuple[str, str]]:
    """Return the four paragraphs of a module's docstring by their titles."""
    text = inspect.cleandoc(pattern.module.__doc__ or "")
    starts = [(text.index(f"\n{title}: "), title) for title in _SECTIONS]
    ends = [at for at, _ in starts[1:]] + [len(text)]
    found = []
    for (at, title), end in zip(starts, ends, strict=True):
        first, *rest = text[at + len(title) + 3 : end].partition("\n\n")[0].splitlines()
        said = " ".join([first, *(line.strip() for line in rest)])
        found.append((title, said[0].upper() + said[1:]))
    return found


def _problem(pattern: Pattern) -> str:
    return dict(_sections(pattern))["Problem"]


def _with_links(text: str, own: Pattern, patterns: Sequence[Pattern]) -> str:
    """Link the names of other patterns, the longest names first."""
    known = {title_of(each): each for each in patterns if each is not own}
    names = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    return re.sub(
        rf"(?<![\w-])({names})(?![\w-])", lambda found: f"[{found[1]}](../../{path_of(known[found[1]])})", text
    )


def _example(pattern: Pattern) -> list[str]:
    """Write the example: rows in, the call, rows out, and the call in YAML."""
    ins, outs = list(rows_in(pattern))[:_MOST_ROWS], list(rows_out(pattern))[:_MOST_ROWS]
    main = pattern.function.__name__
    parts = [f"## Example\n\n`from dedp_assets.patterns import {main}`. {_GIVEN}\n"]
    parts.append(fenced(text_of(pattern), "pycon"))
    parts += [f"### Rows in\n\n{_tables(ins)}"] if ins else []
    parts += [f"### Rows out\n\n{_tables(outs)}"] if outs else []
    kind, text = call_in_yaml(pattern)
    if kind:
        page = "own_table_in_yaml.md" + ("#maintenance-and-detectors" if kind == "actions" else "#steps")
        of = "an action of a `MaintenanceComponent`" if kind == "actions" else "a step of a `TableComponent`"
        parts.append(f"### In YAML\n\nThe same call as {of} ([how](../../{page})):\n\n{fenced(text, 'yaml')}")
    return parts


def _tables(found: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{title}\n\n{rows}" for title, rows in found)


def _proved(pattern: Pattern) -> str:
    """List the tests of a pattern: the name as a sentence, and the docstring."""
    chapter, _, name = pattern.id.partition(".")
    path = CHECKOUT / "tests" / "patterns" / chapter / f"test_{name}.py"
    lines = [f"`{path.relative_to(CHECKOUT)}`:\n"]
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            title = node.name.removeprefix("test_").replace("_", " ").capitalize()
            said = linked(" ".join((ast.get_docstring(node) or "").split()))
            lines.append(f"- **{title}.** {said}")
    return "\n".join(lines) + "\n"
