"""The files of `dg scaffold defs`: declarations that are complete except for the names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["SCHEMA", "LandingScaffolder", "MaintenanceScaffolder", "TableScaffolder", "first_line"]

SCHEMA = Path(".dedp") / "schema.json"
"""Path in a project of the JSON schema for declarations, the output of `dedp schema`."""


class _Stated(BaseModel):
    """Options of the command line for the table."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="silver/orders", description="The table, layer/dataset.")
    reads: str = Field(default="bronze/orders", description="The upstream table, layer/dataset.")
    partition_by: str = Field(default="event_date", description="The column with the day.")


class _StatedMaintenance(BaseModel):
    """Options of the command line for the maintenance."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="platform/upkeep", description="The asset of the maintenance, layer/dataset.")
    tables: str = Field(default="all", description="The tables, layer/dataset with commas between them, or all.")


class TableScaffolder(dg.Scaffolder[_Stated]):
    """Writes the declaration of a table that keeps the rows of one upstream table, by day."""

    @classmethod
    def get_scaffold_params(cls) -> type[_Stated]:
        """Return the options of `dg scaffold defs`."""
        return _Stated

    def scaffold(self, request: dg.ScaffoldRequest[_Stated]) -> None:
        """Write the file."""
        stated = request.params or _Stated()
        _write(request, _TEXT.format(**stated.model_dump(), type=request.type_name))


class MaintenanceScaffolder(dg.Scaffolder[_StatedMaintenance]):
    """Writes the declaration of a maintenance by night: compaction, and removal of replaced files."""

    @classmethod
    def get_scaffold_params(cls) -> type[_StatedMaintenance]:
        """Return the options of `dg scaffold defs`."""
        return _StatedMaintenance

    def scaffold(self, request: dg.ScaffoldRequest[_StatedMaintenance]) -> None:
        """Write the file."""
        stated = request.params or _StatedMaintenance()
        tables = "all" if stated.tables == "all" else f"[{stated.tables}]"
        _write(request, _MAINTENANCE.format(name=stated.name, tables=tables, type=request.type_name))


def _write(request: dg.ScaffoldRequest[Any], text: str) -> None:
    request.target_path.mkdir(parents=True, exist_ok=True)
    file = request.target_path / "defs.yaml"
    file.write_text(first_line(file, request.project_root) + text, encoding="utf-8")


def first_line(file: Path, project: Any) -> str:  # noqa: ANN401 - a path, or nothing
    """Return the line that names the schema for an editor."""
    root = Path(project) if project else file.parent
    return f"# yaml-language-server: $schema={os.path.relpath(root / SCHEMA, file.parent)}\n"


_TEXT = """\
type: {type}
attributes:
  table:
    name: {name}
    comment: One row per ...
    columns:
      id: {{type: STRING, comment: identity of the row, required: true}}
      {partition_by}: {{type: DATE, comment: UTC day, required: true}}
    partition_by: [{partition_by}]
  reads:
    tables:
      {reads}: {{same: {{column: {partition_by}}}}}
  runs:
    partitions: {{daily: {{}}}}
  about:
    owner: team:data
  code_version: "1"
  steps:
    - tally: {{identity: [id]}}
    - idempotency.data_overwrite: {{allow_empty: true}}
"""
_MAINTENANCE = """\
type: {type}
attributes:
  name: {name}
  description: Files of the tables, merged where they are many and small, and removed once nobody reads them.
  owner: team:data
  tables: {tables}
  when: {{every: {{cron: "0 3 * * *", description: "By night, apart from the jobs that write the tables."}}}}
  actions:
    - ingestion.compactor: {{}}
    - ingestion.compactor.vacuum: {{retention_hours: 720}}
"""


class _Folder(BaseModel):
    """Options of the command line for a landing."""

    model_config = ConfigDict(extra="forbid")

    table: str = Field(default="silver/orders", description="The table of valid records, layer/dataset.")
    folder: str = Field(default="orders", description="The folder, below the landing zone or absolute.")
    # `dg scaffold` has an option --format of its own.
    file_format: str = Field(default="csv", description="Format of the files: csv, json_lines, json, parquet or avro.")
    event_time: str = Field(default="", description="The column with the time of a record.")
    keys: str = Field(default="", description="Columns that tell records apart, with commas between them.")


class LandingScaffolder(dg.Scaffolder[_Folder]):
    """Writes the declaration of a folder of files, by day; `dedp infer` then writes the columns."""

    @classmethod
    def get_scaffold_params(cls) -> type[_Folder]:
        """Return the options of `dg scaffold defs`."""
        return _Folder

    def scaffold(self, request: dg.ScaffoldRequest[_Folder]) -> None:
        """Write the file."""
        stated = request.params or _Folder()
        lines = [f"  event_time: {stated.event_time}"] if stated.event_time else []
        lines += [f"  keys: [{stated.keys}]"] if stated.keys else []
        named = {"table": stated.table, "folder": stated.folder, "file_format": stated.file_format}
        more = "".join(f"{each}\n" for each in lines)
        text = _LANDING.format(**named, type=request.type_name, more=more)
        _write(request, text)


_LANDING = """\
type: {type}
attributes:
  table: {table}
  folder: {folder}   # a folder for each day below it, like {folder}/2026-01-05, with _SUCCESS when the day is complete
  format: {{{file_format}: {{}}}}
  partitions: {{daily: {{start: 2026-01-01}}}}   # the first day that a delivery or an event may be of
{more}  about: {{owner: "team:data"}}
"""
