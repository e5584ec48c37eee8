"""A call of each public function of the catalogue that works: for contracts that change one of its arguments.

A main function has the call of its example, and the others have one beside the tests of their pattern: a function
under :func:`known_calls`, which may also have a main function's, with what the example leaves out.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock, patch

from pyspark.sql.classic.dataframe import DataFrame as Classic

from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from tests.helpers import NOW, a_run
from tests.marking import marked_with


class Begun(BaseException):
    """A call that would start a job of Spark's, or go to a database: its arguments were taken."""


def _begin(*_: object, **__: object) -> None:
    raise Begun


@contextmanager
def without_jobs():
    """Raise :class:`Begun` where Spark would be asked for rows, or told to write some."""
    methods = ("collect", "toLocalIterator", "count", "localCheckpoint", "persist", "cache", "checkpoint")
    streams = PropertyMock(side_effect=Begun)
    with patch.multiple(Classic, **dict.fromkeys(methods, _begin), write=streams, writeStream=streams):
        yield


def known_calls(use):
    """Mark a function, beside a pattern's tests, that takes :class:`Known` and gives calls: name -> arguments."""
    use.known_calls = True
    return use


@dataclass(frozen=True)
class Known:
    """What known calls are made of: rows and tables, made once.

    Attributes:
        run: who writes.
        begin: stands for what goes to a database or to a service.
    """

    spark: Any
    folder: Path
    run = a_run(sequence=1, at=NOW)
    begin = staticmethod(_begin)

    def frame(self, columns, *rows):
        return self.spark.createDataFrame(rows, columns)

    def table(self, name, columns, *rows, by=(), **more):
        """A table that is there, with rows or without."""
        if isinstance(columns, str):
            each = (column.split() for column in columns.split(","))
            stated = [(name, kind.rstrip("!"), kind.endswith("!")) for name, kind in each]
            columns = {name: Column(kind, required=req, classification="public") for name, kind, req in stated}
        made = self.at(TableSpec(name, columns, partition_by=by, **more))
        assert not made.ledger.exists(), f"{name} is there already: another call made it"
        made.ensure()
        if rows:
            typed = ", ".join(f"{column} {declared.type}" for column, declared in columns.items())
            made.overwrite(self.frame(typed, *rows), provenance=a_run(sequence=1))
        return made

    def at(self, spec):
        return Table(spec, self.folder / spec.name, self.spark)

    @cached_property
    def visits(self):
        return self.frame("id INT, user STRING, page STRING, at TIMESTAMP, day STRING", (1, "Ada", "/", NOW, "mon"))

    @cached_property
    def stream(self):
        return self.spark.readStream.format("rate").load().selectExpr("timestamp AS at", "value AS id", "'Ada' AS user")

    @cached_property
    def daily(self):
        columns = "id INT, user STRING, page STRING, at TIMESTAMP, day STRING"
        return self.table("silver/daily", columns, (1, "Ada", "/", NOW, "mon"), by=("day",))

    def calls(self):
        """Function -> its arguments, of all that are marked."""
        found = {}
        for file, uses in marked_with("known_calls").items():
            for name, arguments in (pair for use in uses for pair in use(self).items()):
                assert name not in found, f"{file} has a call of {name}, and another file has one as well"
                found[name] = arguments
        return found
