"""Figures of landed records and of dead letters: measures and display."""

from __future__ import annotations

from collections.abc import Mapping

from dedp_assets.graph.catalogue.figures import Figure

__all__ = ["LANDING_FIGURES", "LETTER_FIGURES", "measures_of_landing"]

LANDING_FIGURES: Mapping[str, Figure] = {
    "newest": Figure("newest event time", "time"),
    "late": Figure("late records"),
    "late_dates": Figure("event dates with late records"),
    "late_at_most": Figure("late by at most [days]"),
    "late_on_average": Figure("late on average [days]"),
    "numbers": Figure(kind="hidden"),
    "lines": Figure(kind="hidden"),
}
"""Figures of a commit of landed records."""

LETTER_FIGURES: Mapping[str, Figure] = {
    "open": Figure("open letters [records]"),
    "replayed": Figure("replayed letters [records]"),
    "given_up": Figure("letters given up [records]"),
    "oldest": Figure("oldest open letter", "time"),
    "classes": Figure(kind="hidden"),
}
"""Figures of a commit of dead letters."""


def measures_of_landing(outcome: str) -> dict[str, str]:
    """Write the figures of a landing's event times: name -> SQL aggregate; ``outcome`` marks late events."""
    days = f"if({outcome} = 'late', lateness_seconds / 86400, NULL)"
    return {
        "newest": "unix_seconds(max(event_time))",
        "late_dates": f"size(collect_set(if({outcome} = 'late', to_date(event_time), NULL)))",
        "late_at_most": f"max({days})",
        "late_on_average": f"avg({days})",
    }
