"""Requests to object stores, counted by kind for one piece of work.

Whoever sends requests calls :func:`count_request`; whoever asks for a count opens it around the work. Counts belong to
the context (:mod:`contextvars`): two runs in one process have counts of their own. A new thread begins with none, so
work for others goes there by :func:`~dedp_assets.patterns.core.running.permissions.inheriting`. What deltalake and
Spark send is not seen here, and neither is what a client sends again by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock
from typing import Literal, ParamSpec, TypeVar

from dedp_assets.patterns.core.measuring.costs import Cost

__all__ = ["RequestCount", "RequestKind", "count_request", "counting_requests", "with_requests_counted"]

P = ParamSpec("P")
R = TypeVar("R")

RequestKind = Literal["get", "head", "list", "put", "delete"]


class RequestCount:
    """Number of requests by kind, from any thread of one piece of work."""

    def __init__(self) -> None:
        self._sent = Counter[RequestKind]()
        self._turn = Lock()

    def add(self, kind: RequestKind, number: int) -> None:
        """Add requests of a kind."""
        with self._turn:
            self._sent[kind] += number

    @property
    def sent(self) -> Counter[RequestKind]:
        """The number of requests so far, by kind; without the kinds that were not sent."""
        with self._turn:
            return self._sent.copy()

    @property
    def cost(self) -> Cost:
        """The requests so far as a cost; an empty cost without a request."""
        return Cost(**{f"requests_{kind}": number for kind, number in self.sent.items()})


_open: ContextVar[tuple[RequestCount, ...]] = ContextVar("open counts of requests", default=())


@contextmanager
def counting_requests() -> Iterator[RequestCount]:
    """Count the requests of a block, including blocks within.

    Example:
        >>> with counting_requests() as counted:
        ...     count_request("head")
        >>> dict(counted.sent)
        {'head': 1}
    """
    counted = RequestCount()
    token = _open.set((*_open.get(), counted))
    try:
        yield counted
    finally:
        _open.reset(token)


def count_request(kind: RequestKind, number: int = 1) -> None:
    """Add requests to the open counts."""
    for each in _open.get():
        each.add(kind, number)


def open_count() -> RequestCount:
    """Return the count of the innermost block; one that stays empty outside of any block."""
    return _open.get()[-1] if _open.get() else RequestCount()


def with_requests_counted(work: Callable[P, R]) -> Callable[P, R]:
    """Open a count around each call of a function, for the meters within."""

    @wraps(work)
    def counted(*args: P.args, **kwargs: P.kwargs) -> R:
        with counting_requests():
            return work(*args, **kwargs)

    return counted
