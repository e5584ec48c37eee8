"""The sdist and the wheel as an index would take them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from tests.wheel import UV

TWINE = Path(sys.executable).parent / "twine"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with the sdist, and the wheel that is built of the sdist alone."""
    folder = tmp_path_factory.mktemp("dist")
    for offline in (["--offline"], []):
        command = [UV, "build", *offline, "--quiet", "--out-dir", folder, CHECKOUT]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return folder
    pytest.fail("nothing can be built")


def test_an_index_takes_both(built):
    """Metadata and description, strictly."""
    files = [str(path) for pattern in ("*.tar.gz", "*.whl") for path in built.glob(pattern)]
    assert len(files) == 2
    done = subprocess.run(
        [TWINE, "--no-color", "check", "--strict", *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout


def test_metadata_say_for_whom_it_is_and_name_no_address_that_is_not_there(built):
    """Python versions as tested, types, a licence by its SPDX name; an address only once there is one."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
        text = packed.read(name).decode()
        assert "dedp_assets/py.typed" in packed.namelist()
    head = text.partition("\n\n")[0]
    stated = re.findall(r"^Classifier: (.*)$", head, re.MULTILINE)
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.10", "Environment :: Console"} <= {*stated}
    (oldest, beyond) = re.search(r"^Requires-Python: <3\.(\d+),>=3\.(\d+)$", head, re.MULTILINE).groups()[::-1]
    minors = {int(each.rpartition(".")[2]) for each in stated if re.fullmatch(r".*:: 3\.\d+", each)}
    assert minors == {*range(int(oldest), int(beyond))}
    assert "License-Expression: Apache-2.0" in head
    assert (
        re.findall(r"^(?:Project-URL|Home-page|Download-URL|Author-email|Maintainer-email): .*$", head, re.MULTILINE)
        == []
    )


def test_the_source_holds_what_the_wheel_and_the_readme_need(built):
    """The package with its data, the documentation and the licence; no test, no cache, nothing of a home."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        tops = {Path(name).parts[1] for name in packed.getnames() if len(Path(name).parts) > 1}
    assert {"dedp_assets", "docs", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"} <= tops
    assert not tops & {"tests", "benchmarks", ".dedp", ".venv", "requirements.lock"}
