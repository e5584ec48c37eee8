"""Declarations of landings from YAML documents: the tables, or the faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path as File
from typing import Any

import dagster as dg
from pydantic import Field

from dedp_assets.components.chains.chaining import begin, validated
from dedp_assets.components.chains.sql_rules import of_rules
from dedp_assets.components.landed.landed_columns import LandedColumn
from dedp_assets.components.landed.landed_sources import misfits
from dedp_assets.components.landed.landed_tables import tables_of
from dedp_assets.components.landed.landings import ADDED, COLUMNS, Landed, LandingSpec
from dedp_assets.components.yaml.documents import Document, Path, Unreadable, documents
from dedp_assets.components.yaml.drafts import ROOT, Draft, fault_of_rule, faults_of_name
from dedp_assets.components.yaml.faults import Fault, Misfit
from dedp_assets.components.yaml.making import made
from dedp_assets.components.yaml.model import Options, create, model_of
from dedp_assets.graph.declare import LakeTable
from dedp_assets.graph.declare.layers import about_of, module_of
from dedp_assets.graph.resources.landing import PARTITION
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.suggestions import unknown

__all__ = ["LandingDraft", "attributes", "columns_file", "declare", "draft"]


@dataclass
class LandingDraft(Draft):
    """A landing before other declarations are known.

    Attributes:
        landed: the landing with its columns; ``None`` if it has faults.
        columns_document: document with the columns, which stand below a key of this name.
        columns_path: path of the columns there.
        stated_columns: columns by name as they are stated, also those with faults.
    """

    landed: Landed | None = None
    columns_document: Document | None = None
    columns_path: Path = ()
    stated_columns: Mapping[str, Options] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the table of valid records; empty if unreadable."""
        stated = self.document.value.get("attributes")
        name = stated.get("table") if isinstance(stated, dict) else None
        return name if isinstance(name, str) else ""

    def written(self) -> Iterator[tuple[str, Path]]:
        """Yield the names of the tables, with the paths that name the tables."""
        for number, spec in enumerate(self.tables):
            by_name = number == 1 and self.document.holds((*ROOT, "bronze"))
            yield spec.name, (*ROOT, "bronze" if by_name else "table")

    def column_fault(self, name: str, message: str, option: str = "") -> Fault:
        """Return a fault of a column, or of an option of a column."""
        path = (*self.columns_path, name, *([option] if option else []))
        return Fault.at(self.columns_document or self.document, path, message, key=not option)


@cache
def attributes() -> type[Options]:
    """Return the model of a landing's attributes."""
    return model_of(LandingSpec)


@cache
def _columns_alone() -> type[Options]:
    column = model_of(LandedColumn)
    described = Field(description="Columns of the records.", min_length=1)
    return create("Columns", {"columns": (dict[str, column], described)}, "Columns of landed records.")  # type: ignore[valid-type]


def draft(document: Document) -> LandingDraft:
    """Validate the attributes of a document and the columns, and make the declared tables."""
    found = LandingDraft(document)
    begin(found, attributes(), "table, folder, format")
    if found.attributes is None:
        return found
    columns = _columns(found)
    found.faults += _of_sql(found)
    # Columns within the document are made above, each of them.
    apart = {"columns": COLUMNS} if isinstance(found.attributes.columns, dict) else {}
    try:
        stated = made(found.attributes.model_copy(update=apart), ROOT, {})
    except Misfit as misfit:
        found.faults.append(misfit.fault(document))
        return found
    wrong = [each.fault(document) for each in misfits(stated, ROOT, found.attributes.model_fields_set)]
    found.faults += wrong
    if columns is not None and not wrong:
        about = about_of(stated.about, stated.table, module_of(found.document.file))
        found.landed = Landed(replace(stated, about=about), columns)
        _add_tables(found, found.landed)
    return found


