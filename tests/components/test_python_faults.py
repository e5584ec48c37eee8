"""Faults of declarations in Python: told by file and line, and of one table alone."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dedp_assets.cli import main
from dedp_assets.commands._runs import require_computable
from dedp_assets.graph.resources import environments
from dedp_assets.laptop.orchestration.code_server import _FAULT
from dedp_assets.location import lake_declarations, lake_definitions
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.project import project
from tests.components.test_loading import MODULE, table

SOUND = MODULE.replace("@dg.asset\ndef plain", "@dg.asset\ndef plain_of_events")
BAD = MODULE.replace("bronze/events", "bronze/bad").replace("def plain", "def plain_of_bad")
HERE = "  # here"


def edited(old: str, new: str) -> str:
    """The module of a table with a fault, whose line is marked."""
    assert BAD.count(old) == 1, old
    return BAD.replace(old, new)


KINDS = {
    "an unknown option": (
        edited("@lake_table(", f"@lake_table({HERE}").replace("code_version=", "code_verson="),
        "unexpected keyword argument 'code_verson': did you mean code_version?",
    ),
    "an option of another type": (
        edited("@lake_table(", f"@lake_table({HERE}").replace('About("team:x")', "About(3)"),
        "bronze/bad: About.owner must be",
    ),
    "options that do not go together": (
        edited("@lake_table(", f"@lake_table({HERE}").replace("Runs(daily(), OnRequest())", "Runs(daily())"),
        "bronze/bad: Reads.tables must name the tables that Follow looks at",
    ),
    "a column that is not there": (
        edited('partition_by=("day",))', f'partition_by=("dy",)){HERE}'),
        "bronze/bad: partition columns ['dy'] are not among its columns",
    ),
    "an unknown type": (
        edited('Column("DATE")}, partition_by=("day",))', f'Column("DAT")}}, partition_by=("day",)){HERE}'),
        "DAT",
    ),
    "an owner that Dagster refuses": (
        edited("@lake_table(", f"@lake_table({HERE}").replace("team:x", "x y"),
        "bronze/bad: Invalid owner 'x y'",
    ),
    "a name with a blank": (
        edited("@lake_table(", f"@lake_table({HERE}").replace("bronze/bad", "bronze/b d"),
        "name must be layer/dataset, of letters, digits and _, not 'bronze/b d",
    ),
    "a parameter that nothing fits": (
        edited("@lake_table(", f"@lake_table({HERE}").replace("(into: Target)", "(into: Target, landin)"),
        "parameter with its type (Pinned, Target, Step, Request): did you mean landing?",
    ),
    "another function of the table's name": (
        edited("@lake_table(", f"@lake_table({HERE}").replace("bronze/bad", "bronze/events"),
        "bronze/events has two writers: ",
    ),
    "an exception": (f"{BAD}\nint('x'){HERE}\n", "ValueError: invalid literal for int()"),
    "an end of the process": (f"{BAD}\nraise SystemExit(3){HERE}\n", "SystemExit: 3"),
    "a missing package": (f"{BAD}\nimport nowhere_at_all{HERE}\n", "No module named 'nowhere_at_all'"),
    "a name that is not imported": (f"{BAD}\nfrom json import lods{HERE}\n", "ImportError: cannot import name 'lods'"),
    "an unknown name": (f"{BAD}\nSPC{HERE}\n", "NameError: name 'SPC' is not defined"),
    "no Python": (edited("def events(into: Target)", f"def events(into: Target{HERE}"), "this is no Python: "),
    "a wrong indent": (f"{BAD}\n  x = 1{HERE}\n", "this is no Python: unindent does not match"),
    "a secret": (f"{BAD}\nraise ValueError('postgresql://me:hidden-word@db/x'){HERE}\n", "ValueError: postgresql://"),
}  # fmt: skip
"""Kind of fault -> a module of the definitions, and the sentence."""
PLACES = ("bad{}.py", "bad{}/bad.py", "silver/one/bad{}.py", "bad{}/__init__.py")
IMPORTED = ("../helper.py", "bad/helper.py")
"""Places of a module that a module of a table imports."""
CASES = {case: number for number, case in enumerate(product(KINDS, PLACES))}
START = """
from pathlib import Path
from dedp_assets.location import lake_definitions


def defs():
    return lake_definitions(Path(__file__).parent)
