"""Commands for declarations in YAML: ``dedp check`` and ``dedp schema``."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from dedp_assets.components.chains.sql_rules import in_python
from dedp_assets.components.checking import FILES, KEYS, checked, files_below
from dedp_assets.components.kinds import KINDS
from dedp_assets.components.modules import InPython, Unloadable, in_modules, tree_of
from dedp_assets.components.yaml.faults import Fault, Format, rendered
from dedp_assets.graph.declare import LakeTable
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.spark import SparkEngine, answers
from dedp_assets.patterns.core.sql.sql_analysis import analysed_by

__all__ = ["check", "schema", "schema_of_files"]


def check(
    folder: Path | None,
    known: Collection[Fault] = (),
    resources: Collection[str] | None = None,
    *,
    style: Format = "text",
) -> int:
    """Check the files below a folder against all declarations of their project, in YAML and Python.

    Where an engine is shared, Spark judges the SQL that is left; otherwise nothing starts one.

    Args:
        folder: the folder; by default that of the definitions of the project around the working directory.
        known: faults of the project that were found before.
        resources: names of the project's resources; ``None`` if nobody knows them.
        style: how faults are written.

    Returns:
        0 without a fault, 1 with one, 2 if there is nothing to check.
    """
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    start = (folder or Path.cwd()).resolve()
    try:
        root, python = _project(start, resources)
    except Unloadable as error:  # what else is wrong, nobody can say
        return _printed({*known, error.fault}, 1, 0, style)
    below = start if folder else root
    files = files_below(below) if below.is_dir() else []
    within = below.is_relative_to(root)
    in_files = [table for table in python.tables if within and _lies_in(table, below)]
    known = [fault for fault in known if folder is None or Path(fault.file).is_relative_to(below)]
    unsound = [file for file, _ in python.refused if Path(file).is_relative_to(below)]
    if not (files or in_files or unsound or known):
        print(f"no {' or '.join(FILES)} below {below}", file=sys.stderr)  # noqa: T201
        return 2
    with analysed_by(_session()):
        checks = (files_below(root), python.tables, python.refused) if within else (files,)
        found = checked(*checks)
        in_code = list(in_python(in_files))
    # By declaration, as the fault of a column may stand in another file, beside the declaration.
    refused = (faults for (file, _), (_, faults) in found.refused.items() if Path(file).is_relative_to(below))
    faults = {*known, *(fault for wrong in refused for fault in wrong)}
    sound = sum(Path(file).is_relative_to(below) for file, _ in found.declared)
    return _printed([*sorted(faults), *in_code], len(files), sound, style)


def _printed(faults: Collection[Fault], files: int, sound: int, style: Format) -> int:
    """Print faults, and the numbers of files and sound declarations; return the exit code."""
    if faults or style == "json":
        print(rendered([replace(fault, file=_near(fault.file)) for fault in faults], style))  # noqa: T201
    print(f"files: {files}, declarations: {sound}, faults: {len(faults)}", file=sys.stderr)  # noqa: T201
    return 1 if faults else 0


def schema() -> int:
    """Print the JSON schema of declarations, with the options of every pattern."""
    print(json.dumps(schema_of_files(), indent=1))  # noqa: T201
    return 0


def schema_of_files() -> dict[str, Any]:
    """Return the JSON schema of a document: components of this package in full, others by the keys."""
    rules, definitions = [], dict[str, Any]()
    for name, kind in KINDS.items():
        attributes = kind.attributes().model_json_schema(ref_template="#/$defs/{model}")
        definitions |= attributes.pop("$defs", {})
        stated = {"required": ["attributes"], "properties": {"attributes": attributes}}
        rules.append({"if": {"properties": {"type": {"const": name}}}, "then": stated})
    found: dict[str, Any] = _of_draft_7(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Tables of the lake, and their maintenance",
            "type": "object",
            "required": ["type"],
            "properties": {key: {"type": "string"} if key == "type" else {} for key in KEYS},
            "additionalProperties": False,
            "allOf": rules,
            "$defs": definitions,
        }
    )
    return found


def _of_draft_7(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Write a part of a schema in draft 7, which most editors know best: tuples by ``items``."""
    if isinstance(schema, list):
        return [_of_draft_7(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _of_draft_7(value) for name, value in schema.items()}
    if isinstance(places := found.get("prefixItems"), list):
        found = {**found, "items": places, "additionalItems": False}
        del found["prefixItems"]
    if "$ref" in found and len(found) > 1:
        # Beside a reference, draft 7 passes over everything.
        found = {**{name: value for name, value in found.items() if name != "$ref"}, "allOf": [{"$ref": found["$ref"]}]}
    return found


def _project(start: Path, resources: Collection[str] | None) -> tuple[Path, InPython]:
    """Return the definitions' folder and the declarations in Python of a project, or the path."""
    try:
        tree = tree_of(start)
    except Unloadable:
        raise
    except Exception as error:
        print(f"only the files below {start} are known: {_first_line(error)}", file=sys.stderr)  # noqa: T201
        return start, InPython()
    return tree.defs_module_path, in_modules(tree.defs_module, resources)


def _session() -> SparkSession | None:
    """Return a session of the shared engine, or ``None`` if the engine's server is silent."""
    chosen = settings()
    platform = running(chosen)
    remote = chosen.remote or (platform.engine if platform else "")
    if not remote or not answers(remote):
        return None
    return SparkEngine(remote=remote).session


def _lies_in(table: LakeTable[...], folder: Path) -> bool:
    """Return whether the function of a table in Python lies in a folder."""
    return Path(inspect.unwrap(table.function).__code__.co_filename).is_relative_to(folder)


def _near(file: str) -> str:
    """Return the path of a file from the working directory, where annotations of a pull request look."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
