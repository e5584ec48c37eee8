"""SQL options: refusal of SQL that Spark cannot evaluate, in a sentence with the option's name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED

__all__ = [
    "has_subquery", "naming_options", "one_value", "reason_of", "require_of_one_row", "require_repeatable", "truth",
]  # fmt: skip

_CALL = re.compile(r"\b(?!(?:AND|CASE|ELSE|IN|LIKE|NOT|ON|OR|THEN|WHEN)\b)\w+`?\s*\(|/\*|--", re.IGNORECASE)
"""What every SQL has that may say something else the next time: a function."""
_OF_THE_ROW = re.compile(r"\binput_file_(name|block_start|block_length)\s*\(\s*\)", re.IGNORECASE)
"""Functions that Spark lists with the random ones, and that say the same of a row each time."""
_SUBQUERY = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|/\*.*?\*/|--[^\n]*"""
    r"""|(?P<query>\((?:\s|/\*.*?\*/|--[^\n]*\n)*(?:SELECT\b(?!\s*[=<>,)])"""
    r"""|(?:WITH|FROM|VALUES|TABLE)\b(?!\s*(?:[=<>,)+*/%|&!.^-]|(?:AND|BETWEEN|IN|IS|LIKE|NOT|OR)\b))))""",
    re.IGNORECASE | re.DOTALL,
)
_SUGGESTED = re.compile(r"( Did you mean one of the following\? )\[((?:`(?:[^`]|``)+`(?:, )?)+)\]\.?")
_IN_PYTHON = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(\S.*)", re.MULTILINE)
_REFUSED = (AnalysisException, Py4JError)
"""What Spark's analysis raises; a lambda function outside of a call ends as an error of the JVM."""


def has_subquery(sql: str) -> bool:
    """Return whether SQL holds a query over other rows, outside of texts, names and comments.

    Example:
        >>> has_subquery("id IN (SELECT 1)"), has_subquery("note <> '(SELECT 1)'"), has_subquery("(values + 1) > 2")
        (True, False, False)
    """
    return any(found["query"] for found in _SUBQUERY.finditer(sql))


def require_of_one_row(what: str, rules: Mapping[str, str]) -> None:
    """Refuse rules with a query over other rows.

    Args:
        what: what messages call a rule.
        rules: name -> SQL.

    Raises:
        ConfigError: names the rule.
    """
    for name, sql in rules.items():
        if has_subquery(sql):
            raise ConfigError(f"{what} {name} must be of one row, without a query over other rows, not {sql}")


def truth(predicate: str) -> str:
    """Write SQL that is true for the rows that satisfy ``predicate``, and false for all others.

    Between parentheses Spark would read a text as a truth, and ``a) OR (b`` as two predicates; here it refuses both.
    """
    return f"if({predicate}, true, false)"


def one_value(sql: str) -> str:
    """Write SQL for the value of ``sql`` in one row; Spark refuses several values or rows."""
    return f"coalesce({sql}, NULL)"


@contextmanager
def naming_options(rows: DataFrame, what: str, options: Mapping[str, str]) -> Iterator[None]:
    """Raise an error of the block as a refusal that names the option with the faulty SQL.

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
    except _REFUSED as error:
        # Beside the columns of a row, an aggregate of all rows is refused as well.
        of_row = isinstance(error, AnalysisException) and error.getCondition() == "MISSING_GROUP_BY"
        refused = ((f"{what} {name}", _refusal(rows, sql, of_row=of_row)) for name, sql in options.items())
        named, why = next(((name, why) for name, why in refused if why), (f"a {what}", reason_of(error)))
        raise ConfigError(f"{named} cannot be evaluated: {why}") from error


def require_repeatable(rows: DataFrame, what: str, options: Mapping[str, str]) -> None:
    """Refuse non-deterministic SQL such as ``rand()``, by analysis and without a Spark job.

    Spark evaluates an expression as often as it likes: once for each part of a split, and again where a task is.

    Args:
        rows: what the options are evaluated over.
        what: what such an option is called, as "condition".
        options: name -> SQL.

    Raises:
        ConfigError: names the first such option.

    Example:
        >>> require_repeatable(frame("id INT"), "condition", {"few": "rand() < 0.1"})
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: condition few must say the same of a row each time, not ...
    """
    calls = {name: sql for name, sql in options.items() if _CALL.search(sql)}
    if not calls or not _changes(rows, calls.values()):
        return
    found = next((name for name, sql in calls.items() if _changes(rows, [sql])), next(iter(calls)))
    raise ConfigError(
        f"{what} {found} must say the same of a row each time, not {options[found]}: make a column of it and store the "
        "rows before"
    )


def _changes(rows: DataFrame, expressions: Iterable[str]) -> bool:
    """Return whether Spark's analysis finds a non-deterministic expression; every other fault is ignored."""
    together = ", ".join(f"({_OF_THE_ROW.sub('1', sql)})" for sql in expressions)
    try:
        # Aggregate functions take no such argument, and their analysis is a single one.
        _ = rows.selectExpr(f"any_value(struct({together}))").schema
    except AnalysisException as error:
        return error.getCondition() == "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
    return False


def reason_of(error: Exception) -> str:
    """Return the line of Spark's error with the reason, and the line with the columns that Delta refuses.

    Syntax errors begin with an empty line, and errors that PySpark does not translate with the call of the JVM.
    Suggestions are columns that nobody declared, too: those of the library's own computation. Of an error in a Python
    function it is the line that ends the function's traceback.
    """
    text = str(getattr(error, "java_exception", error)).strip()
    if in_python := _IN_PYTHON.search(text):
        return in_python[1]
    reason, *more = text.split("\n")
    shown = " ".join([reason, *(line for line in more if line.startswith("Invalid column names:"))])
    return _SUGGESTED.sub(_declared, shown)


def _declared(found: re.Match[str]) -> str:
    names = [name for name in re.findall("`(?:[^`]|``)+`", found[2]) if not name.startswith(f"`{RESERVED}")]
    return f"{found[1]}[{', '.join(names)}]." if names else ""


def _refusal(rows: DataFrame, sql: str, *, of_row: bool) -> str:
    try:
        _ = rows.selectExpr(*(["*"] if of_row else []), f"({sql}) AS probe").schema
    except _REFUSED as error:
        return reason_of(error)
    return ""
