"""Differential Privacy Sketch."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.governance import differential_privacy_sketch as sketch
from dedp_assets.patterns.governance.differential_privacy_sketch import _Noise, judge_budget, release_counts
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

PAGES = TableSpec(
    "gold/pages", {"day": Column("STRING"), "page": Column("STRING"), "persons": Column("BIGINT")}, ("day",)
)
VISITS = "day STRING, page STRING, user INT"
PLAIN = {"groups": ["day", "page"], "person": "user", "epsilon": 60.0, "budget": 1000.0, "most_groups": 2}
"""So little noise that the counts are the exact ones."""


def visits(spark, day="mon", persons=50):
    """Two pages with many persons, twice each, one with a single person, and rows of nobody."""
    rows = [(day, page, n) for page in "ab" for n in range(persons)] * 2
    return spark.createDataFrame([*rows, (day, "rare", 900), (day, "c", None)], VISITS)


def release(rows, table, day="mon", run="run", **options):
    into = table.target(a_run(table.name, run_id=run), partition={"day": day})
    return release_counts(rows, into, **{**PLAIN, **options})


def stored(table):
    return {(row["day"], row["page"]): row["persons"] for row in read_back(table)}


def test_the_noise_has_the_scale_of_epsilon():
    """Acceptance 1: over 30,000 draws the two-sided geometric distribution, so that neighbours are e**epsilon apart."""
    for noise in (_Noise(0.5, 1e-6, 1), _Noise(1.0, 1e-6, 3)):
        draws = Counter(each - 7 for each in noise.added([7] * 30_000))
        ratio = math.exp(-1 / noise.scale)
        for value in range(-3, 4):
            expected = 30_000 * (1 - ratio) / (1 + ratio) * ratio ** abs(value)
            assert abs(draws[value] - expected) < 6 * math.sqrt(expected)
        assert noise.scale == noise.most_groups / noise.epsilon
        assert noise.added([]) == []


def test_a_group_of_one_person_hardly_ever_appears():
    """Acceptance 3: the smallest count that appears is the first one that noise reaches with less than delta."""
    for noise in (_Noise(0.5, 1e-6, 1), _Noise(1.0, 0.01, 3), _Noise(60, 1e-6, 2)):
        ratio = math.exp(-1 / noise.scale)

        def reached(least, noise=noise, ratio=ratio):
            return noise.most_groups * ratio ** (least - 1) / (1 + ratio)

        assert reached(noise.least) <= noise.delta
        assert reached(noise.least - 1) > noise.delta or noise.least == 2


@pytest.mark.spark
@pytest.mark.both
def test_persons_are_counted_once_and_small_groups_do_not_appear(spark, make_table):
    """Acceptance 3: a person's second row, and rows of nobody, change nothing; a person counts in few groups."""
    table = make_table(PAGES)
    done = release(visits(spark), table)
    assert stored(table) == {("mon", "a"): 50, ("mon", "b"): 50}
    assert (done.figures["groups hidden"], done.figures["scale"]) == (1, 2 / 60)
    assert done.figures["least count"] == 2
    few = make_table(TableSpec("gold/few", PAGES.columns, ("day",)))
    release(visits(spark), few, most_groups=1)
    bounded = stored(few)
    assert sum(bounded.values()) == 50, "each of the 50 persons counts in one of the two pages"
    assert len(bounded) == 2


@pytest.mark.spark
def test_a_release_is_debited_in_its_commit_and_an_exhausted_budget_refuses(spark, make_table):
    """Acceptance 2: over partitions, as a person may be in each; what is refused leaves no trace, and costs nothing."""
    table = make_table(PAGES)
    budget = {"epsilon": 40.0, "budget": 100.0}
    for day, spent in (("mon", 40), ("tue", 80)):
        done = release(visits(spark, day), table, day, **budget)
        record = table.ledger.commit(done.version).record
        assert record.notes["private"]["figures"]["spent"] == done.figures["spent"] == spent
        assert record.notes["private"]["place"] == {"day": day}
    before = table.ledger.version()
    with pytest.raises(
        ContractError, match="the budget of 100 has 20 left, and a release costs 40: nothing was released"
    ):
        release(visits(spark, "wed"), table, "wed", **budget)
    assert table.ledger.version() == before
    left = judge_budget(table, budget=100.0, warn_left=40)
    assert (left.passed, left.severity, left.figures) == (False, "warn", {"spent": 80, "left": 20})
    assert release(visits(spark, "wed"), table, "wed", epsilon=20.0, budget=100.0).figures["spent"] == 100
    assert judge_budget(table, budget=100.0).passed
    assert judge_budget(make_table(TableSpec("gold/none", PAGES.columns)), budget=1.0).figures["left"] == 1


