"""The command line: what is wrong is said in one line, with an exit code."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sqlite3
import subprocess
import sys
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version

import pytest

from dedp_assets.case_study.defs.silver.visits import visits
from dedp_assets.cli import main
from dedp_assets.commands import setup
from dedp_assets.graph.catalogue.table_names import tables_named
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.resources.alerting import outbox_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.engine import EngineError
from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings
from dedp_assets.graph.resources.home import Running, hold
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.laptop.servers import engine
from dedp_assets.patterns.core.measuring.troubles import Trouble
from tests.helpers import a_record, fill, write_log

pytestmark = pytest.mark.budget(40, "calls every command, some of which load the project")

COMMANDS = sorted(path.stem for path in (CHECKOUT / "dedp_assets" / "commands").glob("[!_]*.py"))


@pytest.fixture
def dedp(tmp_path, monkeypatch, capsys):
    """``dedp("status")``: exit code, output and errors of a command, in a home of its own, with the engine at hand."""
    fixed = {"DEDP_HOME": str(tmp_path / "home"), "DAGSTER_HOME": str(tmp_path / "home/dagster"), "DEDP_JIT": "quick"}
    for name, value in fixed.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(engine, "prepare", lambda _: None)

    def run(*arguments):
        try:
            code = main(arguments)
        except SystemExit as stopped:
            code = stopped.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("frobnicate",), "'frobnicate'"),
        (("status", "--fast"), "--fast"),
        (("up", "--port", "web"), "'web'"),
        (("demo", "--log"), "--log"),
        (("approve",), "table"),
        (("run",), "table"),
        (("run", "silver/visits", "2026-01-05", "--fast"), "--fast"),
        (("verify", "a", "b"), "b"),
        (("approve", "gold/daily_visitors", "2026-01-05"), "--by, --because"),
        (("approve", "gold/daily_visitors", "2026-01-05", "--by", "Ada"), "--because"),
    ],
)
def test_a_wrong_command_or_option_is_named(dedp, arguments, named):
    """Usage and the word that is wrong, exit code 2, and nothing is done."""
    code, out, err = dedp(*arguments)
    assert (code, out) == (2, "")
    assert named in err.splitlines()[-1]


def test_help_lists_every_command(dedp):
    """A person who knows nothing finds out what there is, each with a sentence; without a word, too."""
    code, out, _ = dedp("--help")
    assert code == 0
    assert sorted(re.findall(r"^    (\w+)\s+\S", out, re.MULTILINE)) == COMMANDS
    assert dedp() == (0, out, "")


def test_the_exit_codes_stand_in_the_help_and_in_the_docs(dedp):
    """The same sentences, so that a script's author finds what the code keeps."""
    codes = re.findall(r"^  (\d+) +(.+)$", dedp("--help")[1], re.MULTILINE)
    page = (CHECKOUT / "docs" / "commands.md").read_text()
    assert [code for code, _ in codes] == ["0", "1", "2", "3", "130", "141"]
    assert not [code for code, sentence in codes if f"| {code} | {sentence} |" not in page]


def test_the_version_is_that_of_the_package(dedp):
    """For a report of a fault."""
    assert dedp("--version")[:2] == (0, f"dedp {version('dedp')}\n")


def with_table():
    """Every command, and action of one, that takes a table: the words before it and those that it needs besides."""
    for name in COMMANDS:
        parser = argparse.ArgumentParser()
        import_module(f"dedp_assets.commands.{name}").arguments(parser)
        actions = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        inner = actions[0].choices if actions else {"": parser}
        for action, each in inner.items():
            if any(option.dest == "table" for option in each._actions):
                needed = [word for option in each._actions if option.required for word in option.option_strings]
                yield [name, *filter(None, [action])], [f"{option}=x" for option in needed]


