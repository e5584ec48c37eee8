"""Test files that a change reaches by imports: ``python -m tests.changed [BASE]`` prints the files.

A test file is touched if its text, a ``conftest.py`` above it, or a module that it imports changed, over any number of
imports. Of a helper (a module below ``tests`` without tests) only the functions that are used count, and of a package
that exports lazily only the modules behind the names. A module that is found by walking a folder, as patterns and
tables are, is imported by nobody: its own test is touched, and those of the whole family are for ``make test``. A
contract that collects the functions that test files mark (``marked_with("known_calls")``) uses those functions.

A document touches the contracts, a file beside tests the tests of its folder, and a file for which nobody can say that
(pins, the Makefile) touches everything. Stories of a whole platform (files with a budget of 100 seconds or more), which
nearly every change reaches, are left to ``make test`` unless they changed themselves.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

ROOTS = ("dedp_assets", "resources", "sensors", "benchmarks", "docs", "tests")
EVERYTHING = ("pyproject.toml", "requirements.lock", "Makefile", "conftest.py", ".ci/", "tests/running.py")
DOCUMENTS = (".md", ".yaml", ".json", ".template", ".xml")
FIXTURES = ("tests.fixtures", "tests.examples")
STORY_SECONDS = 100

Node = tuple[str, str]
"""A module, or a name of a helper module; the name of a whole module is empty."""


def touched(files: Iterable[str]) -> set[str]:
    """The test files that changes of files touch; every test file if nobody can say."""
    changed = set(files)
    if any(file.startswith(EVERYTHING) for file in changed):
        return set(_tests())
    modules = {_module(file) for file in changed} - {""}
    beside = {PurePosixPath(file).parent for file in changed if file.startswith("tests/") and not _module(file)}
    found = {test for test in _tests() if not modules.isdisjoint(_reached(test))}
    found |= {test for test in _tests() if any(PurePosixPath(test).is_relative_to(folder) for folder in beside)}
    if any(file.endswith(DOCUMENTS) for file in changed):
        found |= {test for test in _tests() if test.startswith("tests/contracts/")}
    return {test for test in found if test in changed or _budget(test) < STORY_SECONDS}


def files_since(base: str) -> set[str]:
    """The files that differ from a commit, new ones among them."""
    return {*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")}


@cache
def _reached(test: str) -> frozenset[str]:
    """The modules behind a test file, its own among them."""
    tree = _tree(test)
    given = {arg.arg for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for arg in node.args.args}
    given |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    todo: set[Node] = {(_module(test), ""), *((place, name) for place in _fixtures(test) for name in given)}
    found: set[Node] = set()
    while todo:
        node = todo.pop()
        if node not in found and _exists(node):
            found.add(node)
            todo |= _next(node)
    return frozenset(module for module, _ in found)


def _fixtures(test: str) -> list[str]:
    """The modules whose fixtures a test file may ask for by a parameter, or by a name in a mark."""
    folders = [folder for folder in PurePosixPath(test).parents if folder.as_posix().startswith("tests")]
    return [*FIXTURES, *(f"{folder.as_posix().replace('/', '.')}.conftest" for folder in folders)]


def _exists(node: Node) -> bool:
    module, name = node
    return bool(_file(module)) and (not name or name in _defined(module) or name in _imported(module))


@cache
def _next(node: Node) -> set[Node]:
    """The modules and names that a module, or a name of a helper, uses by itself."""
    module, name = node
    if not name:
        if _is_lazy(module):
            return set()
        return _collected(_tree(_file(module))) | {_target(*each) for each in _imported(module).values()}
    if name not in _defined(module):
        return {_target(*_imported(module)[name])}
    tree = _defined(module)[name]
    words = {n.id if isinstance(n, ast.Name) else n.arg for n in ast.walk(tree) if isinstance(n, ast.Name | ast.arg)}
    within = {_target(*each) for each in _from(tree).values()} | _collected(tree)
    return within | {(module, word) for word in words - {name} if word in _defined(module) or word in _imported(module)}


def _collected(tree: ast.AST) -> set[Node]:
    """The functions of test files with a mark that the code collects by its name."""
    calls = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "marked_with"
    )
    marks = {mark.value for call in calls for mark in call.args if isinstance(mark, ast.Constant)}
    return {each for test in _tests() for each in _marked(test, marks)} if marks else set()


def _marked(test: str, marks: set[object]) -> Iterator[Node]:
    for node in _tree(test).body:
        above = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        if marks & {name.id for mark in above for name in ast.walk(mark) if isinstance(name, ast.Name)}:
            yield _module(test), node.name


def _target(module: str, name: str) -> Node:
    """An imported name of a helper, or the module behind any other."""
    if _file(f"{module}.{name}"):
        return f"{module}.{name}", ""
    if module.startswith("tests.") and not PurePosixPath(_file(module)).name.startswith("test_"):
        return module, name
    return _exports(module).get(name, module), ""


@cache
def _defined(module: str) -> dict[str, ast.stmt]:
    """Name -> definition, of the functions, classes and variables of a module."""
    found: dict[str, ast.stmt] = {}
    for node in _tree(_file(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= {each.id: node for each in ast.walk(node) if isinstance(each, ast.Name)
                      and isinstance(each.ctx, ast.Store)}  # fmt: skip
    return found


@cache
def _imported(module: str) -> dict[str, tuple[str, str]]:
    """Name in a module -> module and name of the import, of this project's modules."""
    return _from(_tree(_file(module)))


def _from(tree: ast.AST) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: (alias.name, "") for alias in node.names if _is_ours(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ROOTS


def _is_lazy(module: str) -> bool:
    """Whether a package imports what it exports when somebody asks for it."""
    file = _file(module)
    return file.endswith("/__init__.py") and "__getattr__" in Path(file).read_text()


@cache
def _exports(package: str) -> dict[str, str]:
    """Exported name -> module, of a package that exports lazily."""
    if not _is_lazy(package):
        return {}
    stub = Path(_file(package)).with_suffix(".pyi")
    return {name: module for name, (module, _) in _from(_tree(stub.as_posix())).items()} if stub.exists() else {}


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text())


@cache
def _tests() -> tuple[str, ...]:
    return tuple(sorted(path.as_posix() for path in Path("tests").rglob("test_*.py")))


@cache
def _budget(test: str) -> int:
    stated = re.search(r"mark\.budget\((\d+)", Path(test).read_text())
    return int(stated[1]) if stated else 0


def _module(file: str) -> str:
    """The module of a file; empty for a file that is none."""
    if not file.endswith(".py") or file.partition("/")[0] not in ROOTS:
        return ""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _file(module: str) -> str:
    place = module.replace(".", "/")
    return next((file for file in (f"{place}.py", f"{place}/__init__.py") if Path(file).exists()), "")


def _git(*words: str) -> Iterator[str]:
    yield from subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    print("\n".join(sorted(touched(files_since(sys.argv[1] if len(sys.argv) > 1 else "HEAD")))))  # noqa: T201
