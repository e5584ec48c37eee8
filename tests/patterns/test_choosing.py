"""Choosing patterns: each way through a tree, each bound, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan

import pytest

from dedp_assets.patterns.catalog import patterns
from dedp_assets.patterns.choosing import TREES, Advice, Question, choose
from dedp_assets.patterns.core.errors import ConfigError

KNOWN = {pattern.id for pattern in patterns()}


def ways(questions: tuple[Question, ...]) -> Iterator[tuple[dict[str, str | float], Advice]]:
    """Every way from the root of a tree to an answer: the answers in the call, and the last branch."""
    for question in questions:
        below = 0.0
        for branch in question.branches:
            answer = branch.answer
            here = {question.name: answer if isinstance(answer, str) else below}
            yield here, branch
            below = answer if isinstance(answer, (int, float)) else below
            yield from (({**here, **more}, end) for more, end in ways(branch.then))


WAYS = [(tree, answers, end) for tree, questions in TREES.items() for answers, end in ways(questions)]


@pytest.mark.parametrize(("tree", "answers", "end"), WAYS)
def test_each_way_leads_to_its_advice(tree, answers, end):
    """Every leaf is reached by its answers, the least number of a bound included, and names patterns that exist."""
    found = choose(answers)
    assert len(found) == len(answers)
    last = next(each for each in found if each.advice == end.advice)
    assert (last.tree, last.patterns) == (tree, end.patterns)
    assert last.because.endswith(end.means)
    assert end.patterns
    assert {*end.patterns} <= KNOWN


@pytest.mark.parametrize(
    ("name", "number", "first"),
    [
        ("fresh_seconds", 0.999, "value.stateful_sessionizer"),
        ("fresh_seconds", 1, "error_management.checkpointer"),
        (
            "fresh_seconds",
            45,
            "error_management.checkpointer",
        ),  # a gap of the rule: the faster side still meets the need
        ("fresh_seconds", 60, "ingestion.incremental_loader"),
        ("fresh_seconds", 1_800, "ingestion.incremental_loader"),  # the other gap
        ("fresh_seconds", 3_600, "idempotency.data_overwrite"),
        ("queries_per_day", 9, "storage.horizontal_partitioner"),
        ("queries_per_day", 10, "storage.dataset_materializer"),
        ("queries_per_day", 50 * 24, "storage.dataset_materializer"),  # 50 an hour is not frequent
        ("queries_per_day", 100 * 24, "modeling.dimensional_mart"),
        ("retention_days", 29, "governance.retention_policy"),
        ("retention_days", 90, "cost.storage_tiering"),
        ("retention_days", 365, "cost.storage_tiering"),
    ],
)
def test_a_number_on_a_bound_has_one_answer(name, number, first):
    """Below a bound and on it; also where a rule of thumb says nothing."""
    (found,) = choose({name: number})
    assert found.patterns[0] == first


def test_more_than_a_year_needs_an_archive():
    """The day after the last bound."""
    advice = {days: choose({"retention_days": days})[0].advice for days in (365, 366)}
    assert len({*advice.values()}) == 2


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"fresh_seconds": -1}, "fresh_seconds must be a number from 0 on, not -1"),
        ({"fresh_seconds": nan}, "fresh_seconds must be a number from 0 on, not nan"),
        ({"fresh_seconds": inf}, "fresh_seconds must be a number from 0 on, not inf"),
        ({"fresh_seconds": "soon"}, "fresh_seconds must be a number from 0 on, not 'soon'"),
        ({"first": "both"}, "first must be one of speed, cost, not 'both'"),
        ({"history": "latest"}, "asked after the other answers, not history"),
        ({"changes": "none", "history": "latest"}, "asked after the other answers, not history"),
        ({"colour": "red"}, "asked after the other answers, not colour"),
    ],
)
def test_an_answer_that_leads_nowhere_is_refused(answers, sentence):
    """With the answers that there are; a question that is not asked after the others is named."""
    with pytest.raises(ConfigError, match=sentence):
        choose(answers)


def test_no_answers_choose_nothing():
    """Nobody asked."""
    assert choose({}) == ()


def test_a_question_has_one_name_and_rising_bounds():
    """A name is one question of all trees; bounds rise, and the last one lets every number in."""
    named: dict[str, Question] = {}
    for questions in TREES.values():
        waiting = list(questions)
        while waiting:
            question = waiting.pop()
            assert named.setdefault(question.name, question) is question
            bounds = [branch.answer for branch in question.branches if not isinstance(branch.answer, str)]
            assert bounds == sorted(set(bounds))
            assert not bounds or bounds[-1] == inf
            waiting += [each for branch in question.branches for each in branch.then]
