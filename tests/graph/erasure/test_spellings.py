"""Spellings: an id is found however it is written, and nothing else is."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.erasure.spellings import GONE, Spellings

ADA = "ada.lovelace@example.com"
WAYS = {
    "plain": ADA,
    "of JSON": json.dumps({"mail": ADA}),
    "of JSON in JSON": json.dumps(json.dumps({"mail": ADA})),
    "of HTML": f"<td>{html.escape(ADA)}</td>",
    "of a URL": f"https://example.com/?m={quote_plus(ADA)}&n=1",
    "of a path": f"/users/{quote(ADA, safe='')}/x",
    "hexadecimal": ADA.encode().hex(),
    **{f"Base64 after {n} bytes": base64.b64encode(b"x" * n + ADA.encode() + b"y").decode() for n in range(4)},
    "Base64 of URLs": base64.urlsafe_b64encode(b"~?" + ADA.encode()).decode(),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_id_is_found_however_it_is_written(way):
    """And is not there afterwards."""
    spellings = Spellings([ADA])
    assert spellings.found(WAYS[way].encode()) == 1
    without = spellings.without(WAYS[way].encode())
    assert GONE in without
    assert spellings.found(without) == 0


@pytest.mark.parametrize("text", ["xada.lovelace@example.com", "ada.lovelace@example.com5", "ada.lovelace@example"])
def test_a_longer_word_is_another_id(text):
    """The id of somebody else may begin like this one."""
    assert Spellings([ADA]).found(text.encode()) == 0


def test_an_id_of_few_letters_is_not_searchable_in_texts():
    """It stands in them by chance: as a number, or as a part of a name."""
    spellings = Spellings(["u3", "7"])
    assert spellings.searchable == []
    assert spellings.found(b'{"user": "u3", "count": 7}') == 0


def test_a_row_may_name_an_id_of_few_letters():
    """As a word of its own; a number of few digits stands in rows by chance."""
    spellings = Spellings(["u3", "7", ADA])
    assert spellings.may_name(b"7000,2026-01-07T00:00:00Z,u3,30.00")
    assert spellings.may_name(ADA.encode())
    assert not spellings.may_name(b'{"user": "u31", "count": 7}')


def test_an_id_of_few_letters_is_found_in_the_fields_that_hold_ids():
    """At any depth, as a text or as a number, and in no other field."""
    spellings = Spellings(["7"], {"user_id": ["7"]})
    lines = [
        b'{"user_id": 7, "count": 1}\n',
        b'{"visit": {"user_id": "7"}}\n',
        b'{"user_id": 8, "count": 7}\n',
        b"[7]\n",
    ]
    kept, gone = spellings.without_lines(b"".join(lines))
    assert (kept, gone) == (lines[2] + lines[3], 2)


@given(
    st.lists(
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
    )
)
def test_lines_of_others_stay_byte_for_byte(texts):
    """Whatever their letters, and with or without an end of the last line."""
    lines = [text.encode() for text in texts if "ada" not in text]
    content = b"\n".join([*lines, ADA.encode()])
    kept, gone = Spellings([ADA]).without_lines(content)
    assert kept == b"".join(line + b"\n" for line in lines)
    assert gone == 1
