"""Drives the platform until it reaches a point in a table's write, says so, and waits there to be killed.

Called as ``killed.py <point> <table> <file to touch>``. At ``before switch`` it computes that table alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from dedp_assets.graph.resources.environments import settings
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.delta import Store, staged_writes
from dedp_assets.patterns.delta.commit import file_exchange
from dedp_assets.patterns.delta.versions import exposure


def main(point: str, table: str, reached: str) -> None:
    stage, exchange, switch = staged_writes.stage_rows, file_exchange.exchange_files, exposure.commit_actions

    def reach(here: str, store: Store) -> None:
        if here == point and store.address.endswith(table):
            Path(reached).touch()
            time.sleep(600)

    def killed_once_staged(rows, layout, **more):
        staged = stage(rows, layout, **more)
        reach("staged", layout.store)
        return staged

    def committing(store, *more, **options):
        reach("before commit", store)
        exchange(store, *more, **options)
        reach("after commit", store)

    def switching(store, *more, **options):
        reach("before switch", store)
        return switch(store, *more, **options)

    staged_writes.stage_rows, file_exchange.exchange_files = killed_once_staged, committing
    exposure.commit_actions = switching
    platform = Platform(settings())
    if point == "before switch":
        platform.compute(table)
    else:
        list(platform.react())


if __name__ == "__main__":
    main(*sys.argv[1:])
