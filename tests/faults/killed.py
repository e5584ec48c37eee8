"""Drives the platform until it reaches a point in a table's write, says so, and waits there to be killed.

Called as ``killed.py <point> <table> <file to touch>``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from dedp_assets.instance import Platform
from dedp_assets.patterns.delta import publishing, tables
from resources.environments import settings


def main(point: str, table: str, reached: str) -> None:
    stage, commit = tables.stage_rows, publishing.commit_files

    def reach(here: str, folder: Path) -> None:
        if here == point and folder.as_posix().endswith(table):
            Path(reached).touch()
            time.sleep(600)

    def staging(rows, layout, **more):
        staged = stage(rows, layout, **more)
        reach("staged", layout.folder)
        return staged

    def committing(state, staged, *more, **options):
        reach("before commit", staged.folder.parent)
        commit(state, staged, *more, **options)
        reach("after commit", staged.folder.parent)

    tables.stage_rows, publishing.commit_files = staging, committing
    list(Platform(settings()).react())


if __name__ == "__main__":
    main(*sys.argv[1:])