@pytest.mark.parametrize(("words", "needed"), list(with_table()), ids=" ".join)
def test_an_unknown_table_is_one_sentence_in_every_command(dedp, tmp_path, words, needed):
    """With the nearest names and the exit code of a wrong name; found in the commands, so that none is forgotten."""
    for name, near in (("gold/daily_visitor", "gold/daily_visitors"), ("silver/nope", "")):
        code, out, err = dedp(*words, name, *needed)
        (line,) = err.splitlines()
        assert (code, out) == (2, ""), words
        assert line.startswith(f"dedp {words[0]}: table must be one ")
        assert line.endswith(f", not {name}")
        assert near in line or words[0] == "versions", "that table has no versions"
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["schema", "lineage --json"])
def test_a_reader_that_goes_away_is_no_error(tmp_path, words):
    """As of `dedp ... | head -1`: nothing is said, and the code tells that the output was not read whole."""
    home = child_environment({"DEDP_HOME": str(tmp_path / "home")})
    command = [sys.executable, "-m", "dedp_assets", *words.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=CHECKOUT, env=home, **pipes) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=120)) == (b"", 141)


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_is_no_error(tmp_path, closed):
    """As of `dedp ... >&-`: what is said there is said nowhere."""
    home = child_environment({"DEDP_HOME": str(tmp_path / "home")})
    shut = f"import os, sys, runpy; sys.{closed} = None; sys.argv = ['dedp', '--help']; "
    command = [sys.executable, "-c", f"{shut}runpy.run_module('dedp_assets', run_name='__main__')"]
    done = subprocess.run(command, cwd=CHECKOUT, env=home, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_home_that_is_a_file_is_told(dedp, tmp_path):
    """By the setting that names the home, in one sentence of every command that reads there."""
    (tmp_path / "home").write_text("")
    for command in ("status", "letters", "history"):
        code, _, err = dedp(command)
        assert (code, err) == (2, f"dedp {command}: DEDP_HOME must be a folder, not the file {tmp_path / 'home'}\n")


def test_a_home_that_is_a_project_is_told(dedp, tmp_path):
    """Nothing is written among its code, and its lack of tables is not called right."""
    stated = tmp_path / "home" / "pyproject.toml"
    stated.parent.mkdir()
    stated.write_text('[tool.dg.project]\nroot_module = "lake"\n')
    for command in (("status",), ("run", "gold/a"), ("history",), ("alerts",)):
        code, out, err = dedp(*command)
        home = stated.parent
        told = f"DEDP_HOME must be a folder of its own, such as {home}/.dedp, not the project {home}"
        assert (code, out, err) == (2, "", f"dedp {command[0]}: {told}\n")
    assert [*stated.parent.iterdir()] == [stated]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_takes(dedp, name):
    """Its sentence and its options, and nothing is done."""
    code, out, err = dedp(name, "--help")
    assert (code, err, out.startswith(f"usage: dedp {name} ")) == (0, "", True)
    assert re.search(r"\n\n[\w\W]*\w[\w\W]*\n\n", out)


def approve(dedp, *where, by="Ada", because="the provider confirmed it", expected=2):
    """Approve something; the line that says why it is refused."""
    code, out, err = dedp("approve", *where, "--by", by, "--because", because)
    (line,) = (out + err).splitlines()
    assert code == expected
    return line


def test_approving_a_table_that_is_not_there_is_refused_with_the_choices(dedp, tmp_path):
    """One line names the table and those of the project; no home is made."""
    line = approve(dedp, "unknown/table", "2026-01-05")
    assert line.startswith("dedp approve: table must be one of the project, such as bronze/")
    assert line.endswith(", not unknown/table")
    line = approve(dedp, "silver/visits_dead_letter_repla", "2026-01-05")
    assert "such as silver/visits_dead_letter_replay, " in line, "a person approves to give letters up"
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "named"),
    [
        (("gold/daily_visitors", "nonsense"), "nonsense"),
        (("gold/daily_visitors", "1999-01-01"), "1999-01-01"),
        (("gold/daily_visitors",), "partition"),
        (("bronze/devices", "2026-01-05"), "partition"),
    ],
    ids=["no day", "before the first", "partition missing", "unpartitioned"],
)
def test_approving_a_partition_that_cannot_be_is_one_line(dedp, tmp_path, where, named):
    """A misspelt, missing or superfluous partition is named; there is no stack trace."""
    assert named in approve(dedp, *where).replace(str(tmp_path), "")


