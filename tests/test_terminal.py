"""The command line beside a person, a program and a pipe: documents, progress, colours, completion."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest

from dedp_assets.cli import main
from dedp_assets.commands._output import coloured, console, print_json, say
from dedp_assets.commands._progress import Count, counted, counting
from dedp_assets.graph.resources.environments import CHECKOUT
from tests.helpers import a_record, fill, write_log

pytestmark = pytest.mark.budget(40, "calls every command that reports, some of which load the project")

TABLE = "silver/visits"
REPORTS = (
    *("status", f"status {TABLE}", "alerts", "alerts --test", "cost", f"cost {TABLE}", "verify", "letters"),
    *(f"layout {TABLE}", f"layout {TABLE} --advise", f"restore {TABLE}", f"hold {TABLE}", "lineage", "erase"),
    *(f"lineage {TABLE}", f"lineage {TABLE} bronze/visits", "contract check", "contract diff", "history"),
    *("contract show gold/daily_visitors", "secret list", "versions gold/devices", "adopt {lake}/silver/visits"),
)
"""Commands that report, as they are called without a Spark engine; `{lake}` is the lake of the test."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with a day of visits, which no engine wrote."""
    made = tmp_path_factory.mktemp("home")
    log = {"record": a_record(TABLE, {"event_date": "2026-01-05"}), "changed": [{"event_date": "2026-01-05"}]}
    write_log(made / "lakehouse" / TABLE, {"id": "long", "event_date": "date"}, ["event_date"], [log])
    fill(made / "lakehouse")
    return made


@pytest.fixture
def dedp(home, monkeypatch, capsys):
    """``dedp("status --json")``: exit code, output and errors of a command in the home."""
    monkeypatch.setenv("DEDP_HOME", str(home))
    monkeypatch.setenv("DAGSTER_HOME", str(home / "dagster"))

    def run(line):
        code = main(line.format(lake=home / "lakehouse").split())
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("line", REPORTS)
def test_a_report_is_one_document_with_the_same_exit_code(dedp, line):
    """Whatever a command says to people, a program reads it whole, and the code means the same."""
    code, told, _ = dedp(line)
    coded, document, _ = dedp(f"{line} --json")
    assert (code, coded) == ((0, 0) if code == 0 else (1, 1))
    assert json.loads(document) is not None
    assert document != told


def test_a_document_holds_what_people_read(dedp):
    """Numbers as numbers, in the fields that the words name."""
    (found,) = json.loads(dedp(f"verify {TABLE} --json")[1])
    assert (found["table"], found["version"], found["sound"], found["lost"]) == (TABLE, 1, True, [])
    assert dedp(f"verify {TABLE}")[1] == f"{TABLE}: version 1, {found['files']} data file: sound\n"
    declared = json.loads(dedp("adopt {lake}/silver/visits --json")[1])["declaration"]
    assert declared["partition_by"] == ["event_date"]
    newest, _ = json.loads(dedp(f"restore {TABLE} --json")[1])["versions"]
    assert newest["version"] == "1"


