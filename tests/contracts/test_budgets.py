"""Budgets of test files: what a file took of one core in a run of all tests is held against its own, or the usual."""

from __future__ import annotations

import ast

from _pytest.reports import CollectReport

from dedp_assets.graph.resources.environments import CHECKOUT
from tests.running import WITH_DAEMONS
from tests.timing import Budgets, refused

TESTS = sorted((CHECKOUT / "tests").rglob("test_*.py"))


def test_a_file_that_took_half_more_than_its_budget_is_refused_by_name():
    """In each kind of run of all tests, the worst one first; a file a little over its budget is not."""
    noted = {
        "-m 'spark'": {"tests/a.py": [30.1, 20], "tests/b.py": [29.9, 20], "tests/c.py": [200.0, 150]},
        "-m 'both'": {"tests/a.py": [1.0, 20], "tests/b.py": [31.0, 20]},
    }
    assert refused(noted) == [
        "   31.0 s of one core, budget 20: tests/b.py (-m 'both')",
        "   30.1 s of one core, budget 20: tests/a.py (-m 'spark')",
    ]
    assert refused({}) == []


def test_all_files_have_a_budget_together():
    """Files within their budgets may be too many."""
    noted = {marks: {f"tests/{n}.py": [19.0, 20] for n in range(80)} for marks in ("-m 'spark'", "-m 'both'")}
    assert refused(noted) == [" 3040.0 s of one core, budget 3000: all files"]
    assert refused({"-m 'spark'": noted["-m 'spark'"]}) == []


def test_a_budget_of_a_files_own_is_of_the_whole_file_and_has_a_reason():
    """It stands in the file, once, above its tests."""
    texts = {path: path.read_text() for path in TESTS}
    stated = {path for path, text in texts.items() if "mark.budget(" in text.replace('"mark.budget("', "")}
    assert stated
    for path in stated:
        body = ast.parse(texts[path]).body
        nodes = [n for n in body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "pytestmark"]
        calls = [
            n for one in nodes for n in ast.walk(one) if isinstance(n, ast.Call) and "budget" in ast.unparse(n.func)
        ]
        (seconds, reason), *more = [[ast.literal_eval(arg) for arg in call.args] for call in calls]
        assert (more, texts[path].count("mark.budget(")) == ([], 1), path
        assert seconds > 20, path
        assert len(reason.split()) > 3, path


def test_a_report_without_a_charge_is_not_added(pytestconfig):
    """So reports pytest-xdist the test during which its process died: a failed test, and the run goes on."""
    budgets = Budgets(pytestconfig)
    budgets.pytest_runtest_logreport(CollectReport("tests/a.py::test_b", "failed", longrepr=None, result=None))
    assert not budgets.charged


def test_files_with_daemons_are_there():
    """One process of a run of all tests runs them in turn; a name of a file that moved would let two run at once."""
    assert {path.relative_to(CHECKOUT).as_posix() for path in TESTS} >= WITH_DAEMONS
