"""Documentation: commands, snippets, names and links are those that there are, on every page of the site."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import PurePosixPath
from types import ModuleType

import pytest
import yaml

import dedp_assets.graph.declare
import dedp_assets.patterns
from dedp_assets.components.chains.chaining import steps_of
from dedp_assets.components.chains.known import StepScope
from dedp_assets.components.checking import drafts_of
from dedp_assets.components.kinds import KINDS
from dedp_assets.components.tending import acting
from dedp_assets.components.yaml.documents import documents
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns import catalog
from dedp_assets.patterns.core.schema import TableSpec
from docs.site.assembling import navigation, pages
from docs.site.examples import call_in_yaml, rows_in, rows_out, statements
from docs.site.pages import Page
from docs.site.pattern_pages import path_of
from tests.contracts.test_commands import works
from tests.written import TEXTS, blocks, typed

pytestmark = pytest.mark.budget(40, "all pages of the site, and every command's parser")

PAGE = CHECKOUT / "docs" / "how_it_runs.md"
ROOTS = (CHECKOUT / "dedp_assets", CHECKOUT)
PROGRAMS = {
    "cd",
    "curl",
    "dedp",
    "make",
    "dg",
    "pip",
    "python",
    "pytest",
    "mkdir",
    "printf",
    "touch",
    "export",
    "cp",
    "mv",
    "$EDITOR",
}
"""Programs that a page types; the words of `dedp` and `make` are looked at."""
PATTERNS = list(catalog.patterns())
GOLD = TableSpec("gold/x", {})


@cache
def site() -> tuple[Page, ...]:
    return tuple(pages())


def test_how_it_runs_names_what_is_there():
    """Each file, and each function that is named right behind its file, is where the page says."""
    text = PAGE.read_text()
    named = re.findall(r"`([\w/]+\.py)`(?:\s+`([\w.]+)`)?", text)
    assert len(named) > 20
    missing = []
    for path, function in named:
        files = [root / path for root in ROOTS if (root / path).is_file()]
        last = function.rpartition(".")[2]
        found = files and (not last or re.search(rf"^\s*(def|class) {last}\b", files[0].read_text(), re.MULTILINE))
        missing += [] if found else [f"{path} {function}"]
    assert missing == []


def commands() -> Iterator[tuple[str, str]]:
    """Every command that a page shows: each part of a line behind a prompt, and commands in the text."""
    for each in typed():
        for part in each.parts:
            yield each.page, re.sub(r"^([A-Z_0-9]+=\S+ )+|\.venv/bin/", "", part)
    for path in TEXTS:
        prose = re.sub(r"(?ms)^```.*?^```$", "", path.read_text())
        for command in re.findall(r"`((?:dedp|make) [^`]+)`", prose):
            yield path.relative_to(CHECKOUT).as_posix(), command


def test_every_command_of_the_documentation_works_when_typed():
    """Words and options of `dedp` by its real parser, goals and variables of `make` by the Makefile."""
    makefile = (CHECKOUT / "Makefile").read_text()
    goals = {*re.findall(r"(?m)^([a-z]+):", makefile)}
    wrong, seen = [], 0
    for page, command in commands():
        program, *words = command.split()
        seen += 1
        if program == "dedp":
            line = re.sub(r"\.\.\.|(?<=[ =])[A-Z|]{2,}\b", "VALUE", command.replace("COMMAND", "status"))
            fine = len(words) < 2 or works(line)
        elif program == "make":
            names = [word.partition("=")[0] for word in words if "=" in word]
            fine = {word for word in words if "=" not in word} <= goals
            fine = fine and all(f"$({name})" in makefile or f"ifdef {name}" in makefile for name in names)
        else:
            fine = program in PROGRAMS
        wrong += [] if fine else [f"{page}: {command}"]
    assert seen > 200
    assert wrong == []


def in_python() -> Iterator[tuple[str, ast.Module]]:
    """Every block of Python, also one that is a part of a mapping, or a decorator alone."""
    for page, block in blocks("python"):
        whole = f"_ = {{{block}}}" if re.match(r'"\w+": ', block) else block
        whole = re.sub(r"(?m)^(def \w+)\(\.\.\.\)", r"\1()", whole)
        yield page, ast.parse(f"{whole}def _(): ..." if re.search(r"(?m)^@(?![^@]*^def )", whole) else whole)


def houses() -> Iterator[ModuleType]:
    """The modules whose names a snippet may use without an import."""
    yield dedp_assets.graph.declare
    yield dedp_assets.patterns
    for pattern in PATTERNS:
        yield pattern.module


def test_calls_in_snippets_have_the_parameters_that_there_are():
    """Of every function and record of the library or of declarations: no option that was renamed or removed."""
    known = {name: getattr(house, name) for house in houses() for name in getattr(house, "__all__", ())}
    wrong, seen = [], 0
    for page, tree in in_python():
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and callable(known.get(call.func.id)):
                parameters = inspect.signature(known[call.func.id]).parameters
                taken = {*parameters} if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else None
                names = {each.arg for each in call.keywords if each.arg}
                seen += 1
                wrong += [] if taken is None or names <= taken else [f"{page}: {call.func.id} {names - taken}"]
    assert seen > 30
    assert wrong == []


def test_imports_of_snippets_are_there():
    """Each imported name, wherever a page imports it from; those of CONTRIBUTING's own examples are added by them."""
    own = "dedp_assets.patterns.quality.null_reporter"
    wrong = []
    for page, tree in in_python():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module != own:
                module = importlib.import_module(node.module)
                wrong += [f"{page}: {each.name}" for each in node.names if not hasattr(module, each.name)]
    assert wrong == []


