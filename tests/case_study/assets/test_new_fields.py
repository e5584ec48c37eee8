"""A field that visits bring and no schema names."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from tests.case_study.assets.conftest import day, visits_of

pytestmark = pytest.mark.spark


def test_a_new_field_of_visits_lands_is_told_and_reaches_no_column(world):
    """Bronze keeps the records as they are, silver's checks name the field, and all visits are there without it."""
    records = [json.dumps({**json.loads(line), "campaign": "spring"}) for line in visits_of(0)]
    world.land(day(0), records)
    for table in ("bronze/visits", "silver/visits"):
        assert world.compute(table, day(0)).failure == ""
    assert {row["raw"] for row in world.rows("bronze/visits")} == set(records)
    new, usual = (world.evaluation("silver/visits", f"fields_are_{what}") for what in ("declared", "as_usual"))
    assert (new.passed, new.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "campaign is not declared: 40 values, string such as aaaaaa" in str(new.description)
    assert usual.passed
    rows = world.rows("silver/visits")
    assert len(rows) == 40
    assert "campaign" not in rows[0]
