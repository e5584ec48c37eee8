"""``dedp adopt``: declaration of an existing table as Python or YAML, which changes nothing.

Examples:
    dedp adopt /lake/silver/orders
    dedp adopt /lake/silver/orders --name silver/orders --format yaml
    dedp adopt /lake/silver/orders --json
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Literal

from dedp_assets.commands._arguments import add_json
from dedp_assets.commands._output import print_json
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.patterns.core.buckets import Layout
from dedp_assets.patterns.core.layout import TableLayout
from dedp_assets.patterns.core.running.digests import as_plain
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Adoption, adoption_of

__all__ = ["adopt", "arguments", "as_python", "in_file", "run"]

_WIDTH = 120
_OPTIONS = ("comment", "one_channel_per", "properties", "key", "executed_by", "event_time", "adopted")
_TO_WRITE = (
    "reads: upstream tables in the place of no_inputs, like `tables: {silver/visits: {same: {column: event_date}}}`",
    "steps: your query in the place of the placeholder, which has no rows, so that a run of it is refused",
    "gates: audits of the first write, like `audits: [{name: some_rows, of: written, fail_below: 1}]`",
)
_FLAGS = ("required", "technical")
_TEXTS = ("classification", "purpose", "replica")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table's folder, the form of the declaration, and the form for programs."""
    parser.add_argument("location", help="the table's folder: a path, or a file:// URI")
    parser.add_argument("--name", default="", help="layer/dataset (default: the last two names of the location)")
    parser.add_argument("--format", choices=["python", "yaml"], default="python", help="code, or a defs.yaml")
    add_json(parser)


def run(_: Settings, chosen: argparse.Namespace) -> int:
    """Print the declaration."""
    if chosen.json:
        adoption = adoption_of(chosen.location, name=chosen.name)
        named = {"name": adoption.spec.name, "location": adoption.location, "version": adoption.version}
        remarks = {"writes": adoption.writes, "left_out": adoption.left_out, "unknown": adoption.unknown}
        print_json({**named, "declaration": as_plain(adoption.spec), **remarks, "refused": adoption.refused})
        return 0
    return adopt(chosen.location, chosen.name, form=chosen.format)


def adopt(location: str, name: str = "", *, form: Literal["python", "yaml"] = "python") -> int:
    """Print the declaration of the table at a location; change nothing.

    Args:
        location: the table's folder.
        name: ``layer/dataset``; by default the last two names of the location.
        form: whether the declaration is printed as Python or as a document for a ``defs.yaml``.

    Raises:
        ConfigError: if there is no table, or no declaration can state it.
        ContractError: if the table cannot be read.
    """
    adoption, encoding = adoption_of(location, name=name), sys.stdout.encoding or "utf-8"
    text = as_python(adoption) if form == "python" else in_file(adoption, encoding)
    # In a text of Python, and in a comment, a backslash escape is the same character where a terminal has none.
    print(text.encode(encoding, "backslashreplace").decode(encoding), end="")  # noqa: T201
    return 0


def in_file(adoption: Adoption, encoding: str = "utf-8") -> str:
    """Write a declaration as a document of YAML, with comments for everything outside of the declaration.

    Args:
        adoption: the table.
        encoding: encoding of the terminal; letters that it lacks are written as escapes.
    """
    from dedp_assets.components.adopted import as_yaml  # noqa: PLC0415 - imports Dagster

    text = as_yaml(adoption)
    if text.encode(encoding, "replace").decode(encoding) != text:
        text = as_yaml(adoption, ascii_only=True)
    name = adoption.spec.name
    where = f"a table of a file lies in the project's lake, below its root at {name!r}; this one: {adoption.location!r}"
    lines = [
        *_listed(f"Read from version {adoption.version}; nothing was changed", [where]),
        *_listed("To be written", () if adoption.refused else _TO_WRITE),
        *_remarks(adoption),
    ]
    return text + "\n".join(lines) + "\n"


def _remarks(adoption: Adoption) -> Iterator[str]:
    yield from _listed("How it is written", adoption.writes)
    yield from _listed("In the table and not in this declaration", adoption.left_out)
    yield from _listed("Not in the log; a declaration can say it", adoption.unknown)


def as_python(adoption: Adoption) -> str:
    """Write a declaration as Python code, with comments for everything outside of the declaration."""
    spec = adoption.spec
    named = re.sub(r"\W", "_", spec.name.rpartition("/")[2], flags=re.ASCII).upper()
    variable = named if named.isidentifier() and named != "LOCATION" else f"TABLE_{named}"
    what = f"{spec.name!r}, read from {adoption.location!r} at version {adoption.version}"
    lines = [
        f"# Declaration of {what}; nothing was changed.",
        f"from dedp_assets.patterns import {', '.join(['Column', *_records(spec), 'TableSpec'])}",
        "",
        f"LOCATION = {_text(adoption.location)}",
        f"{variable} = TableSpec(",
        *_arguments(spec),
        ")",
        *_remarks(adoption),
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
    if spec.layout != TableLayout():
        yield f"    layout={_record(spec.layout)},"


def _records(spec: TableSpec) -> list[str]:
    """List the classes of a table's layout."""
    return [*(["Layout"] if spec.layout.buckets else []), *(["TableLayout"] if spec.layout != TableLayout() else [])]


def _record(record: TableLayout | Layout) -> str:
    """Write a layout as Python, without options at their defaults."""
    found = {each.name: getattr(record, each.name) for each in fields(record)}
    stated = {name: found[name] for name in as_plain(record)}
    shown = [f"{name}={_record(value) if isinstance(value, Layout) else repr(value)}" for name, value in stated.items()]
    return f"{type(record).__name__}({', '.join(shown)})"


def _column(column: Column) -> list[str]:
    stated = [_text(column.type), *([_text(column.comment)] if column.comment else [])]
    stated += [f"{flag}=True" for flag in _FLAGS if getattr(column, flag)]
    return [*stated, *(f"{option}={_text(value)}" for option in _TEXTS if (value := getattr(column, option)))]


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
