"""Pages of the documentation name files and functions that there are."""

from __future__ import annotations

import re

from dedp_assets.graph.resources.environments import CHECKOUT

PAGE = CHECKOUT / "docs" / "how_it_runs.md"
ROOTS = (CHECKOUT / "dedp_assets", CHECKOUT)


def test_how_it_runs_names_what_is_there():
    """Each file, and each function that is named right behind its file, is where the page says."""
    text = PAGE.read_text()
    named = re.findall(r"`([\w/]+\.py)`(?:\s+`([\w.]+)`)?", text)
    assert len(named) > 20
    missing = []
    for path, function in named:
        files = [root / path for root in ROOTS if (root / path).is_file()]
        last = function.rpartition(".")[2]
        found = files and (not last or re.search(rf"^\s*(def|class) {last}\b", files[0].read_text(), re.MULTILINE))
        missing += [] if found else [f"{path} {function}"]
    assert missing == []
