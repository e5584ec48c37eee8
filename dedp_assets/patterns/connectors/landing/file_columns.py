"""Columns of files by headers and footers, compared with the declared columns.

JSON lines have neither: their fields are counted as the records are read (``core/parsing/field_counting.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from dedp_assets.patterns.connectors.encoding.avro_files import open_avro
from dedp_assets.patterns.connectors.encoding.formats import Csv, header_of
from dedp_assets.patterns.connectors.encoding.parquet_files import spark_type
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.nesting import Kind, outer
from dedp_assets.patterns.core.types.widening import WHOLE
from dedp_assets.patterns.delta import FilePath, arrow_source

__all__ = ["FILE_COLUMNS", "columns_of_file", "judge_file_columns"]

FILE_COLUMNS = "files_have_the_declared_columns"
"""Name of the finding."""
_NAMED = 5
_NUMBERS = ("float", "double", "decimal")


def columns_of_file(path: FilePath, csv: Csv | None = None) -> Mapping[str, str]:
    """Return the columns of a CSV, Parquet, ORC or Avro file in order, with their SQL types; CSV has none.

    Args:
        path: the file; its name tells the format, unless it is CSV.
        csv: format of a CSV file with a header.

    Raises:
        ContractError: for a file without a readable header or footer.
    """
    if csv is not None:
        return dict.fromkeys(header_of(path, csv), "")
    if path.suffix.lower() == ".avro":
        return {name: node.sql for name, node in open_avro(path).node.fields.items()}
    try:
        source = arrow_source(path)
        schema = po.ORCFile(source).schema if path.suffix.lower() == ".orc" else pq.read_schema(source)
    except ConnectionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ContractError(f"{path.name} has no readable footer: {error}") from error
    return {each.name: _sql(each.type) for each in schema}


@typed
def judge_file_columns(
    files: Sequence[FilePath], *, columns: Mapping[str, str], may_lack: Sequence[str] = (), csv: Csv | None = None
) -> Finding:
    """Judge the columns of each file: new, missing, reordered and retyped columns.

    Args:
        files: files of one format.
        columns: name in the files -> declared SQL type, in the declared order.
        may_lack: names that a file may lack.
        csv: format of CSV files with a header.

    Returns:
        A finding that warns, with a sentence for each of the first five files that differ. The order counts in CSV
        alone, whose readers go by position where the header is not read. A number of another width fits, and anything
        fits a STRING.

    Raises:
        ContractError: for a file without a readable header or footer.
    """
    found = {
        file.name: [*_differences(columns_of_file(file, csv), columns, may_lack, ordered=csv is not None)]
        for file in files
    }
    differing = [f"{name}: {'; '.join(sentences)}" for name, sentences in found.items() if sentences]
    further = [f"and {len(differing) - _NAMED} further files"] if len(differing) > _NAMED else []
    figures = {"files": len(files), "files_with_other_columns": len(differing)}
    return Finding(FILE_COLUMNS, not differing, "warn", figures, ". ".join([*differing[:_NAMED], *further]))


def _differences(
    found: Mapping[str, str], columns: Mapping[str, str], may_lack: Sequence[str], *, ordered: bool
) -> Iterator[str]:
    if new := [name for name in found if name not in columns]:
        yield f"new: {', '.join(map(repr, new))}"
    if missing := [name for name in columns if name not in found and name not in may_lack]:
        yield f"missing: {', '.join(map(repr, missing))}"
    shared = [name for name in found if name in columns]
    if ordered and shared != [name for name in columns if name in found]:
        yield f"in another order: {', '.join(map(repr, shared))}"
    for name in shared:
        if found[name] and not _fits(found[name], columns[name]):
            yield f"{name!r} is {found[name]}, not {columns[name]}"


def _fits(found: str, declared: str) -> bool:
    """Return whether a column type of a file may be read as the declared type, at every depth.

    Every type may be read as a STRING.
    """
    held, wanted = ddl.field("value", found), ddl.field("value", declared)
    if held is None or wanted is None:  # such as a struct with a name that no table holds
        return declared.strip().upper() in ("STRING", found.partition("<")[0].upper(), found.upper())
    return _holds(held["type"], wanted["type"])


def _holds(held: Kind, wanted: Kind) -> bool:
    if isinstance(wanted, str) or isinstance(held, str):
        families = _family(held), _family(wanted)
        return wanted == "string" or families[0] == families[1] or families == ("integer", "number")
    if wanted["type"] == "struct" == held["type"]:
        known = {each["name"]: each["type"] for each in held["fields"]}
        return all(_holds(known[each["name"]], each["type"]) for each in wanted["fields"] if each["name"] in known)
    parts = ("elementType", "keyType", "valueType")
    return held["type"] == wanted["type"] and all(_holds(held[part], wanted[part]) for part in parts if part in wanted)


def _family(kind: Kind) -> str:
    """Return the kind of values of a scalar type, without the width; of a nested type the kind of nesting."""
    name = outer(kind)
    if name in WHOLE:
        return "integer"
    return "number" if name.startswith(_NUMBERS) else name.removesuffix("_ntz")


def _sql(kind: pa.DataType) -> str:
    try:
        return spark_type(kind)
    except KeyError:
        return str(kind)
