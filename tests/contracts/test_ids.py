"""The ids of both sources: every pattern of the book and every row of the guide has a home, built or to be built."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dedp_assets.patterns.catalog import patterns

FOLDER = Path(__file__).parent / "ids"
SIZES = {"book": 70, "guide": 78}


def rows(source: str) -> list[tuple[str, str, list[str]]]:
    """Id, state and modules of each line."""
    lines = (FOLDER / f"{source}.txt").read_text().splitlines()
    parts = [[part.strip() for part in line.split("|")] for line in lines if not line.startswith("#")]
    return [(named, state, modules.split(", ")) for named, state, modules in parts]


BUILT = {pattern.id for pattern in patterns()}


@pytest.mark.parametrize("source", SIZES)
def test_every_id_of_a_source_is_there_once(source):
    """70 patterns of the book, by module, as a name is there twice; 78 rows of the guide."""
    found = rows(source)
    assert len(found) == SIZES[source]
    assert {state for _, state, _ in found} <= {"built", "partly", "open"}
    identities = [modules[0] if source == "book" else named for named, _, modules in found]
    assert [each for each, count in Counter(identities).items() if count > 1] == []


@pytest.mark.parametrize("source", SIZES)
def test_what_is_said_to_be_built_is_built_and_nothing_else(source):
    """A pattern that is added changes its line from open to built; a home that was not built yet has no module."""
    for named, state, modules in rows(source):
        parts = {each for each in modules if "." in each}
        if state == "built":
            assert parts, named
            assert parts <= BUILT, f"{named} is said to be built, and {parts - BUILT} is not"
        elif state == "partly":
            assert {*modules[1:]} <= BUILT, f"{named} is said to be partly built, and {modules[1:]} is not"
        else:
            assert modules[0] not in BUILT, f"{named} is said to be open, and {modules[0]} is built"
