"""Clocks of processes that are fast or slow, for the system calls of Python, Rust and Java alike."""

from __future__ import annotations

from libfaketime import get_reload_information

__all__ = ["clock_of"]


def clock_of(minutes: float) -> dict[str, str]:
    """The variables under which a process, and those that it starts, have a clock that is so many minutes fast.

    Clocks that only run forward, by which timeouts are counted, are as they are.
    """
    if not minutes:
        return {}
    _, variables = get_reload_information()
    return {**variables, "FAKETIME": f"{minutes * 60:+g}s", "DONT_FAKE_MONOTONIC": "1"}
