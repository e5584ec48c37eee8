"""Commands for declarations in YAML: ``dedp check`` and ``dedp schema``."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from dedp_assets.components.chains.sql_rules import in_python
from dedp_assets.components.checking import FILES, KEYS, checked, files_below
from dedp_assets.components.kinds import KINDS
from dedp_assets.components.yaml.faults import Format, rendered
from dedp_assets.graph.declare import LakeTable, declared
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.spark import SparkEngine, answers
from dedp_assets.patterns.core.sql.sql_analysis import analysed_by

__all__ = ["check", "schema", "schema_of_files"]


def check(folder: Path | None, *, style: Format = "text") -> int:
    """Check the files below a folder against all declarations of their project, in YAML and Python.

    Where an engine is shared, Spark judges the SQL that is left; otherwise nothing starts one.

    Args:
        folder: the folder; by default that of the definitions of the project around the working directory.
        style: how faults are written.

    Returns:
        0 without a fault, 1 with one, 2 if there is nothing to check.
    """
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    start = (folder or Path.cwd()).resolve()
    root, tables = _project(start)
    below = start if folder else root
    files = files_below(below) if below.is_dir() else []
    within = below.is_relative_to(root)
    in_files = [table for table in tables if within and _lies_in(table, below)]
    if not files and not in_files:
        print(f"no {' or '.join(FILES)} below {below}", file=sys.stderr)  # noqa: T201
        return 2
    with analysed_by(_session()):
        found = checked(files_below(root) if within else files, tables if within else [])
        in_code = list(in_python(in_files))
    chosen = {str(file) for file in files}
    # By declaration, as the fault of a column may stand in another file, beside the declaration.
    refused = (faults for (file, _), (_, faults) in found.refused.items() if file in chosen)
    faults = sorted({fault for wrong in refused for fault in wrong})
    faults = [replace(fault, file=_near(fault.file)) for fault in (*faults, *in_code)]
    if faults or style == "json":
        print(rendered(faults, style))  # noqa: T201
    sound = sum(place[0] in chosen for place in found.declared)
    print(f"files: {len(files)}, declarations: {sound}, faults: {len(faults)}", file=sys.stderr)  # noqa: T201
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


def _project(start: Path) -> tuple[Path, Sequence[LakeTable[...]]]:
    """Return the definitions' folder and the tables in Python of the project around a path, or the path."""
    try:
        tree = dg.ComponentTree.for_project(start)
    except Exception as error:
        print(f"only the files below {start} are known: {_first_line(error)}", file=sys.stderr)  # noqa: T201
        return start, []
    return tree.defs_module_path, declared(tree.defs_module)


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
