"""Docstrings' first lines, read in a row by somebody who has never seen the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT

ROOMS = ("dedp_assets", "resources", "sensors")
NO_VERB = re.compile(r"(An?|The|This|That|Each|Every|All|Of|In|On|For|With|At|No|None|\w+(?<!s)s)$")
"""First words that no sentence in the imperative begins with: articles, prepositions, plurals."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
VAGUE = re.compile(r"^(What|Whether|Who|How|Why|And|It|Its|Small questions)\b|\bours\b|\b(are|stays|keeps) none\b")
SUBJECT = re.compile(r"(What|How|Who) ")


def described(room: str) -> Iterator[tuple[ast.AST, str, str]]:
    """Every definition of a room that has a docstring, with where it stands and its first line."""
    for path in sorted((CHECKOUT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and (text := ast.get_docstring(node)):
                place = f"{path.relative_to(CHECKOUT)}:{getattr(node, 'lineno', 1)}"
                yield node, place, text.splitlines()[0]


def is_property(node: ast.AST) -> bool:
    """Whether a definition is read like an attribute."""
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in decorators)


each = pytest.mark.parametrize("room", ROOMS)


@each
def test_a_functions_first_line_begins_with_what_it_does(room):
    """A verb in the imperative: "List the files ...", "Tell whether ..."; a property may be the thing it stands for."""
    functions = [(n, place, line) for n, place, line in described(room) if isinstance(n, FUNCTIONS)]
    assert functions
    wrong = {p: line for n, p, line in functions if not is_property(n) and NO_VERB.match(line.split()[0].rstrip(",:"))}
    assert not wrong


@each
def test_a_first_line_says_what_it_means(room):
    """No question without its answer, and no word that stands for something nobody has named."""
    vague = [(node, place, line) for node, place, line in described(room) if VAGUE.search(line)]
    # Of a module or a class a question may be the subject: "What a table declares about itself: columns, partitions".
    named = (ast.Module, ast.ClassDef)
    wrong = {place: line for node, place, line in vague if not (isinstance(node, named) and SUBJECT.match(line))}
    assert not wrong


PRIVATE = re.compile(r"(?<![`\w])(told|anew|said|settled?)(?![`\w])")
"""Words of an earlier, private language: docs/glossary.md has the field's."""
LONGEST = 100


def test_a_first_line_is_short_and_in_the_fields_words():
    """Of every module, class and function outside of the definitions; a further sentence goes below the line."""
    # Descriptions of assets are sentences for the UI.
    lines = {place: line for _, place, line in described("dedp_assets") if "/defs/" not in place}
    assert len(lines) > 1_000
    assert not {place: line for place, line in lines.items() if PRIVATE.search(line) or len(line) > LONGEST}


PRONOUN = re.compile(r"(?<![`\w])(it|its|they|them|those|ones|there|what|whatever|such(?! as))(?![`\w])", re.IGNORECASE)
"""Words for a thing that is named elsewhere, or nowhere; "one" is missing, since it also is the number."""


@each
def test_a_first_line_has_no_pronoun(room):
    """A reader of the line alone finds the noun: "Return the server's address", not "Return its address"."""
    # Descriptions of assets are sentences for the UI.
    lines = {place: line for _, place, line in described(room) if "/defs/" not in place}
    assert lines
    assert not {place: line for place, line in lines.items() if PRONOUN.search(line)}


GLOSSED = re.compile(r"_?(told|said|tells?|tell_\w+|look|looked(_\w+)?|look_at|grounds?|settled?|anew)")
"""Names of the same language; poll, describe, profile, message, acknowledge say what such a name holds or does."""


@each
def test_names_in_code_are_the_fields(room):
    """Functions, classes, parameters and variables; `docs/glossary.md` has the words."""
    wrong = {}
    for path in sorted((CHECKOUT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "name", None) or getattr(node, "arg", None) or getattr(node, "id", None)
            if isinstance(name, str) and GLOSSED.fullmatch(name):
                wrong[f"{path.relative_to(CHECKOUT)}:{getattr(node, 'lineno', 0)}"] = name
    assert not wrong
