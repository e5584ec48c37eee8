"""Pytest plugin for a copy of the project with new modules: contracts by case try the cases of the new modules alone.

The project's own run tries the other cases, of which the copy says the same.
"""

from __future__ import annotations

import pytest

NEW = ("report_nulls", "null_reporter", "visits_completeness")
"""Words in the ids of the cases of CONTRIBUTING's examples."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases of modules that the project has, too."""
    kept = [item for item in items if not hasattr(item, "callspec") or any(name in item.nodeid for name in NEW)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
