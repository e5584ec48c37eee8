"""Nearest right names, for messages about a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["among", "suggestion", "unknown"]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as the end of a message, or all of a few known names."""
    names = sorted(known)
    if near := _nearest(name, names):
        return f": did you mean {near}?"
    return f": known are {', '.join(names)}" if 0 < len(names) <= 10 else ""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that nothing has, with the nearest known name."""
    return f"unknown {what} {name}{suggestion(name, known)}"


def among(name: str, known: Iterable[str]) -> bool:
    """Return whether a name is the nearest right name of a misspelt one in ``known``."""
    return bool(_nearest(name, sorted(known)))


def _nearest(name: str, known: list[str]) -> str:
    """Return the nearest known name; of ``chapter.module``, a module alone is near as well."""
    if near := get_close_matches(name, known, 1, 0.6):
        return near[0]
    last = {each.rpartition(".")[2]: each for each in known}
    found = get_close_matches(name.rpartition(".")[2], last, 1, 0.7)
    return last[found[0]] if found else ""
