"""Figures with units, as people read them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.quantities import quantity

UNITS = ("s", "bytes", "rows", "versions", "partitions", "commits", "records", "fields", "tables", "")
SIZES = {
    "s": 1,
    "min": 60,
    "h": 3_600,
    "days": 86_400,
    "byte": 1,
    "bytes": 1,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
}
FIGURES = st.one_of(st.integers(min_value=0, max_value=10**13), st.floats(min_value=0.001, max_value=1e13))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (48_930, "s", "13.6 h"),
        (32_400, "s", "9 h"),
        (27_439_200, "s", "318 days"),
        (93_600, "s", "26 h"),
        (90, "s", "90 s"),
        (0.25, "s", "0.25 s"),
        (150 * 60, "s", "2.5 h"),
        (1, "versions", "1 version"),
        (0, "versions", "0 versions"),
        (1_234_567, "rows", "1,234,567 rows"),
        (1, "bytes", "1 byte"),
        (1_500, "bytes", "1.5 kB"),
        (2.5, "rows", "2.5 rows"),
        (1.31234, "", "1.31"),
        (0.000012345, "", "0.0000123"),
        (-7_200, "s", "-2 h"),
    ],
)
def test_a_figure_is_written_in_the_unit_that_fits(value, unit, text):
    """A span of time, a size, one thing, several, a share; below zero, too."""
    assert quantity(value, unit) == text


@given(FIGURES, st.sampled_from(UNITS))
def test_no_figure_needs_a_calculator(value, unit):
    """No exponent, one thing in the singular, and the figure is right to three digits."""
    text = quantity(value, unit)
    number, _, shown = text.partition(" ")
    assert "e" not in number
    counted = {each[:-1]: each for each in UNITS if len(each) > 1}
    assert shown not in (counted.values() if number == "1" else counted.keys())
    read = float(number.replace(",", "")) * (SIZES[shown] if unit in ("s", "bytes") else 1)
    assert read == pytest.approx(value, rel=0.006)


@given(FIGURES, FIGURES, st.sampled_from(UNITS))
def test_a_figure_beyond_its_limit_does_not_read_like_the_limit(value, limit, unit):
    """However close the two are."""
    at = datetime(2026, 1, 5, tzinfo=timezone.utc)
    measured = Measurement(metric="x", table="a", at=at, verdict="fail", value=value, unit=unit, at_most=limit)
    assert value == pytest.approx(limit, rel=1e-12) or f"at most {measured.figure}" != measured.limit
