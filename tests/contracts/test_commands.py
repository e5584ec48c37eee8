"""Commands: manuals, documents, words and exit codes, and the commands that texts of the code advise."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache

import pytest

from dedp_assets.commands._arguments import TABLE
from dedp_assets.commands._manual import manuals
from dedp_assets.commands._parsing import whole_parser
from dedp_assets.graph.resources.environments import CHECKOUT

pytestmark = pytest.mark.budget(30, "imports every command, and with it most packages")

MANUALS = manuals()
NO_DOCUMENT = {
    "about": "writes its answer to two files, one of them JSON",
    "completion": "prints a script",
    "demo": "plays a story",
    "infer": "writes a file",
    "new": "writes a project",
    "schema": "prints a document whatever is asked for",
    "setup": "fetches files",
    "up": "runs servers",
    "work": "changes rows of a database",
}
"""Commands without ``--json``, and why they report nothing that a program could read."""


@cache
def parser() -> argparse.ArgumentParser:
    return whole_parser()


def parsers(of: argparse.ArgumentParser | None = None) -> Iterator[argparse.ArgumentParser]:
    """Every parser that takes the options of a command, or of an action of one."""
    for action in (of or parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                inner = [*parsers(each)]
                yield from inner or [each]


def parse(line: str) -> str:
    """What the real parser says against a command line; empty if nothing."""
    said: list[str] = []

    def refused(self, message):
        said.append(f"{self.prog}: {message}")
        raise SystemExit(2)

    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        return str(error)
    words = words[: next((n for n, word in enumerate(words) if re.fullmatch(r"2?>|\||&&", word)), None)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(parser()), "error", refused)
        try:
            parser().parse_args(words[1:])
        except SystemExit:
            return said[0] if said else ""
    return ""


def usage() -> dict[str, list[str]]:
    """Command -> what it takes: a line for each position and option of it, or of its actions."""
    found: dict[str, list[str]] = {}
    for each in parsers():
        command = each.prog.removeprefix("dedp ")
        for action in each._actions:
            words = [word for word in action.option_strings if word.startswith("--")] or [action.dest]
            found.setdefault(command.split()[0], []).append(f"{command} {words[0]}")
    return {name: sorted(lines) for name, lines in found.items()}


@pytest.mark.parametrize("name", MANUALS)
def test_a_command_declares_what_its_help_shows(name):
    """One docstring: a sentence, examples of that command which the parser takes, and the extra."""
    manual = MANUALS[name]
    assert manual.sentence
    assert manual.examples, "its docstring ends with a part `Examples:`, a command in each line"
    assert [each for each in manual.examples if not re.match(rf"dedp {name}\b", each)] == []
    assert {each: parse(each) for each in manual.examples if parse(each)} == {}


@pytest.mark.parametrize("name", MANUALS)
def test_help_shows_the_manual(name, capsys):
    """Sentence, examples and the meaning of exit code 1, as a person reads them before the first call."""
    with pytest.raises(SystemExit):
        parser().parse_args([name, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    manual = MANUALS[name]
    assert all(" ".join(each.split()) in shown for each in (*manual.examples, manual.fails))
    assert manual.sentence in shown or name == "up", "which names the servers of the project"


def test_every_command_that_reports_has_a_document_for_programs():
    """`--json` is an option of each command, and of each action of one; the others say why not."""
    without = {each.prog.split()[1] for each in parsers() if "--json" not in each._option_string_actions}
    assert without == {*NO_DOCUMENT}


def test_there_is_one_word_for_a_table():
    """Each position that takes a table's name is called so, which a shell completes."""
    named = [
        (each.prog, action.dest)
        for each in parsers()
        for action in each._actions
        if not action.option_strings and "layer/dataset" in (action.help or "")
    ]
    assert len(named) > 15
    assert [each for each in named if each[1] != TABLE] == []


def test_what_ends_with_exit_code_1_says_what_it_means():
    """In its module's docstring, from where help and docs/commands.md have it."""
    without = []
    for name, manual in MANUALS.items():
        tree = ast.parse((CHECKOUT / "dedp_assets" / "commands" / f"{name}.py").read_text())
        returned = [each.value for each in ast.walk(tree) if isinstance(each, ast.Return) and each.value]
        ends = [each.body if isinstance(each, ast.IfExp) else each for each in returned]
        ends += [each.orelse for each in returned if isinstance(each, ast.IfExp)]
        one = any(isinstance(each, ast.Constant) and each.value == 1 and each.value is not True for each in ends)
        without += [name] if one and not manual.fails else []
    assert without == []