"""
SOUND_FILES = {"__init__.py": "", "../__init__.py": "", "../definitions.py": START, "a.py": SOUND,
               "silver/one/defs.yaml": table("silver/one")}  # fmt: skip


@contextmanager
def project_in(root: Path) -> Iterator[Callable[[dict[str, str]], Path]]:
    """A project in a folder, which is the working directory: write it with two sound tables, and further files."""
    package = f"faulty_{root.name}"
    (root / "pyproject.toml").write_text(f'[tool.dg.project]\nroot_module = "{package}"\n')

    def make(files: dict[str, str]) -> Path:
        for name, text in {**SOUND_FILES, **files}.items():
            file = root / package / "defs" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("PACKAGE", package))
        importlib.invalidate_caches()
        return root / package / "defs"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(root), *sys.path])
        patch.setattr(environments, "CHECKOUT", root / "site-packages")
        patch.delenv("DEDP_HOME", raising=False)
        patch.chdir(root)
        yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    """Write a project with two sound tables, and further files."""
    with project_in(tmp_path) as make:
        yield make


@dataclass(frozen=True)
class Told:
    """What is told of a project with a module of every kind of fault at every place."""

    defs: Path
    code: int
    by_check: list[dict[str, Any]]
    declared: list[str]
    faults: list[str]
    nodes: dict[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A project with each case, looked at by the check, by whoever asks for the tables, and by Dagster."""
    files = {}
    for (kind, place), number in CASES.items():
        text = re.sub(r"bronze/(bad|b d)", rf"bronze/\g<1>{number}", KINDS[kind][0])
        files[place.format(number)] = text.replace("plain_of_bad", f"plain_of_bad{number}")
    with project_in(tmp_path_factory.mktemp("every_kind")) as make:
        defs = make(files)
        code, by_check = found_by_check()
        loaded = lake_definitions(defs)
        declared, faults = lake_declarations(defs, loaded.resources)
        nodes = {node.key.to_user_string(): node for node in loaded.resolve_asset_graph().asset_nodes}
        yield Told(defs, code, by_check, [each.spec.name for each in declared], faults, nodes)


def found_by_check(*options):
    """The exit code, and the faults that `dedp check` finds."""
    with redirect_stdout(StringIO()) as out:
        code = main(["check", "--format", "json", *options])
    return code, json.loads(out.getvalue())["faults"]


def line_in(file: Path) -> int:
    """The line that is marked."""
    return next(number for number, line in enumerate(file.read_text().split("\n"), 1) if HERE in line)


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_a_fault_is_told_by_file_and_line(told, kind, place):
    """By `dedp check`, by whoever asks for the declared tables, and by an asset that stands for the table."""
    number = CASES[kind, place]
    file = told.defs / place.format(number)
    (fault,) = [each for each in told.by_check if told.defs.parents[1] / each["file"] == file]
    assert fault["line"] == line_in(file)
    sentence = KINDS[kind][1].replace("bronze/bad", f"bronze/bad{number}").replace("/b d", f"/b d{number}")
    assert sentence in f"{fault['path']}: {fault['message']}"
    assert "hidden-word" not in fault["message"]
    start = f"{file}:{fault['line']}:{fault['column']}: "
    (of_tables,) = [each for each in told.faults if each.startswith(start)]
    assert _FAULT.search(f"a line\n{of_tables}\n")
    (refused,) = [node for node in told.nodes.values() if start in (node.description or "")]
    assert refused.group_name == "refused"
    named = "bronze/bad" in KINDS[kind][0]
    assert refused.key.to_user_string() == f"bronze/bad{number}" if named else refused.key.path[0] == "refused"


def test_all_other_tables_load(told):
    """And each fault is told once: no case hides another one, or a sound table."""
    assert told.declared == ["bronze/events", "silver/one"]
    assert {"bronze/events", "silver/one", "plain_of_events"} <= {*told.nodes}
    assert (told.code, len(told.by_check), len(told.faults)) == (1, len(CASES), len(CASES))


@pytest.mark.parametrize("place", IMPORTED)
def test_a_fault_of_an_imported_module_is_told_once_where_it_is(write, place):
    """Two tables import it: the fault is one, and both tables are named as not loaded."""
    name = place.removeprefix("../").removesuffix(".py").replace("/", ".")
    module = f"PACKAGE.{name}" if place.startswith("..") else f"PACKAGE.defs.{name}"
    more = BAD.replace("bronze/bad", "bronze/more").replace("plain_of_bad", "plain_of_more")
    defs = write(
        {place: f"\nx = 1 / 0{HERE}\n", "one.py": f"import {module}\n{BAD}", "two.py": f"import {module}\n{more}"}
    )
    code, (fault,) = found_by_check()
    assert (code, defs.parents[1] / fault["file"], fault["line"]) == (1, (defs / place).resolve(), 2)
    graph = lake_definitions(defs).resolve_asset_graph()
    keys = {node.key.to_user_string(): node.description for node in graph.asset_nodes if node.group_name == "refused"}
    assert {"bronze/bad", "bronze/more"} <= {*keys}
    assert all("ZeroDivisionError: division by zero" in text for text in keys.values())


@pytest.mark.parametrize("place", ["__init__.py", "../__init__.py", "../definitions.py"])
@pytest.mark.parametrize("text", [f"import nowhere_at_all{HERE}\n", f"x = ({HERE}\n"])
def test_a_fault_of_what_all_tables_need_is_one_sentence(write, capsys, place, text):
    """Nothing can be loaded: each command says file and line, and none shows a stack trace."""
    defs = write({place: text})
    code, (fault,) = found_by_check()
    assert (code, defs.parents[1] / fault["file"], fault["line"]) == (
        1,
        (defs / place).resolve(),
        line_in(defs / place),
    )
    assert main(["run", "silver/one", "2026-01-05"]) == 2
    said = capsys.readouterr().err
    assert f"{(defs / place).resolve()}:{fault['line']}:" in said
    assert "Traceback" not in said