def declare(
    found: Draft,
    specs: Mapping[str, TableSpec | None],  # noqa: ARG001 - of every kind
) -> tuple[Sequence[LakeTable[...]] | None, list[Fault]]:
    """Make the tables of a landing: landed records and valid records.

    Args:
        found: the draft.
        specs: every declared table by name, of which a landing reads none.

    Returns:
        The tables, or ``None``; and the faults, those of the draft included.
    """
    if found.faults or not isinstance(found, LandingDraft) or found.landed is None:
        return None, found.faults
    try:
        return tables_of(found.landed), []
    except ConfigError as error:
        return None, [fault_of_rule(error, found.document)]


def columns_file(document: Document) -> File:
    """Return the path of the columns' file of a landing, in the folder of the declaration."""
    stated = document.value.get("attributes")
    named = stated.get("columns", COLUMNS) if isinstance(stated, dict) else COLUMNS
    return File(document.file).parent / (named if isinstance(named, str) else COLUMNS)


def _columns(found: LandingDraft) -> Mapping[str, LandedColumn] | None:
    """Return the declared columns of the document or of the columns' file, and note faults.

    Returns:
        The columns; ``None`` for columns with faults.
    """
    stated = found.attributes.columns
    document, path, models = found.document, (*ROOT, "columns"), stated
    if "columns" not in found.attributes.model_fields_set or isinstance(stated, str):
        read = _read_columns(found)
        if read is None:
            return None
        document, path = read, ("columns",)
        validated_, faults = validated(_columns_alone(), read.value, read, ())
        found.faults += faults
        models = validated_.columns if validated_ else None
    found.columns_document, found.columns_path = document, path
    if models is None:
        return None
    found.stated_columns = models
    columns, faults = dict[str, LandedColumn](), list[Fault]()
    for name, model in models.items():
        place = (*path, name)
        if model.format and (source := _typed_source(found.attributes)):
            sentence = f"format must be left out of a column of {source}"
            faults.append(Fault.at(document, (*place, "format"), sentence))
            continue
        try:
            columns[name] = made(model, place, {})
        except Misfit as misfit:
            faults.append(misfit.fault(document))
    found.faults += faults
    return None if faults else columns


def _typed_source(stated: Any) -> str:  # noqa: ANN401 - validated attributes
    """Return a typed source in words; empty for a source of texts."""
    if stated.database is not None:
        return "a table"
    typed = [name for name in ("parquet", "avro") if getattr(stated.format, name, None)]
    return f"{typed[0].capitalize()} files" if typed else ""