def test_every_command_is_in_the_documentation():
    """With what exit code 1 means, by `make format`."""
    page = (CHECKOUT / "docs" / "commands.md").read_text()
    rows = {name: re.search(rf"^\| `dedp {name}` \|.*\| (.*) \|$", page, re.MULTILINE) for name in MANUALS}
    assert {name: row and row[1].strip() for name, row in rows.items()} == {n: m.fails for n, m in MANUALS.items()}


IN_BACKTICKS = re.compile(r"(?:`(?:cd [^`;]+; |[A-Z_]+=\w+ )?|<code>)(dedp [a-z][^`<]*)(?:`|</code>)")
AT_THE_END = re.compile(rf"(?:: (dedp [a-z][^`]*)|^(dedp (?:{'|'.join(MANUALS)}) [^`]*))$")
ANYWHERE = re.compile(rf"\bdedp (?:{'|'.join(MANUALS)})\b(?! (?:saw|shows)\b)(?!:| \[\^)")
VALUE = "VALUE"
VALUES = ("x", "1", "2026-01-05", "x=1", "rotate")
"""What may stand in the place of a value."""


def texts() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every text of the code besides docstrings that speaks of ``dedp``, as parts around what is filled in."""
    for path in sorted((CHECKOUT / "dedp_assets").rglob("*.py")):
        tree = ast.parse(path.read_text())
        skipped = {id(child) for node in ast.walk(tree) for child in _inner(node)}
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            parts = _parts(node)
            if any("dedp " in part for part in parts):
                yield f"{path.relative_to(CHECKOUT)}:{node.lineno}", parts


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    """Texts that stand in no code: docstrings, notes behind a name; and parts of a text with values."""
    if isinstance(node, ast.JoinedStr):
        yield from ast.walk(ast.Tuple([*node.values], ast.Load()))
        return
    body = getattr(node, "body", [])
    yield from (each.value for each in body if isinstance(each, ast.Expr)) if isinstance(body, list) else ()


def _parts(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (node.value,)
    if isinstance(node, ast.JoinedStr):
        found = [""]
        for each in node.values:
            if isinstance(each, ast.Constant):
                found[-1] += str(each.value)
            else:
                found.append("")
        return tuple(found)
    return ()


def advised(parts: tuple[str, ...]) -> list[str]:
    """The commands in a text, with ``VALUE`` for each part that is filled in, and for placeholders in capitals."""
    text = VALUE.join(parts)
    found = [each[1] for each in IN_BACKTICKS.finditer(text)]
    found += [each[1] or each[2] for each in AT_THE_END.finditer(text)]
    return [re.sub(r"\.\.\.|(?<=\s)[A-Z]{4,}\b", VALUE, each).rstrip(".,;") for each in found]


def test_commands_in_texts_are_marked():
    """By backticks or by their place behind a colon at the end, so that a person, and this file, finds the words."""
    loose = []
    for place, parts in texts():
        text, marked = VALUE.join(parts), " ".join(advised(parts))
        named = [each[0] for each in ANYWHERE.finditer(text) if each[0] != text]  # the name under which one acts
        loose += [f"{place}: {each}" for each in named if each not in marked]
    assert loose == []


def test_commands_in_texts_work_when_pasted():
    """Each is parsed by the real parser, with values in the places that a text fills in; the refusal is shown."""
    found = {(place, each) for place, parts in texts() for each in advised(parts) if len(each.split()) > 2}
    assert len(found) > 30
    assert {f"{place}: {each}": parse(each.replace(VALUE, "x")) for place, each in found if not works(each)} == {}
    names = {each.split()[1] for _, parts in texts() for each in advised(parts) if len(each.split()) == 2}
    assert names <= {*MANUALS}, "a text may name a command without what the command takes"


def works(command: str) -> bool:
    """Whether the parser takes a command with one of the values in the open places."""
    return any(not parse(command.replace(VALUE, value)) for value in VALUES)
