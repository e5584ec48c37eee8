"""Fragments of the changelog."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from dedp_assets.graph.resources.environments import CHECKOUT

LONGEST = 350
SECTIONS = {".added": "Added", ".changed": "Changed", ".change": "Changed", ".fixed": "Fixed"}
FRAGMENTS = sorted((CHECKOUT / "changes").glob("+*"))


def words(fragment: Path) -> str:
    """The text of a fragment as one line."""
    return " ".join(fragment.read_text(encoding="utf-8").split())


def test_a_fragment_is_a_paragraph():
    """Without a bullet, which the changelog gives it, under a name that is found, of a type that has a section."""
    for fragment in FRAGMENTS:
        assert re.fullmatch(r"\+[a-z0-9-]+\.(added|changed|fixed|change)\.md", fragment.name)
        text = fragment.read_text(encoding="utf-8")
        assert re.fullmatch(r"[^-*#\s][^\n]*(\n[^-*#\s][^\n]*)*\n", text), fragment.name


def test_a_fragment_is_two_lines():
    """Whoever reads the changelog reads a hundred of them; what is left out stands in the documentation."""
    assert {each.name: len(words(each)) for each in FRAGMENTS if len(words(each)) > LONGEST} == {}


def test_the_changelog_is_made_of_the_fragments():
    """All of them, each as a bullet of the section of its type, before a release."""
    tool = Path(sys.executable).parent / "towncrier"
    made = subprocess.run(
        [tool, "build", "--draft", "--version", "next"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    assert made.startswith("## next\n")
    found = {}
    for part in re.split(r"^### ", made, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        bullets = re.split(r"^- ", text, flags=re.MULTILINE)
        assert not bullets[0].strip()
        found[heading] = sorted(" ".join(each.split()) for each in bullets[1:])
    expected = {}
    for fragment in FRAGMENTS:
        expected.setdefault(SECTIONS[fragment.suffixes[0]], []).append(words(fragment))
    assert found == {heading: sorted(texts) for heading, texts in expected.items()}
    assert [*found] == [heading for heading in ("Added", "Changed", "Fixed") if heading in expected]


def test_the_version_that_is_made_is_later_than_the_newest_release():
    """Or that release itself, once no fragment is left."""
    made = numbers(re.search(r'^version = "(.+)"$', (CHECKOUT / "pyproject.toml").read_text(), re.MULTILINE)[1])
    newest = numbers(re.search(r"^## (\d+\.\d+\.\d+)", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE)[1])
    assert made > newest if FRAGMENTS else made == newest


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
