"""Options of Spark's JSON writer that keep each value whole: microseconds of times, and NULL fields."""

from __future__ import annotations

from collections.abc import Mapping

from dedp_assets.patterns.core.rows import quoted

__all__ = ["EXACT", "MICROSECONDS", "options"]

MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options under which no time is cut to milliseconds."""
EXACT = {**MICROSECONDS, "ignoreNullFields": "false"}
"""The same, and a NULL keeps its field."""


def options(given: Mapping[str, str]) -> str:
    """Write options of Spark's JSON as an argument in SQL."""
    return f"map({', '.join(quoted(text) for option in given.items() for text in option)})"
