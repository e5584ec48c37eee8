"""The command ``dedp infer``: columns of the files of a landing, written beside the declaration once."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from dedp_assets.components.chains.chaining import validated
from dedp_assets.components.checking import FILES
from dedp_assets.components.inference.evidence import Evidence, other_delimiter, other_format
from dedp_assets.components.inference.inferred_columns import InferredColumn, name_for, text_of_columns
from dedp_assets.components.kinds import LANDING
from dedp_assets.components.landed.declaring_landings import attributes, columns_file
from dedp_assets.components.landed.landed_sources import misfits
from dedp_assets.components.landed.landings import LandingSpec
from dedp_assets.components.landed.topic_source import TopicSource
from dedp_assets.components.landed.typed_files import columns_of_typed
from dedp_assets.components.yaml.documents import Document, Unreadable, documents
from dedp_assets.components.yaml.drafts import ROOT
from dedp_assets.components.yaml.faults import Fault
from dedp_assets.components.yaml.making import made
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.landing import PARTITION
from dedp_assets.graph.systems.databases import Database
from dedp_assets.patterns.connectors.encoding.formats import Csv, Format, Json, JsonLines, header_of, records_in
from dedp_assets.patterns.connectors.encoding.json_files import member_with_records
from dedp_assets.patterns.connectors.kafka.framed_values import without_headers
from dedp_assets.patterns.connectors.landing.deliveries import Ends
from dedp_assets.patterns.connectors.landing.files import file_refusal
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import FilePath, path_at

__all__ = ["infer", "columns_of", "columns_of_table", "columns_of_topic"]

Texts = Csv | JsonLines | Json
"""Formats of files whose values are texts or JSON, and no types' own."""
_MOST_FILES, _MOST_RECORDS = 50, 5_000


def infer(folder: Path, *, again: bool = False) -> int:
    """Write the columns of the landings that a folder declares.

    Args:
        folder: the folder with the declaration.
        again: whether columns that are written down are replaced.

    Returns:
        0 if the columns are written, 1 for a fault, 2 if no landing is declared there.
    """
    try:
        found = list(_landings(folder))
    except Unreadable as error:
        print(Fault.of(error), file=sys.stderr)  # noqa: T201
        return 1
    if not found:
        print(f"no landing is declared in {folder}: write type: {LANDING} into {FILES[0]}", file=sys.stderr)  # noqa: T201
        return 2
    return max(_infer(each, again=again) for each in found)


def _landings(folder: Path) -> Iterator[Document]:
    for file in (folder / name for name in FILES):
        if file.is_file():
            for document in documents(file.read_text(encoding="utf-8"), str(file)):
                if isinstance(document.value, dict) and document.value.get("type") == LANDING:
                    yield document
            return


def _infer(document: Document, *, again: bool) -> int:
    raw = document.value.get("attributes")
    stated, faults = validated(attributes(), raw if isinstance(raw, dict) else {}, document, ROOT)
    file = columns_file(document)
    if stated is not None and isinstance(stated.columns, Mapping):
        faults = [Fault.at(document, (*ROOT, "columns"), "columns must be left out, to be inferred")]
    elif file.exists() and not again:
        faults = [Fault(str(file), 1, 1, "", "the columns are written down: --again replaces them")]
    landing = None if faults else made(stated, ROOT, {})
    if landing is not None:
        faults = [each.fault(document) for each in misfits(landing, ROOT, stated.model_fields_set)]
    if landing is None or faults:
        for fault in faults:
            print(fault, file=sys.stderr)  # noqa: T201
        return 1
    whence, columns, sentence = _seen(landing)
    if columns:
        file.write_text(text_of_columns(columns, whence, sentence), encoding="utf-8")
        sentence = f"{file}: {len(columns)} columns, {sentence}"
    print(sentence, file=sys.stderr)  # noqa: T201
    return 0 if columns else 1


def _seen(landing: LandingSpec) -> tuple[str, Mapping[str, InferredColumn], str]:
    """Return the name of a source, the columns of the records, and a sentence about the sample."""
    if landing.database:
        return landing.database.table, *columns_of_table(landing.database)
    if landing.topic:
        return f"topic {landing.topic.name}", *columns_of_topic(landing.topic)
    return landing.folder, *_columns_of_folder(landing)


def columns_of_topic(source: TopicSource) -> tuple[Mapping[str, InferredColumn], str]:
    """Return the columns of a topic's oldest records by name, and a sentence about the sample.

    Raises:
        PatternError: if the brokers do not answer, or have no such topic; or no record is an object.
    """
    evidence = Evidence()
    for text in without_headers(source.kafka().sample(_MOST_RECORDS), source.schemas()):
        evidence.add_json(text.decode("utf-8", errors="replace"))
    evidence.require_sound("let a producer send one, or state registry if they are Avro of a schema registry")
    if not evidence.records:
        raise ContractError(f"topic {source.name} has no record: let a producer send one")
    return evidence.columns(), evidence.besides(f"the {evidence.records} oldest records")


