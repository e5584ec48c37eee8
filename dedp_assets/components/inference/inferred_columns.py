"""Columns by the evidence of files or of a database, and the text of their file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dedp_assets.components.landed.landings import ADDED

__all__ = ["InferredColumn", "name_for", "text_of_columns"]

_UNFIT = re.compile(r"[ ,;{}()\n\t=.`\"]")
_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}


@dataclass
class InferredColumn:
    """A column by the evidence of files or a database.

    Attributes:
        type: SQL type.
        called: name in the files or the table.
        format: date pattern.
        lacks: whether a file or a record has no such column.
        remark: what else was seen.
    """

    type: str
    called: str
    format: str = ""
    lacks: bool = False
    remark: str = ""


def name_for(called: str, taken: Mapping[str, object]) -> str:
    """Return a name for a column that tables can have, and no other column has."""
    name = called
    if _UNFIT.search(called) or not called:
        name = re.sub(r"\W+", "_", called).strip("_").lower() or f"column_{len(taken) + 1}"
    if name.lower() in ADDED or name.lower().startswith("__"):
        name = f"{name}_in_file"
    others = {each.lower() for each in taken}
    return name if name.lower() not in others else f"{name}_{len(taken) + 1}"


def text_of_columns(columns: Mapping[str, InferredColumn], whence: str, sample: str) -> str:
    """Return the text of the file with columns.

    Args:
        columns: columns by name.
        whence: folder or table of the records.
        sample: what was looked at, in words.
    """
    lines = [
        f"# Columns of the records in {whence}, as dedp infer saw them in {sample}.",
        "# They hold from now on: a record that does not fit is a dead letter. Change what is to be another way.",
        "columns:",
    ]
    for name, column in columns.items():
        called = column.called if column.called != name else ""
        stated = {"type": column.type, "called": called, "format": column.format}
        options = [f"{option}: {_yaml(value)}" for option, value in stated.items() if value]
        options += ["may_lack: true"] if column.lacks else []
        remark = "".join(c if c.isprintable() else "?" for c in column.remark)
        lines.append(f"  {_yaml(name)}: {{{', '.join(options)}}}" + (f"  # {remark}" if remark else ""))
    return "\n".join(lines) + "\n"


def _yaml(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*(\(\d+(, ?\d+)?\))?", text, re.ASCII) and text.lower() not in _WORDS
    return text if plain and "," not in text else json.dumps(text, ensure_ascii=False)
