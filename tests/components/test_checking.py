"""Checks of files: every fault of every file, and never a traceback."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dedp_assets.cli import main
from dedp_assets.components.checking import checked, files_below
from dedp_assets.components.yaml.faults import Fault
from tests.components.chains.test_declaring import VALUE, parts
from tests.components.declarations import GOOD, faults_in
from tests.components.test_loading import table

LINES = GOOD.strip("\n").split("\n")
ODD = [
    "", " ", "\t", ":", "- ", "{", "}", "[", "]", "#", "&a ", "*a", "!x ", "'", '"', "|", ">", "? ", "<<: ", "%", "@",
    ",", "---\n", "no", "010", "1:30", "null", "~", "\ud800", "\0", "é", "${x}", "{x}", "{}", "a:b", "\r\n",
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(ODD) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def edited_texts(draw: st.DrawFn, given_lines: list[str] = LINES) -> str:
    """A valid text with lines and characters removed, repeated, moved and replaced."""
    lines = list(given_lines)
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(0, len(lines) - 1))
        line = lines[n]
        at = draw(st.integers(0, len(line)))
        kind = draw(st.sampled_from(["remove", "repeat", "move", "cut", "put", "replace", "indent"]))
        if kind == "remove" and len(lines) > 1:
            del lines[n]
        elif kind == "repeat":
            lines.insert(n, line)
        elif kind == "move":
            lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(n))
        elif kind == "cut":
            lines[n] = line[:at] + line[at + draw(st.integers(1, 5)) :]
        elif kind == "indent":
            lines[n] = " " * draw(st.integers(0, 12)) + line.lstrip()
        else:
            odd = draw(st.sampled_from(ODD) | st.text(max_size=5))
            lines[n] = line[:at] + odd + line[at + (kind == "replace") :]
    return "\n".join(lines)


@st.composite
def edited_values(draw: st.DrawFn, given_value: Any = VALUE) -> str:
    """A valid declaration with a part replaced by any value, under any key."""
    value: Any = copy.deepcopy(given_value)
    path = draw(st.sampled_from([path for path, _ in parts(given_value)]))
    above = value
    for key in path[:-1]:
        above = above[key]
    if draw(st.booleans()) or isinstance(above, list):
        above[path[-1]] = draw(VALUES)
    else:
        above[draw(st.text(max_size=9))] = above.pop(path[-1])
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def require_faults_or_a_table(text):
    """Hold a text to the promise: faults with places, or a declaration that Dagster takes."""
    require_places(faults_in(text), text)


def require_places(found, text):
    """Hold faults to the promise: a line of the text, and a sentence."""
    lines = text.count("\n") + 2
    for fault in found:
        assert isinstance(fault, Fault)
        assert 1 <= fault.line <= lines
        assert fault.message
        assert str(fault).startswith(f"defs.yaml:{fault.line}:{fault.column}: ")


@given(edited_texts())
@settings(suppress_health_check=[HealthCheck.too_slow])
@example("? [a]: b")
@example("&a [*a]")
@example("type: x\nattributes: &a {b: *a}")
@example("- 1")
@example("just a text")
@example("\ud800")
@example("a: !!binary x")
@example("a: !!int x")
@example("<<: 3")
def test_an_edited_text_is_faults_or_a_table(text):
    """Whatever was cut, repeated or moved."""
    require_faults_or_a_table(text)


@given(edited_values())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_an_edited_value_is_faults_or_a_table(text):
    """Whatever stands in the place of a part."""
    require_faults_or_a_table(text)


@pytest.fixture
def folder(tmp_path):
    """Write files below a folder without a project around it."""

    def write(**files):
        for name, text in files.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "defs.yaml").write_text(text)
        return tmp_path

    return write


ALONE = "inputs: tests.components.test_loading:find"
ONE = table(
    "silver/one", reads=ALONE, when=", when: {on_request: {}}", step="python: tests.components.test_checking:publish"
)
ONE = ONE.replace("  steps:", "  patterns: [idempotency.data_overwrite]\n  steps:")
READS_ONE = table("silver/two", reads="tables: {silver/one: {same: {column: day}}}")


def publish(into):
    """Write nothing."""


def test_tables_of_files_read_each_other(folder):
    """In any order of the files."""
    found = checked(files_below(folder(a=READS_ONE, b=ONE)))
    assert not found.faults
    assert {table.spec.name for table in found.tables} == {"silver/one", "silver/two"}


def test_a_fault_of_an_upstream_table_is_one_fault(folder):
    """What reads the table is not blamed, as long as its name and columns can be read."""
    (fault,) = checked(files_below(folder(a=READS_ONE, b=ONE.replace('code_version: "1"', "code_version: 1")))).faults
    assert fault.path == "attributes.code_version"


def test_an_upstream_table_that_cannot_be_read_is_named(folder):
    """Nobody looks for a spelling that is right."""
    one, two = checked(files_below(folder(a=READS_ONE, b=ONE.replace("type: DATE", "tpe: DATE")))).faults
    assert two.path == "attributes.table.columns.day.tpe"
    assert one.message == "silver/one cannot be read, as its own declaration has faults: mend those first"


def test_two_writers_are_one_fault_that_names_both(folder):
    """At the second one, by the order of the files."""
    root = folder(a=ONE, b=ONE)
    (fault,) = checked(files_below(root)).faults
    assert fault.file == str(root / "b" / "defs.yaml")
    assert fault.message == f"silver/one has two writers: {root}/a/defs.yaml:5 is the other"


def test_the_command_writes_faults_and_an_exit_code(folder, capsys):
    """For people, for programs, and for a pull request; 2 if there is nothing to check."""
    root = folder(a=ONE, b=READS_ONE.replace("silver/one", "silver/on"))
    assert main(["check", str(root)]) == 1
    out, err = capsys.readouterr()
    place = f"{root}/b/defs.yaml"
    assert (
        out == f"{place}:10:20: attributes.reads.tables.silver/on: unknown table silver/on: did you mean silver/one?\n"
    )
    assert "files: 2, declarations: 1, faults: 1" in err
    assert main(["check", str(root), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["format_version"] == 1
    assert (found["faults"][0]["line"], found["faults"][0]["column"]) == (10, 20)
    assert main(["check", str(root), "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith(f"::error file={place},line=10,col=20::attributes.reads")
    assert main(["check", str(root / "a")]) == 0
    assert main(["check", str(root / "nowhere")]) == 2
    assert "no defs.yaml" in capsys.readouterr().err


def test_the_schema_holds_every_pattern_and_takes_the_declaration(capsys):
    """Printed for an editor."""
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    step = schema["$defs"]["Step"]
    assert step["additionalProperties"] is False
    assert {"quality.audit_write_audit_publish", "sql", "python", "as", "from"} <= set(step["properties"])
    assert schema["allOf"][0]["then"]["properties"]["attributes"]["additionalProperties"] is False
