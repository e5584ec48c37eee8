"""Observing: which aggregates may share an observation with the library's own numbers."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.measuring.observing import Watch


@pytest.mark.parametrize(
    ("sql", "shares"),
    [
        ("count(1)", True),
        (" COUNT_IF(a = 1 AND (b OR c)) ", True),
        ("max(struct(a, b))", True),
        ("count(CASE WHEN a > (b + 1) THEN 1 END)", True),
        ("sum(a)", False),
        ("count(1) / count_if(a)", False),
        ("max(a) + sum(b)", False),
        ("(count(1))", False),
        ("counts(a)", False),
        ("count(1", False),
        ("", False),
    ],
)
def test_only_one_call_that_counts_or_compares_shares_an_observation(sql, shares):
    """Whatever may fail when tasks are added up, or at the end, is observed beside the others and counted there."""
    watch = Watch({"rows": "count(1)"}, {"asked": sql})
    assert ("asked" in watch._sure) is shares
    assert ("asked" in watch._doubtful) is not shares
    assert watch._sure.keys() - {"rows", "asked"} == watch._doubtful.keys() - {"asked"}
