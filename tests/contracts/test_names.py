"""A column's name is the user's own: a pattern does the same whatever its columns are called."""

from __future__ import annotations

import re

import pytest
from hypothesis import settings

from dedp_assets.patterns import catalog
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.delta import Table
from tests.contracts.renamed_examples import NotThePattern, RenamedExample
from tests.contracts.test_patterns import pattern_file
from tests.renaming import MAPPED, STORED, Renaming, marked_uses
from tests.rotation import rotated

pytestmark = [pytest.mark.spark, pytest.mark.budget(110, "every use of every pattern three times")]

FUZZ = settings.get_current_profile_name() == "fuzz"
STATED = marked_uses()
USES = [pytest.param(use, id=use.use.__name__) for uses in STATED.values() for use in uses]
"""Uses of patterns that stand beside their tests: with more options than the example in the header shows."""


EXAMPLES = {p.id: RenamedExample(p) for p in catalog.patterns() if pattern_file(p) not in STATED}
EXAMPLES = {name: example for name, example in EXAMPLES.items() if example.tried}
"""The examples of all other patterns that have columns."""


class Doubling(Renaming):
    """Plain names, of which the n-th list of columns has its first one twice."""

    def __init__(self, *args, twice=0, **options):
        super().__init__("", *args, **options)
        self.twice, self.lists, self._label = twice, 0, f"twice{twice}"

    def all(self, *names):
        found = super().all(*names)
        self.lists += 1
        again = found[0].upper() if self.twice % 2 else found[0]
        return [*found, again] if self.lists == self.twice else found


@pytest.fixture(scope="module")
def plainly(spark):
    """What a use gives under plain names, and its names: it is run once for all tests."""
    known = {}

    def ran(use, make_table, folder):
        if use not in known:
            names = Doubling(spark, make_table, folder)
            known[use] = names, [names.rows(part) for part in use.use(names)]
        return known[use]

    return ran


@pytest.mark.promise("a-pattern-does-the-same")
@pytest.mark.parametrize("use", USES)
def test_a_pattern_does_the_same_whatever_its_columns_are_called_and_hold(spark, make_table, tmp_path, plainly, use):
    """Under odd names, and words that SQL or the library use themselves, the rows are those of plain names.

    So they are if options have the names in capitals, and what is handed on is a map, which nothing can compare.
    """
    _, expected = plainly(use, make_table, tmp_path)
    other = Renaming(use.odd, spark, make_table, tmp_path, use.handed_on, shout=True)
    assert any(expected)
    assert [other.rows(part) for part in use.use(other)] == expected


TROUBLES = [
    pytest.param(use.values[0], trouble, id=f"{use.id}-{trouble}")
    for number, use in enumerate(USES)
    if use.values[0].odd != MAPPED
    for trouble in rotated(number, ["a map", "twice"])
]


@pytest.mark.parametrize(("use", "trouble"), TROUBLES)
def test_a_map_is_refused_and_a_column_named_twice_counts_once(spark, make_table, tmp_path, plainly, use, trouble):
    """A map by the name of its column, or of the measure that is of it; a doubled column may be refused by name, too.

    Here the map is in one of the columns, and the doubled name in one of the lists of a use; in `make fuzz` in each.
    """
    plain, expected = plainly(use, make_table, tmp_path)
    if trouble == "a map":
        columns = sorted(plain.columns_used - {*use.handed_on, *use.read_as_json})
        for name in columns if FUZZ else columns[:1]:
            holding = Renaming("", spark, make_table, tmp_path, [name])
            with pytest.raises(PatternError, match=_named(name)):
                [holding.rows(part) for part in use.use(holding)]
        return
    first_or_last = plain.lists if plain.lists % 2 else min(1, plain.lists)
    for place in range(1, plain.lists + 1) if FUZZ else {first_or_last} - {0}:
        doubling = Doubling(spark, make_table, tmp_path, twice=place)
        try:
            found = [doubling.rows(part) for part in use.use(doubling)]
        except PatternError as error:
            found = str(error)
        names = "|".join(map(re.escape, doubling.plain))
        assert found == expected or re.search(rf"(?<![a-z])({names})(?![a-z]).* twice", str(found)), (place, found)


@pytest.mark.parametrize("pattern", EXAMPLES)
def test_an_example_does_the_same_whatever_its_columns_are_called_and_hold(request, spark, tmp_path, pattern):
    """A pattern without a use of its own takes odd names in capitals as well, and keeps a map or refuses it by name."""
    example = EXAMPLES[pattern]

    def results(odd="", wrapped=(), **options):
        root = tmp_path / "-".join(["odd" if odd else "plain", *wrapped])
        make = lambda spec: Table(spec, root / spec.name, spark)  # noqa: E731
        renaming = Renaming(odd, spark, make, root, wrapped, **options)
        return example.results(renaming, request)

    assert results(STORED, shout=True, words=False) == example.stated
    for name in sorted(example.columns):
        found = _refusal_or(results, wrapped=[name])
        refused = isinstance(found, str) and re.search(_named(name), found)
        assert refused or found in (example.stated, None), (name, found)


def _refusal_or(results, **options):
    """What comes out, or the words of a refusal; nothing, if the example itself does what a map does not allow."""
    try:
        return results(**options)
    except PatternError as error:
        return str(error)
    except NotThePattern:
        return None


def _named(name):
    return f"(?<![a-z]){name}(?![a-z])|^measure pages "
