"""Drives the platform until it reaches a point in a table's write, says so, and waits there to be killed.

Called as ``killed.py <point> <table> <file to touch>``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from dedp_assets.instance import Platform
from dedp_assets.patterns.core import publishing, tables
from resources.environments import settings

POINT, TABLE, REACHED = sys.argv[1:]


def reach(folder: Path) -> None:
    if folder.as_posix().endswith(TABLE):
        Path(REACHED).touch()
        time.sleep(600)


def main() -> None:
    stage, commit = tables.stage_rows, publishing.commit_files

    def staging(rows, layout, **more):
        staged = stage(rows, layout, **more)
        if POINT == "staged":
            reach(layout.folder)
        return staged

    def committing(state, staged, *more, **options):
        if POINT == "before commit":
            reach(staged.folder.parent)
        commit(state, staged, *more, **options)
        if POINT == "after commit":
            reach(staged.folder.parent)

    tables.stage_rows, publishing.commit_files = staging, committing
    list(Platform(settings()).react())


if __name__ == "__main__":
    main()
