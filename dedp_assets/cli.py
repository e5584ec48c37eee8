"""Command line ``dedp``: one command for each module of :mod:`dedp_assets.commands`.

A command is imported when it is called, so that the others answer at once, and without its packages.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from io import StringIO, TextIOWrapper

from dedp_assets.commands._manual import manuals
from dedp_assets.commands._output import note
from dedp_assets.commands._parsing import FAULTY_CALL, add_arguments, front_parser, module_of
from dedp_assets.graph.resources.engine import EngineError
from dedp_assets.graph.resources.environments import Settings, apply, settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.masking import shown
from dedp_assets.laptop.servers import s3
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.extras import extra_of, needs
from dedp_assets.patterns.core.running.disks import refused_write

__all__ = ["main"]

_FAILED, _INTERRUPTED, _UNREAD = 3, 130, 141
_ONLY_OWNER = 0o077


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
    known = manuals()
    parser = front_parser(known)
    if name and name not in known:
        near = get_close_matches(name, known, n=2, cutoff=0.5) or known
        parser.error(f"command must be one of {', '.join(near)}, not {name!r}")
    added = parser.add_subparsers(dest="command", metavar="command")
    parsers = {each: added.add_parser(each, help=manual.sentence) for each, manual in known.items()}
    command = module_of(name) if name in known else None
    if command is not None:
        add_arguments(parsers[name], known[name], command)
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
        needed = manuals()[name].needs
        extra = needed if needed == "local" else extra_of(error.name)  # which brings the others
        note(f"dedp {name}: {needs(extra)} ({error.name} is not installed)")
        return FAULTY_CALL
    # A disk that fills up while a file is written names no file.
    place = getattr(error, "filename", None) or f"what dedp {name} writes"
    known = None if isinstance(error, PatternError) else refused_write(str(place), error)
    if not known and not isinstance(error, EngineError | PatternError | ValueError | OSError):
        note(shown("".join(traceback.format_exception(error))))
        return _FAILED
    note(f"dedp {name}: {shown(str(known or error))}")
    return FAULTY_CALL if isinstance(error, ValueError) else _FAILED
