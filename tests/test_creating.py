"""``dedp new``: files, and what is refused."""

from __future__ import annotations

import json

import pytest
import tomli

from dedp_assets.cli import main
from dedp_assets.commands.new import TEMPLATE, create
from dedp_assets.patterns.core.errors import ConfigError


@pytest.fixture
def made(tmp_path, monkeypatch, capsys):
    """A project, and the printed lines."""
    monkeypatch.delenv("DEDP_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["new", "river"]) == 0
    return tmp_path / "river", capsys.readouterr().out.splitlines()


def test_every_file_carries_the_projects_name(made):
    """No file of the template is left out, and none keeps its name or its suffix."""
    root, said = made
    files = [path for path in root.rglob("*") if path.is_file() and ".dedp" not in path.parts]
    assert len(files) == len([path for path in TEMPLATE.rglob("*") if path.is_file()])
    assert not [path for path in files if "my_lake" in path.name or "template" in path.name]
    assert not [path for path in files if "my_lake" in path.read_text()]
    project = tomli.loads((root / "pyproject.toml").read_text())
    assert project["tool"]["dg"]["project"]["root_module"] == project["project"]["name"] == "river"
    assert ".dedp/" in (root / ".gitignore").read_text()
    assert len([line for line in (root / "README.md").read_text().splitlines() if line]) <= 10
    assert said[1].startswith("next: `cd river; dedp up`")


def test_an_editor_finds_the_schema(made):
    """The first line of each declaration names a file that is there."""
    root, _ = made
    declarations = sorted(root.rglob("defs.yaml"))
    assert len(declarations) == 2
    for file in declarations:
        first = file.read_text().splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        assert json.loads((file.parent / first).read_text())["type"] == "object"


def test_the_sample_lies_in_the_landing_zone_of_the_home(made, monkeypatch, tmp_path):
    """Of the project, or of the home that is stated; what lies there already stays."""
    root, _ = made
    assert len(list((root / ".dedp" / "landing" / "orders").glob("*/_SUCCESS"))) == 3
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))
    mine = tmp_path / "home" / "landing" / "orders" / "mine.csv"
    mine.parent.mkdir(parents=True)
    mine.touch()
    assert create(tmp_path / "brook") == 0
    assert list((tmp_path / "home" / "landing" / "orders").iterdir()) == [mine]


@pytest.mark.parametrize("name", ["1x", "class", "my-lake", "a b", "ö", ".x"])
def test_a_name_that_no_package_can_have_is_refused(tmp_path, name):
    """Before anything is written."""
    with pytest.raises(
        ConfigError, match=r"folder must be called like a Python package \(letters, digits and _\), not "
    ):
        create(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["json", "dagster", "dedp_assets"])
def test_the_name_of_an_installed_package_is_refused(tmp_path, name):
    """The project would stand before it, or it before the project."""
    with pytest.raises(ConfigError, match=f"folder must have a name that no installed package has, not {name}"):
        create(tmp_path / name)


def test_a_folder_with_something_in_it_is_left_as_it_is(tmp_path, monkeypatch, capsys):
    """One sentence and exit code 1; an empty folder is taken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "river").mkdir()
    (tmp_path / "river" / "mine").write_text("mine")
    assert main(["new", "river"]) == 2
    assert capsys.readouterr().err == (
        "dedp new: folder must be new or empty, not river, which holds something: `dedp new my_lake`\n"
    )
    assert [path.name for path in (tmp_path / "river").iterdir()] == ["mine"]
    (tmp_path / "brook").mkdir()
    assert main(["new", "brook"]) == 0
