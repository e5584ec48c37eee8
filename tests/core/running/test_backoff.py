"""Backoff."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.backoff import Backoff

SECONDS = st.floats(min_value=0, max_value=86_400)


def test_attempts_are_bounded_and_wait_longer_each_time():
    """The last attempt is announced, and the pauses double with a random part."""
    pauses = []
    assert list(Backoff(attempts=4, first_seconds=2).tries(pauses.append)) == [False, False, False, True]
    assert all(full / 2 <= pause <= full for pause, full in zip(pauses, (2, 4, 8), strict=True))


@given(SECONDS, SECONDS, st.floats(min_value=0, max_value=1), st.integers(min_value=1, max_value=10**6))
def test_no_pause_is_longer_than_the_longest(first, longest, jitter, failures):
    """After any number of failures, and chance only shortens."""
    backoff = Backoff(first_seconds=first, longest_seconds=longest, jitter=jitter)
    assert 0 <= backoff.pause(failures) <= backoff.longest_after(failures) <= longest


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": True},
        {"first_seconds": -1},
        {"first_seconds": 86_401},
        {"longest_seconds": inf},
        {"jitter": 1.5},
        {"jitter": nan},
    ],
)
def test_a_backoff_that_is_none_is_refused(wrong):
    """By the name of the option."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Backoff(**wrong)
