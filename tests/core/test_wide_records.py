"""Records of many columns: a plan that grows with them in width, and never in depth."""

from __future__ import annotations

import json
from itertools import cycle

import pytest

from dedp_assets.patterns.connectors.encoding.formats import Csv, JsonLines
from dedp_assets.patterns.connectors.encoding.record_texts import RECORD, Naming, as_records
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "a record of 800 columns takes seconds to plan")]
VALUES = {"BIGINT": "7", "STRING": "x", "DOUBLE": "1.5", "DATE": "2026-01-05", "DECIMAL(6,2)": "1.50", "INT": "x"}
"""Type -> text of a value; the INT is none."""
WIDE = 800


@pytest.mark.parametrize("made", [Csv(), JsonLines()], ids=["csv", "json"])
def test_a_record_of_800_columns_is_judged_as_one_of_a_few(spark, made):
    """Typed, with a sentence for each misfit; the engine's stack does not grow with the columns."""
    kinds = {f"c{n}": kind for n, kind in zip(range(WIDE), cycle(VALUES), strict=False)}
    values = {name: VALUES[kind] for name, kind in kinds.items()}
    good = {name: value for name, value in values.items() if kinds[name] != "INT"}
    header, lines = json.dumps(list(kinds)), [json.dumps(values), json.dumps(good)]
    if isinstance(made, Csv):
        lines = [",".join(each.get(name, "") for name in kinds) for each in (values, good)]
    rows = spark.createDataFrame(
        [(n, line, header) for n, line in enumerate(lines)], "n INT, raw STRING, header STRING"
    )
    records = as_records(rows, made, Naming(tuple(kinds)))
    split = divert_unprocessable(records, payload=RECORD, identity=["n"], schema=kinds, rules={"c0 is 7": "c0 = 7"})
    dead, valid = sorted((row.asDict() for row in split.rows.collect()), key=lambda row: row["n"])
    wrong = [f"{name} is not a INT" for name, kind in kinds.items() if kind == "INT"]
    assert dead["reason"] == "; ".join([*wrong[:20], "and more"])
    assert valid["reason"] is None
    assert [str(valid[name]) for name in list(kinds)[:6]] == ["7", "x", "1.5", "2026-01-05", "1.50", "None"]
