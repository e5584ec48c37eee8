"""Command line ``dedp``: one command for each module of :mod:`dedp_assets.commands`.

A command is imported when it is called, so that the others answer at once, and without its packages.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from io import StringIO, TextIOWrapper
from pathlib import Path
from types import ModuleType

from dedp_assets import commands
from dedp_assets.commands._output import note
from dedp_assets.graph.resources.engine import EngineError
from dedp_assets.graph.resources.environments import Settings, apply, settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.masking import shown
from dedp_assets.laptop.servers import s3
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.extras import extra_of, needs
from dedp_assets.patterns.core.running.disks import refused_write

__all__ = ["main"]

_TROUBLE, _WRONG, _FAILED, _INTERRUPTED, _UNREAD = 1, 2, 3, 130, 141
_ONLY_OWNER = 0o077
_CODES = """exit codes:
  0    done, and nothing is wrong
  1    done, and something is wrong: refused, in trouble, faulty or different
  2    not done: a command, option, table, partition, setting, home or package is wrong or missing
  3    not done: an engine, a file, a log or a server fails
  130  interrupted by Ctrl-C
  141  the reader of the output went away, as `| head` does"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    if arguments is None:
        _be_patient()
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    name = next((word for word in words if not word.startswith("-")), "")
    try:
        try:
            return _run(name, words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # what is left is written nowhere, also at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNREAD
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        return _failed(name, error)


def _be_patient() -> None:
    """Leave out warnings, which no caller can mend, and write letters that a terminal lacks as escapes."""
    if not sys.warnoptions:  # `python -W default -m dedp_assets ...` shows them
        warnings.simplefilter("ignore")
    # A process that starts with closed streams, as of `dedp ... >&-`, has none.
    sys.stdout, sys.stderr = (stream or StringIO() for stream in (sys.stdout, sys.stderr))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(name: str, words: Sequence[str]) -> int:
    """Parse the words by the chosen command's arguments, and call the command."""
    known = _commands()
    parser = _parser(known)
    added = parser.add_subparsers(dest="command", metavar="command")
    parsers = {each: added.add_parser(each, help=sentence) for each, (sentence, _) in known.items()}
    command = _module(name) if name in known else None
    if command is not None:
        parsers[name].description = known[name][0]
        command.arguments(parsers[name])
    chosen = parser.parse_args(words)
    if command is None:
        parser.print_help()
        return 0
    if unfit := settings().unfit_home:
        raise ConfigError(unfit)
    with ExitStack() as joined:
        if settings().secure == "on":
            joined.callback(os.umask, os.umask(_ONLY_OWNER))
        if getattr(command, "BESIDE", False):
            computes = hasattr(command, "computes") and command.computes(chosen)
            joined.enter_context(_joined(settings(), computes=computes))
        return int(command.run(settings(), chosen))


def _parser(known: dict[str, tuple[str, str]]) -> argparse.ArgumentParser:
    """Make the parser, with the extras that commands need and the exit codes at the end of the help."""
    of: dict[str, list[str]] = {}
    for name, (_, extra) in known.items():
        of.setdefault(extra, []).append(name)
    needed = [f"  {', '.join(names)}: pip install 'dedp[{extra}]'" for extra, names in of.items() if extra]
    parser = argparse.ArgumentParser(
        prog="dedp",
        description="A lakehouse of design patterns on Dagster, Spark and Delta.",
        epilog="\n".join(["what commands need besides the core:", *needed, "", _CODES]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dedp {_version()}")
    return parser


def _commands() -> dict[str, tuple[str, str]]:
    """Return the sentence and the extra of each command, without importing a command."""
    found = {}
    for path in sorted(Path(str(commands.__file__)).parent.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        sentence = (ast.get_docstring(tree) or "").partition("\n")[0].partition("``: ")[2].rstrip(".")
        stated = {ast.unparse(each.targets[0]): each.value for each in tree.body if isinstance(each, ast.Assign)}
        found[path.stem] = sentence, ast.literal_eval(stated["NEEDS"]) if "NEEDS" in stated else ""
    return found


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{commands.__name__}.{name}")


@contextmanager
def _joined(chosen: Settings, *, computes: bool) -> Iterator[None]:
    """Use the servers of this home's platform for a block; without a platform, run the missing servers.

    A computing command uses the platform's Spark engine.
    """
    platform = running(chosen)
    if platform is not None:
        used = ""
        if computes and chosen.remote is None:
            apply({"SPARK_REMOTE": platform.engine})
            used = "; its engine is used"
        note(f"The platform of this home runs ({platform}) at {platform.web}{used}")
    with ExitStack() as served:
        if chosen.own_s3:
            served.enter_context(s3.reached(chosen))
        if chosen.cluster and computes and platform is None and chosen.remote is None:
            # Seconds of imports.
            from dedp_assets.laptop.servers.cluster import driving  # noqa: PLC0415

            served.enter_context(driving(settings()))
        yield


def _failed(name: str, error: Exception) -> int:
    """Print an error in one line, or an unexpected error whole; return the exit code."""
    if isinstance(error, ModuleNotFoundError) and extra_of(error.name):
        needed = _commands()[name][1]
        extra = needed if needed == "local" else extra_of(error.name)  # which brings the others
        note(f"dedp {name}: {needs(extra)} ({error.name} is not installed)")
        return _WRONG
    # A disk that fills up while a file is written names no file.
    place = getattr(error, "filename", None) or f"what dedp {name} writes"
    known = None if isinstance(error, PatternError) else refused_write(str(place), error)
    if not known and not isinstance(error, EngineError | PatternError | ValueError | OSError):
        note(shown("".join(traceback.format_exception(error))))
        return _FAILED
    note(f"dedp {name}: {shown(str(known or error))}")
    return _WRONG if isinstance(error, ValueError) else _FAILED


def _version() -> str:
    try:
        return version("dedp")
    except PackageNotFoundError:  # a copy that nobody installed
        return "of a copy that is not installed"
