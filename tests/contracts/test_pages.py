"""Every line behind a prompt of the documentation is typed as it stands: on the demo's lake, or in a new project."""

from __future__ import annotations

import importlib
import inspect
import io
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from dagster_dg_cli.cli import cli as dg

from dedp_assets.case_study.defs.gold import daily_visitors
from dedp_assets.cli import main
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.project import Project
from tests.case_study.assets.conftest import world_in
from tests.written import blocks, typed

pytestmark = pytest.mark.budget(80, "the demo, and every command of the pages on its lake")

ON_THE_DEMO = (
    "docs/plan.md",
    "docs/explain.md",
    "docs/how_to/backfill.md",
    "docs/how_to/letters.md",
    "docs/how_to/refused.md",
    "docs/how_to/restore.md",
    "docs/alerts.md",
    "docs/run_history.md",
    "docs/buckets.md",
    "docs/erasure.md",
)
"""Pages whose lines are typed one after the other where the demo was played, each page after those before it."""
IN_A_PROJECT = ("docs/how_to/late_data.md", "docs/own_files_in_yaml.md", "docs/own_table_in_yaml.md")
"""Pages whose lines are typed in a project of `dedp new`."""
FIRST = ("docs/checkout.md", "docs/own_project.md")
"""Pages whose lines play the demo and make the project."""
WHOLE = {
    "README.md": "tests/contracts/test_readme_example.py::"
    "test_what_is_typed_ends_with_the_rows_and_the_refusal_that_the_readme_shows",
    "docs/how_to/first_hour.md": "tests/laptop/test_first_hour.py::test_the_page_of_the_first_hour_is_the_hour",
}
"""Page -> the test that types all of it."""
ELSEWHERE = {
    r"pip install 'dedp\[local\]'": "tests/contracts/test_wheel.py::test_a_new_project_is_right_and_loads",
    r"dedp up": "tests/laptop/test_first_hour.py::test_the_page_of_the_first_hour_is_the_hour",
    r"make up|DEDP_REGISTRY=own make up": "tests/laptop/test_processes.py::"
    "test_up_says_where_everything_is_once_it_answers",
    r"make up LAKE=s3( CLUSTER=2)?": "tests/laptop/test_scale_out.py::"
    "test_tables_in_a_bucket_are_computed_by_executors",
    r"DEDP_LAKE=s3 dedp status|make demo LAKE=s3( CLUSTER=2)?": "tests/laptop/servers/test_s3.py::"
    "test_commands_at_once_share_a_server_and_a_later_one_finds_the_objects",
    r"dedp work --steps 5": "tests/case_study/assets/test_work.py::test_the_workload_of_the_readme_ends_green",
    r"dedp history --to own": "tests/laptop/orchestration/test_history.py::"
    "test_a_history_is_the_same_in_postgresql_and_back_in_sqlite",
    r"curl .*/erasures.*": "tests/case_study/assets/test_erasure_by_http.py::"
    "test_a_person_is_gone_after_a_request_and_an_approval_by_http",
    r"DEDP_MONTH=\S+ pytest tests/graph/observe/test_month.py": "tests/graph/observe/test_month.py::"
    "test_every_fault_is_announced_once_and_cleared_once",
}
"""A command that is not typed here -> the test that executes the command, or what answers to the command."""
VOLATILE = (
    r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?",
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"[0-9a-f]{16}",
    r"restore-\d{8}T\d{6}",
    r"\d+ runs",
    r"files: \d+, declarations: \d+",
)
"""What is another one each time: instants, runs, digests, numbers of runs and of files."""
ANOTHER = "|".join(VOLATILE)


def elsewhere(part):
    """The tests that execute a command by other means."""
    return [test for command, test in ELSEWHERE.items() if re.fullmatch(command, part.removeprefix(".venv/bin/"))]


def shape_of(shown):
    """A regular expression of what a page shows, with a group for each piece that is another one each time."""
    pieces = re.split(f"({ANOTHER}| ?[.]{{3}} ?)", flat(shown))
    return "".join(
        ".*" if "..." in each else f"({kind_of(each)})" if kind_of(each) else re.escape(each) for each in pieces
    )


