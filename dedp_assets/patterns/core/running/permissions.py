"""Permissions of a block of code: the locations of the lake that the block may read, write and delete.

Whoever runs code of others restricts a block to an :class:`Access` (:func:`restricted_to`); whoever opens a table or
writes a file asks :func:`require_allowed` first. Outside of such a block nothing is looked up. The restriction belongs
to the context (:mod:`contextvars`): two runs in one process have restrictions of their own, and work for other threads
goes there by :func:`inheriting`. A program that opens a path by itself, as Spark's readers do, is not seen.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import wraps
from typing import Literal, ParamSpec, TypeVar, get_args
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Access

__all__ = [
    "FOLDER",
    "Action",
    "covers",
    "extended_to",
    "inheriting",
    "is_allowed",
    "place_of",
    "require_allowed",
    "restricted_to",
]

P = ParamSpec("P")
R = TypeVar("R")

Action = Literal["read", "write", "delete", "list"]
"""Use of a file: its content, a new content, its removal, or its name in a listing."""
FOLDER = "/*"
"""End of a grant for all names below a folder."""

_BUCKET = re.compile(r"s3a?://", re.IGNORECASE)
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_SHOWN = 4
_HELD: ContextVar[Access | None] = ContextVar("access of the block", default=None)


def covers(grant: str, name: str) -> bool:
    """Return whether a grant names a resource, or, with ``/*`` at the end, a folder above.

    Example:
        >>> covers("visits/*", "visits/2026"), covers("visits/*", "visits-payroll/2026"), covers("visits", "visits/a")
        (True, False, False)
    """
    return name == grant or (grant.endswith(FOLDER) and name.startswith(grant[:-1]) and len(grant) > len(FOLDER))


def place_of(location: str) -> str:
    """Spell an address of a folder or a bucket as grants do: a path, or ``s3://bucket/key``; without dots.

    Args:
        location: a path, a ``file`` URI, or an unescaped address in a bucket.

    Example:
        >>> place_of("s3a://lake/silver/visits/"), place_of("file:///lake/a%20b"), place_of("/lake/b/../a")
        ('s3://lake/silver/visits', '/lake/a b', '/lake/a')
    """
    if found := _BUCKET.match(location):
        return f"s3://{posixpath.normpath('/' + location[found.end() :]).lstrip('/')}"
    path = unquote(_FILE.sub("", location)) if _FILE.match(location) else location
    return re.sub("^//+", "/", posixpath.normpath(path))


def is_allowed(access: Access, action: str, location: str) -> bool:
    """Return whether an access allows an action at a location."""
    place = place_of(location)
    return any(covers(grant, place) for grant in access.allowed.get(action, ()))


@contextmanager
def restricted_to(access: Access | None) -> Iterator[None]:
    """Restrict a block of code to an access; ``None`` lifts the restriction of an outer block.

    :func:`require_allowed` enforces the access.
    """
    before = _HELD.set(access)
    try:
        yield
    finally:
        _HELD.reset(before)


@contextmanager
def extended_to(folder: str) -> Iterator[None]:
    """Allow a restricted block a further folder, which comes and goes with an allowed place."""
    access = _HELD.get()
    if access is not None:
        grants = (place_of(folder), place_of(folder) + FOLDER)
        more = {action: (*access.allowed.get(action, ()), *grants) for action in get_args(Action)}
        access = replace(access, allowed=more)
    with restricted_to(access):
        yield


def require_allowed(action: Action, location: str) -> None:
    """Refuse an action at a location to a block whose access does not allow the action.

    Raises:
        ConfigError: names identity, action and path.
    """
    access = _HELD.get()
    if access is None or is_allowed(access, action, location):
        return
    names = ["/".join(grant.split("/")[-3:-1]) for grant in access.allowed.get(action, ()) if grant.endswith(FOLDER)]
    shown = [name for name in dict.fromkeys(names) if "/." not in f"/{name}"]
    some = ", ".join(shown[:_SHOWN]) + (" ..." if len(shown) > _SHOWN else "")
    raise ConfigError(
        f"{access.identity} may not {action} {place_of(location)}, only {some or 'nothing'}: declare the place if "
        "the code needs it; nothing was done there"
    )


def inheriting(work: Callable[P, R]) -> Callable[P, R]:
    """Return a function for other threads, with the restriction and the open counts of now."""
    context = copy_context()

    @wraps(work)
    def inherited(*args: P.args, **kwargs: P.kwargs) -> R:
        # A context is entered by one thread at a time.
        return context.copy().run(work, *args, **kwargs)

    return inherited
