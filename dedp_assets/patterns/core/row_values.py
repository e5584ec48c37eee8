"""Values of rows in error texts of engines, databases and Python: masked, with the sentence kept."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["without_row_values"]

_TYPE = r"\\*\"[^\"\n]{1,200}\""
_BETWEEN: Sequence[tuple[str, str]] = (
    # Spark, and Java's times
    (r"The value ", rf" of the type {_TYPE} cannot be cast"),
    (r"The value ", rf" \({_TYPE}\) cannot be converted"),
    (r"Text ", r" could not be parsed"),
    (r"Duplicate map key ", r" was found"),
    (r"Malformed records are detected in record parsing: ", r"\. Parse Mode"),
    # Python and Arrow
    (r"time data ", r" does not match format"),
    (r"Could not convert ", r" with type"),
    (r"Failed to parse string: ", r" as a scalar"),
    # PostgreSQL
    (r"Key \([^)\n]{1,400}\)=", r" (?:already exists|is not present|is still referenced|conflicts)"),
)
"""Words of engines before and behind a value."""
_BEFORE: Sequence[str] = (
    r"For input string:",
    r"The url is invalid:",
    r"invalid literal for int\(\) with base \d+:",
    r"could not convert string to \w+:",
    r"Invalid isoformat string:",
    r"unconverted data remains:",
    r"input_value=",
    r"invalid input syntax for type [\w ]+:",
    r"COPY [^\n:]{1,400}, column [^\n:]{1,200}:",
    r"Failing row contains",
)
"""Words before a value that goes on to the end of the line, or of the quotation."""
_ENCLOSED = [re.compile(rf"({before}).{{1,4000}}?({behind})", re.DOTALL) for before, behind in _BETWEEN]
_ENDING = re.compile(rf"({'|'.join(_BEFORE)})(\s*)(?:(\\*[\"']).*?\3|[^\n]*)")
_ROW = re.compile(r"(violated by row with values:)(?:(?:\s*- [^\n]*)+|[^\n]*)")
"""Of Delta's constraints: a line for each column, or one of all in a text within a text."""


def without_row_values(text: str, sign: str = "***") -> str:
    r"""Mask the values of rows in an error text of others.

    Found are values by the words that Spark, Delta, Java, Python, Arrow and PostgreSQL put around them. A function of
    somebody else may name a value in other words.

    Args:
        text: any text.
        sign: text in place of a value.

    Example:
        >>> without_row_values('The value \'Ada\' of the type "STRING" cannot be cast to "INT"')
        'The value *** of the type "STRING" cannot be cast to "INT"'
        >>> without_row_values("DETAIL:  Key (email)=(ada@example.org) already exists.")
        'DETAIL:  Key (email)=*** already exists.'
    """
    for enclosed in _ENCLOSED:
        text = enclosed.sub(rf"\g<1>{sign}\g<2>", text)
    text = _ENDING.sub(rf"\g<1>\g<2>{sign}", text)
    return _ROW.sub(rf"\g<1> {sign}", text)