def kind_of(piece):
    """The kind of a piece that is another one each time; empty for any other."""
    return next((kind for kind in VOLATILE if re.fullmatch(kind, piece)), "")


def flat(text):
    """A text in one line, without what separates the columns of a table."""
    return " ".join(re.sub("[│┃]", " ", text).split())


class Terminal:
    """A reader's terminal in this process; what it changes ends with the patch.

    Attributes:
        places: address of a page, or id that a page shows -> that of the test, also for what is typed later.
    """

    def __init__(self, patch):
        self.patch, self.places = patch, {}

    def follow(self, page):
        """Type the lines of a page; each ends with the stated exit code, and prints what the page shows."""
        for each in typed():
            if each.page != page or any(map(elsewhere, each.parts)):
                continue
            for words, prepare in PREPARED.items():
                if words in each.line or words in each.shown:
                    prepare(self)
            code, out, err = self.type(each.parts)
            told = f"{page}: $ {each.line}\n{out}{err}"
            assert code == each.code, told
            assert not re.search("Traceback|unexpected error", out + err), told
            printed = re.search(shape_of(each.shown), flat(out + err))
            assert printed, told
            self.places |= dict(zip(re.findall(ANOTHER, flat(each.shown)), printed.groups(), strict=True))

    def type(self, parts):
        """Exit code, output and errors of commands, one after the other until one fails."""
        code, said = 0, (io.StringIO(), io.StringIO())
        for part in parts:
            with redirect_stdout(said[0]), redirect_stderr(said[1]):
                code = self._run(self._placed(part))
            if code:
                break
        return code, *(self._placed(each.getvalue(), back=True) for each in said)

    def _placed(self, text, *, back=False):
        """A text with the addresses of the test in place of those of the page, or back."""
        for shown, here in self.places.items():
            text = text.replace(*((here, shown) if back else (shown, here)))
        return text

    def _run(self, command):
        program, *words = shlex.split(command)
        if program == "cd":
            self.patch.chdir(*words)
        elif program == "export":
            for name, _, value in (word.partition("=") for word in words):
                self.patch.setenv(name, value)
        elif program == "dedp":
            return self._dedp(words)
        elif program == "dg":
            return self._dg(words)
        elif program == "make":
            return self._dedp(recipe_of(words))
        else:
            pytest.fail(f"{command!r}: neither typed here nor in ELSEWHERE, with the test that executes it")
        return 0

    def _dedp(self, words):
        """The exit code of a command, whose output may go to a file."""
        if ">" not in words:
            return main(words)
        *words, _, name = words
        with Path(name).open("w") as file, redirect_stdout(file):
            return main(words)

    def _dg(self, words):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # components of other packages are previews
            done = CliRunner().invoke(dg, words)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        print(done.output)  # noqa: T201
        return done.exit_code


def recipe_of(goal):
    """The words of the `dedp` that a goal of the Makefile calls."""
    asked = ["make", "--no-print-directory", "--dry-run", "-C", CHECKOUT, *goal]
    recipe = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    program, *words = shlex.split(recipe)
    assert Path(program).name == "dedp", recipe
    return words


def load_once(patch):
    """Load the project at the first command alone: nobody changes its code before :func:`another_rule`."""
    for name in ("definitions", "jobs", "tables"):
        patch.setattr(Project, name, cache(inspect.unwrap(getattr(Project, name))))


def another_rule(terminal):
    """Somebody changed the code of gold/daily_visitors: the rule, and with the rule the version."""
    declared = daily_visitors.daily_visitors.__dict__
    counted = daily_visitors.QUERY.replace("count(DISTINCT user_id)", "count(DISTINCT device_type)")
    terminal.patch.setattr(daily_visitors, "QUERY", counted)
    terminal.patch.setitem(declared, "code_version", "2")
    terminal.patch.delitem(declared, "_definition")
    load_once(terminal.patch)


def landed_trips(terminal):
    """Somebody delivered trips."""
    folder = Path(".dedp/landing/trips/2026-01-25")
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text(
        "trip_id,pickup_time,fare\n1,2026-01-25T10:00:00Z,12.5\n2,2026-01-25T11:30:00Z,8.25\n"
    )
    (folder / "_SUCCESS").touch()


