"""Readings of dates: what a pattern is inferred from, Spark reads by the pattern as the same time."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

from dedp_assets.patterns.connectors.encoding.date_readings import readings, readings_of
from dedp_assets.patterns.core.types.date_patterns import pattern_fault

MOMENTS = ("2026-01-25 13:45:07", "2024-02-29 00:00:00", "2031-11-03 23:59:58", "2008-09-01 09:05:00")


def patterns_of(*texts):
    """The patterns of texts."""
    return [each.pattern for each in readings_of(Counter(texts), 0.98)]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["2001/01/01 06:55", "2001/01/02 16:05"], ["yyyy/MM/dd HH:mm"]),
        (["Jan 1 2000", "Feb 12 2001"], ["MMM d yyyy"]),
        (["January 5, 2026"], ["MMMM d, yyyy"]),
        (["5-Jan-26"], ["d-MMM-yy"]),
        (["5-Jan-99"], []),  # 2099 to Spark
        (["3/4/2026", "5/6/2026"], ["M/d/yyyy", "d/M/yyyy"]),
        (["3/4/2026", "5/16/2026"], ["M/d/yyyy"]),
        (["1/1/2026", "2/2/2026"], ["M/d/yyyy"]),  # the same day either way
        (["25.1.2026 9:05"], ["d.M.yyyy H:mm"]),
        (["1/25/2026 9:05 PM"], ["M/d/yyyy h:mm a"]),
        (["2026-02-30 10:00"], []),
        (["Main Street 5", "May"], []),
    ],
)
def test_texts_have_the_patterns_that_read_nearly_all_of_them(texts, found):
    """One, none, or several that nobody can choose between."""
    assert patterns_of(*texts) == found


def test_every_pattern_is_one_that_a_declaration_takes():
    """`dedp infer` writes no pattern that `dedp check` refuses."""
    assert {each.pattern: why for each in readings() if (why := pattern_fault(each.pattern, "TIMESTAMP"))} == {}


@pytest.mark.spark
def test_spark_reads_each_text_as_the_same_time(spark):
    """Every pattern, over times that it writes itself."""
    each = {reading.pattern: reading for reading in readings()}
    rows = spark.createDataFrame([(p, m) for p in each for m in MOMENTS], "pattern STRING, moment STRING")
    texts = rows.selectExpr("pattern", "date_format(timestamp(moment), pattern) AS text").distinct()
    read = texts.selectExpr("*", "date_format(try_to_timestamp(text, pattern), 'yyyy-MM-dd HH:mm:ss') AS at").collect()
    assert len(read) > len(each)
    for row in read:
        ours = each[row["pattern"]].moment(row["text"])
        assert ours == datetime.fromisoformat(row["at"]), row
