"""Everything done to a table's files goes through its store."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT

LIBRARY = CHECKOUT / "dedp_assets" / "patterns"
SEAM = {
    LIBRARY / "delta" / "storage" / name
    for name in (
        "store.py",
        "local_store.py",
        "local_files.py",
        "locations.py",
        "object_path.py",
        "s3_store.py",
        "s3_bucket.py",
        "s3_parts.py",
        "leases.py",
    )
}
REPLICAS = LIBRARY / "ingestion"
OUTSIDE = {LIBRARY / "error_management" / "_leases.py", LIBRARY / "connectors" / "kafka" / "topics.py"}
OUTSIDE |= {
    *REPLICAS.glob("_replica_*.py"),
    LIBRARY / "connectors" / "landing" / "editions.py",
    LIBRARY / "connectors" / "delivery" / "csv_folder.py",
}
LAKE = CHECKOUT / "dedp_assets" / "graph" / "resources" / "lake.py"
MODULES = sorted({*(LIBRARY / "delta").rglob("*.py"), *OUTSIDE, LAKE} - SEAM)
FILE_MODULES = {"os", "shutil", "glob", "pathlib", "io", "tempfile", "fcntl", "mmap", "filelock", "fsspec"}
WORDS = {"PurePosixPath"}
"""Names out of those modules that touch no file."""
CALLS = {"open", "OSFile", "memory_map", "LocalFileSystem", "SubTreeFileSystem"}
ENGINES = {"DeltaTable", "write_deltalake"}
"""Calls that reach a location by its address and need the store's options with it."""


def past_the_store(source: str) -> Iterator[str]:
    """Everything by which a module may reach files otherwise: imports, calls, and the path that people are shown."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in FILE_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FILE_MODULES:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in WORDS)
        elif isinstance(node, ast.Name) and node.id in CALLS:
            yield node.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ENGINES:
            yield node.func.id
        elif isinstance(node, ast.Attribute) and node.attr in ({"location"} | CALLS - {"open"}):
            yield f".{node.attr}"


def test_a_module_touches_files_through_the_store_only():
    """What a next store has to do stands in one protocol, and nowhere else."""
    ways = {module: [*past_the_store(module.read_text())] for module in MODULES}
    assert {module: past for module, past in ways.items() if past} == {}


def test_no_module_uses_the_path_that_is_meant_for_people():
    """A pattern may work on folders of plain files; a table's folder is none of them."""
    modules = {*LIBRARY.rglob("*.py")} - SEAM
    assert modules
    assert [module for module in modules if ".location" in past_the_store(module.read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import os.path",
        "from pathlib import Path, PurePosixPath",
        "from os import stat",
        "import filelock",
        "open('a')",
        "pa.OSFile('a')",
        "DeltaTable('a', version=1)",
        "table.location / 'a'",
    ],
)
def test_a_way_past_the_store_is_seen(source):
    """The contract can fail."""
    assert len(list(past_the_store(source))) == 1


def test_what_only_words_paths_or_goes_through_the_store_is_allowed():
    """Names of files are no files."""
    assert list(past_the_store("from pathlib import PurePosixPath\nwith store.open('a') as file: file.read()")) == []
    assert list(past_the_store("from deltalake import DeltaTable\ntable: DeltaTable = delta_table(store)")) == []
