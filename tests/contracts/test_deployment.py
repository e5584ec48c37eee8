"""The files for Kubernetes, which nobody runs here: linters read them, and their settings are ones that exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dedp_assets.graph.resources.environments import Settings, variables_of

FOLDER = Path(__file__).parents[2] / "docs" / "deployment"
OF_SPARK = {"SPARK_CONF_DIR"}
"""A variable that pyspark itself reads."""
RULES = "{extends: default, rules: {line-length: {max: 140}}}"


def lint(program: str, *words: str) -> tuple[int, str]:
    """Exit code and output of a linter of this environment."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_container_file_has_no_fault():
    """By the linter of container files and of the shell in them."""
    assert lint("hadolint", str(FOLDER / "Containerfile")) == (0, "")


@pytest.mark.parametrize("name", ["values.yaml", "spark.yaml"])
def test_the_documents_have_no_fault(name):
    """By the linter of YAML: no key twice, no surprise of a type."""
    assert lint("yamllint", "--strict", "-d", RULES, str(FOLDER / name)) == (0, "")


def test_the_linters_find_faults(tmp_path):
    """A linter that found nothing anywhere would prove nothing."""
    (tmp_path / "Containerfile").write_text("FROM python\nRUN cd /x\n")
    (tmp_path / "values.yaml").write_text("---\na: 1\na: 2\n")
    assert lint("hadolint", str(tmp_path / "Containerfile"))[0] != 0
    assert lint("yamllint", "--strict", "-d", RULES, str(tmp_path / "values.yaml"))[0] != 0


def test_the_variables_are_settings_that_exist():
    """A renamed setting would be ignored there in silence, and the lake lie in the pod's own folder."""
    (deployment,) = yaml.safe_load((FOLDER / "values.yaml").read_text())["dagster-user-deployments"]["deployments"]
    named = {each["name"] for each in deployment["env"]}
    assert named - OF_SPARK <= {variable.name for variable in variables_of(Settings).values()}
    assert all("Not run here: linter" in file.read_text() or "Not run here: a linter" in file.read_text()
               for file in FOLDER.iterdir())  # fmt: skip
