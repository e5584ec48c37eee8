"""Fragments of the changelog."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from dedp_assets.graph.resources.environments import CHECKOUT

FRAGMENTS = sorted((CHECKOUT / "changes").glob("+*"))


def test_a_fragment_is_a_paragraph():
    """Without a bullet, which the changelog gives it, under a name that is found."""
    for fragment in FRAGMENTS:
        assert re.fullmatch(r"\+[a-z0-9-]+\.change\.md", fragment.name)
        text = fragment.read_text(encoding="utf-8")
        assert re.fullmatch(r"[^-*#\s][^\n]*(\n[^-*#\s][^\n]*)*\n", text), fragment.name


def test_the_changelog_is_made_of_the_fragments():
    """All of them, each as a bullet, before a release."""
    tool = Path(sys.executable).parent / "towncrier"
    made = subprocess.run(
        [tool, "build", "--draft", "--version", "next"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    bullets = [" ".join(each.split()) for each in re.split(r"^- ", made, flags=re.MULTILINE)[1:]]
    assert sorted(bullets) == sorted(" ".join(each.read_text(encoding="utf-8").split()) for each in FRAGMENTS)
