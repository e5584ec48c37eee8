"""Reasons of dead letters: a refusal says why records are dead, whatever writes them and whatever is wrong."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed
from dedp_assets.patterns.core.parsing.json_fields import shape
from dedp_assets.patterns.core.results import LetterReason
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.staging.letter_reasons import summed_up
from dedp_assets.patterns.error_management.dead_letter import LETTER, divert_unprocessable, route
from dedp_assets.patterns.ingestion.full_loader import load_full
from tests.helpers import a_run

CANARY = "ada.lovelace"
WRONG = {
    "BIGINT": "1.5", "INT": "3000000000", "SMALLINT": "x", "BOOLEAN": "yes", "DATE": "25/07/2026", "DOUBLE": "2,5",
    "TIMESTAMP": "25/07/2026 10:00", "DECIMAL(5,2)": "1.234", "BINARY": "?", "ARRAY<INT>": ["x"],
    "STRUCT<a: INT>": {"a": "x"},
}  # fmt: skip
"""SQL type -> a value that is none of it."""
COLUMNS = {f"c.{number}": kind for number, kind in enumerate(WRONG)}
SECRETS = {"password": f"{CANARY} 1", "link": f"https://ada:{CANARY}@{'x' * 40}/?token={CANARY}"}
"""Columns that are not personal -> secrets in them, also where the mark of a secret is cut off."""
SCHEMA = {"mail": "STRING", **dict.fromkeys(SECRETS, "STRING"), **COLUMNS}
DATASET = TableSpec(
    "silver/things",
    {
        "n": Column("BIGINT"),
        "mail": Column("STRING", classification="personal"),
        **{name: Column(kind) for name, kind in (SCHEMA | {"mail": ""}).items() if kind},
        "was_dead_lettered": Column("BOOLEAN"),
    },
)
LETTERS = TableSpec("silver/things_dead_letter", {"n": Column("BIGINT"), "raw": Column("STRING"), **LETTER})
FEW = Audit(name="dead_letters_are_few", of="dead", per="read", fail_above=0.1, approvable=True)
WRITES = {
    "the letters with their rows": route,
    "the rows alone": lambda split, into, _: load_full(split, into),
    "no pattern": lambda split, into, _: into.stage(split).publish(),
}


def records():
    """The n-th type is wrong in n records, each with personal data in a known, an unknown and no field, and secrets."""
    made = [
        json.dumps({"mail": f"{CANARY}@{kind}", **SECRETS, name: WRONG[kind], "note": [CANARY]})
        for number, (name, kind) in enumerate(COLUMNS.items(), start=1)
        for _ in range(number)
    ]
    return [*made, *[f"{{{CANARY}"] * 20]


@pytest.mark.spark
@pytest.mark.parametrize("write", WRITES)
def test_a_refusal_names_the_most_frequent_reasons_with_counts_and_a_masked_record(spark, make_table, write):
    """Of every type, with the shape of the value that does not fit; no personal or unknown value, no secret."""
    rows = spark.createDataFrame(list(enumerate(records())), "n BIGINT, raw STRING")
    split = divert_unprocessable(rows, payload="raw", identity=["n"], schema=SCHEMA)
    run = a_run(DATASET.name)
    into, dead = make_table(DATASET).target(run, audits=[FEW]), make_table(LETTERS).target(run)
    with pytest.raises(AuditFailed) as refused:
        WRITES[write](split, into, dead)
    expected, examples = Counter({"malformed JSON": 20}), {"malformed JSON": "'{aaa.aaaaaaaa' at"}
    for number, (name, kind) in enumerate(COLUMNS.items(), start=1):
        inner, of = {"ARRAY<INT>": ("[0]", "INT"), "STRUCT<a: INT>": (".a", "INT")}.get(kind, ("", kind))
        reason = f"{name}{inner} is not a {of}"
        expected[reason], examples[reason] = number, f"{{{name}: {_shown(WRONG[kind])}, mail: 'aaa."
    found = {each.reason: each.letters for each in refused.value.letters}
    assert found == dict(expected.most_common(10))
    assert all(each.example.startswith(f"such as {examples[each.reason]}") for each in refused.value.letters)
    (finding,) = [each for each in refused.value.findings if each.name == FEW.name]
    assert "20 of 86 dead letters: malformed JSON, such as" in str(refused.value)
    assert finding.note in str(refused.value).replace(" (dead=86, read=86, ratio=1)", "")
    assert CANARY not in f"{refused.value} {refused.value.findings} {refused.value.letters}"


def _shown(value):
    return repr(shape(value)) if isinstance(value, str | list | dict) else json.dumps(value)


@pytest.mark.parametrize("number", ["2,5", "-1.200,50", ",5"])
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "DECIMAL(10,2)"])
def test_a_sentence_asks_for_the_decimal_comma(kind, number):
    """Of a number that has one, and of no other text."""
    sentences = [
        summed_up([LetterReason(f"x is not a {kind}", 1, f"such as {{x: {text!r}, y: '1,5'}} at n 1")], of=1)
        for text in (number, "n/a")
    ]
    assert ["(has the format decimal: ','?), such as" in sentence for sentence in sentences] == [True, False]


def test_a_sentence_asks_for_the_format_of_times_and_counts_what_it_leaves_out():
    """Three reasons are enough to begin with."""
    letters = [
        LetterReason("at is not a TIMESTAMP", 3, "such as {at: 'x'}"),
        *[LetterReason("x", 1, "such as 'y'")] * 4,
    ]
    sentence = summed_up(letters, of=7)
    assert sentence.startswith(
        "3 of 7 dead letters: at is not a TIMESTAMP (does the column's format fit?), such as {at: 'x'}; "
    )
    assert sentence.endswith("; and 2 more reasons")
