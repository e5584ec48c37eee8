"""The project around the working directory."""

from __future__ import annotations

import sys

import pytest

from dedp_assets.graph.resources import environments
from dedp_assets.graph.resources.environments import CHECKOUT, settings
from dedp_assets.project import project

STATED = '[tool.dg.project]\nroot_module = "lake_of_a_test"\n'


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder without a project, and no checkout behind it, as where the wheel is installed."""
    monkeypatch.delenv("DEDP_HOME", raising=False)
    monkeypatch.setattr(environments, "CHECKOUT", tmp_path / "site-packages")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stated(folder, text=STATED):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_a_checkout_is_its_own_project():
    """Wherever a command is called from: an editable install belongs to its checkout."""
    found = project()
    assert (found.root, found.module, found.name) == (CHECKOUT, "dedp_assets.definitions", "dedp")
    assert found.is_case_study
    assert {folder.name for folder in found.code()} >= {"dedp_assets", "resources", "sensors"}


def test_the_nearest_project_is_taken_and_its_folder_is_the_home(elsewhere, monkeypatch):
    """From any folder in it; a pyproject.toml of something else does not count."""
    root = stated(elsewhere / "outer" / "lake")
    stated(elsewhere / "outer", "[project]\nname = 'x'\n")
    inside = stated(root / "docs" / "deep", "[tool.ruff]\n")
    monkeypatch.chdir(inside)
    found = project()
    assert (found.root, found.root_module, found.module, found.name) == (
        root,
        "lake_of_a_test",
        "lake_of_a_test.definitions",
        "lake",
    )
    assert not found.is_case_study
    assert settings().home == root / ".dedp"
    assert project(elsewhere / "outer" / "lake").root == root


def test_module_and_location_can_be_named(elsewhere):
    """As Dagster's own table has them."""
    more = 'code_location_target_module = "lake_of_a_test.code"\ncode_location_name = "blue"\n'
    stated(elsewhere, STATED + more)
    assert (project().module, project().name) == ("lake_of_a_test.code", "blue")


def test_no_project_is_one_sentence(elsewhere):
    """It says where was looked, and how to make one; the home is then below the working directory."""
    with pytest.raises(ValueError, match=f"there is no project in {elsewhere} or above: .*dedp new my_lake"):
        project()
    assert settings().home == elsewhere / ".dedp"


def test_a_project_without_a_module_is_refused(elsewhere):
    """By the file that has to name it."""
    stated(elsewhere, "[tool.dg.project]\n")
    with pytest.raises(ValueError, match=r"pyproject.toml: tool.dg.project must name the package with the code"):
        project()


@pytest.mark.parametrize("layout", ["", "src"])
def test_definitions_are_found_without_an_installation(elsewhere, layout):
    """The folder of the project, or its folder src, is looked in for modules."""
    name = f"lake_of_a_test_{layout or 'flat'}"
    package = stated(elsewhere, STATED.replace("lake_of_a_test", name)) / layout / name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "definitions.py").write_text("import dagster as dg\ndefs = dg.Definitions()\n")
    assert project().definitions().assets is None
    assert package in set(project().code())


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (None, "pyproject.toml must name a module that is there, not lake_of_no_code.definitions"),
        ("", "lake_of_a_text.definitions must have definitions under the name defs"),
    ],
)
def test_code_without_definitions_is_one_sentence(elsewhere, code, sentence):
    """A missing module, and a module without the name."""
    name = "lake_of_no_code" if code is None else "lake_of_a_text"
    stated(elsewhere, STATED.replace("lake_of_a_test", name))
    if code is not None:
        (elsewhere / name).mkdir()
        (elsewhere / name / "definitions.py").write_text(code)
    with pytest.raises(ValueError, match=sentence):
        project().definitions()


def test_what_the_code_itself_misses_is_told_as_it_is(elsewhere):
    """An import of the user's that fails is not taken for a missing module of the project."""
    stated(elsewhere, STATED.replace("lake_of_a_test", "lake_of_imports"))
    (elsewhere / "lake_of_imports").mkdir()
    (elsewhere / "lake_of_imports" / "definitions.py").write_text("import nowhere_at_all\n")
    file = elsewhere / "lake_of_imports" / "definitions.py"
    with pytest.raises(ValueError, match=f"^{file}:1:1: ModuleNotFoundError: No module named 'nowhere_at_all'$"):
        project().definitions()


def test_the_case_study_is_refused_elsewhere(elsewhere):
    """Its demo would load visits into somebody's lake."""
    stated(elsewhere)
    with pytest.raises(ValueError, match="the demo belongs to the case study: run this in a checkout of it, not in "):
        project().require_case_study("the demo")