@pytest.mark.slow
def test_approving_what_has_no_data_yet_says_so(dedp):
    """There is nothing to publish under anybody's name."""
    assert "silver/visits does not exist yet" in approve(dedp, "gold/daily_visitors", "2026-01-05", expected=1)


def test_an_approval_needs_a_name_and_a_reason(dedp):
    """Empty ones are no decision, and not a run without one either."""
    line = approve(dedp, "gold/daily_visitors", "2026-01-05", by="", because=" ")
    assert "name of the person who decided" in line


def test_status_tells_of_every_table_there_is_from_bronze_to_gold(dedp, tmp_path):
    """Whoever made it: nothing has to be added to a list, and no engine is started."""
    for name in ("gold/orders", "staging/orders", "bronze/users", "silver/orders"):
        stored(tmp_path, name, {"day": "2026-01-05"})
    code, out, err = dedp("status")
    named = [line.partition(",")[0] for line in out.splitlines() if ", version 1" in line]
    assert (code, err, named) == (0, "", ["bronze/users", "silver/orders", "gold/orders", "staging/orders"])
    assert out.count("│ 2026-01-05") == len(named)


def test_status_of_one_table_leaves_the_others_out(dedp, tmp_path):
    """A name that nothing is known of is refused."""
    for name in ("silver/orders", "gold/orders"):
        stored(tmp_path, name, {"day": "2026-01-05"})
    code, out, _ = dedp("status", "gold/orders")
    assert (code, "gold/orders, version 1" in out, "silver/orders, version 1" in out) == (1, True, False)
    told = json.loads(dedp("status", "gold/orders", "--json")[1])
    assert (told["table"]["name"], told["verdict"]) == ("gold/orders", "unknown"), "nothing declares it"
    assert told["written"]["2026-01-05"]["counts"] == {"read": 1, "kept": 1, "dead": 0, "duplicates": 0}
    code, out, err = dedp("status", "gold/order")
    assert (code, out) == (2, "")
    assert (
        err == "dedp status: table must be one of the project, such as gold/orders, gold/orders_wide, not gold/order\n"
    )


def test_status_claims_no_count_of_a_statement(dedp, tmp_path):
    """What a merge did stands where its rows came from: a zero would be a lie."""
    none = dict.fromkeys(("read", "written", "dead", "duplicates", "filtered"), 0)
    for name, verdict in (("bronze/users", "none"), ("bronze/visits", "passed")):
        log = {"record": a_record(name, {}, verdict=verdict, rows=none), "changed": [{}]}
        write_log(tmp_path / "home/lakehouse" / name, {"id": "long"}, [], [log])
    _, out, _ = dedp("status")
    rows = [[cell.strip() for cell in line.split("│")[2:8]] for line in out.splitlines() if line.startswith("│ all")]
    assert rows == [["1", "", "", "", "", "none"], ["1", "0", "0", "0", "0", "passed"]]


def test_status_of_an_empty_home_is_no_error_and_makes_nothing(dedp, tmp_path):
    """Looking changes nothing; and nobody says that all is well where nothing is."""
    code, out, err = dedp("status")
    assert (code, err) == (1, "")
    assert "There is no home at" in out
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", ["letters", "cost", "verify"])
def test_nothing_is_called_right_of_a_home_that_is_not_there(dedp, tmp_path, command):
    """A wrong DEDP_HOME must not look like a lake without a fault."""
    code, out, err = dedp(command)
    assert (code, out) == (2, "")
    assert "There is no home at" in err
    assert "`dedp up` or `dedp demo` makes one" in err
    assert not (tmp_path / "home").exists()