@pytest.mark.parametrize("line", ["schema", *(f"{line} --json" for line in REPORTS)])
def test_a_reader_that_goes_away_ends_a_command_in_silence(dedp, monkeypatch, line):
    """As of `| head -1`, when the line after the first is written: exit code 141 and no stack trace."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as gone, suppress(BrokenPipeError):
        monkeypatch.setattr(sys, "stdout", gone)
        code, _, err = dedp(line)
    assert (code, "Traceback" in err) == (141, False)


class Terminal(io.StringIO):
    """A stream that says that a person looks at it."""

    def isatty(self):
        return True


def on_terminal(monkeypatch):
    """Make both streams one terminal, of a kind that moves its cursor."""
    shown = Terminal()  # by a test itself: pytest changes the streams between fixtures and test
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, shown)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return shown


RED = "\x1b[31m"


def test_no_color_leaves_out_colours(monkeypatch):
    """A terminal has them; who sets NO_COLOR, and a file, does not."""
    terminal = on_terminal(monkeypatch)
    console().print(coloured(("refused", "red")))
    assert RED in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    before = len(terminal.getvalue())
    console().print(coloured(("refused", "red")))
    assert terminal.getvalue()[before:] == "refused\n"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys, "stdout", file := io.StringIO())
    console().print(coloured(("refused", "red")))
    assert file.getvalue() == "refused\n"


def test_a_terminal_shows_a_bar_below_the_lines(monkeypatch):
    """With the number of things; a line that is printed meanwhile stays above, and the bar is gone at the end."""
    terminal = on_terminal(monkeypatch)
    for each in counted(["a", "b"], "tables"):
        console().print(f"line {each}")
    shown = terminal.getvalue()
    assert "tables" in shown
    assert "0/2" in shown
    assert shown.index("line a") < shown.index("line b")
    assert shown.endswith("\x1b[2K"), "the bar's line is erased"


def test_a_file_beside_a_terminal_gets_the_lines_alone(monkeypatch):
    """As of `dedp verify > faults.txt`, whose bar stays on the terminal."""
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdout", file := io.StringIO())
    for each in counted(["a", "b"], "tables"):
        say(f"line {each}")
    assert file.getvalue() == "line a\nline b\n"
    assert "0/2" in terminal.getvalue()


def test_a_quick_command_says_nothing_of_its_progress_to_a_pipe(capsys):
    """Nor to a file; what it prints is its own."""
    assert [*counted(range(1000), "tables")] == [*range(1000)]
    assert capsys.readouterr() == ("", "")


def test_a_long_command_says_to_a_pipe_how_much_is_done(capsys, monkeypatch):
    """A line on the error output after each ten seconds, with an estimate by the things that are done."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(Count.__init__, "__kwdefaults__", {"clock": lambda: now[0]})
    with counting("tables", 4) as count:
        for _ in range(4):
            now[0] += 6
            count.step()
    assert capsys.readouterr() == ("", "2 of 4 tables, about 12 s left\n4 of 4 tables\n")


def test_what_is_expected_grows(capsys):
    """As runs that earlier runs ask for; more can be done than anybody expected."""
    count = Count("runs", 0, lambda _: None, clock=iter((0.0, 10.0, 10.0)).__next__)
    assert count.left_seconds is None
    count.expect(1)
    count.step()
    count.step()
    assert str(count) == "2 of 2 runs"


def completed(tmp_path, *words):
    """What bash proposes for the last of some words, by the script, with a lake of two tables."""
    script = tmp_path / "completion.bash"
    if not script.exists():
        done = subprocess.run(
            [sys.executable, "-m", "dedp_assets", "completion", "bash"], cwd=CHECKOUT, capture_output=True, check=True
        )
        script.write_bytes(done.stdout)
    code = (
        'source "$1"; shift; dedp() { echo gold/visitors; echo silver/visits; }; COMP_WORDS=("$@"); '
        "COMP_CWORD=$(($# - 1)); _shtab_dedp; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    command = ["bash", "-c", code, "bash", script, "dedp", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
def test_bash_completes_commands_options_and_tables(tmp_path):
    """By the script of `dedp completion bash`, as a person presses the tabulator."""
    assert completed(tmp_path, "ver") == ["verify", "versions"]
    assert completed(tmp_path, "verify", "--j") == ["--json"]
    assert completed(tmp_path, "verify", "si") == ["silver/visits"]
    assert completed(tmp_path, "contract", "ann") == ["announce"]


def test_the_names_of_stored_tables_are_listed_for_a_shell(dedp):
    """A line each, without Dagster."""
    assert dedp("completion tables") == (0, f"{TABLE}\n", "")


def test_a_document_has_records_times_and_sets_as_plain_values(capsys):
    """As JSON knows none of them: fields by name, ISO 8601, lists, and a path as its text."""
    at = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
    print_json({"trouble": Lost("a", at, (1, 2)), "day": at.date(), "names": {"x"}, "file": Path("/a/b")})
    lost = {"table": "a", "at": "2026-01-05T12:00:00+00:00", "parts": [1, 2]}
    expected = {"trouble": lost, "day": "2026-01-05", "names": ["x"], "file": "/a/b"}
    assert json.loads(capsys.readouterr().out) == expected


@dataclass(frozen=True, slots=True)
class Lost:
    """A record with a time and a tuple."""

    table: str
    at: datetime
    parts: tuple[int, ...]
