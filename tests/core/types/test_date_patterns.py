"""Date patterns: the judgement without Spark is held against Spark's own reading."""

from __future__ import annotations

import random

import pytest

from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.types.date_patterns import pattern_fault

MOMENTS = ("2026-01-25 13:45:07", "2024-02-29 00:00:00", "2031-11-03 23:59:58")
SOUND = [
    "yyyy-MM-dd",
    "dd/MM/yyyy",
    "M/d/yyyy h:mm:ss a",
    "yyyyMMdd",
    "ddMMyyyyHHmmss",
    "yyyy-DDD",
    "MMM d yyyy",
    "d. MMMM yyyy",
    "dd-MMM-yy",
    "yyyy-MM-dd'T'HH:mm:ssXXX",
    "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    "yyyy-MM-dd[ HH:mm[:ss]]",
    "yyyy-MM-dd HH",
    "[yyyy-MM-dd][dd.MM.yyyy]",
    "HH:mm dd.MM.yyyy",
    "yyyy/MM/dd 'at' HH.mm",
    "MM/dd/yyyy K:mm a",
    "yyyy-MM-dd kk:mm",
    "dd''MM''yyyy",
    "yyyy-MM-dd HH:mm:ss z",
    "yyyy-MM-dd HH:mm VV",
    "yyyy LLL dd",
    "yyMMdd",
    "ddMMyyyy Hmm",
]
WRONG = {
    "dd/mm/yyyy": "dd/MM/yyyy",
    "MM/dd": "",
    "YYYY": "",
    "YYYY-MM-dd": "yyyy-MM-dd",
    "DD/MM/YYYY": "dd/MM/yyyy",
    "yyyy-MM-ddTHH:mm:ss": "yyyy-MM-dd'T'HH:mm:ss",
    "%Y-%m-%d": "yyyy-MM-dd",
    "%d.%m.%y %H:%M": "dd.MM.yy HH:mm",
    "yyyy-mm-dd HH:MM:ss": "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd HH:MM": "yyyy-MM-dd HH:mm",
    "yyyy-MM": "",
    "HH:mm": "",
    "yyyy-MM-dd hh:mm": "yyyy-MM-dd HH:mm",
    "YYYY-MM-DD HH24:MI:SS": "yyyy-MM-dd HH:mm:ss",
    "DD-MON-YY": "dd-MMM-yy",
    "M/d/yyyy h:mm tt": "M/d/yyyy h:mm a",
    "yyyy-MM-dd HH:mm:SS": "yyyy-MM-dd HH:mm:ss",
    "EEE, d MMM yyyy": "",
    "dd/MM[/yyyy]": "",
    "dd/MM/yyyy DDD": "",
    "yyyy-MM-dd'T": "",
    "yyyy-MM-dd]": "",
    "yyyy-MM-dd ss:mm": "",
    "iso8601": "",
    "epoch_micros": "",
    "dMyyyy": "",
    "Mddyyyy": "",
    "yyyyMMd": "",
    "yyyyMd": "",
    "yyyyyyyyyyyy-MM-dd": "",
    "{yyyy}-MM-dd": "",
    "": "",
}
PIECES = {
    "year": ["yyyy", "yy", "y", "YYYY", "u", "uuuu"],
    "month": ["MM", "M", "MMM", "MMMM", "L", "mm", "LLLLL"],
    "day": ["dd", "d", "D", "DDD", "DD", "ddd", "e"],
    "hour": ["HH", "H", "hh", "h", "kk", "K", "", "HHH"],
    "minute": [":mm", ":m", "mm", ":MM", ""],
    "second": [":ss", ":s", "ss", ":SS", ""],
    "end": [" a", "a", "XXX", " z", " VV", ".SSS", "", " E", " Q", " A", " n"],
}


def generated(count=400, seed=7):
    """Patterns with the parts of a time in several orders, spellings and separators, with slips of all kinds."""
    chance, found = random.Random(seed), list[str]()  # noqa: S311 - the same cases each time
    while len(found) < count:
        part = {name: chance.choices(some, [9, 4, *[1] * (len(some) - 2)])[0] for name, some in PIECES.items()}
        separator = chance.choice(["-", "/", ".", " ", "", ", "])
        days = [part["year"], part["month"], part["day"]]
        chance.shuffle(days)
        del days[chance.choice([3, 3, 3, 3, 3, 2]) :]
        day = separator.join(days)
        time = part["hour"] + part["minute"] + part["second"] if chance.random() < 0.6 else ""
        between = chance.choice([" ", "'T'", "T", " 'at' ", ""])
        halves = [day, *([between, time] if time else [])]
        found.append("".join(halves) + (part["end"] if time else ""))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("pattern", SOUND)
def test_a_pattern_of_a_whole_date_is_sound(pattern):
    """With letters in any order, optional sections, text in quotes and zones."""
    assert pattern_fault(pattern, "TIMESTAMP") == ""


@pytest.mark.parametrize("pattern", WRONG)
def test_a_pattern_that_reads_no_date_is_refused_with_the_nearest_right_one(pattern):
    """Letters of other tools, minutes for months, parts that are not there."""
    found = pattern_fault(pattern, "DATE")
    assert found
    assert found.partition(": did you mean ")[2].removesuffix("?") == WRONG[pattern]


def test_a_suggestion_is_sound_and_another_pattern():
    """Whatever was written."""
    for pattern in generated(2_000, seed=11):
        if near := pattern_fault(pattern, "DATE").partition(": did you mean ")[2].removesuffix("?"):
            assert near != pattern
            assert pattern_fault(near, "DATE") == "", (pattern, near)


def read_back(spark, patterns):
    """Days that Spark reads from texts of each pattern that it wrote itself; an error is raised.

    Values in the statement's text are computed by the optimizer: hundreds of patterns need no job.
    """
    moments = (f"({quoted(pattern)}, TIMESTAMP '{moment}')" for pattern in patterns for moment in MOMENTS)
    rows = spark.sql(f"SELECT * FROM VALUES {', '.join(moments)} AS t(pattern, at)")
    text = rows.selectExpr("*", "date_format(at, pattern) AS text")
    return text.selectExpr("pattern", "text", "date(at) = date(try_to_timestamp(text, pattern)) AS same").collect()


@pytest.mark.spark
def test_spark_reads_the_days_that_it_wrote_by_every_sound_pattern(spark):
    """No pattern passes that Spark refuses, or by which it reads another day than was written."""
    sound = [each for each in [*SOUND, *generated()] if not pattern_fault(each, "TIMESTAMP") and "[yyyy" not in each]
    assert len(sound) > 80
    assert [(row["pattern"], row["text"]) for row in read_back(spark, sound) if not row["same"]] == []


@pytest.mark.spark
def test_spark_does_not_read_days_by_a_refused_pattern(spark):
    """But where the time is read wrongly and the day is not, or texts tell the day in two ways."""
    refused = [each for each in [*WRONG, *generated()] if pattern_fault(each, "TIMESTAMP")][:160]
    known = {"is an hour of am or pm", "come right after", "twice", "a day of the year", "no sign of a pattern"}
    for pattern in refused:
        if "[" in pattern or any(word in pattern_fault(pattern, "TIMESTAMP") for word in known):
            continue
        try:
            rows = read_back(spark, [pattern])
        except Exception:  # noqa: S112 - Spark refuses the pattern
            continue
        assert not all(row["same"] for row in rows), pattern
