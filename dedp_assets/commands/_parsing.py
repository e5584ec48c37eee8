"""Parsers of ``dedp``: the one of the front door, and the arguments of a command or of all commands."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, NoReturn

from dedp_assets import commands
from dedp_assets.commands._manual import Manual, manuals

__all__ = ["FAULTY_CALL", "Parser", "add_arguments", "front_parser", "module_of", "whole_parser"]

FAULTY_CALL = 2
"""Exit code of a command that was called with something wrong or missing."""
_CODES = """exit codes:
  0    done, and nothing is wrong
  1    done, and something is wrong: refused, in trouble, faulty or different
  2    not done: a command, option, table, partition, setting, home or package is wrong or missing
  3    not done: an engine, a file, a log or a server fails
  130  interrupted by Ctrl-C
  141  the reader of the output went away, as `| head` does"""


def add_arguments(parser: argparse.ArgumentParser, manual: Manual, command: ModuleType) -> None:
    """Add a command's arguments and manual to a parser.

    Args:
        parser: parser of the command.
        manual: the command's.
        command: the command's module.
    """
    parser.description, parser.epilog = manual.description, manual.epilog
    command.arguments(parser)


class Parser(argparse.ArgumentParser):
    """Parser of ``dedp`` and of each command, whose refusals end with the command for help."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - of argparse
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, **options})
        self._mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - of argparse
        """Parse the words of a command in any order of options and partitions.

        argparse alone knows no partition that comes after an option.
        """
        if self._mixing or not any(action.nargs == "*" for action in self._get_positional_actions()):
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def error(self, message: str) -> NoReturn:
        """Print the usage and a refusal, and end with exit code 2."""
        self.print_usage(sys.stderr)
        self.exit(FAULTY_CALL, f"{self.prog}: {message}: `{self.prog} --help`\n")


def front_parser(known: Mapping[str, Manual]) -> Parser:
    """Make the parser, with the extras that commands need and the exit codes at the end of the help."""
    of: dict[str, list[str]] = {}
    for name, manual in known.items():
        of.setdefault(manual.needs, []).append(name)
    needed = [f"  {', '.join(names)}: pip install 'dedp[{extra}]'" for extra, names in of.items() if extra]
    parser = Parser(
        prog="dedp",
        description="A lakehouse of design patterns on Dagster, Spark and Delta.",
        epilog="\n".join(["what commands need besides the core:", *needed, "", _CODES]),
    )
    parser.add_argument("--version", action="version", version=f"dedp {_version()}")
    return parser


def whole_parser() -> Parser:
    """Return the parser of all commands.

    Every command is imported, which takes seconds; a command whose packages are missing has no arguments.
    """
    known = manuals()
    parser = front_parser(known)
    added = parser.add_subparsers(dest="command", metavar="command")
    for name, manual in known.items():
        of = added.add_parser(name, help=manual.sentence)
        with suppress(ModuleNotFoundError):
            add_arguments(of, manual, module_of(name))
    return parser


def module_of(name: str) -> ModuleType:
    """Import the module of a command."""
    return importlib.import_module(f"{commands.__name__}.{name}")


def _version() -> str:
    try:
        return version("dedp")
    except PackageNotFoundError:  # a copy that nobody installed
        return "of a copy that is not installed"
