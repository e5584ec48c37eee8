"""Dagster's own command line over the components: list, scaffold, check, inspect."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest
from click.testing import CliRunner
from dagster_dg_cli.cli import cli

from dedp_assets.components.kinds import KINDS, MAINTENANCE

SCAFFOLDED = {
    "dedp_assets.components.TableComponent": ("silver/orders", ("--name", "silver/orders")),
    "dedp_assets.components.MaintenanceComponent": ("platform/upkeep", ("--name", "platform/upkeep")),
}
OTHER = ("silver/landed", ())
"""Path and options of a component that is not named here."""
PACKAGE = "a_project_for_dg"
DEFINITIONS = """
from pathlib import Path
import dagster as dg
from dedp_assets.components.loading import load
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine

own = {"clock": Clock(), "lake": Lake(root="nowhere", engine=SparkEngine())}
defs = dg.Definitions.merge(load(Path(__file__).parent).definitions, dg.Definitions(resources=own))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """An empty project."""
    root = tmp_path_factory.mktemp("project")
    (root / PACKAGE / "defs").mkdir(parents=True)
    for file in ("__init__.py", "defs/__init__.py"):
        (root / PACKAGE / file).touch()
    (root / PACKAGE / "definitions.py").write_text(DEFINITIONS)
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "{PACKAGE}"\nversion = "0"\n[tool.dg]\ndirectory_type = "project"\n'
        f'[tool.dg.project]\nroot_module = "{PACKAGE}"\n'
    )
    sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    yield root
    sys.path.remove(str(root))
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


@pytest.fixture
def dg(project, monkeypatch):
    """Run a command in the project: exit code and output."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "200")
    (project / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(project))

    def run(*arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # components of other packages are previews
            done = CliRunner().invoke(cli, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run


def test_the_pinned_command_line_shows_its_commands(dg):
    """With some releases of typer it lists none, and others break it."""
    assert "scaffold" in dg("--help")[1]
    assert dg("labs", "--help")[0] == 0


def test_it_lists_the_components(dg):
    """By the entry point of the package."""
    code, shown = dg("list", "components", "--package", "dedp_assets")
    assert code == 0
    assert all(name in shown for name in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_it_scaffolds_and_checks_each_component(dg, project, kind):
    """A file that is valid as it is written, and refused with a misspelt option."""
    path, options = SCAFFOLDED.get(kind, OTHER)
    code, shown = dg("scaffold", "defs", kind, path, *options)
    assert code == 0, shown
    file = project / PACKAGE / "defs" / path / "defs.yaml"
    text = file.read_text()
    assert text.startswith("# yaml-language-server: $schema=")
    assert dg("check", "yaml")[0] == 0
    file.write_text(text.replace("owner:", "ownr:"))
    code, shown = dg("check", "yaml")
    file.write_text(text)
    assert code == 1
    assert "'ownr' was unexpected" in shown.replace("\n", "")


@pytest.mark.parametrize("kind", KINDS)
def test_it_describes_each_component(dg, kind):
    """With the help of the records and the patterns."""
    code, shown = dg("utils", "inspect-component", kind, "--defs-yaml-schema")
    assert code == 0
    assert "team or person that answers for the" in shown


def test_it_lists_the_definitions_of_a_project(dg):
    """As the location loads them, by the components of files."""
    assert dg("scaffold", "defs", MAINTENANCE, "platform/listed", "--name", "platform/listed")[0] == 0
    code, shown = dg("list", "defs", "--json")
    assert code == 0, shown
    assert "platform/listed" in shown
    assert "maintain_platform_listed" in shown