def free(tree: ast.Module) -> set[str]:
    """Names that a snippet uses and does not make."""
    nodes = [*ast.walk(tree)]
    loaded = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    made = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made |= {a.asname or a.name for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    return loaded - made - {*dir(builtins)}


def test_snippets_that_need_nothing_else_run(tmp_path, capsys):
    """As a reader pastes them, an empty folder in the place of each location; those of the decision trees as well."""
    blocks_ = [block for page, block in blocks("python") if page.startswith("docs/")]
    blocks_ += [each for page in site() if page.path.startswith("choose/") for each in _code(page.text, "python")]
    run = 0
    for block in blocks_:
        try:
            alone = not free(ast.parse(block))
        except SyntaxError:
            continue
        if alone:
            placed = block.replace("/data/", f"{tmp_path}/here/").replace("s3://", f"{tmp_path}/there/")
            exec(compile(placed, "page", "exec"), {})  # noqa: S102 - what a reader would do
            run += 1
    assert run >= 7
    assert "ingestion.change_data_capture" in capsys.readouterr().out


def _code(text: str, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text)


def test_documents_in_yaml_have_no_fault():
    """Those with a type as whole files; of a part, each key is one of a component's."""
    keys = {name for kind in KINDS.values() for name in kind.attributes().model_fields}
    faults, seen = [], 0
    for page, block in blocks("yaml"):
        seen += 1
        if "\ntype: " in f"\n{block}" and "dedp_assets.components" in block:
            drafts, whole = drafts_of(block, "defs.yaml")
            found = [*map(str, whole), *(str(fault) for each in drafts for fault in each.faults)]
            faults += [f"{page}: {fault}" for fault in found if "columns.yaml is missing" not in fault]
        else:
            faults += [f"{page}: {key}" for key in yaml.safe_load(block) if key not in {*keys, "attributes", "ops"}]
    assert seen > 15
    assert faults == []


class Mine(ModuleType):
    """A module of a reader's, with every name that a page writes."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda: None


@pytest.mark.parametrize("pattern", [pytest.param(each, id=each.id) for each in PATTERNS])
def test_the_yaml_of_a_patterns_page_is_taken(pattern, monkeypatch):
    """As a step of a table or as an action of maintenance: options, types and names; of the table nothing is known."""
    kind, text = call_in_yaml(pattern)
    for name in ("my_lake", "my_lake.values"):
        monkeypatch.setitem(sys.modules, name, Mine(name))
    if kind == "actions":
        attributes = {"name": "platform/x", "owner": "team:x", "tables": "all", "when": {"on_request": {}}}
        whole = yaml.safe_dump({"type": "x", "attributes": {**attributes, **yaml.safe_load(text)}}, sort_keys=False)
        (document,) = documents(whole, "defs.yaml")
        faults = acting.declare(acting.draft(document), {})[1]
    else:
        written = "" if pattern.kind == "write" else "- python: my_lake.values:write\n"
        (document,) = documents(text + written, "defs.yaml")
        upstream = {"silver/x": TableSpec("silver/x", {})}
        faults = steps_of(document.value["steps"], document, ("steps",), StepScope(GOLD, upstream, {}, unsure=True))[1]
    assert [text for text in map(str, faults) if not re.search(r": gold/x |columns of gold/x", text)] == []


def test_rows_of_an_example_become_tables():
    """Most patterns that take or write rows show rows in and rows out, with as many cells as the example has values."""
    shown = {each.id: (len([*rows_in(each)]), len([*rows_out(each)])) for each in PATTERNS}
    assert shown["idempotency.merger"] == (2, 1)
    assert sum(ins > 0 or outs > 0 for ins, outs in shown.values()) > 60
    (merger,) = [each for each in PATTERNS if each.id == "idempotency.merger"]
    ((title, rows),) = rows_out(merger)
    assert title == "`rows(users)`"
    assert rows.splitlines()[0] == "| id | name | at | gone |"
    assert rows.splitlines()[3:] == ["| 2 | `Bob` | 4 | False |"]
    assert statements(merger)[-1].want.startswith("[(1, 'Ada', 7, False)")


@pytest.mark.parametrize("pattern", [pytest.param(each, id=each.id) for each in PATTERNS])
def test_a_patterns_page_is_whole(pattern):
    """Problem to choose instead, example, YAML, place in the case study, and each test with what it proves."""
    (page,) = [each for each in site() if each.path == path_of(pattern)]
    for title in ("Problem", "Solution", "Consequences", "Choose instead", "Example", "In the case study"):
        assert f"\n## {title}\n" in page.text, title
    assert "### In YAML" in page.text
    test = CHECKOUT / "tests" / "patterns" / f"{pattern.id.replace('.', '/test_')}.py"
    proved = page.text.partition("## What its tests prove")[2]
    assert proved.count("\n- **") == len(re.findall(r"(?m)^def test_", test.read_text())) > 0


LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")


def test_links_of_the_site_lead_to_pages_and_headings():
    """Offline: each relative link of each page, and the heading that it names."""
    anchors = {page.path: {_anchor(each) for each in re.findall(r"(?m)^#+ (.+)$", page.text)} for page in site()}
    pictures = {f"pictures/{path.name}" for path in (CHECKOUT / "docs" / "pictures").iterdir()}
    broken, seen = [], 0
    for page in site():
        for target in LINK.findall(re.sub(r"(?ms)^ *```.*?^ *```$", "", page.text)):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            seen += 1
            led = _normal(PurePosixPath(page.path).parent / path) if path else page.path
            fine = led in pictures or (led in anchors and (not anchor or anchor in anchors[led]))
            broken += [] if fine else [f"{page.path}: {target}"]
    assert seen > 500
    assert broken == []


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def _anchor(heading: str) -> str:
    """The anchor of a heading, as the builders make it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())


