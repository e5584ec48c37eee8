"""``dedp adopt``: the declaration of an existing table as Python code, with all other features.

What was read of the table (:class:`~dedp_assets.patterns.delta.Adoption`) and how it is written down are two things:
another form than Python is another function from the one to a text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Adoption, adoption_of

__all__ = ["adopt", "as_python"]

_WIDTH = 120
_OPTIONS = ("comment", "one_channel_per", "properties", "key", "executed_by", "adopted")
_FLAGS = ("required", "personal", "technical")


def adopt(location: str, name: str = "") -> int:
    """Print the declaration of the table at a location; change nothing.

    Raises:
        ConfigError: if there is no table, or no declaration can state it.
        ContractError: if the table cannot be read.
    """
    text = as_python(adoption_of(location, name=name))
    # In a text of Python, a backslash escape is the same character where a terminal has none.
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), end="")  # noqa: T201
    return 0


def as_python(adoption: Adoption) -> str:
    """Write a declaration as Python code, with comments for everything outside of the declaration."""
    spec = adoption.spec
    named = re.sub(r"\W", "_", spec.name.rpartition("/")[2], flags=re.ASCII).upper()
    variable = named if named.isidentifier() and named != "LOCATION" else f"TABLE_{named}"
    what = f"{spec.name!r}, read from {adoption.location!r} at version {adoption.version}"
    lines = [
        f"# Declaration of {what}; nothing was changed.",
        "from dedp_assets.patterns import Column, TableSpec",
        "",
        f"LOCATION = {_text(adoption.location)}",
        f"{variable} = TableSpec(",
        *_arguments(spec),
        ")",
        *_listed("How it is written", adoption.writes),
        *_listed("In the table and not in this declaration", adoption.left_out),
        *_listed("Not in the log; a declaration can say it", adoption.unknown),
        *_first_write(adoption, variable),
    ]
    return "\n".join(lines) + "\n"


def _arguments(spec: TableSpec) -> Iterator[str]:
    yield f"    {_text(spec.name)},"
    yield "    {"
    for name, column in spec.columns.items():
        yield from _call(f"        {_text(name)}: Column", _column(column))
    yield "    },"
    if spec.partition_by:
        yield from _value("partition_by", spec.partition_by)
    if spec.checks:
        yield from _value("checks", spec.checks)
    for option in _OPTIONS:
        if value := getattr(spec, option):
            yield from _value(option, value)


def _column(column: Column) -> list[str]:
    stated = [_text(column.type), *([_text(column.comment)] if column.comment else [])]
    stated += [f"{flag}=True" for flag in _FLAGS if getattr(column, flag)]
    return [*stated, *([f"replica={_text(column.replica)}"] if column.replica else [])]


def _call(head: str, arguments: Iterable[str]) -> Iterator[str]:
    stated = list(arguments)
    line = f"{head}({', '.join(stated)}),"
    if len(line) <= _WIDTH:
        yield line
        return
    indent = " " * (len(head) - len(head.lstrip()))
    yield f"{head}("
    yield from (f"{indent}    {each}," for each in stated)
    yield f"{indent}),"


def _value(option: str, value: object) -> Iterator[str]:
    """Write an option of the declaration: a text, a truth, a tuple of texts or a mapping of texts."""
    if isinstance(value, Mapping):
        yield f"    {option}={{"
        yield from (f"        {_text(key)}: {_text(text)}," for key, text in value.items())
        yield "    },"
    elif isinstance(value, tuple):
        texts = [_text(each) for each in value]
        yield f"    {option}=({', '.join(texts)}{',' if len(texts) == 1 else ''}),"
    else:
        yield f"    {option}={_text(value)},"


def _text(value: object) -> str:
    """Write a value as Python, texts in double quotes where that needs no escape."""
    stated = repr(value)
    return f'"{stated[1:-1]}"' if stated.startswith("'") and '"' not in stated else stated


def _listed(heading: str, sentences: Iterable[str]) -> Iterator[str]:
    # A name in a sentence may hold the end of a line, and what follows would be code.
    found = [f"# - {''.join(c if c.isprintable() else ' ' for c in sentence)}" for sentence in sentences]
    yield from ["", f"# {heading}:", *found] if found else ()


def _first_write(adoption: Adoption, variable: str) -> Iterator[str]:
    """Write a first audited write as comments, because rows and session are missing."""
    if adoption.refused:
        return
    spec, names = adoption.spec, "Audit, Table"
    if spec.properties.get("delta.appendOnly", "").lower() == "true":
        call = 'table.append(rows, provenance=table.target("first-run", sequence=1).run, audits=[some])'
    elif spec.partition_by:
        owned = adoption.newest or dict.fromkeys(spec.partition_by, "...")
        values = ", ".join(f"{_text(column)}: {_text(value)}" for column, value in owned.items())
        call = f'overwrite_partition(rows, table.target("first-run", partition={{{values}}}, audits=[some]))'
        names += ", overwrite_partition"
    else:
        call = 'load_full(rows, table.target("first-run", audits=[some]))'
        names += ", load_full"
    yield ""
    yield "# A first audited write, of rows that you have and with a Spark session:"
    yield f"# from dedp_assets.patterns import {names}"
    yield f"# table = Table({variable}, LOCATION, spark)"
    yield '# some = Audit(name="some_rows", of="written", fail_below=1)'
    yield f"# {call}"
