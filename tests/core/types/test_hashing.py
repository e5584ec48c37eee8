"""Hash of column values without Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.types.hashing import _xxh64, xxhash64

TIMES = [datetime(2026, 1, 5, 7, 8, 9, 123456, timezone.utc), datetime(1900, 1, 1, tzinfo=timezone.utc)]
KINDS = {
    "STRING": ("string", ["", "a", "é/x", "x" * 31, "x" * 32, "y" * 77]),
    "INT": ("integer", [0, 1, -1, 2**31 - 1, -(2**31)]),
    "BIGINT": ("long", [0, 1, -1, 2**63 - 1, -(2**63)]),
    "SMALLINT": ("short", [5, -5]),
    "TINYINT": ("byte", [5, -5]),
    "BOOLEAN": ("boolean", [True, False]),
    "DATE": ("date", [date(1970, 1, 1), date(2026, 1, 5), date(1582, 10, 1), date(9999, 12, 31)]),
    "TIMESTAMP": ("timestamp", TIMES),
}


def test_the_hash_is_xxh64_by_its_published_values():
    """Of the author's reference, with seed 0 and another one."""
    assert _xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert _xxh64(b"Nobody inspects the spammish repetition", 0) == 0xFBCEA83C8A378BF1
    assert _xxh64(b"", 2654435761) == 0xAC75FDA2929B17EF


def test_a_value_of_another_type_is_refused():
    """And one of a type whose bytes engines do not agree on."""
    for value, kind in ((5, "string"), ("x", "long"), (2**40, "integer"), (1.0, "double"), ("2026-02-30", "date")):
        with pytest.raises(ConfigError, match="a key must be"):
            xxhash64([(value, kind)])


@pytest.mark.spark
def test_each_type_has_spark_s_hash(spark):
    """Bit by bit, NULL too; an INT has another one than a BIGINT."""
    for declared, (kind, values) in KINDS.items():
        frame = spark.createDataFrame([(value,) for value in [*values, None]], f"v {declared}")
        ours = [xxhash64([(value, kind)]) for value in [*values, None]]
        assert [row[0] for row in frame.selectExpr("xxhash64(v)").collect()] == ours, declared
    assert xxhash64([(1, "integer")]) != xxhash64([(1, "long")])


@pytest.mark.spark
@settings(max_examples=3)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=90), min_size=20, max_size=60))
def test_any_text_has_spark_s_hash(spark, texts):
    """Of whatever length, as the last bytes of a text are taken in another way than the first."""
    frame = spark.createDataFrame([(text,) for text in texts], "v STRING")
    assert [row[0] for row in frame.selectExpr("xxhash64(v)").collect()] == [xxhash64([(t, "string")]) for t in texts]
