"""SQL that is given as an option: what Spark cannot evaluate is refused by the option's name, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["naming_options", "reason_of"]


@contextmanager
def naming_options(rows: DataFrame, what: str, options: Mapping[str, str]) -> Iterator[None]:
    """Name the option whose SQL Spark cannot evaluate, if the block fails on it.

    Nothing is analysed twice unless it is refused. Over Spark Connect nothing is analysed before somebody asks for
    columns or rows, so there the refusal comes from whatever asks first.

    Args:
        rows: what the options are evaluated over.
        what: what such an option is called, as "condition".
        options: name -> SQL.

    Raises:
        ConfigError: names the first option that Spark cannot evaluate, and says why.

    Example:
        >>> with naming_options(frame("id INT"), "condition", {"adult": "age > 17"}):
        ...     _ = frame("id INT").filter("age > 17")
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: condition adult cannot be evaluated: [UNRESOLVED_COLUMN...
    """
    try:
        yield
    except AnalysisException as error:
        refused = ((f"{what} {name}", _refusal(rows, sql)) for name, sql in options.items())
        named, why = next(((name, why) for name, why in refused if why), (f"a {what}", reason_of(error)))
        raise ConfigError(f"{named} cannot be evaluated: {why}") from error


def reason_of(error: Exception) -> str:
    """Return the line of Spark's error that states the reason, and the one with the columns that Delta refuses.

    Syntax errors begin with an empty line.
    """
    reason, *more = str(error).strip().split("\n")
    return " ".join([reason, *(line for line in more if line.startswith("Invalid column names:"))])


def _refusal(rows: DataFrame, sql: str) -> str:
    try:
        _ = rows.selectExpr(f"({sql}) AS probe").schema
    except AnalysisException as error:
        return reason_of(error)
    return ""
