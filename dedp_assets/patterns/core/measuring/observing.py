"""Observed figures of a pass over rows: complete or left out, and independent of each other's errors.

Spark adds up in the driver what each task observed. Where that fails for one aggregate (a sum that overflows), the
whole observation loses the update of that task, with no more than a line in the engine's log: figures that are there
may be those of some of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.sql.sql_options import reason_of

__all__ = ["SPARK_ERRORS", "Unmeasured", "Watch", "computing", "is_data_fault"]

SPARK_ERRORS = (PySparkException, Py4JError)
"""What a Spark action may raise: an embedded session does not translate every error of the JVM."""

_ROWS = f"{RESERVED}watched"
_OF_VALUES = re.compile("SQLSTATE: (22|P0001)")
"""States of errors about a value, ``raise_error`` of an expression among them."""
_COUNTED = {_ROWS: "count(1)"}
_SURE = re.compile(r"\s*(count|count_if|min|max|bool_and|bool_or|bit_xor|histogram_numeric)\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A figure that cannot be computed.

    Attributes:
        why: the aggregate and what is wrong with it.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Watch:
    """Aggregates to observe in a pass over rows.

    Attributes:
        own: name -> SQL aggregate that cannot fail.
        asked: name -> SQL aggregate of somebody else. What may fail when tasks are added up is observed beside the
            others, and counts only if it is of as many rows.
        apart: whether nothing that is asked is observed, because the job has failed on it: it has a pass of its own.
        seen: the observation of what cannot fail.
        beside: the observation of what may.
    """

    own: Mapping[str, str]
    asked: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    seen: Observation = field(default_factory=Observation, repr=False)
    beside: Observation = field(default_factory=Observation, repr=False)

    def on(self, rows: DataFrame) -> DataFrame:
        """Observe ``rows`` in the Spark job that reads the rows; lazy."""
        rows = rows.observe(self.seen, *self._columns(self._sure))
        return rows.observe(self.beside, *self._columns(self._doubtful)) if self._doubtful else rows

    def observed(self) -> dict[str, Any]:
        """Read the observed figures without incomplete figures; waits for the job.

        Where Spark finds that nothing can come of a part of a query, by its text or while it runs, it leaves that part
        out, and what was to be observed there is missing.
        """
        found = _read(self.seen, self._sure)
        if found and self._doubtful:
            beside = _read(self.beside, self._doubtful)
            if beside.get(_ROWS, 0) > found[_ROWS]:
                return {}
            found |= beside if beside.get(_ROWS) == found[_ROWS] else {}
        return {name: value for name, value in found.items() if name in self.own or name in self.asked}

    def completed(self, rows: DataFrame, observed: Mapping[str, Any]) -> dict[str, Any]:
        """Compute figures missing in ``observed`` in a separate pass; failed figures are :class:`Unmeasured`.

        Raises:
            ContractError: if ``rows`` are others each time they are computed.
        """
        found = dict(observed) or _computed(rows, self.own)
        known = {name: found[name] for name in self.own}
        lacking = {name: sql for name, sql in self.asked.items() if name not in found}
        return {**found, **(_asked(rows, self.own, known, lacking) if lacking else {})}

    def figures(self, rows: DataFrame) -> dict[str, Any]:
        """Read the figures of ``rows``, with a further pass for missing figures; waits for the observed job."""
        return self.completed(rows, self.observed())

    def _columns(self, measures: Mapping[str, str]) -> list[Column]:
        """Make a column of each aggregate."""
        return [self._column(name, sql) for name, sql in measures.items()]

    def _column(self, name: str, sql: str) -> Column:
        # Somebody else's SQL may end in a comment, and a figure may be called by a text that no SQL can hold.
        if name in self.asked or not name.isidentifier():
            return F.expr(sql).alias(name)
        return F.expr(f"{sql} AS {identifier(name)}")

    @property
    def _sure(self) -> dict[str, str]:
        sure = {name: sql for name, sql in self.asked.items() if _is_sure(sql) and not self.apart}
        return {**self.own, **sure, **(_COUNTED if self._doubtful else {})}

    @property
    def _doubtful(self) -> dict[str, str]:
        found = {name: sql for name, sql in self.asked.items() if not (_is_sure(sql) or self.apart)}
        return {**found, **_COUNTED} if found else {}


def is_data_fault(error: Exception) -> bool:
    """Return whether a Spark error is a data exception of a value, such as an overflow or a failed cast."""
    return isinstance(error, SPARK_ERRORS) and "SQLSTATE: 22" in str(error)


@contextmanager
def computing(what: str, remedy: str) -> Iterator[None]:
    """Raise Spark's error about a value that cannot be computed as an error of the library.

    Args:
        what: the table, and the expression that is computed for each row.
        remedy: advice for the reader of the error.

    Raises:
        ContractError: names both, and Spark's reason.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if not _OF_VALUES.search(str(error)):
            raise
        raise ContractError(f"{what} cannot be computed for every row: {reason_of(error)}: {remedy}") from error


def _is_sure(sql: str) -> bool:
    """Return whether an aggregate is a single call of a counting or comparing function, free of overflow."""
    call = _SURE.match(sql)
    if call is None:
        return False
    depths = list(accumulate({"(": 1, ")": -1}.get(char, 0) for char in sql.strip()[sql.strip().index("(") :]))
    return 0 not in depths[:-1] and depths[-1] == 0


def _read(seen: Observation, names: Mapping[str, str]) -> dict[str, Any]:
    """Read an observation; empty if incomplete or if the evaluation failed."""
    try:
        found = dict(seen.get)
    except SPARK_ERRORS:
        # An embedded session cannot hand over that nothing was observed.
        return {}
    return {name: found[name] for name in names} if found.keys() >= names.keys() else {}


def _computed(rows: DataFrame, measures: Mapping[str, str]) -> dict[str, Any]:
    return rows.agg(*[F.expr(sql).alias(name) for name, sql in measures.items()]).collect()[0].asDict()


def _asked(
    rows: DataFrame, own: Mapping[str, str], known: Mapping[str, Any], asked: Mapping[str, str]
) -> dict[str, Any]:
    """Compute further aggregates over the rows with figures ``known``: together, or singly on an error."""
    try:
        found = _computed(rows, {**own, **asked})
    except SPARK_ERRORS as error:
        if len(asked) > 1:
            return {name: _asked(rows, own, known, {name: sql})[name] for name, sql in asked.items()}
        ((name, sql),) = asked.items()
        return {name: Unmeasured(f"{sql} cannot be evaluated: {reason_of(error)}")}
    if {name: found[name] for name in own} != known:
        raise ContractError(
            f"{', '.join(asked)} could not be measured in the pass that wrote the rows, and these are others when they "
            "are computed once more: give rows that are the same each time"
        )
    return {name: found[name] for name in asked}
