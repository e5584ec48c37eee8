"""Pages of the decision trees: a table for each question, from the data that :func:`choose` follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dedp_assets.patterns.catalog import Pattern
from dedp_assets.patterns.choosing import TREES, Advice, Question
from docs.site.pages import Page, fenced, table
from docs.site.pattern_pages import path_of, title_of

__all__ = ["TITLES", "tree_pages"]

TITLES = {
    "latency": "How fresh must a row be?",
    "changes": "How are changes followed?",
    "reliability": "What may go wrong, and what happens then?",
    "cost": "What may it cost?",
}


def tree_pages(patterns: Mapping[str, Pattern]) -> Iterator[Page]:
    """Yield a page for each tree."""
    for tree, questions in TREES.items():
        parts = [f"# {TITLES[tree]}\n", *(_question(each, patterns) for each in questions), _call(questions[0])]
        yield Page(f"choose/{tree}.md", TITLES[tree], "\n".join(parts))


def _question(question: Question, patterns: Mapping[str, Pattern], after: str = "") -> str:
    """Write a question, and below it the questions that its answers lead to."""
    rows = [(f"`{_answer(each)}`", each.means, each.advice, _links(each, patterns)) for each in question.branches]
    head = (f"`{question.name}`", "means", "then", "patterns")
    begun = f"Asked after {after}.\n\n" if after else ""
    parts = [f"## {question.asks}\n\n{begun}{table(head, rows)}"]
    for each in dict.fromkeys(follow for branch in question.branches for follow in branch.then):
        answers = [f"`{branch.answer}`" for branch in question.branches if each in branch.then]
        parts.append(_question(each, patterns, ", ".join(answers)))
    return "\n".join(parts)


def _answer(branch: Advice) -> str:
    """Write an answer as a call states it: a word, or the numbers below a bound."""
    if isinstance(branch.answer, str):
        return branch.answer
    return "any other" if branch.answer == float("inf") else f"< {branch.answer:g}"


def _links(branch: Advice, patterns: Mapping[str, Pattern]) -> str:
    return ", ".join(f"[{title_of(patterns[each])}](../{path_of(patterns[each])})" for each in branch.patterns)


def _call(question: Question) -> str:
    """Write a call of the function that follows the tree."""
    first = question.branches[0]
    answer = f'"{first.answer}"' if isinstance(first.answer, str) else f"{float(first.answer) / 2:g}"
    lines = [
        "from dedp_assets.patterns.choosing import choose",
        "",
        f'(chosen,) = choose({{"{question.name}": {answer}}})',
        f'assert chosen.patterns[0] == "{first.patterns[0]}"',
    ]
    return f"## The same in Python\n\n{fenced(chr(10).join(lines), 'python')}"
