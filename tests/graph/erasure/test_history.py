"""Ids of persons in a run history that lies in PostgreSQL."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from dedp_assets.graph.erasure.history import redact_history
from dedp_assets.graph.erasure.spellings import Spellings

pytestmark = pytest.mark.slow

ADA = 'ada "lovelace"@example.com'
VALUES = [
    f"asked by {ADA}",
    json.dumps({"mail": ADA}),
    ADA.encode().hex(),
    f"x{ADA}",  # another one's: not a word
    "bob@elsewhere.org",
]


@pytest.fixture
def history(database):
    """A table of events, with values as texts and as JSON."""
    with database.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE events (n int, body text, tags json)")
        for number, value in enumerate(VALUES):
            connection.execute("INSERT INTO events VALUES (%s, %s, %s)", (number, value, json.dumps({"of": value})))
    return database


def url_of(history):
    at = f"{history.host}:{history.port}/{history.database}"
    return f"postgresql+psycopg2://{history.user}:{quote(history.password)}@{at}"


def stored(history):
    with history.connect() as connection:
        return connection.execute("SELECT body, tags FROM events ORDER BY n").fetchall()


def test_ids_are_redacted_however_they_are_written(history):
    """In texts and in JSON, each value counted once; what only contains the id as a part stays."""
    assert redact_history(url_of(history), Spellings([ADA])) == 6
    bodies, tags = zip(*stored(history), strict=True)
    assert bodies == ("asked by erased", '{"mail": "erased"}', "erased", VALUES[3], VALUES[4])
    assert [each["of"] for each in tags] == list(bodies)
    assert redact_history(url_of(history), Spellings([ADA])) == 0


def test_ids_too_short_for_a_search_change_nothing(history):
    """No value is one of theirs, and no row is written."""
    before = stored(history)
    assert redact_history(url_of(history), Spellings(["bob"])) == 0
    assert stored(history) == before
