"""What every pattern of the catalogue has to look like, so that the family stays one family."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import grimp
import pytest

from dedp_assets.case_study import defs
from dedp_assets.graph.declare import Validation, declared
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns import catalog
from dedp_assets.patterns.core import errors
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage
from tests.contracts.readme import with_tables

PATTERNS = list(catalog.patterns())
SIGNATURES = CHECKOUT / "tests" / "contracts" / "signatures"
SECTIONS = ("Problem:", "Solution:", "Consequences:", "Choose instead:")

each = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)


def source(pattern: catalog.Pattern) -> str:
    return Path(inspect.getfile(inspect.unwrap(pattern.function))).read_text()


def pattern_file(pattern: catalog.Pattern) -> str:
    """The test file of a pattern."""
    return f"tests/patterns/{pattern.id.replace('.', '/test_')}.py"


def public_functions(pattern: catalog.Pattern) -> list[str]:
    return [name for name in pattern.module.__all__ if inspect.isfunction(getattr(pattern.module, name))]


@each
def test_module_docstring_is_the_pattern_in_brief(pattern):
    """First line `Name: promise` in at most 15 words, then the four sections, each in at most four lines."""
    lines = inspect.getdoc(pattern.module).splitlines()
    name, _, promise = lines[0].partition(": ")
    assert name.replace("-", " ").lower().split() == pattern.id.split(".")[1].split("_")
    assert 0 < len(promise.split()) <= 15, promise
    starts = [next(i for i, line in enumerate(lines) if line.startswith(section)) for section in SECTIONS]
    assert starts == sorted(starts)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        assert end - start <= 4, lines[start]


@each
def test_first_public_name_is_the_main_function_and_has_few_companions(pattern):
    """One main function and at most two companions."""
    functions = public_functions(pattern)
    assert functions[0] == pattern.function.__name__
    assert len(functions) <= 3


def told(kind: Any, module: ModuleType) -> bool:
    """Whether a companion may return this: a kind, a declaration, a plain value, a record of its module or shared."""
    if arguments := get_args(kind):
        return all(told(each, module) for each in arguments if each is not ...)
    plain = (bool, int, float, str, datetime, Path, type(None))
    return kind in (*catalog.KINDS, TableSpec, Audit, ColumnLineage, *plain) or kind.__module__ == module.__name__


@each
def test_companions_return_what_is_stated(pattern):
    """CONTRIBUTING names it: a kind of pattern, a declaration, a plain value, a record of the module."""
    for name in public_functions(pattern):
        returned = get_type_hints(inspect.unwrap(getattr(pattern.module, name)))["return"]
        assert told(returned, pattern.module), f"{name} returns {returned}"


@each
def test_positional_is_data_and_options_are_keywords(pattern):
    """Everything but data is keyword-only, annotated, and there is no catch-all."""
    for name in public_functions(pattern):
        function = getattr(pattern.module, name)
        hints = get_type_hints(inspect.unwrap(function))
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.kind is not parameter.VAR_KEYWORD, name
            assert parameter.name in hints, f"{name}({parameter.name}) is not annotated"
        assert "return" in hints, name
    data = [p for p in inspect.signature(pattern.function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    shapes = ("DataFrame", "Table", "Target", "Split", "Iterable", "Mapping", "Sink", "Finding", "Access")
    # what detectors judge: records of logs and runs, at a time
    shapes += ("Activity", "Measured", "Sequence", "LineageGraph", "datetime")
    # what agreements are about: the records of their two sides
    shapes += ("Contract", "Expectation")
    shapes += ("SchemaText",)  # what registries hold
    shapes += ("MaskingKey", "TokenVault")  # what no file may hold
    shapes += ("SecretPointers", "KeyRing")  # what stores of secrets hold
    shapes += ("RoleCertificates",)  # what authorities sign
    shapes += ("SuppressionList", "Erasure")  # whom erasures name
    shapes += ("Grants",)  # what was granted to whom
    assert data
    assert all(any(shape in str(p.annotation) for shape in shapes) for p in data), [str(p) for p in data]


@each
def test_public_functions_document_arguments_errors_and_an_example(pattern):
    """Google style: every argument is explained, errors are named, and the main function shows a call."""
    for name in public_functions(pattern):
        doc = inspect.getdoc(getattr(pattern.module, name)) or ""
        parameters = list(inspect.signature(getattr(pattern.module, name)).parameters)
        if len(parameters) > 2:
            missing = [p for p in parameters if not re.search(rf"^\s+{p}: ", doc, re.MULTILINE) and "Args:" in doc]
            assert not missing, f"{name} does not explain {missing}"
    doc = inspect.getdoc(pattern.function)
    assert "Args:" in doc
    assert "Raises:" in doc
    assert "Example:" in doc


@each
def test_the_header_ends_with_an_example_that_runs(pattern):
    """The main function's last section shows rows in and rows out; no example of the module is skipped."""
    doc = inspect.getdoc(pattern.function)
    example = doc.rpartition("Example:\n")[2]
    statements = doctest.DocTestParser().get_examples(example)
    assert statements, "no example"
    assert statements[-1].want, "the example does not end with what comes out"
    assert not re.search(r"^\S", example, re.MULTILINE), "the example is not the last section"
    assert "+SKIP" not in source(pattern)


