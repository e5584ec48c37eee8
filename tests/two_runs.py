"""Two runs of a write at once: the tables that they share, and the marks of such cases beside a pattern's tests."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import Any

from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.quality.offline_observer import PROFILE
from tests.helpers import a_run, read_back

UNLIKE = {"asked_at", "dead_lettered_at", "was_present"}
"""Columns that say when a run looked, apart from those of profiles."""


@dataclass(frozen=True)
class TwoRuns:
    """A case: what it is like, and how the two runs of it keep out of each other's way.

    Attributes:
        of: takes a :class:`World`, makes its tables and yields the two runs, each a function of a world.
        varied: options of ``of``.
        under_one_lock: whether its commits belong together and have a lock of their own, in whatever store.
        one_query: whether it is a streaming query, which Spark runs once at a time in a process: a query started
            within one of its own micro-batches stops the first.
    """

    of: Any
    varied: dict[str, Any]
    under_one_lock: bool
    one_query: bool

    def __str__(self):
        return " ".join([self.of.__name__.removesuffix("_at_once"), *map(str, self.varied.values())])


def two_runs(*, under_one_lock=False, one_query=False, **varied):
    """Mark a case, beside a pattern's tests: ``contracts/test_two_runs.py`` lets its two runs meet at every point.

    Marked several times, it is tried with each of the ``varied`` options.
    """

    def mark(of):
        case = TwoRuns(of, varied, under_one_lock, one_query)
        of.two_runs = [case, *getattr(of, "two_runs", [])]
        return of

    return mark


def two_runs_of(write):
    """Mark the test that proves of a write into something else than a table what two runs at once come to."""

    def mark(test):
        test.two_runs_of = write
        return test

    return mark


@dataclass
class World:
    """Tables below one folder, of which a copy is made for each pair of runs."""

    spark: Any
    root: Any
    specs: dict[str, TableSpec] = field(default_factory=dict)

    def table(self, name, columns, *, more=None, by=(), **spec):
        """Declare a table of columns such as ``id INT!, day STRING`` (``!``: required) and ``more``."""
        kinds = dict(column.split(" ", 1) for column in columns.split(", "))
        stated = {c: {"required": k.endswith("!"), "classification": "public"} for c, k in kinds.items()}
        held = {c: Column(k.removesuffix("!"), **stated[c]) for c, k in kinds.items()}
        self.specs[name] = TableSpec(name, {**held, **(more or {})}, tuple(by), **spec)
        return self[name]

    def __getitem__(self, name):
        return Table(self.specs[name], self.root / name, self.spark)

    def run(self, name, **more):
        """A run of this name, on inputs that no other run has."""
        return a_run("t", run_id=name, inputs={name: 1}, **more)

    def into(self, table, name, day=None, **options):
        """The target of a run of this name: a table, or one day of it."""
        partition = {"partition": {"day": day}} if day else {}
        return self[table].target(self.run(name), **partition, **options)

    def frame(self, columns, *rows):
        return self.spark.createDataFrame(rows, columns.replace("!", ""))

    def copy(self, place):
        shutil.copytree(self.root, place)
        return World(self.spark, place, self.specs)

    def rows(self):
        """What every table holds, without what says when a run looked."""
        unlike = UNLIKE | {name for name, column in PROFILE.items() if column.technical}
        held = [(name, row) for name in self.specs if self[name].ledger.exists() for row in read_back(self[name])]
        return sorted(repr([name, *((c, v) for c, v in row.items() if c not in unlike)]) for name, row in held)
