"""Written pages of the documentation as tests read them: blocks of code, and lines that a reader types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dedp_assets.graph.resources.environments import CHECKOUT

__all__ = ["TEXTS", "Typed", "blocks", "typed"]

TEXTS = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
_PROMPT = re.compile(r"(?m)^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)")


@dataclass(frozen=True)
class Typed:
    """A line behind a prompt.

    Attributes:
        page: the page, by its path in the checkout.
        line: what is typed, without the comment.
        code: exit code that the comment states; 0 without a statement.
        shown: what the page shows below the line.
    """

    page: str
    line: str
    code: int
    shown: str

    @property
    def parts(self) -> list[str]:
        """The commands of the line, one after the other."""
        return self.line.split(" && ")


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Every block of code of a language in the written pages, with the page."""
    for path in TEXTS:
        for block in re.findall(rf"(?ms)^```{language}\n(.*?)^```$", path.read_text()):
            yield path.relative_to(CHECKOUT).as_posix(), block


def typed() -> Iterator[Typed]:
    """Every line that a page shows behind a prompt, in the order of the page."""
    for page, block in blocks("console"):
        for line, shown in _PROMPT.findall(block):
            command, comment = re.fullmatch(r"(.*?)(\s{2,}#.*)?", re.sub(r"\\\n\s*", "", line)).groups()
            stated = re.search(r"exit code (\d+)", comment or "")
            yield Typed(page, command, int(stated[1]) if stated else 0, shown)
