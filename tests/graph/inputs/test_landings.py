"""Figures of landed records: each measure is shown, and the built-in landing has the same."""

from __future__ import annotations

from dedp_assets.case_study.defs.bronze.visits import FIGURES
from dedp_assets.graph.inputs.landings import LANDING_FIGURES, LETTER_FIGURES, measures_of_landing
from dedp_assets.patterns.error_management._letters import MEASURES


def test_every_measure_of_a_landing_is_shown():
    """Under a label, or hidden on purpose."""
    assert set(measures_of_landing("timeliness")) <= set(LANDING_FIGURES)
    assert LANDING_FIGURES.items() <= FIGURES.items()


def test_every_measure_of_letters_is_shown():
    """As the pattern measures them."""
    assert set(MEASURES) == set(LETTER_FIGURES)
