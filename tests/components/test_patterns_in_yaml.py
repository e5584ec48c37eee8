"""Every pattern by way of a file: the example of its docstring gives the same results, rows and commits as in Python.

What runs is the example in the header of each pattern, so that a new pattern is under this test by being there.
"""

from __future__ import annotations

import contextlib
import inspect
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import partial
from types import UnionType
from typing import Any, get_origin, get_type_hints

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from dedp_assets.components.chains.operations import StepOperation, operations
from dedp_assets.components.tending.acting import actions
from dedp_assets.patterns.catalog import KINDS, Pattern, patterns
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.secret import Secret
from dedp_assets.patterns.delta import Table
from tests.components import in_yaml
from tests.contracts.test_rerun_law import OF_PROFILES, Example, execute
from tests.examples import tables_in
from tests.fixtures import empty_database
from tests.sinks import Inbox

pytestmark = pytest.mark.budget(90, "the example of each pattern by way of a file, and of each write in Python as well")
PATTERNS = list(patterns())
OF_LOG = ("commit_lsn", "committed_at")
"""Columns of a change history that no two databases share."""
OF_FILES = ("place", "sha256")
"""Columns of a catalogue of exports that no two lakes share."""
REST = {
    "error_management.dead_letter.as_letters": "takes the provenance of the run; route calls it",
    "value.metadata_decorator.contexts_of": "takes the partition of the run; a Python step calls it",
}
"""Function of the catalogue that neither a step nor an action can call -> the reason."""


def run(example: Example, pattern: Pattern, given: Mapping[str, Any], *, by_file: bool) -> tuple[list[Any], Any, Any]:
    """Run an example: the results of the pattern's functions, the rows of its tables, and the commits."""
    space, results = {**example.module, **given}, list[Any]()
    for operation in operations().values():
        name = operation.function.__name__
        if operation.name.startswith(pattern.id) and operation.name not in REST and name in space:
            space[name] = partial(noted, operation, results, by_file=by_file)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        for statement in example.statements:
            with contextlib.suppress(PatternError):
                execute(statement, space)
    tables = {name: value for name, value in space.items() if isinstance(value, Table) and value.ledger.exists()}
    return (
        [results, shown.getvalue()],
        {name: stored(each) for name, each in tables.items()},
        {name: commits(each) for name, each in tables.items()},
    )


def noted(operation: StepOperation, results: list[Any], *args: Any, by_file: bool, **kwargs: Any) -> Any:
    """Call a function in Python or by a file, and note what it returned; what writes nothing, in both ways."""
    result = in_yaml.called(operation, *args, **kwargs) if by_file else operation.function(*args, **kwargs)
    if operation.kind != "write" and by_file:
        require_same(result, operation.function(*args, **kwargs))
    results.append(plain(result) if operation.kind == "write" else operation.name)
    return result


def require_same(result: Any, other: Any) -> None:
    """Compare what two calls returned; of frames the plans, or where these have names of their own the rows."""
    frames = [(each.rows if isinstance(each, Split) else each) for each in (result, other)]
    if all(isinstance(each, DataFrame) for each in frames) and frames[0].sameSemantics(frames[1]):
        assert frames[0].schema == frames[1].schema
    else:
        assert plain(result) == plain(other)


def plain(result: Any) -> Any:
    """A result as values that can be compared."""
    if isinstance(result, DataFrame):
        return result.schema.simpleString(), None if result.isStreaming else sorted(map(str, result.collect()))
    if isinstance(result, Split):
        return plain(result.rows), dict(result.parts)
    if is_dataclass(result) and not isinstance(result, type):
        with contextlib.suppress(TypeError):
            found = asdict(result)
            left = {name: value for name, value in found.items() if name not in ("reason", "figures", "about")}
            return {name: str(value) if isinstance(value, Secret) else value for name, value in left.items()}
    return str(type(result))


def stored(table: Table) -> Counter[str]:
    """The rows of a table by an independent reader, apart from the places in a database's log."""
    rows = DeltaTable(str(table.location)).to_pyarrow_table().to_pylist()
    return Counter(
        str({name: value for name, value in row.items() if name not in (*OF_LOG, *OF_FILES, *OF_PROFILES)})
        for row in rows
    )


def commits(table: Table) -> list[Any]:
    """What each commit says, apart from times and cost."""
    return [(commit.version, commit.operation, _record(commit.record)) for commit in table.ledger.commits()]


def _record(record: Any) -> Any:
    if record is None:
        return None
    inputs = sorted(name for name in record.inputs if not name.startswith("stream/"))  # a stream's id is a new one
    return record.asset, record.partition, record.pattern, record.verdict, record.rows, inputs


EXAMPLES = [(pattern, Example(pattern)) for pattern in PATTERNS]
each = pytest.mark.parametrize(("pattern", "example"), [pytest.param(p, e, marks=e.mark, id=p.id) for p, e in EXAMPLES])


@each
def test_a_pattern_of_a_file_does_what_it_does_in_python(request, tmp_path, pattern, example):
    """With the options from YAML."""
    seen = []
    for by_file in (False, True) if pattern.kind == "write" else (True,):
        own = {"table", "inbox", "database"}
        given = {name: request.getfixturevalue(name) for name in example.fixtures - own}
        if "table" in example.fixtures:
            frame = request.getfixturevalue("frame")
            given["table"] = tables_in(request.getfixturevalue("spark"), frame, tmp_path / str(by_file))
        given |= {"inbox": Inbox(limit=2)} if "inbox" in example.fixtures else {}
        with contextlib.ExitStack() as until_then:
            if "database" in example.fixtures:
                served = request.getfixturevalue("own_postgres")
                given["database"] = until_then.enter_context(empty_database(served))
            seen.append(run(example, pattern, given, by_file=by_file))
    results, *stored = seen[-1]
    assert results[0], "the example calls no function of the pattern"
    assert ([results, *stored]) == list(seen[0])


def test_every_function_of_the_catalogue_stands_in_a_step_or_an_action():
    """Apart from those with a reason: arguments that a run alone knows, beside rows or a table of a step."""
    found = operations()
    of_catalogue = {name for name in found if "." in name}
    by_run = {name for name in of_catalogue - {*actions()} if any(map(is_of_run, objects_of(found[name])))}
    assert by_run == {*REST}
    assert not {*REST} & {pattern.id for pattern in PATTERNS}
    returned = {pattern.id: get_type_hints(inspect.unwrap(pattern.function))["return"] for pattern in PATTERNS}
    assert {name: found[name].kind for name in returned} == {name: KINDS[kind] for name, kind in returned.items()}


def objects_of(operation: StepOperation) -> list[Any]:
    """The types of arguments that a step names as Python objects."""
    hints = get_type_hints(inspect.unwrap(operation.function))
    return [hints[name] for name, role in operation.data.items() if role == "object"]


def is_of_run(kind: Any) -> bool:
    """Whether a module cannot hold a value of a type, because each run has its own."""
    return kind is Provenance or get_origin(kind) not in (None, UnionType)  # an optional one may be left out
