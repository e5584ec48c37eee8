"""Printed texts: what a user called or wrote is printed as it is, wherever a command prints it."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.commands._output import Grid, coloured, console, note, say
from dedp_assets.graph.resources.environments import CHECKOUT

COMMANDS = CHECKOUT / "dedp_assets" / "commands"
ODD = [
    "[red]x[/red]",
    "[bold]",
    "[/]",
    "x[0]",
    "[/silver]",
    r"a\[b]",
    ":warning:",
    "[link=http://x]y[/link]",
    "[@click]",
]
TEXTS = st.one_of(
    st.sampled_from(ODD),
    st.lists(st.sampled_from([*ODD, "[", "]", "\\", "a", ":", "/"]), min_size=1, max_size=4).map("".join),
)


def printed(shown, **options) -> str:
    terminal = console()
    with terminal.capture() as capture:
        terminal.print(shown, soft_wrap=True, **options)
    return capture.get()


@given(TEXTS)
def test_a_text_is_printed_as_it_is(text):
    """As a line, beside a coloured word, in a cell, as a heading and as the title of a table."""
    grid = Grid(text, title=text)
    grid.add_row(text)
    assert printed(text) == f"{text}\n"
    assert printed(text, style="bold") == f"{text}\n"
    assert printed(coloured(("refused ", "red"), text)) == f"refused {text}\n"
    assert printed(grid).count(text) >= 3


@pytest.mark.parametrize("steering", [chr(n) for n in (0, 7, 8, 11, 13, 27, 127, 0x9B, 0x202E, 0xDCFF)])
def test_no_text_steers_a_terminal(steering, capsys):
    """Neither a line on either stream, nor a coloured word, a cell, a heading or a title: an escape is shown."""
    text = f"a{steering}b"
    grid = Grid(text, title=text)
    grid.add_row(text)
    say(text)
    note(text)
    streams = capsys.readouterr()
    places = [streams.out, streams.err, printed(text), printed(coloured((text, "red"), text)), printed(grid)]
    assert [steering in place for place in places] == [False] * 5
    assert all("a\\" in place for place in places)


@given(st.text("abc/-", min_size=1, max_size=400))
def test_a_long_word_of_a_cell_is_folded(word):
    """A path that was cut could not be copied."""
    grid = Grid("path", "more")
    grid.add_row(word, "x" * 60)
    cells = [line.split("│")[1].strip() for line in printed(grid).splitlines() if line.startswith("│")]
    assert "".join(cells) == word


def test_there_is_one_console():
    """Made in one place, so that no command reads markup in a text, and none escapes what nobody reads as markup."""
    sources = {path.name: path.read_text() for path in (CHECKOUT / "dedp_assets").rglob("*.py")}
    assert [name for name, text in sources.items() if "rich.markup" in text] == []
    assert [name for name, text in sources.items() if re.search(r"\bConsole\(\w", text)] == []
    assert [name for name, text in sources.items() if "rich.table" in text] == ["_output.py"]


@pytest.mark.parametrize("path", sorted(COMMANDS.glob("*.py")), ids=lambda path: path.stem)
def test_no_text_of_a_command_has_markup(path):
    """It would be printed, too."""
    texts = [
        n.value
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    assert [text for text in texts if re.search(r"\[/?(bold|red|green|yellow|dim|italic|cyan)\]", text)] == []
