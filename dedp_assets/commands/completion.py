"""``dedp completion``: script by which a shell completes commands, options and names of tables.

The script calls ``dedp completion tables`` for the names of stored tables.

Examples:
    dedp completion bash > ~/.local/share/bash-completion/completions/dedp
    dedp completion zsh > ~/.zfunc/_dedp  # a folder of fpath
    dedp completion fish > ~/.config/fish/completions/dedp.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dedp_assets.commands._arguments import TABLE
from dedp_assets.commands._output import say
from dedp_assets.commands._parsing import whole_parser
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.stored_names import stored_names

__all__ = ["arguments", "run"]

NEEDS = "completion"
_SHELLS = ("bash", "zsh", "fish")
_TABLES = "tables"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    meaning = "shell that reads the script; tables lists the names of stored tables, a line each"
    parser.add_argument("shell", choices=(*_SHELLS, _TABLES), help=meaning)


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the script, or the names of stored tables."""
    if chosen.shell == _TABLES:
        for name in stored_names(settings.lake):
            say(name)
        return 0
    import shtab  # noqa: PLC0415 - not for the names of tables

    parser = whole_parser()
    for action in _actions(parser):
        if action.dest == TABLE:
            action.complete = shtab.cmd("dedp completion tables 2> /dev/null")  # type: ignore[attr-defined]
        elif action.dest in ("folder", "location"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=chosen.shell))  # noqa: T201 - a script, whose control characters are its own
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of the parsers below."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
