"""CONTRIBUTING's examples, added to a copy of the project: a table and a pattern cost a module and a test each."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment
from tests.contracts.examples_alone import NEW

pytestmark = pytest.mark.budget(110, "a copy of the project passes its contracts")

EXAMPLE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with the files of the examples, and nothing else changed."""
    root = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(CHECKOUT, root, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    examples = EXAMPLE.findall((CHECKOUT / "CONTRIBUTING.md").read_text())
    assert len(examples) == 4
    for name, text in examples:
        assert not (root / name).exists(), name
        (root / name).write_text(text)
    return root


def checked(root: Path, *command: str) -> None:
    program = Path(sys.executable).parent / command[0]
    environment = child_environment({"PYTHONPATH": str(root), "DEDP_HOME": str(root / ".dedp")})
    done = subprocess.run(
        [str(program), *command[1:]], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_examples_pass_format_lint_and_import_contracts(copy):
    """Whoever copies them has nothing to mend."""
    checked(copy, "ruff", "format", "--check", "--quiet", ".")
    checked(copy, "ruff", "check", "--quiet", ".")
    checked(copy, "lint-imports", "--no-cache")


@pytest.mark.slow
def test_the_examples_work_and_pass_all_contracts(copy, spark):
    """Their own tests pass, the new table follows late visits; and they look like any pattern and table.

    Of the contracts that run Spark, the example is tried by the rerun law, if it writes; the other patterns are tried
    without it. Contracts that look at no table and no pattern say of the copy what they say of the project.
    """
    apart = [f"--ignore=tests/contracts/test_{each}.py" for each in ("calendars", "changed", "ways_out", "wheel")]
    checked(
        copy, "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.contracts.examples_alone", "-m", "not slow",
        *apart, "-k", f"not spark or {' or '.join(NEW)}",
        "tests/contracts", "tests/patterns/quality/test_null_reporter.py",
        "tests/case_study/assets/test_visits_completeness.py",
    )  # fmt: skip