def declared_visits(terminal):
    """The project has visits."""
    folder = Path("my_lake/defs/visits")
    folder.mkdir(parents=True)
    (folder / "defs.yaml").write_text(
        "type: dedp_assets.components.LandingComponent\n"
        "attributes: {table: silver/visits, folder: visits, format: {json_lines: {}}, partitions: {daily: {start: "
        "2026-01-05}}, event_time: event_time, keys: [visit_id], about: {owner: 'team:x'}}\n"
    )
    types = {"visit_id": "STRING", "event_time": "TIMESTAMP", "page": "STRING"}
    columns = "".join(f"  {name}: {{type: {kind}}}\n" for name, kind in types.items())
    (folder / "columns.yaml").write_text(f"columns:\n{columns}")


def misspelt(terminal):
    """The declaration of the page, with a misspelt column."""
    text = next(block for page, block in blocks("yaml") if page == "docs/own_table_in_yaml.md")
    assert text.count("keys: [visit_id]") == 1
    Path("my_lake/defs/gold/page_counts/defs.yaml").write_text(text.replace("keys: [visit_id]", "keys: [vist_id]"))


PREPARED = {
    "--compare": another_rule,
    "dedp infer": landed_trips,
    "--reads silver/visits": declared_visits,
    "vist_id": misspelt,
}
"""Words of a line, or of what it shows -> what a reader has done before it is typed."""


@pytest.fixture(scope="module")
def demo(spark, tmp_path_factory):
    """A world in which the demo was played, as its page shows."""
    with pytest.MonkeyPatch.context() as patch:
        load_once(patch)
        patch.chdir(tmp_path_factory.mktemp("somewhere"))
        with world_in(tmp_path_factory.mktemp("demo")) as world:
            Terminal(patch).follow("docs/checkout.md")
            yield world


@pytest.fixture(scope="module")
def project(spark, tmp_path_factory):
    """The folder of a new project, which is the working directory."""
    with pytest.MonkeyPatch.context() as patch, forgotten("my_lake"):
        for name in ("DEDP_HOME", "DAGSTER_HOME"):
            patch.setenv(name, "")
            patch.delenv(name)
        patch.chdir(tmp_path_factory.mktemp("projects"))
        Terminal(patch).follow("docs/own_project.md")
        yield Path.cwd()


@contextmanager
def forgotten(package) -> Iterator[None]:
    """Imports of a package, and its folders on the path, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        importlib.invalidate_caches()
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


@pytest.mark.parametrize("page", ON_THE_DEMO)
def test_lines_of_a_page_work_on_the_demo(demo, monkeypatch, webhook, page):
    """From top to bottom, with the exit codes and the output that the page states."""
    terminal = Terminal(monkeypatch)
    terminal.places["https://hooks.example"] = webhook.base
    terminal.follow(page)


@pytest.mark.parametrize("page", IN_A_PROJECT)
def test_lines_of_a_page_work_in_a_new_project(project, monkeypatch, page):
    """From top to bottom, with the exit codes and the output that the page states."""
    Terminal(monkeypatch).follow(page)


def test_every_line_is_typed_or_has_a_test_that_executes_it():
    """Of each page with a prompt; the named tests are there, and each exception is a line of a page."""
    followed = {*FIRST, *ON_THE_DEMO, *IN_A_PROJECT}
    lines = [each for each in typed() if each.page not in WHOLE]
    assert len(lines) > 40
    loose = [each for each in lines if each.page not in followed and not any(map(elsewhere, each.parts))]
    assert loose == []
    assert followed | {*WHOLE} <= {each.page for each in typed()}
    assert [words for words in PREPARED if not any(words in f"{each.line}\n{each.shown}" for each in lines)] == []
    used = {test for each in lines for part in each.parts for test in elsewhere(part)}
    assert used == {*ELSEWHERE.values()}
    for test in (*WHOLE.values(), *ELSEWHERE.values()):
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (CHECKOUT / file).read_text(), test


def test_what_is_typed_stands_behind_a_prompt():
    """Lines of a shell in another kind of block would be typed by nobody."""
    assert [page for kind in ("sh", "bash", "shell") for page, _ in blocks(kind)] == []