@pytest.mark.spark
def test_a_rerun_returns_what_was_released_and_not_new_noise(spark, make_table):
    """Acceptance 4: also by another run, with more rows, and after maintenance; the budget stays as it is."""
    table = make_table(PAGES)
    noisy = {"epsilon": 1.0, "budget": 1.5}
    first = release(visits(spark), table, **noisy)
    held = stored(table)
    DeltaTable(str(table.location)).optimize.compact()
    for run in ("run", "another"):
        again = release(visits(spark, persons=80), table, run=run, **noisy)
        assert (again.applied, again.changed) == (False, False)
        assert again.figures["spent"] == first.figures["spent"] == 1.0
        assert f"released at version {first.version}" in again.reason
    assert stored(table) == held
    DeltaTable(str(table.location)).restore(0)
    with pytest.raises(ContractError, match=r"has 0\.5 left"):
        release(visits(spark), table, **noisy)


@pytest.mark.spark
def test_two_releases_at_once_do_not_overdraw_the_budget(spark, make_table, monkeypatch):
    """Acceptance 2: both saw enough left; one is refused as a conflict, and on its next attempt by the budget."""
    table, noisy = make_table(PAGES), sketch._noisy
    budget = {"epsilon": 40.0, "budget": 60.0}

    def overtaken(*given):
        with monkeypatch.context() as inner:
            inner.setattr(sketch, "_noisy", noisy)
            # No page of the day has enough visitors, and that is told, too.
            release(visits(spark, "tue", persons=1), table, "tue", run="other", **budget)
        return noisy(*given)

    with monkeypatch.context() as patched:
        patched.setattr(sketch, "_noisy", overtaken)
        with pytest.raises(Conflict):
            release(visits(spark), table, **budget)
    assert stored(table) == {}
    with pytest.raises(ContractError, match="has 20 left"):
        release(visits(spark), table, **budget)


@pytest.mark.spark
def test_a_log_that_forgot_what_was_spent_takes_no_release(spark, make_table):
    """Acceptance 2: nothing is assumed of a budget that nobody can read any more."""
    table = make_table(PAGES)
    release(visits(spark), table)
    run = a_run(table.name, run_id="other")
    table.overwrite(table.read(), provenance=run)
    DeltaTable(str(table.location)).create_checkpoint()
    for version in range(table.ledger.version()):
        (table.location / f"_delta_log/{version:020d}.json").unlink()
    again = make_table(PAGES)
    with pytest.raises(ContractError, match="with it what was spent of the budget: nothing was released; keep the log"):
        release(visits(spark, "tue"), again, "tue")
    with pytest.raises(ContractError, match="is gone"):
        judge_budget(again, budget=1.0)


@pytest.mark.spark
def test_bounds_that_protect_nobody_and_columns_that_do_not_fit_are_refused(spark, make_table):
    """By name, before anything is written."""
    table, rows = make_table(PAGES), visits(spark)
    for options, match in (
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"budget": 1.0}, "budget must be at least the epsilon of one release, 60, not 1"),
        ({"delta": 0}, "delta must be above 0 and below 0.5"),
        ({"delta": 0.5}, "delta must be above 0"),
        ({"most_groups": 0}, "most_groups must be from 1 to 1,000, not 0"),
        ({"groups": ["day", "nobody"]}, "no column nobody"),
        ({"groups": ["day"]}, "gold/pages must declare the columns of groups and one BIGINT for the persons"),
        ({"groups": ["day", "page", "user"]}, "groups and person names user twice"),
        ({"groups": []}, "groups and person must name columns"),
    ):
        with pytest.raises(ConfigError, match=match):
            release(rows, table, **options)
    assert not table.ledger.exists()
    with pytest.raises(ConfigError, match="budget and warn_left must be"):
        judge_budget(table, budget=0)


@any_names(STORED)
def released(n):
    rows = n.frame("day STRING, page STRING, user INT", *[("mon", "a", each) for each in range(9)])
    table = n.table("day STRING, page STRING, persons BIGINT", by=["day"])
    into = table.target(a_run(), partition={n("day"): "mon"})
    release_counts(rows, into, groups=n.all("day", "page"), person=n("user"), epsilon=60.0, budget=60.0)
    yield table


@known_calls
def calls_that_work(known):
    table = known.table("gold/released", "page STRING, persons BIGINT")
    of = {"groups": ["page"], "person": "user", "epsilon": 1.0, "budget": 10.0, "most_groups": 1, "delta": 1e-6}
    return {
        "release_counts": {"rows": known.visits, "into": table.target(known.run), **of},
        "judge_budget": {"table": table, "budget": 10.0, "warn_left": 1.0},
    }


@two_runs()
def released_at_once(world):
    columns = "day STRING, page STRING, user INT"
    world.table("pages", "day STRING, page STRING, persons BIGINT", by=["day"]).ensure()

    def run(name, day):
        def released(w):
            rows = w.frame(columns, *[(day, "a", each) for each in range(9)])
            release_counts(rows, w.into("pages", name, day), **PLAIN)

        return released

    yield run("1", "mon")
    yield run("2", "tue")
