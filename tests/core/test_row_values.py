"""Row values in error texts: no engine's sentence shows one, and the sentence stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.row_values import without_row_values
from dedp_assets.patterns.core.secret import masked

CANARY = "Zwölfender"
FORMS = {
    "a cast of Spark": ('The value \'{}\' of the type "STRING" cannot be cast to "INT"', "cast to"),
    "a time of Java": ("java.time.DateTimeParseException: Text '{}' could not be parsed at index 0", "at index 0"),
    "a number of Java": ('For input string: "{}"', "For input string"),
    "a map of Spark": ("[DUPLICATED_MAP_KEY] Duplicate map key {} was found, please check", "please check"),
    "a record of Spark": ("Malformed records are detected in record parsing: [null,{}]. Parse Mode", "Parse Mode"),
    "a constraint of Delta": ("violated by row with values:\n - a : -1\n - email : {}\nat x", "row with values"),
    "a number of Python": ("ValueError: invalid literal for int() with base 10: '{}'", "with base 10"),
    "a time of Python": ("time data '{}' does not match format '%Y'", "does not match format '%Y'"),
    "an array of Arrow": ("Could not convert '{}' with type str: tried to convert to int64", "tried to convert"),
    "a key of PostgreSQL": ("DETAIL:  Key (email, id)=({}, 5) already exists.", "Key (email, id)"),
    "a row of PostgreSQL": ("DETAIL:  Failing row contains (1, {}, null).", "Failing row contains"),
    "a column of PostgreSQL": ('CONTEXT:  COPY users, line 1, column email: "{}"', "column email"),
}  # fmt: skip
VALUES = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize("form", FORMS)
@given(before=VALUES, behind=VALUES.filter(lambda text: not {*"'\""} & {*text}))
def test_no_value_is_shown_and_the_sentence_stays(form, before, behind):
    """Alone, as a text within a text, and by the mask of all texts that leave."""
    text, kept = FORMS[form]
    quotes = "'\"" if "{}'" in text or '{}"' in text else ""
    value = f"{before.translate(dict.fromkeys(map(ord, quotes)))}{CANARY}{behind}"
    alone = text.format(value)
    for made in (alone, json.dumps(alone, ensure_ascii=False), f"a\n{alone}\nb"):
        found = without_row_values(made)
        assert CANARY not in found
        assert kept in found or json.dumps(kept, ensure_ascii=False)[1:-1] in found
    assert CANARY not in masked(alone)


@pytest.mark.parametrize("text", [
    "gold/sales: 3 values of amount are no DOUBLE", "the value of the setting could not be read",
    "Key (email) is missing", "Text is required", 'column a has the type "STRING", not "INT"',
])  # fmt: skip
def test_a_sentence_without_a_value_stays(text):
    """Of this library, and of others."""
    assert without_row_values(text) == text
