"""Selection of the tests that a change touches."""

from __future__ import annotations

import os

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from tests.changed import touched


@pytest.fixture(autouse=True, scope="module")
def _at_the_root():
    """The selection reads the files of the folder that it is called in."""
    before = os.getcwd()  # noqa: PTH109
    os.chdir(CHECKOUT)
    yield
    os.chdir(before)


@pytest.mark.parametrize(
    ("file", "reached", "apart"),
    [
        (
            "dedp_assets/patterns/quality/_profiles/drift.py",
            {"tests/patterns/quality/profiles/test_drift.py"},
            {"tests/patterns/ingestion/test_full_loader.py"},
        ),
        (
            "dedp_assets/patterns/core/running/backoff.py",
            {"tests/core/running/test_backoff.py", "tests/graph/mail/test_alert_outbox.py"},
            {"tests/core/measuring/test_calendars.py"},
        ),
        (
            "tests/core/running/test_backoff.py",
            {"tests/core/running/test_backoff.py"},
            {"tests/core/measuring/test_calendars.py"},
        ),
        ("docs/glossary.md", {"tests/contracts/test_docs.py"}, {"tests/core/running/test_backoff.py"}),
        ("tests/ui/test_ui.py", {"tests/ui/test_ui.py"}, {"tests/core/running/test_backoff.py"}),
        (
            "dedp_assets/graph/run/runner.py",
            {"tests/case_study/assets/test_gates.py"},
            {"tests/core/running/test_backoff.py"},
        ),
        (
            "dedp_assets/patterns/connectors/web/events.py",
            {"tests/contracts/test_options.py"},
            {"tests/contracts/test_types.py"},
        ),
        ("pyproject.toml", {"tests/core/running/test_backoff.py", "tests/ui/test_ui.py"}, set()),
    ],
)
def test_a_change_touches_those_who_import_it(file, reached, apart):
    """Over any number of imports and by fixtures, and nobody else."""
    found = touched([file])
    assert reached <= found
    assert not apart & found


def test_a_story_of_a_platform_is_told_by_all_tests():
    """Nearly every change reaches it."""
    assert "tests/ui/test_ui.py" not in touched(["dedp_assets/graph/run/runner.py"])