def test_signs_in_code_are_shown_as_they_are():
    """An escape in code would be read as the escape; outside of it a sign would become a tag or a column."""
    for page in site():
        assert re.findall(r"`[^`\n]*&(?:lt|#124);[^`\n]*`", page.text) == [], page.path
    (page,) = [each for each in site() if each.path == "patterns/modeling/versioned_dimension.md"]
    assert "`current_<name>`" in page.text


def test_every_page_is_in_the_navigation_once():
    """Nobody edits a list: a page that is there is found."""
    listed = [*_leaves(navigation([*site()]))]
    assert sorted(listed) == sorted(each.path for each in site())
    assert len(listed) > 140


def _leaves(nodes: object) -> Iterator[str]:
    if isinstance(nodes, str):
        yield nodes
    elif isinstance(nodes, dict):
        yield from (leaf for node in nodes.values() for leaf in _leaves(node))
    elif isinstance(nodes, list):
        yield from (leaf for node in nodes for leaf in _leaves(node))


def test_promises_name_the_tests_that_hold_them():
    """On the site, beside each key."""
    (page,) = [each for each in site() if each.path == "promises.md"]
    rows = re.findall(r"(?m)^\| .+ \| `[a-z0-9-]+` \| (.*) \|$", page.text)
    assert len(rows) > 20
    assert [row for row in rows if not re.match(r"`\S+/test_\w+\.py` ", row)] == []