@each
def test_modules_and_functions_stay_small(pattern):
    """At most 300 lines a module (60 to 130 as the rule), 40 lines of code a function."""
    text = source(pattern)
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= 40, f"{node.name} has {length} lines"


@each
def test_a_pattern_reads_no_clock_no_environment_and_counts_nothing_just_to_know(pattern):
    """The clock, the session and the settings are arguments; numbers come with the write."""
    assert not re.search(
        r"os\.environ|getenv|datetime\.now|time\.time\(|\.count\(\)|SparkSession\.builder", source(pattern)
    )


@each
def test_every_pattern_has_its_test_file(pattern):
    """tests/patterns mirrors the library."""
    assert (CHECKOUT / pattern_file(pattern)).exists()


def test_no_test_file_is_an_orphan():
    """And holds nothing else: a test is of a pattern, of machinery beside one (`_name.py`), or of a room (`_name`)."""
    for path in (CHECKOUT / "tests/patterns").rglob("test_*.py"):
        chapter = CHECKOUT / "dedp_assets" / path.parent.relative_to(CHECKOUT / "tests")
        name, room = path.name.removeprefix("test_"), chapter.with_name(f"_{chapter.name}")
        assert (chapter / name).exists() or (chapter / f"_{name}").exists() or room.is_dir(), path


@cache
def offered(face: str) -> dict[str, str]:
    """Name -> module of what a face offers: it imports a module when somebody asks for the name."""
    source = CHECKOUT / face.replace(".", "/") / "__init__.py"
    found = [n for block in ast.parse(source.read_text()).body if isinstance(block, ast.If) for n in block.body]
    return {alias.name: n.module for n in found if isinstance(n, ast.ImportFrom) for alias in n.names}


@cache
def taken(module: str) -> list[tuple[str | None, set[str]]]:
    """What a module imports by name: from which module, and the names."""
    path = CHECKOUT / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.ImportFrom)]
    return [(node.module, {alias.name for alias in node.names}) for node in found]


def importers(graph: grimp.ImportGraph, module: str, faces: Sequence[str]) -> set[str]:
    """Who imports a module, by its name or through a face."""
    found = set(graph.find_modules_that_directly_import(module))
    for face in faces:
        names = {name for name, where in offered(face).items() if where == module}
        found -= {face} if names else set()
        for user in graph.find_modules_that_directly_import(face) if names else ():
            found |= {user} if any(where == face and names & those for where, those in taken(user)) else set()
    return found


def test_shared_rooms_hold_only_what_is_shared():
    """A module that serves one pattern alone stands beside it as `_name.py`, and moves when a second one needs it.

    Maintenance is left out: what OPTIMIZE and VACUUM do belongs to tables, whichever pattern asks for it.
    """
    library = "dedp_assets.patterns"
    graph = grimp.build_graph("dedp_assets", "resources", "sensors", cache_dir=None)
    patterns = {f"{library}.{pattern.id}" for pattern in PATTERNS}
    chapters = tuple({name.rpartition(".")[0] + "." for name in patterns})
    rooms = tuple(f"{library}.{room}." for room in ("core", "delta", "connectors"))
    apart = f"{library}.delta.maintenance"
    for module in sorted(name for name in graph.modules if name.startswith(rooms) and not name.startswith(apart)):
        if graph.find_children(module):
            continue
        users = importers(graph, module, [f"{library}.delta", f"{library}.delta.versions"])
        assert users or module.startswith(rooms[-1]), f"nothing imports {module}: use it or remove it"
        # Helpers of a pattern count for it, and two chapters are two patterns.
        several = len({name.removeprefix(f"{library}.").partition(".")[0] for name in users}) > 1
        alone = all(name.startswith(chapters) for name in users) and len(users & patterns) == 1 and not several
        assert not alone, f"{module} serves {sorted(users)} alone: move it there, as _name.py"