def test_status_tells_of_open_alerts_with_figure_reason_and_command(dedp, tmp_path):
    """Of the table that is asked for; for programs as JSON, under fields beside those that were there."""
    outbox = outbox_of(settings())
    now = Clock().now() - timedelta(hours=3, minutes=1)
    for table in ("gold/a", "gold/b"):
        stored(tmp_path, table)
        outbox.raise_alert(Trouble(kind="incomplete", table=table, figure="83 %", limit="95 %", reason="s7 lacks"), now)
    told = json.loads(dedp("status", "gold/b", "--json")[1])
    ((kind, table, figure, since),) = [[e["kind"], e["table"], e["figure"], e["since"]] for e in told["troubles"]]
    assert (kind, table, figure, since) == ("incomplete", "gold/b", "83 %", now.isoformat())
    code, out, _ = dedp("status")
    assert (code, out.startswith("2 troubles in 2 tables")) == (1, True)
    assert out.index("Troubles") < out.index("gold/a, version 1")
    assert "83 % (limit 95 %); s7 lacks" in " ".join(out.split())
    assert "UTC, 3 h" in " ".join(out.split())


def test_page_terminal_programs_and_alerts_say_the_same(dedp, tmp_path):
    """Of a refused partition that no sensor has announced: one collector, so that none of them is green."""
    commit_table(tmp_path)
    note = Refusal(("1",), visits.code_version, "run-1", "3 rows of 40 are broken")
    Refusals(stored_lake().refused("silver/visits")).note("2026-01-04", note)
    code, out, _ = dedp("status")
    assert (code, out.splitlines()[0]) == (1, "1 trouble in 1 table.")
    code, out, _ = dedp("alerts")
    assert (code, "1 trouble in 1 table." in out, "3 rows of 40 are broken" in out) == (1, True, True)
    assert "1 of them no alert has announced yet." in out.splitlines(), "without a channel nobody is said to do it"
    told = json.loads(dedp("status", "--json")[1])
    assert (told["verdict"], told["unannounced"]) == ("warning", 1)
    assert [(each["kind"], each["table"]) for each in told["troubles"] if each["severity"] != "info"] == [
        ("refused", "silver/visits")
    ]
    assert dedp("status", "--page", str(tmp_path / "page.html"))[0] == 1
    assert "1 trouble in 1 table." in (tmp_path / "page.html").read_text()


def test_status_writes_its_page_to_a_file(dedp, tmp_path):
    """For people without a running platform; a folder that is not there is one line."""
    stored(tmp_path, "gold/a")
    file = tmp_path / "page.html"
    code, out, err = dedp("status", "--page", str(file))
    assert (code, out, err) == (0, f"0 troubles; written to {file}\n", "")
    assert "gold/a" in file.read_text()
    code, out, err = dedp("status", "--page", str(tmp_path / "none/page.html"))
    assert (code, out, len(err.splitlines())) == (3, "", 1)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (["gold/b", "gold/a", "silver/x_dead", "silver/x"], "silver to gold"),
        (["gold/b", "gold/a"], "gold/a, gold/b"),
        (["daily_visits"], "daily_visits"),
    ],
)
def test_tables_of_several_layers_are_named_by_the_first_and_the_last(tables, said):
    """In the order in which rows pass them; a job keeps its name."""
    assert tables_named(tables) == said


def test_status_says_first_what_needs_somebody(dedp, tmp_path):
    """What lacks files, waits for its delivery or is behind its upstream, with what to do; for programs as JSON."""
    home = tmp_path / "home"
    commit_table(tmp_path, files=False)
    folder = home / "landing/visits/2026-01-06"
    folder.mkdir(parents=True)
    (folder / "part.jsonl").write_text("{}")
    told = json.loads(dedp("status", "--json")[1])
    found = [each for each in told["troubles"] if each["kind"] != "lag"]
    troubles = {(each["kind"], each["table"], each["partition"]): each for each in found}
    assert [*troubles] == [
        ("lost files", "bronze/visits", "event_date=2026-01-04/landed_on=2026-01-05"),
        ("waiting", "bronze/visits", "2026-01-06"),
        ("missing", "silver/visits", "2026-01-04"),
    ]
    lost, waiting, missing = troubles.values()
    assert (lost["severity"], lost["command"]) == ("critical", "dedp verify bronze/visits")
    assert "`dedp verify bronze/visits` names what repairs it" in lost["reason"]
    assert waiting["reason"] == f"{folder}: 1 files but no _SUCCESS: the producer has not finished"
    assert missing["reason"] == "bronze/visits changed at version 1; the reconciler asks for it"
    shown = dedp("status")[1]
    assert shown.index("Troubles") < shown.index("Under way") < shown.index("bronze/visits, version 1")


