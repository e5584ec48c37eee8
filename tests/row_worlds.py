"""Tables with classes of columns, written without Spark, and ``dedp show`` and ``dedp sql`` over them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyroaring import BitMap64

from dedp_assets.cli import main
from dedp_assets.patterns.core.schema import DECLARED
from dedp_assets.patterns.delta.log.vectors import write_vectors
from dedp_assets.patterns.delta.storage.locations import store_at


@dataclass(frozen=True)
class RowWorld:
    """A home with tables, and the commands in it."""

    home: Path
    called: Callable[..., tuple[int, str, str]]

    def store(self, name: str, rows: pa.Table, classes: Mapping[str, str] | None = None, **options: Any) -> Path:
        """Write a table, or another version of it."""
        place = self.home / "lakehouse" / name
        write_deltalake(str(place), rows, **options)
        if classes:
            restate(place, declaring(classes))
        return place

    def show(self, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of ``dedp show``."""
        return self.called("show", *words)

    def sql(self, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of ``dedp sql``."""
        return self.called("sql", *words)

    def shown(self, *words: str) -> dict[str, Any]:
        """The document of ``dedp show --json``."""
        return self.document("show", *words)

    def document(self, *words: str) -> dict[str, Any]:
        """The document that a command prints."""
        code, out, errors = self.called(*words, "--json")
        assert (code, errors) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found


def row_world(monkeypatch: Any, capsys: Any, home: Path) -> RowWorld:
    """The commands in a home of its own."""
    (home / "lakehouse").mkdir(parents=True)

    def called(*words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("DEDP_HOME", str(home))
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as stopped:
            code = int(str(stopped.code))
        return code, *capsys.readouterr()

    return RowWorld(home, called)


def declaring(classes: Mapping[str, str]) -> dict[str, str]:
    """The table property with classes of columns, as the library writes it; none without a class."""
    columns = {name: {"classification": each} for name, each in classes.items()}
    return {DECLARED: json.dumps({"columns": columns})} if classes else {}


def restate(place: Path, properties: Mapping[str, str], version: int = 0) -> None:
    """Change the properties of a table, of which deltalake writes its own alone, in its first commit or another."""
    log = place / "_delta_log" / f"{version:020d}.json"
    first = (place / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    (meta,) = [found for line in first if "metaData" in (found := json.loads(line))]
    meta["metaData"]["configuration"] = dict(properties)
    kept = [line for line in log.read_text().splitlines() if "metaData" not in line] if log.exists() else []
    info = [] if kept else [json.dumps({"commitInfo": {"timestamp": 1767600000000, "operation": "SET"}})]
    log.write_text("\n".join([*info, *kept, json.dumps(meta)]) + "\n")


def write_mapped(
    place: Path, rows: pa.Table, physical: Mapping[str, str], *, deleted: Sequence[int] = (), classes: Any = None
) -> None:
    """A table by hand, whose columns have other names in its file, and whose rows at some positions are deleted."""
    (place / "_delta_log").mkdir(parents=True)
    pq.write_table(rows.rename_columns([physical[name] for name in rows.column_names]), place / "f.parquet")
    features = ["columnMapping", "deletionVectors"]
    add: dict[str, Any] = {
        "path": "f.parquet",
        "partitionValues": {},
        "size": (place / "f.parquet").stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows}),
    }
    if deleted:
        vector = write_vectors(store_at(str(place)), {"f.parquet": BitMap64(deleted)})["f.parquet"]
        add["deletionVector"] = {**vector, "pathOrInlineDv": vector["pathOrInlineDv"][-20:]}
    kinds = {pa.int64(): "long", pa.string(): "string"}
    types = {name: kinds[kind] for name, kind in zip(rows.column_names, rows.schema.types, strict=True)}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(place, 0, {"protocol": protocol}, mapped_metadata(types, physical, classes or {}), {"add": add})


def mapped_metadata(types: Mapping[str, str], physical: Mapping[str, str], classes: Mapping[str, str]) -> Any:
    """The action with columns under names that their files do not have."""
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {"delta.columnMapping.id": n, "delta.columnMapping.physicalName": physical[name]},
        }
        for n, (name, kind) in enumerate(types.items(), start=1)
    ]
    mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(fields))}
    return {
        "metaData": {
            "id": "00000000-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {**mode, **declaring(classes)},
        }
    }


def commit(place: Path, version: int, *actions: Any) -> None:
    """A commit by hand."""
    info = {"commitInfo": {"timestamp": 1767600000000 + version, "operation": "WRITE"}}
    lines = "".join(json.dumps(action) + "\n" for action in (info, *actions))
    (place / "_delta_log" / f"{version:020d}.json").write_text(lines)