def _columns_of_folder(landing: LandingSpec) -> tuple[Mapping[str, InferredColumn], str]:
    """Return the columns of the files in a folder, and a sentence about the sample or the missing files."""
    there = path_at(settings().landing_zone) / landing.folder
    pattern = there.name.replace(PARTITION, "*")
    there = there.parent if PARTITION in there.name else there
    by_partition = f"{pattern}/*" if PARTITION in landing.folder else "*/*"
    ends = Ends(landing.marker, landing.settled_minutes, landing.exclude)
    files = _files_of(there, by_partition if landing.partitions is not None else "*", ends)
    if not files or landing.format is None:
        return {}, f"no file below {there}: put one there, to see its columns"
    return columns_of(files, landing.format)


def columns_of_table(source: Database) -> tuple[Mapping[str, InferredColumn], str]:
    """Return the columns of a database table by name, and a sentence about the sample.

    Raises:
        PatternError: if the database does not answer, or has no such table.
    """
    columns = dict[str, InferredColumn]()
    for called, found in source.columns().items():
        remark = "" if found.type != "STRING" or found.is_natural else f"text of {found.kind}"
        columns[name_for(called, columns)] = InferredColumn(found.type, called, remark=remark)
    return columns, f"the database's own types of {len(columns)} columns"


def _files_of(folder: FilePath, pattern: str, ends: Ends) -> list[FilePath]:
    """List the data files of deliveries, without hidden files, marker and excluded names."""
    found = (path for path in folder.glob(pattern) if path.is_file())
    shown = (path for path in found if not any(name.startswith(("_", ".")) for name in path.parts[-2:]))
    files = (path for path in shown if path.name != ends.marker and not ends.excludes(path.name))
    return sorted(files, key=lambda path: path.parts)


def columns_of(files: Sequence[FilePath], made_of: Format) -> tuple[Mapping[str, InferredColumn], str]:
    """Return the columns of files by name, and a sentence about the sample.

    Args:
        files: all files.
        made_of: format of the files.

    Raises:
        ContractError: for a file that cannot be read.
    """
    if isinstance(made_of, Csv | JsonLines | Json):
        return _columns_of_texts(files, made_of)
    return columns_of_typed(files, made_of)


def _columns_of_texts(files: Sequence[FilePath], made_of: Texts) -> tuple[Mapping[str, InferredColumn], str]:
    sampled = _spread(files)
    evidence = Evidence("rows of the header's columns" if isinstance(made_of, Csv) else "JSON objects")
    advice = [_add_file(evidence, file, made_of) for file in sampled]
    evidence.require_sound(next(filter(None, advice), ""))
    if not evidence.records:
        raise ContractError(f"no record is in {len(sampled)} files: put a file with records there")
    return evidence.columns(), evidence.besides(f"{len(sampled)} of {len(files)} files, {evidence.records} records")


def _add_file(evidence: Evidence, file: FilePath, made_of: Texts) -> str:
    """Add the records of a file; return the advice for a file of another format."""
    names = _header(file, made_of)
    first = ""
    for number, record in enumerate(records_in(file, made_of)):
        if number >= _MOST_RECORDS:
            break
        if isinstance(made_of, Csv):
            if number == 0 and (other := other_delimiter(names, record)):
                raise ContractError(f"{file.name} has one column, with {other!r} in it: state delimiter: {other!r}")
            evidence.add_values(record, names, made_of, file.name)
        else:
            first = first or record.strip()[:1]
            evidence.add_json(record, file.name)
    if isinstance(made_of, Csv):
        return evidence.advice_for_csv(names)
    return _advice_for_json(file, made_of, first) if isinstance(made_of, JsonLines) else ""


def _advice_for_json(file: FilePath, made_of: JsonLines, first: str) -> str:
    """Return the advice for a file whose lines are no objects, by the first sign of the file."""
    if first == "[":
        return f"{file.name} may be one JSON array: state format: {{json: {{}}}}"
    if first != "{":
        return ""
    if member := member_with_records("\n".join(islice(records_in(file, made_of), _MOST_RECORDS))):
        return f"{file.name} is one JSON object: state format: {{json: {{records: {member}}}}}"
    return f"{file.name} may be JSON objects of several lines each: make one line of each, as jq -c . {file.name} does"


def _header(file: FilePath, made_of: Texts) -> tuple[str, ...]:
    """Return the header of CSV; refuse files of another format than the declared one."""
    if reason := file_refusal(file):
        raise ContractError(f"{file.name} {reason}")
    names = header_of(file, made_of) if isinstance(made_of, Csv) and made_of.header else ()
    if isinstance(made_of, Csv) and (other := other_format(names, made_of)):
        raise ContractError(f"{file.name} holds {other}")
    if len(set(names)) < len(names):
        raise ContractError(f"{file.name} names a column twice in its header: {', '.join(names)}")
    return names


def _spread(files: Sequence[FilePath]) -> list[FilePath]:
    """Choose files from the first to the last."""
    if len(files) <= _MOST_FILES:
        return list(files)
    return [files[round(n * (len(files) - 1) / (_MOST_FILES - 1))] for n in range(_MOST_FILES)]