def called(function: Callable[..., Any], seen: set[str] | None = None) -> set[str]:
    """Names that a function of `defs` uses, and those of the functions of `defs` and the validations that it uses."""
    known = set() if seen is None else seen
    for name in set(function.__code__.co_names) - known:
        known.add(name)
        used = function.__globals__.get(name)
        if inspect.isfunction(used) and used.__module__.startswith("dedp_assets.case_study.defs"):
            called(used, known)
        if isinstance(used, Validation):
            for method in filter(inspect.isfunction, vars(Validation).values()):
                called(method, known)
    return known


@each
def test_every_pattern_works_in_the_graph(pattern):
    """The table that declares a pattern calls it; what plans runs, or tends tables, is called by who asks for them."""
    declaring = [
        table for table in declared(defs) if pattern.function in {*table.patterns, *chain(*table.beside.values())}
    ]
    graph = (CHECKOUT / "dedp_assets" / "graph").rglob("*.py")
    asking = [path for path in graph if pattern.module.__name__ in path.read_text()]
    tending = CHECKOUT / "dedp_assets" / "case_study" / "defs" / "platform"
    asking += [path for path in tending.rglob("*.py") if pattern.module.__name__ in path.read_text()]
    assert declaring or asking, "declare it in the table that uses it: patterns=[...]"
    offered = {name for name in pattern.module.__all__ if inspect.isfunction(getattr(pattern.module, name))}
    for table in declaring:
        uses = called(table.function) | (called(table.reads.inputs) if table.reads.inputs else set())
        uses |= {each.__name__ for each in [getattr(table.function, "writes", None)] if each}  # of a table by query
        assert offered & uses or (pattern.kind == "plan" and asking), f"{table.spec.name} does not call {pattern.id}"


def test_only_delta_touches_delta():
    """In the library, that is; the resource that opens tables for readers without Spark does, too."""
    found = set()
    for path in [p for room in ("dedp_assets", "resources", "sensors") for p in (CHECKOUT / room).rglob("*.py")]:
        if re.search(r"^\s*(from|import) (delta|deltalake)\b", path.read_text(), re.MULTILINE):
            found.add(path.relative_to(CHECKOUT).as_posix())
    outside = {name for name in found if not name.startswith("dedp_assets/patterns/delta/")}
    assert outside == {"dedp_assets/graph/resources/lake.py"}
    assert found > outside


def signatures() -> dict[str, list[str]]:
    """Chapter -> the public signatures of its patterns, sorted."""
    found: dict[str, list[str]] = {}
    for pattern in PATTERNS:
        chapter, _, name = pattern.id.partition(".")
        lines = [f"{name}.{f}{inspect.signature(getattr(pattern.module, f))}" for f in public_functions(pattern)]
        found[chapter] = sorted([*found.get(chapter, []), *lines])
    return found


def test_public_signatures_change_only_on_purpose():
    """What is frozen of the library's interface is as it was, a file each chapter; `make freeze` adds what is new."""
    now = signatures()
    for path in sorted(SIGNATURES.glob("*.txt")):
        frozen = path.read_text().splitlines()
        known = {line.partition(".")[0] for line in frozen}
        assert frozen == [line for line in now.get(path.stem, []) if line.partition(".")[0] in known], path.stem


@pytest.mark.parametrize("file", ["docs/commands.md", "docs/doors.md", "docs/patterns.md", "docs/settings.md"])
def test_the_tables_of_documents_list_what_is_there(file):
    """Every row is the code's; `make format` writes new rows."""
    text = (CHECKOUT / file).read_text()
    cells = [{row.partition(" | ")[2] for row in each.splitlines()} for each in (text, with_tables(text))]
    assert cells[0] <= cells[1], "run `make format`"


def test_errors_form_one_tree_and_say_whether_a_retry_helps():
    """Every public error is a PatternError; only NotReady and Conflict are worth another attempt."""
    public = [getattr(errors, name) for name in errors.__all__]
    classes = [each for each in public if inspect.isclass(each)]
    assert all(issubclass(c, errors.PatternError) for c in classes)
    assert {c.__name__ for c in classes if c.retryable} == {"NotReady", "Conflict"}


def test_the_library_imports_no_dagster():
    """Somebody who wants one pattern gets Spark and Delta, and no orchestrator."""
    code = (
        "import sys; from dedp_assets.patterns import catalog; list(catalog.patterns()); "
        "sys.exit('dagster' in sys.modules or 'dedp_assets.graph.resources' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False).returncode == 0