def commit_table(tmp_path, *, files=True):
    """A day of bronze/visits, whose rows silver lacks."""
    home = tmp_path / "home"
    log = {"record": a_record("bronze/visits", {"landed_on": "2026-01-05"})}
    landed = {"changed": [{"landed_on": "2026-01-05", "event_date": "2026-01-04"}]}
    columns = {"raw": "string", "landed_on": "date", "event_date": "date"}
    write_log(home / "lakehouse/bronze/visits", columns, ["landed_on", "event_date"], [{**log, **landed}])
    if files:
        fill(home / "lakehouse")
    stored_lake().mark_demo()  # nothing is due


def stored_lake():
    return lake_of(settings())


def stored(tmp_path, name, *partitions, files=True, **fields):
    """A table of one commit, with its data files or without them."""
    location, columns = tmp_path / "home/lakehouse" / name, {column: "date" for part in partitions for column in part}
    record = a_record(name, {} if fields.get("channel") else partitions[0] if partitions else {}, **fields)
    log = {"record": record, "changed": list(partitions) or [{}]}
    write_log(location, {"id": "long", **columns}, sorted(columns, reverse=True), [log])
    for number in range(len(log["changed"]) if files else 0):
        (location / "v1").mkdir(exist_ok=True)
        (location / f"v1/part-{number}.parquet").write_bytes(b"x" * 100)
    return location


def test_verify_says_of_every_table_that_it_is_sound(dedp, tmp_path):
    """One line each, exit code 0, and no engine."""
    for name in ("bronze/devices", "silver/orders"):
        stored(tmp_path, name)
    code, out, err = dedp("verify")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"{n}: version 1, 1 data file: sound" for n in ("bronze/devices", "silver/orders")]
    assert dedp("verify", "silver/orders")[1].count("\n") == 1


def test_layout_shows_what_is_stored_otherwise_and_advises_without_a_change(dedp, tmp_path):
    """Of a table that the project does not declare; exit code 0, no engine, and the same version after."""
    stored(tmp_path, "silver/orders")
    code, out, err = dedp("layout", "silver/orders")
    assert (code, err) == (0, "")
    assert out.startswith("silver/orders: partitioned by ")
    assert "no layout declared" in out
    code, out, err = dedp("layout", "silver/orders", "--advise")
    assert (code, err) == (0, "")
    assert "1 file of 100 bytes in 1 partition; filters by 0 columns (none) in the lineage of 0 tables" in out
    assert "nothing to gain: no order of up to 8 files is worth a rewrite" in out
    assert dedp("verify", "silver/orders")[1].startswith("silver/orders: version 1,")
    code, _, err = dedp("layout", "silver/nobody")
    assert code == 2
    assert "silver/nobody" in err


LOST = [
    ("gold/daily_visitors", [{"event_date": "2026-01-05"}], {}, "dedp run gold/daily_visitors 2026-01-05"),
    (
        "bronze/visits",
        [{"landed_on": "2026-01-07", "event_date": "2026-01-05"}],
        {},
        "dedp run bronze/visits 2026-01-07",
    ),
    ("bronze/devices", [], {}, "dedp run bronze/devices"),
    ("bronze/visits", [{"landed_on": "2026-01-07", "event_date": None}], {"channel": "topic x"}, "came by topic x"),
    ("silver/orders", [{"day": "2026-01-05"}], {}, "let whoever made the table write it again"),
]


@pytest.mark.parametrize(("name", "partitions", "fields", "remedy"), LOST, ids=lambda value: str(value)[:30])
def test_verify_names_what_is_lost_and_what_repairs_it(dedp, tmp_path, name, partitions, fields, remedy):
    """The file, its partition, and a command where a run computes it again; exit code 1."""
    stored(tmp_path, name, *partitions, files=False, **fields)
    code, out, err = dedp("verify", name)
    first, second = out.splitlines()
    assert (code, err, first) == (1, "", f"{name}: version 1, 1 data file: 1 fault")
    assert "v1/part-0.parquet is missing (" in second
    assert remedy in second


