"""Points at which a write dies: right before what it wrote is there for readers, or right after."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dedp_assets.patterns.core.measuring import observing
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.delta.storage.store import Hold
from dedp_assets.patterns.idempotency import _transactions, transactional_writer

POINTS = ("before", "after")
_COMMIT = re.compile(r"(?!0{20})\d{20}\.json")  # version 0 only creates a table


@dataclass
class Failpoint:
    """Where a write dies, once.

    Attributes:
        point: ``before`` or ``after`` a commit of Delta or PostgreSQL, or the exchange of a folder, is there.
        below: a part of the path that the table lies under.
        reached: whether it was come by.
    """

    point: str
    below: str
    reached: bool = False

    def pass_by(self, here: str, shown: str) -> None:
        """Die, if this is the point."""
        if here == self.point and not self.reached and self.below in shown and "/staged-" not in shown:
            self.reached = True
            raise RuntimeError(f"killed {here} {shown}")


@contextmanager
def dying(point: str, *, below: str = "/") -> Iterator[Failpoint]:
    """Let the next write of a table below a folder, or of a target of that name, die at ``point``."""
    failpoint = Failpoint(point, below)
    with pytest.MonkeyPatch.context() as patch:
        _watch_files(failpoint, patch)
        _watch_transactions(failpoint, patch)
        yield failpoint


def _watch_files(failpoint: Failpoint, patch: pytest.MonkeyPatch) -> None:
    shows, puts = LocalStore.show, LocalStore.put_if_absent

    def show(store: LocalStore, name: str, folder: str) -> None:
        failpoint.pass_by("before", f"{store.address}/{name}")
        shows(store, name, folder)
        failpoint.pass_by("after", f"{store.address}/{name}")

    def put_if_absent(store: LocalStore, path: str, content: bytes) -> Any:
        commits = store.address.endswith("/_delta_log") and _COMMIT.fullmatch(path)
        if commits:
            failpoint.pass_by("before", f"{store.address}/{path}")
        puts(store, path, content)
        if commits:
            failpoint.pass_by("after", f"{store.address}/{path}")

    patch.setattr(LocalStore, "show", show)
    patch.setattr(LocalStore, "put_if_absent", put_if_absent)


def _watch_transactions(failpoint: Failpoint, patch: pytest.MonkeyPatch) -> None:
    marks, writes = _transactions._mark, _transactions.write_sets

    def mark(connection: Any, table: Any, write: _transactions.Written) -> None:
        marks(connection, table, write)
        failpoint.pass_by("before", f"/{write.target}/")

    def write_sets(incoming: Any, write: _transactions.Written, **options: Any) -> Any:
        done = writes(incoming, write, **options)
        if done is not None:
            failpoint.pass_by("after", f"/{write.target}/")
        return done

    patch.setattr(_transactions, "_mark", mark)
    patch.setattr(transactional_writer, "write_sets", write_sets)


@contextmanager
def losing_figures(what: str) -> Iterator[list[str]]:
    """Lose observed figures as Spark does: those ``of one task``, and those ``of one task, again``, or ``all`` of them.

    A task is one that saw a row of each kind. Yields the losses.
    """
    losses: list[str] = []
    read = observing._read

    def lossy(seen: Any, names: Any) -> dict[str, Any]:
        found = read(seen, names)
        if what == "of one task" and losses:
            return found
        losses.append(what)
        if what == "all":
            return {}
        return {name: value - 1 if isinstance(value, int) and value else value for name, value in found.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observing, "_read", lossy)
        yield losses


@contextmanager
def vacuuming(table: Table, *, times: int = 1) -> Iterator[list[str]]:
    """Let somebody remove one file of a stage right before it is published, as VACUUM does without a retention."""
    removed: list[str] = []
    locked = LocalStore.lock

    @contextmanager
    def lock(store: LocalStore, timeout_seconds: float) -> Iterator[Hold]:
        with locked(store, timeout_seconds) as held:
            if len(removed) < times and store.root == str(table.location):
                live = {Path(store.root, file["path"]) for file in table.ledger.state().files()}
                for staged in sorted({*Path(store.root).glob("staged-*/**/*.parquet")} - live)[:1]:
                    staged.unlink()
                    removed.append(staged.name)
            yield held

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "lock", lock)
        yield removed
