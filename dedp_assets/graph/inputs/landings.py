"""Figures of landed records and of dead letters: measures and display."""

from __future__ import annotations

from collections.abc import Mapping

from dedp_assets.graph.catalogue.figures import Figure
from dedp_assets.patterns.core.parsing.field_census import CENSUS, NEW_FIELDS
from dedp_assets.patterns.core.parsing.field_changes import DECLARED_FIELDS, USUAL_FIELDS

__all__ = ["FIELD_CHECKS", "FIELD_FIGURES", "LANDING_FIGURES", "LETTER_FIGURES", "measures_of_landing"]

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

FIELD_FIGURES: Mapping[str, Figure] = {CENSUS: Figure(kind="hidden"), NEW_FIELDS: Figure("records with new fields")}
"""Figures of a census of fields."""

FIELD_CHECKS: Mapping[str, str] = {
    DECLARED_FIELDS: "Tells of fields in the records that no schema names, with counts, types and shapes of values.",
    USUAL_FIELDS: "Warns of fields that vanish, go null or take another type more often than in earlier partitions.",
}
"""Reports on a census of fields: name -> description."""


def measures_of_landing(outcome: str) -> dict[str, str]:
    """Write the figures of a landing's event times: name -> SQL aggregate; ``outcome`` marks late events."""
    days = f"if({outcome} = 'late', lateness_seconds / 86400, NULL)"
    return {
        "newest": "unix_seconds(max(event_time))",
        "late_dates": f"size(collect_set(if({outcome} = 'late', to_date(event_time), NULL)))",
        "late_at_most": f"max({days})",
        "late_on_average": f"avg({days})",
    }