def test_verify_names_a_damaged_log_and_goes_on(dedp, tmp_path):
    """The file and the remedy; the other tables are looked at all the same."""
    log = stored(tmp_path, "bronze/devices") / "_delta_log" / f"{1:020d}.json"
    log.write_text('{"commitInfo": ')
    stored(tmp_path, "silver/orders")
    code, out, err = dedp("verify")
    assert (code, err) == (1, "")
    assert "bronze/devices: cannot be read: 1 fault\n" in out
    assert f"_delta_log/{log.name} is damaged" in out
    assert "put it back from a backup, or mv _delta_log/" in out
    assert "silver/orders: version 1, 1 data file: sound" in out


def test_verify_of_a_table_that_is_not_there_names_those_that_are(dedp, tmp_path):
    """In one line, and nothing is made."""
    code, out, err = dedp("verify", "gold/devises")
    assert (code, out) == (2, "")
    assert (
        err == "dedp verify: table must be one of the project, such as gold/devices, gold/dim_users, not gold/devises\n"
    )
    assert not (tmp_path / "home").exists()
    (tmp_path / "home").mkdir()
    assert dedp("verify", "gold/devices") == (0, "", "")
    stored(tmp_path, "gold/devises")
    assert dedp("verify", "gold/devises")[1].startswith("gold/devises: version 1")


def test_status_tells_of_the_other_tables_where_one_has_a_damaged_log(dedp, tmp_path):
    """The damaged one is a trouble with its file and the remedy, and the exit code says it."""
    log = stored(tmp_path, "bronze/devices") / "_delta_log" / f"{1:020d}.json"
    log.write_text("HELLO")
    stored(tmp_path, "silver/orders")
    code, out, err = dedp("status")
    assert (code, "silver/orders, version 1" in out, err) == (1, True, "")
    (trouble,) = json.loads(dedp("status", "--json")[1])["troubles"]
    assert (trouble["kind"], trouble["table"], trouble["severity"]) == ("unreadable", "bronze/devices", "critical")
    assert trouble["reason"].startswith("bronze/devices: version 1 of its log is damaged")
    assert f"_delta_log/{log.name}" in trouble["reason"]
    assert "put it back from a backup" in trouble["reason"]


def test_running_a_table_that_is_not_of_the_graph_is_refused_with_the_choices(dedp, tmp_path):
    """One line, no home."""
    code, out, err = dedp("run", "silver/visits_dead_letter_", "2026-01-05")
    assert (code, out) == (2, "")
    assert (
        "table must be one of the project, such as silver/visits_dead_letter, silver/visits_dead_letter_replay" in err
    )
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_running_what_is_not_ready_says_so(dedp):
    """The sentence of the run, and exit code 1."""
    code, out, err = dedp("run", "silver/visits", "2026-01-05", "--force")
    assert (code, err) == (1, "")
    assert "bronze/visits does not exist yet" in out


@pytest.mark.parametrize(
    ("name", "content"),
    [("missing.log", None), ("no.log", "HELLO\n"), ("folder.log", ...)],
    ids=["missing", "no log", "folder"],
)
def test_a_log_that_cannot_be_loaded_is_named_in_one_line(dedp, tmp_path, name, content):
    """The demo ends before it starts anything."""
    if content is ...:
        (tmp_path / name).mkdir()
    elif content:
        (tmp_path / name).write_text(content)
    code, out, err = dedp("demo", "--log", str(tmp_path / name))
    (line,) = err.splitlines()
    assert (code, out) == (3 if content is None else 2, "")
    assert line.startswith("dedp demo: ")
    assert str(tmp_path / name) in line
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "command", [("setup",), ("status",), ("demo",), ("up",), ("approve", "x", "--by=a", "--because=b")]
)
def test_a_setting_that_is_not_offered_is_one_line_at_every_command(dedp, monkeypatch, command):
    """The variable and its choices, before anything is done."""
    monkeypatch.setenv("DEDP_JIT", "x")
    code, out, err = dedp(*command)
    assert (code, out) == (2, "")
    assert err == f"dedp {command[0]}: DEDP_JIT must be one of full, quick, steady, not x\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("named", [(), ("/home/x",)])
