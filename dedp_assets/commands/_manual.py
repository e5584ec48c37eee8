"""Manuals of the commands, read from docstrings and extras of the modules without an import."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Manual", "manuals"]

_FAILS, _EXAMPLES = "Exit code 1: ", "Examples:\n"


@dataclass(frozen=True, slots=True)
class Manual:
    """Declaration of a command in the command's module.

    Attributes:
        name: name of the command.
        sentence: the sentence of ``dedp --help``, without a full stop.
        more: further paragraphs; empty for most commands.
        fails: meaning of exit code 1; empty for a command without that answer.
        examples: command lines that can be pasted, each with a remark after ``#`` where one helps.
        needs: extra with the packages of the command; empty if the core is enough.
    """

    name: str
    sentence: str
    more: str = ""
    fails: str = ""
    examples: tuple[str, ...] = ()
    needs: str = ""

    @property
    def description(self) -> str:
        """Text above the options in ``dedp COMMAND --help``."""
        return "\n\n".join(filter(None, [f"{self.sentence}.", self.more]))

    @property
    def epilog(self) -> str:
        """Text below the options in ``dedp COMMAND --help``: examples, exit code 1 and the extra."""
        shown = "\n".join(["examples:", *(f"  {each}" for each in self.examples)]) if self.examples else ""
        fails = f"exit code 1: {self.fails}" if self.fails else ""
        return "\n\n".join(filter(None, [shown, fails, f"needs: pip install 'dedp[{self.needs}]'" * bool(self.needs)]))


def manuals() -> dict[str, Manual]:
    """Return the manuals of all commands by name, sorted."""
    return {path.stem: _read(path) for path in sorted(Path(__file__).parent.glob("[!_]*.py"))}


def _read(path: Path) -> Manual:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    stated = {ast.unparse(each.targets[0]): each.value for each in tree.body if isinstance(each, ast.Assign)}
    needs = ast.literal_eval(stated["NEEDS"]) if "NEEDS" in stated else ""
    first, *parts = (ast.get_docstring(tree) or "").split("\n\n")
    fails, examples, more = "", list[str](), list[str]()
    for part in parts:
        if part.startswith(_FAILS):
            fails = _plain(" ".join(part.removeprefix(_FAILS).split()).rstrip("."))
        elif part.startswith(_EXAMPLES):
            examples = [line.strip() for line in part.splitlines()[1:]]
        else:
            more.append(_plain(part))
    sentence = _plain(" ".join(first.split()).partition("``: ")[2].rstrip("."))
    return Manual(path.stem, sentence, "\n\n".join(more), fails, tuple(examples), needs)


def _plain(text: str) -> str:
    """Return a text of a docstring without roles and with single backticks."""
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"\1", text).replace("``", "`")
