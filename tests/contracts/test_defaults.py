"""Default checks: every table of the graph has one of each kind, or says why not."""

from __future__ import annotations

import pytest

import dedp_assets.defs as case_study
from dedp_assets.graph.declare import About, declared
from dedp_assets.graph.declare.defaults import KINDS, checked_by
from dedp_assets.patterns.core.errors import ConfigError

TABLES = {table.spec.name: table for table in declared(case_study)}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_check_of_each_kind_or_a_reason(name):
    """And no reason for a kind that is checked."""
    checked, reasons = checked_by(TABLES[name], TABLES), TABLES[name].about.unchecked
    assert [kind for kind in KINDS if kind not in checked] == [kind for kind in KINDS if kind in reasons]


def test_a_reason_is_one_line():
    """It stands in a table."""
    reasons = [reason for table in TABLES.values() for reason in table.about.unchecked.values()]
    assert len(reasons) > 40
    assert not [reason for reason in reasons if "\n" in reason or not 10 < len(reason) < 100]


def test_a_wrong_exception_is_refused():
    """An unknown kind, and a kind without a reason."""
    with pytest.raises(ConfigError, match=r"unchecked must name kinds of default checks .*, not 'fresh'"):
        About("team:x", unchecked={"fresh": "no need"})
    with pytest.raises(ConfigError, match="unchecked must say why there is no check of volume, not ' '"):
        About("team:x", unchecked={"volume": " "})
