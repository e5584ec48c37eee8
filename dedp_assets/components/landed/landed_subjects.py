"""Persons in landed records: SQL of a person's id in the column raw."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dedp_assets.patterns.connectors.encoding.formats import Csv
from dedp_assets.patterns.core.column import Column
from dedp_assets.patterns.core.rows import quoted

__all__ = ["with_subject"]


def with_subject(raw: Column, columns: Mapping[str, Column], names: Sequence[str], form: object) -> Column:
    """Return the column raw, with the person of the records, if a column states a person.

    So an erasure finds the records, and late ones are left out. Of several persons in a record the first counts.

    Args:
        raw: the column ``raw``; with CSV there is a column ``header`` beside it.
        columns: the declared columns of the records, in order.
        names: names of the columns in the files, in the same order.
        form: format of the records; all but CSV are JSON in ``raw``.
    """
    for position, (column, called) in enumerate(zip(columns.values(), names, strict=True)):
        if column.subject and not column.subject_by:
            by = _of_csv(called, position, form) if isinstance(form, Csv) else _of_json(called)
            return replace(raw, subject=column.subject, subject_by=by)
    return raw


def _of_json(name: str) -> str:
    return f"try_element_at(from_json(raw, 'MAP<STRING, STRING>'), {quoted(name)})"


def _of_csv(name: str, position: int, form: Csv) -> str:
    """Write SQL of a value in a line; an open quote is a part of the value."""
    comma, quote = re.escape(form.delimiter), re.escape(form.quote)
    plain = f"[^{comma}]*"
    value = f"{quote}(?:[^{quote}]|{quote}{quote})*{quote}|{plain}" if form.quote else plain
    # With a delimiter before the first value as well, no match is empty.
    found = f"regexp_extract_all(concat({quoted(form.delimiter)}, raw), {quoted(f'(?s){comma}({value})')}, 1)"
    at = f"array_position(from_json(header, 'ARRAY<STRING>'), {quoted(name)})" if form.header else str(position + 1)
    text = f"try_element_at({found}, CAST(nullif({at}, 0) AS INT))"
    if not form.quote:
        return text
    inner = f"replace(substr({text}, 2, length({text}) - 2), {quoted(form.quote * 2)}, {quoted(form.quote)})"
    mark = quoted(form.quote)
    is_quoted = f"length({text}) > 1 AND startswith({text}, {mark}) AND endswith({text}, {mark})"
    return f"if({is_quoted}, {inner}, {text})"