def test_a_disk_that_takes_nothing_is_a_sentence_with_a_remedy(dedp, monkeypatch, number, named):
    """Also of a file that the system does not name, as of one that fills the disk, or of the output."""

    def breaks(*_):
        raise OSError(number, os.strerror(number), *named)

    monkeypatch.setattr(setup, "run", breaks)
    code, out, err = dedp("setup")
    what = "/home/x" if named else "what dedp setup writes"
    assert (code, out) == (3, "")
    assert err.startswith(f"dedp setup: {what} cannot be written, as ")
    assert "Errno" not in err


@pytest.mark.parametrize("said", ["database or disk is full", "attempt to write a readonly database"])
def test_a_run_history_that_cannot_be_written_is_a_sentence(dedp, monkeypatch, said):
    """Of the database's error, in place of its stack."""

    def breaks(*_):
        raise sqlite3.OperationalError(said)

    monkeypatch.setattr(setup, "run", breaks)
    code, out, err = dedp("setup")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("dedp setup: what dedp setup writes cannot be written, as the disk is ")


def test_an_engine_that_cannot_be_made_ready_ends_the_command(dedp, monkeypatch):
    """What the engine says reaches the screen under the command's name."""

    def broken(_):
        raise EngineError("the jars of ivy.xml could not be fetched")

    monkeypatch.setattr(engine, "prepare", broken)
    assert dedp("setup") == (3, "", "dedp setup: the jars of ivy.xml could not be fetched\n")


@pytest.mark.parametrize(
    ("command", "named", "used"),
    [
        (("run", "x/y"), "", "sc://127.0.0.1:15002"),
        (("run", "x/y"), "sc://else:1", "sc://else:1"),
        (("status",), "", None),
    ],
    ids=["computes", "an engine is named", "only looks"],
)
def test_a_command_beside_a_platform_uses_its_engine_unless_another_is_named(dedp, monkeypatch, command, named, used):
    """And says that it runs, on the channel that no program reads."""
    monkeypatch.setenv("SPARK_REMOTE", named)
    with hold(settings(), Running(7, "noon", "http://127.0.0.1:3000", "sc://127.0.0.1:15002")):
        _, out, err = dedp(*command)
        assert "platform" not in out
        assert err.startswith("The platform of this home runs (pid 7 since noon) at http://127.0.0.1:3000")
        assert settings().remote == used
        assert ("its engine is used" in err) == (used == "sc://127.0.0.1:15002")
    assert "The platform of this home" not in dedp(*command)[2]


def test_ctrl_c_is_no_error_with_a_stack_trace(dedp, monkeypatch):
    """Exit code 130, as shells expect, and silence."""

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "prepare", interrupted)
    assert dedp("setup") == (130, "", "")


@pytest.mark.parametrize("more", [(), ("--migrate",)])
def test_the_demo_refuses_a_landing_zone_in_a_bucket(dedp, tmp_path, monkeypatch, more):
    """In one sentence, and before anything is written: its generators write to folders."""
    monkeypatch.setenv("DEDP_LANDING", "s3://bucket/landing")
    code, out, err = dedp("demo", *more)
    (line,) = err.splitlines()
    assert (code, out) == (2, "")
    assert line.startswith("dedp demo: the demo lands its files in a folder: DEDP_LANDING must be a folder, not s3://")
    assert not (tmp_path / "home").exists()


def test_the_demo_lands_its_week_before_a_first_day_is_decided():
    """A command that imported declarations at its start would count its days from today, and load no other week."""
    code = "import sys; from dedp_assets.commands import demo; sys.exit('dedp_assets.graph.declare' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False).returncode == 0