def _read_columns(found: LandingDraft) -> Document | None:
    """Read the file with the columns; the fault of a missing file names the command that writes one."""
    file, path = columns_file(found.document), (*ROOT, "columns")
    try:
        read = documents(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        sentence = f"{file.name} is missing: run `dedp infer {file.parent}`, which writes the columns of the files"
        found.faults.append(Fault.at(found.document, path, sentence))
        return None
    except Unreadable as error:
        found.faults.append(Fault.of(error))
        return None
    except (OSError, UnicodeDecodeError) as error:
        found.faults.append(Fault.at(found.document, path, f"{file.name} cannot be read: {error}"))
        return None
    if len(read) != 1 or not isinstance(read[0].value, dict):
        found.faults.append(Fault(str(file), 1, 1, "", "this file must be one mapping with columns"))
        return None
    found.faults += map(Fault.of, read[0].faults)
    return read[0]


def _add_tables(found: LandingDraft, landed: Landed) -> None:
    """Add the faults of a landing to the draft, or the tables of a landing without a fault."""
    rules = (_of_names, _of_folder, _of_event_time, _of_columns, _of_partitions)
    faults = [fault for rule in rules for fault in rule(found, landed)]
    found.faults += faults
    if faults:
        return
    try:
        found.tables = landed.specs()
    except ConfigError as error:
        found.faults.append(fault_of_rule(error, found.document))


def _of_sql(found: LandingDraft) -> Iterator[Fault]:
    """Yield the faults of rules over the declared columns, their texts and the technical columns."""
    stated = found.stated_columns
    texts = {f"{name} text": "STRING" for name in stated}
    known = {**dict.fromkeys(ADDED), **texts, **stated} if stated else None
    rules = of_rules((*ROOT, "rules"), found.attributes.rules or {}, known)
    yield from (each.fault(found.document) for each in rules)


def _of_names(found: LandingDraft, landed: Landed) -> Iterator[Fault]:
    """Yield the faults of names: of tables and the folder, and of columns that are not declared."""
    stated, document = landed.stated, found.document
    for option in ("table", "bronze"):
        name = getattr(stated, option)
        if name or option == "table":
            yield from faults_of_name(document, option, name)
    if stated.bronze == stated.table:
        yield Fault.at(document, (*ROOT, "bronze"), f"bronze must be another table than {stated.table}")
    for option in ("keys", "order_by"):
        for number, name in enumerate(getattr(stated, option)):
            if name not in landed.columns:
                sentence = unknown("column", name, landed.columns)
                yield Fault.at(document, (*ROOT, option, number), sentence)


def _of_folder(found: LandingDraft, landed: Landed) -> Iterator[Fault]:
    """Yield the faults of the folder, which lies below the landing zone or anywhere by an absolute path."""
    stated, document = landed.stated, found.document
    if "folder" not in found.attributes.model_fields_set:
        return
    if not stated.folder.strip("/ ") or ".." in File(stated.folder).parts:
        yield Fault.at(document, (*ROOT, "folder"), f"folder must be a path of a folder, not {stated.folder!r}")
    if PARTITION in str(File(stated.folder).parent) or (PARTITION in stated.folder and stated.partitions is None):
        sentence = f"folder must have {PARTITION} in the last name, and partitions, not {stated.folder!r}"
        yield Fault.at(document, (*ROOT, "folder"), sentence)


def _of_event_time(found: LandingDraft, landed: Landed) -> Iterator[Fault]:
    """Yield the fault of a column that cannot say when a record happened."""
    stated, document = landed.stated, found.document
    if stated.event_time and stated.event_time not in landed.columns:
        sentence = unknown("column", stated.event_time, landed.columns)
        yield Fault.at(document, (*ROOT, "event_time"), sentence)
    elif stated.event_time and (kind := landed.columns[stated.event_time].type.upper()) not in landed.event_types:
        sentence = f"event_time must be a column of type {' or '.join(landed.event_types)}, not {stated.event_time}"
        remedy = f"declare type: TIMESTAMP{', with the format of its texts' if kind == 'STRING' else ''}"
        yield Fault.at(document, (*ROOT, "event_time"), f"{sentence}, a {kind}: {remedy}")


def _of_columns(found: LandingDraft, landed: Landed) -> Iterator[Fault]:
    """Yield the faults of columns by themselves and among each other."""
    names = dict[str, str]()
    for name, column in landed.columns.items():
        if name.lower() in ADDED:
            sentence = f"{name} must have another name, with called: {name}, as the tables have a column {name.lower()}"
            yield found.column_fault(name, sentence)
        there = column.called or name
        if there in names:
            sentence = f"{there} is the name of {names[there]} in the files already"
            yield found.column_fault(name, sentence, "called" if column.called else "")
        names[there] = name
        if column.may_lack and landed.is_required(name):
            yield found.column_fault(name, f"may_lack must be left out, as {name} is required", "may_lack")


def _of_partitions(found: LandingDraft, landed: Landed) -> Iterator[Fault]:
    """Yield the faults of partitions, and of options that contradict partitions or the format."""
    stated, document = landed.stated, found.document
    timed = isinstance(stated.partitions, dg.DailyPartitionsDefinition | dg.HourlyPartitionsDefinition)
    if stated.partitions is not None and not timed:
        yield Fault.at(document, (*ROOT, "partitions"), "partitions must be daily or hourly, or be left out")
    if stated.event_time and stated.partitions is None:
        sentence = "event_time must be left out without partitions, as all records are one partition then"
        yield Fault.at(document, (*ROOT, "event_time"), sentence)
    try:
        _ = landed.ends
    except ConfigError as error:
        yield fault_of_rule(error, document)
