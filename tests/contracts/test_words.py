"""Docstrings' first lines, read in a row by somebody who has never seen the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.environments import CHECKOUT

ROOMS = ("dedp_assets", "resources", "sensors")
FILES = sorted(path for room in ROOMS for path in (CHECKOUT / room).rglob("*.py"))
NO_VERB = re.compile(r"(An?|The|This|That|Each|Every|All|Of|In|On|For|With|At|No|None|\w+(?<!s)s)$")
"""First words that no sentence in the imperative begins with: articles, prepositions, plurals."""

VAGUE = re.compile(r"^(What|Whether|Who|How|Why|And|It|Its|Small questions)\b|\bours\b|\b(are|stays|keeps) none\b")


SUBJECT = re.compile(r"(What|How|Who) ")


def described(path: Path) -> Iterator[tuple[ast.AST, str, str]]:
    """Every definition of a file that has a docstring, with its name and its first line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield node, getattr(node, "name", path.stem), text.splitlines()[0]


def is_property(node: ast.AST) -> bool:
    """Whether a definition is read like an attribute."""
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in decorators)


each = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CHECKOUT)))


@each
def test_a_functions_first_line_begins_with_what_it_does(path):
    """A verb in the imperative: "List the files ...", "Tell whether ..."; a property may be the thing it stands for."""
    wrong = {
        name: line
        for node, name, line in described(path)
        if isinstance(node, ast.FunctionDef) and not is_property(node) and NO_VERB.match(line.split()[0].rstrip(",:"))
    }
    assert not wrong


@each
def test_a_first_line_says_what_it_means(path):
    """No question without its answer, and no word that stands for something nobody has named."""
    # Of a module or a class it may be the subject: "What a table declares about itself".
    wrong = {
        name: line
        for node, name, line in described(path)
        if VAGUE.search(line) and not (isinstance(node, (ast.Module, ast.ClassDef)) and SUBJECT.match(line))
    }
    assert not wrong
