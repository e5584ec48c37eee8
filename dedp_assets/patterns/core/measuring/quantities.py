"""Quantities: figures with units and limits as text for people.

The only writer of figures for people: measurements, alerts, pages and commands ask here.
"""

from __future__ import annotations

import math

__all__ = ["compared", "duration", "quantity", "with_limit"]

_SPANS = ((4, 86_400, "days"), (2, 3_600, "h"), (2, 60, "min"), (0, 1, "s"))
_SIZES = ((1, 10**12, "TB"), (1, 10**9, "GB"), (1, 10**6, "MB"), (1, 10**3, "kB"), (0, 1, "bytes"))
_SCALES = {"s": _SPANS, "bytes": _SIZES}
"""Unit -> least figure in a larger unit, size of that unit, its name; the largest first."""
_LEAST_DIGITS, _MOST_DIGITS, _MOST_DECIMALS = 3, 15, 9


def quantity(value: float, unit: str = "", *, digits: int = _LEAST_DIGITS) -> str:
    """Write a figure with the unit that fits the figure.

    A span of time or a size has the largest unit that fits; one thing is in the singular.

    Args:
        value: the figure.
        unit: its unit: ``s``, ``bytes``, or the plural of a thing that is counted; empty for a ratio.
        digits: significant digits of a figure that is no whole number.

    Example:
        >>> quantity(48_930, "s"), quantity(27_439_200, "s"), quantity(1, "versions"), quantity(2_500_000, "bytes")
        ('13.6 h', '318 days', '1 version', '2.5 MB')
    """
    if unit in _SCALES and math.isfinite(value):
        size, unit = next((size, name) for least, size, name in _SCALES[unit] if abs(value) >= least * size)
        value = value / size
    number = _number(value, digits)
    is_one = number == "1" and len(unit) > 1 and unit.endswith("s")
    return f"{number} {unit[:-1] if is_one else unit}".strip()


def duration(seconds: float) -> str:
    """Write a span of time, as :func:`quantity` does."""
    return quantity(seconds, "s")


def compared(
    value: float | None, unit: str = "", *, at_least: float | None = None, at_most: float | None = None
) -> tuple[str, str]:
    """Write a figure and the limits, with as many digits as tell a figure beyond a limit from the limit.

    Returns:
        The figure, empty for ``None``, and the limits, empty without any.

    Example:
        >>> compared(48_930, "s", at_most=32_400), compared(490, "rows", at_least=500, at_most=1_500)
        (('13.6 h', 'at most 9 h'), ('490 rows', 'at least 500 rows, at most 1,500 rows'))
        >>> compared(93_601, "s", at_most=93_600)
        ('26.0003 h', 'at most 26 h')
    """
    bounds = {word: bound for word, bound in (("at least", at_least), ("at most", at_most)) if bound is not None}
    figure, digits = "", _LEAST_DIGITS
    while value is not None:
        figure = quantity(value, unit, digits=digits)
        others = {quantity(each, unit, digits=digits) for each in bounds.values() if each != value}
        if figure not in others or digits == _MOST_DIGITS:
            break
        digits += 1
    return figure, ", ".join(f"{word} {quantity(each, unit, digits=digits)}" for word, each in bounds.items())


def with_limit(figure: str, limit: str) -> str:
    """Write a figure and the limit behind the figure; empty without a figure.

    The limit are the words of :func:`compared`, or a plain value.

    Example:
        >>> with_limit("13.6 h", "at most 9 h"), with_limit("83 %", "95 %")
        ('13.6 h, at most 9 h', '83 % (limit 95 %)')
    """
    if not figure or not limit:
        return figure
    return f"{figure}, {limit}" if limit.startswith(("at least ", "at most ")) else f"{figure} (limit {limit})"


def _number(value: float, digits: int) -> str:
    """Write a number without an exponent and without zeros at the end."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value):
        return f"{value:,.0f}"
    decimals = min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), _MOST_DECIMALS)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text
