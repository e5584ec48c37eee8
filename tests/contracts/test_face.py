"""The face of the library: what `from dedp_assets.patterns import ...` offers is what the modules define."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from dedp_assets import patterns
from dedp_assets.graph.resources.environments import CHECKOUT
from tests.contracts import face
from tests.contracts.test_patterns import PATTERNS, SIGNATURES


def test_every_name_of_the_face_is_that_of_the_module_which_defines_it():
    """Editors and type checkers read the stub; `make format` writes the lines of new functions."""
    written, now = (text.replace("(\n    ", "").splitlines() for text in (face.PATH.read_text(), face.face()))
    assert [line for line in written if line not in now] == [], "run `make format`"
    imports = [line.split() for line in written if line.startswith("from ")]
    assert len(imports) > len(PATTERNS)
    for _, module, _, name, *_ in imports:
        assert getattr(patterns, name) is getattr(importlib.import_module(module), name)


def test_the_face_has_every_public_function_whose_signature_is_frozen():
    """What is noted as the library's interface is imported from its package."""
    frozen = {line.partition("(")[0] for path in SIGNATURES.glob("*.txt") for line in path.read_text().splitlines()}
    named = {line.rpartition(".")[2] for line in frozen}
    assert len(named) > len(PATTERNS)
    assert [name for name in sorted(named) if not hasattr(patterns, name)] == []


def test_what_is_not_there_is_no_attribute():
    """As of any module, so that `hasattr` and the import of a misspelt name do what they do elsewhere."""
    with pytest.raises(AttributeError, match="has no attribute 'overwrite_partitions'"):
        _ = patterns.overwrite_partitions
    assert importlib.import_module("dedp_assets.patterns.core") is patterns.core


def test_a_script_imports_the_modules_that_it_names_and_no_others():
    """One pattern costs the import of one pattern."""
    code = (
        "import sys; from dedp_assets.patterns import Audit, Column, Table, TableSpec, overwrite_partition; "
        "sys.exit(any(m.startswith('dedp_assets.patterns.value') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False).returncode == 0
