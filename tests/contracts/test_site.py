"""The site of the documentation, built by mkdocs-material and by Zensical from the same pages, without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment
from docs.site.__main__ import write

pytestmark = [pytest.mark.slow, pytest.mark.budget(90, "two builders of all pages")]
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?([^\"'\s>]+)|<link[^>]*\shref=[\"']?([^\"'\s>]+)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pages, written once."""
    made = tmp_path_factory.mktemp("site")
    assert write(made) > 140
    return made


@pytest.mark.parametrize("builder", ["mkdocs", "zensical"])
def test_the_site_is_built_without_a_warning_and_asks_no_server(folder, builder):
    """Every page becomes one of HTML with its title; nothing that a page loads lies on a server of others."""
    program = Path(sys.executable).parent / builder
    environment = child_environment({"NO_MKDOCS_2_WARNING": "1", "HTTPS_PROXY": "http://127.0.0.1:9"})
    done = subprocess.run(
        [str(program), "build", "--strict", "--clean"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    html = folder / "html"
    written = {path.relative_to(folder / "pages").with_suffix("").as_posix() for path in folder.rglob("pages/**/*.md")}
    built = {path.relative_to(html).with_suffix("").as_posix() for path in html.rglob("*.html")}
    assert written - built == set()
    loaded = {found for path in html.rglob("*.html") for pair in LOADED.findall(path.read_text()) for found in pair}
    outside = {each for each in loaded if re.match(r"(https?:)?//", each)}
    assert outside == set()
    merger = (html / "patterns" / "idempotency" / "merger.html").read_text()
    assert "<svg role=" in merger
    assert merger.count("<table>") >= 3


def test_make_docs_is_what_builds_the_site():
    """One goal, whose default builder is mkdocs."""
    shown = subprocess.run(["make", "-n", "docs"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert "-m docs.site" in shown
