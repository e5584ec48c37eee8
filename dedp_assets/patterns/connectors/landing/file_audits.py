"""Audits of landed files: size, format, columns and number of records, without an engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from dedp_assets.patterns.connectors.encoding.avro_files import open_avro
from dedp_assets.patterns.connectors.encoding.formats import (
    Avro,
    Csv,
    Format,
    Json,
    JsonLines,
    header_of,
    records_in,
    text_of,
)
from dedp_assets.patterns.connectors.encoding.parquet_files import open_parquet
from dedp_assets.patterns.connectors.landing.files import count_lines, lines_of
from dedp_assets.patterns.core.audits import overrule, summary
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, ContractError
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.delta import FilePath

__all__ = ["FileAudit", "FileRule", "audit_files", "require_sound_files"]

FileRule = Literal[
    "files_are_large_enough", "files_have_their_format", "files_have_their_columns", "no_record_is_missing"
]
_RULES: tuple[FileRule, ...] = get_args(FileRule)
_FIRST = 100
"""Records of JSON whose fields are looked at: a field without a value may be left out of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAudit:
    """Rules of landed files.

    Attributes:
        format: format of the files.
        columns: names that each file must have: in the header of CSV, in the schema of Parquet and Avro, in one of the
            first 100 records of JSON. Case counts.
        min_bytes: least size of a file.
        min_records: fewest records of a file.
        warns: rules whose failure only marks the rows.
        approvable: rules whose failure a named person may overrule.
    """

    format: Format
    columns: Sequence[str] = ()
    min_bytes: int = 1
    min_records: int = 0
    warns: Sequence[FileRule] = ()
    approvable: Sequence[FileRule] = ()

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("min_bytes", "min_records"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if self.columns and isinstance(self.format, Csv) and not self.format.header:
            raise ConfigError(f"columns must be empty for CSV without a header, not {list(self.columns)}")


@dataclass(frozen=True, slots=True)
class _Content:
    """Columns, number of records and format fault of a file."""

    records: int | None = None
    columns: Collection[str] = ()
    fault: str = ""


@dataclass(slots=True)
class _Faults:
    """Faults by rule, over all files."""

    by_rule: dict[str, list[str]] = field(default_factory=lambda: {rule: [] for rule in _RULES})

    def add(self, rule: FileRule, file: str, fault: str) -> None:
        self.by_rule[rule].append(f"{file} {fault}")


@typed
def audit_files(
    files: Sequence[FilePath], audit: FileAudit, *, announced: Mapping[str, int] | None = None
) -> tuple[Finding, ...]:
    """Judge landed files by size, format, columns and number of records, in plain Python.

    The findings go to a write as verdicts on the input: ``into.reading(findings=...)``. All faults of all files are
    named at once. A file that is not of the format has neither columns nor records that could be judged. A plain CSV
    file that was cut within its last value shows that only by the size that a manifest states.

    Args:
        files: the files of a delivery; without any, there is nothing to find.
        audit: the rules.
        announced: file name -> number of records, as announced by the source.

    Returns:
        One finding for each rule: ``files_are_large_enough``, ``files_have_their_format`` (kind by the first bytes,
        compression, and whether the file is whole), ``files_have_their_columns``, and ``no_record_is_missing`` (also
        none too many, and no announced file).

    Raises:
        OSError: if a file cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "users.csv")
        ...     _ = file.write_text("id,name")
        ...     users = FileAudit(format=Csv(), columns=["id", "email"])
        ...     found = audit_files([file], users, announced={"users.csv": 2})
        >>> [finding.note for finding in found if not finding.passed]
        ['users.csv has no column email', 'users.csv has 0 of 2 announced records']
    """
    faults, records = _Faults(), 0
    for file in files:
        content = _judge_file(file, audit, faults)
        records += content.records or 0
        if content.records is not None:
            _judge_records(file.name, content.records, audit, (announced or {}).get(file.name), faults)
    for name in sorted({*(announced or {})} - {file.name for file in files}):
        faults.add("no_record_is_missing", name, "was announced and is not there")
    figures = {"files": len(files), "bytes": sum(file.stat().st_size for file in files), "records": records}
    return tuple(
        Finding(
            rule,
            passed=not notes,
            severity="warn" if rule in audit.warns else "fail",
            figures={**figures, "faults": len(notes)},
            note="; ".join(notes),
            approvable=rule in audit.approvable,
        )
        for rule, notes in zip(_RULES, faults.by_rule.values(), strict=True)
    )


@typed
def require_sound_files(
    files: Sequence[FilePath],
    audit: FileAudit,
    *,
    announced: Mapping[str, int] | None = None,
    approval: Approval | None = None,
) -> tuple[Finding, ...]:
    """Return the findings on landed files; refuse files with a fault before any row is computed.

    Args:
        files: the files of a delivery.
        audit: the rules.
        announced: file name -> number of records, as announced by the source.
        approval: a person's decision for the run, which lets approvable faults through.

    Raises:
        AuditFailed: names all faults of all files.
        OSError: if a file cannot be read.
    """
    findings = overrule(audit_files(files, audit, announced=announced), approval)
    if refused := summary(findings):
        raise AuditFailed(f"nothing computed, the files were refused. {refused}", findings=findings)
    return findings


def _judge_file(file: FilePath, audit: FileAudit, faults: _Faults) -> _Content:
    """Return the content of a file, and note the faults of size, format and columns."""
    size_bytes = file.stat().st_size
    if size_bytes < audit.min_bytes:
        faults.add("files_are_large_enough", file.name, f"has {size_bytes} bytes, at least {audit.min_bytes} are usual")
    try:
        content = _content_of(audit.format)(file)
    except ContractError as error:
        content = _Content(fault=str(error).removeprefix(f"{file.name} "))
    if content.fault:
        faults.add("files_have_their_format", file.name, content.fault)
    elif missing := [name for name in audit.columns if name not in content.columns]:
        faults.add("files_have_their_columns", file.name, f"has no column {', '.join(missing)}")
    return content


def _judge_records(name: str, records: int, audit: FileAudit, announced: int | None, faults: _Faults) -> None:
    if announced is not None and records != announced:
        faults.add("no_record_is_missing", name, f"has {records} of {announced} announced records")
    if records < audit.min_records:
        faults.add("no_record_is_missing", name, f"has {records} records, at least {audit.min_records} are usual")


def _content_of(made: Format) -> Callable[[FilePath], _Content]:
    """Return the function that reads the content of a file.

    That function raises ``ContractError`` for a file that is damaged or called like another format.
    """
    if isinstance(made, Csv):
        return lambda file: _csv_content(file, made)
    if isinstance(made, JsonLines):
        return lambda file: _json_content(file, made)
    if isinstance(made, Json):
        return lambda file: _array_content(file, made)
    return _avro_content if isinstance(made, Avro) else _parquet_content


def _csv_content(file: FilePath, made: Csv) -> _Content:
    count_lines(file)
    header = header_of(file, made) if made.header else ()
    records, first, last = 0, len(header), len(header)
    for values in records_in(file, made):
        records, first, last = records + 1, first or len(values), len(values)
    if last < first and not _ends_a_line(file):
        return _Content(records, header, f"ends within a record: the last has {last} of {first} values")
    return _Content(records, header)


def _json_content(file: FilePath, made: JsonLines) -> _Content:
    """Read the columns from the first lines; a malformed line is a fault at the end of a file alone."""
    count_lines(file)
    records, columns, objects, last = 0, set[str](), 0, "{}"
    for line in filter(bytes.strip, lines_of(file)):
        last = text_of(line, made.encoding)
        if records < _FIRST and (names := _object(last)) is not None:
            columns.update(names)
            objects += 1
        records += 1
    if records and not objects:
        return _Content(fault=f"holds no JSON object in its first {min(records, _FIRST)} lines")
    if _object(last) is None and not _ends_a_line(file):
        return _Content(records, columns, "ends within a record: the last line is no JSON object")
    return _Content(records, columns)


def _array_content(file: FilePath, made: Json) -> _Content:
    """Read an array to the end; return the records and the columns of the first elements."""
    records, columns = 0, set[str]()
    for records, text in enumerate(records_in(file, made), 1):
        columns.update((_object(text) or ()) if records <= _FIRST else ())
    return _Content(records, columns)


def _parquet_content(file: FilePath) -> _Content:
    opened = open_parquet(file)
    return _Content(opened.metadata.num_rows, opened.schema_arrow.names)


def _avro_content(file: FilePath) -> _Content:
    opened = open_avro(file)
    return _Content(opened.records, opened.node.fields.keys())


def _ends_a_line(file: FilePath) -> bool:
    """Return whether the text of a file ends with a line feed."""
    return next(iter(deque(lines_of(file), maxlen=1)), b"").endswith(b"\n")


def _object(line: str) -> Collection[str] | None:
    """Return the names in a JSON object.

    ``None`` for any other text.
    """
    try:
        found = parse_json(line)
    except ValueError:
        return None
    return found.keys() if isinstance(found, dict) else None