def test_a_slip_in_the_function_of_the_definitions_is_one_sentence(write):
    """And what Dagster refuses of the whole location is found by the check as well."""
    defs = write({"../definitions.py": f"def defs():\n    return lake_definitions(){HERE}\n"})
    code, (fault,) = found_by_check()
    assert (code, fault["line"], fault["message"]) == (1, 2, "NameError: name 'lake_definitions' is not defined")
    asset = "@dg.asset(required_resource_keys={'nothing'})\ndef one(): ...\n\n\n"
    refused = f"import dagster as dg\n\n\n{asset}defs = dg.Definitions(assets=[one])\n"
    (defs.parent / "definitions.py").write_text(refused)
    for name in [name for name in sys.modules if name.endswith(".definitions") and name.startswith("faulty_")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    code, (fault,) = found_by_check()
    assert (code, Path(fault["file"]).name) == (1, "definitions.py")
    assert "resource with key 'nothing'" in fault["message"]


def test_each_module_is_tried_and_a_folder_shows_its_own(write):
    """Not only the first fault is told; without a fault, nothing is."""
    several = {f"{kind.replace(' ', '_').replace(chr(39), '')}/bad.py": KINDS[kind][0] for kind in list(KINDS)[:5]}
    defs = write(several)
    assert len(found_by_check()[1]) == len(several)
    code, faults = found_by_check(str(defs / next(iter(several))).removesuffix("/bad.py"))
    assert (code, len(faults)) == (1, 1)
    assert found_by_check(str(defs / "silver")) == (0, [])


def test_a_run_of_a_faulty_table_says_the_fault(write):
    """It is a table of the project, so it is not called unknown."""
    defs = write({"bad.py": KINDS["an unknown option"][0]})
    with pytest.raises(
        ConfigError, match=rf"bronze/bad: This table is not loaded. {defs}/bad.py:\d+:1: .*did you mean"
    ):
        require_computable("bronze/bad")
    require_computable("silver/one")


def test_a_table_in_yaml_that_reads_a_table_with_a_fault_says_so(write):
    """As of a table in YAML: the table is not called unknown, although nothing could import it."""
    reads = "tables: {bronze/bad: {same: {column: day}}}"
    write({"bad.py": KINDS["an exception"][0], "silver/two/defs.yaml": table("silver/two", reads=reads)})
    code, (fault, follows) = found_by_check()
    assert (code, Path(fault["file"]).name, Path(follows["file"]).name) == (1, "bad.py", "defs.yaml")
    assert follows["message"] == "bronze/bad cannot be read, as its own declaration has faults: mend those first"


def test_a_sound_table_that_a_module_with_a_fault_names_is_sound(write):
    """As the table that it reads: its readers in YAML are loaded, and one asset has the name."""
    reads = f'{KINDS["an exception"][0]}\nREAD = TableSpec("silver/one", {{}})\n'
    readers = {"silver/two/defs.yaml": table("silver/two", reads="tables: {silver/one: {same: {column: day}}}")}
    defs = write({"bad.py": reads, **readers})
    code, (fault,) = found_by_check()
    assert (code, Path(fault["file"]).name) == (1, "bad.py")
    graph = lake_definitions(defs).resolve_asset_graph()
    groups = {node.key.to_user_string(): node.group_name for node in graph.asset_nodes}
    assert "refused" not in {groups["silver/one"], groups["silver/two"]}
    assert groups["bronze/bad"] == "refused"


def test_a_module_with_a_fault_that_names_sound_tables_alone_is_one_asset(write):
    """Two declarations without a table of their own, and one fault: the location loads, and tells it once."""
    names = "".join(f'READ = TableSpec("silver/{each}", {{}})\n' for each in ("one", "two"))
    readers = {"silver/two/defs.yaml": table("silver/two", reads="tables: {silver/one: {same: {column: day}}}")}
    defs = write({"bad.py": f"from dedp_assets.patterns import TableSpec\n{names}int('x')\n", **readers})
    graph = lake_definitions(defs).resolve_asset_graph()
    groups = {node.key.to_user_string(): node.group_name for node in graph.asset_nodes}
    assert [*groups.values()].count("refused") == 1
    assert "refused" not in {groups["silver/one"], groups["silver/two"]}
    assert len(found_by_check()[1]) == 1


def test_the_asset_of_a_fault_fails_with_the_sentence(write):
    """Whoever materializes it reads what is wrong."""
    defs = write({"bad.py": KINDS["no Python"][0]})
    (asset,) = [
        each
        for each in lake_definitions(defs).assets
        if isinstance(each, dg.AssetsDefinition) and each.keys == {dg.AssetKey(["bronze", "bad"])}
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([asset], instance=instance, raise_on_error=False)
    (failed,) = done.get_step_failure_events()
    assert "this is no Python" in failed.step_failure_data.error.to_string()
    assert project().tables()
