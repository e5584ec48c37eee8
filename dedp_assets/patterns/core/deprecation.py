"""Deprecation of a public function or class: a warning at each call until a release removes the name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import isclass
from typing import Any, TypeVar, cast

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Deprecation", "deprecated", "deprecation_of"]

T = TypeVar("T", bound=Callable[..., Any])

_MARK = "__deprecation__"
_RELEASES = 2
"""Number of minor releases, or one of the first number, in which a deprecated name still works."""


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Deprecation of a name.

    Attributes:
        since: release with the first warning, such as ``0.3.0``.
        use: name to use instead.
        gone_in: release without the name: two minor releases later, or the next one of the first number.
    """

    since: str
    use: str
    gone_in: str

    def __post_init__(self) -> None:
        """Refuse a removal that comes too soon.

        Raises:
            ConfigError: names the option.
        """
        since, gone_in = _numbers("since", self.since), _numbers("gone_in", self.gone_in)
        if gone_in[0] == since[0] and gone_in[1] < since[1] + _RELEASES:
            soonest = f"{since[0]}.{since[1] + _RELEASES}.0"
            raise ConfigError(
                f"gone_in must be {soonest} or later for a name deprecated in {self.since}, not {self.gone_in}"
            )
        if gone_in < since:
            raise ConfigError(f"gone_in must be later than {self.since}, not {self.gone_in}")

    def __str__(self) -> str:
        return f"deprecated since {self.since}, and gone in {self.gone_in}: use {self.use}"

    def is_over(self, release: str) -> bool:
        """Return whether a release has the name no longer."""
        return _numbers("release", release) >= _numbers("gone_in", self.gone_in)


def deprecated(*, since: str, use: str, gone_in: str) -> Callable[[T], T]:
    """Decorate a public function or class that a later release no longer has.

    Args:
        since: release with the first warning.
        use: name to use instead.
        gone_in: release without the name.

    Returns:
        A decorator; each call of the decorated object raises a ``DeprecationWarning``, and does as before.

    Raises:
        ConfigError: for a removal before the second minor release after ``since``.

    Example:
        >>> @deprecated(since="0.3.0", use="join_parts", gone_in="0.5.0")
        ... def join_rows() -> int:
        ...     return 1
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     join_rows()
        1
        >>> print(caught[0].message)
        join_rows is deprecated since 0.3.0, and gone in 0.5.0: use join_parts
    """
    stated = Deprecation(since, use, gone_in)

    def decorate(made: T) -> T:
        text = f"{made.__name__} is {stated}"
        called: Any = getattr(made, "__init__") if isclass(made) else made  # noqa: B009 - as below

        @wraps(called)
        def warning(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of any function
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return called(*args, **kwargs)

        if isclass(made):
            setattr(made, "__init__", warning)  # noqa: B010 - of a class that is only known as such
        decorated = made if isclass(made) else cast("T", warning)
        setattr(decorated, _MARK, stated)
        return decorated

    return decorate


def deprecation_of(thing: object) -> Deprecation | None:
    """Return the deprecation of a function or class, or ``None``."""
    found = getattr(thing, _MARK, None)
    return found if isinstance(found, Deprecation) else None


def _numbers(option: str, release: str) -> tuple[int, int, int]:
    parts = release.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"{option} must be a release like 0.3.0, not {release}")
    first, second, third = map(int, parts)
    return first, second, third
