"""A wrong value for any option of any pattern: it works, or is refused by the library in one sentence that names it.

The options are those of the signatures, and the wrong values follow from the right ones, so that a new pattern is
under this contract by being there: its example has a call that works. What the example does not show, which are the
calls of companions and further options, stands beside the pattern's tests, under :func:`known_calls`. No job of Spark's
is started: a call that would start one has taken its arguments. In `make fuzz` there are more values.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from contextlib import _GeneratorContextManager, suppress
from datetime import date, datetime
from functools import partial

import pytest
from hypothesis import settings
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import NotReady, PatternError
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.delta import Table, Target
from tests.contracts.known_calls import Begun, Known, without_jobs
from tests.contracts.test_patterns import PATTERNS, pattern_file, public_functions
from tests.contracts.test_rerun_law import Example, execute
from tests.helpers import NOW
from tests.rotation import rotated

pytestmark = [pytest.mark.spark, pytest.mark.budget(50, "every option of every public function with wrong values")]

FUZZ = settings.get_current_profile_name() == "fuzz"
FUNCTIONS = {name: getattr(pattern.module, name) for pattern in PATTERNS for name in public_functions(pattern)}
NAIVE = datetime(2026, 1, 5)  # noqa: DTZ001 - that is what is wrong with it
HUGE = 10**30
LARGE = (10**8, 10**12, 2**62)
PLAIN = (
    None,
    "nope",
    "",
    0,
    1,
    -1,
    0.5,
    *LARGE,
    math.nan,
    math.inf,
    HUGE,
    -HUGE,
    True,
    b"id",
    [],
    {},
    (),
    set(),
    object(),
)
LIKE = """
    from tests.contracts.known_calls import known_calls

    @known_calls
    def calls_that_work(known):
        return {"%s": {"rows": known.visits, "into": known.daily.target(known.run), "keys": ["id"]}}
"""
"""A call of a companion, for whoever has to write one."""
OTHER = (date(2026, 1, 5), NAIVE, NOW, "x" * 300, "a`b", "${x}", "'", ["nope"], {"nope": "nope"}, 1e300)


@pytest.fixture(scope="module")
def known(spark, tmp_path_factory):
    return Known(spark, tmp_path_factory.mktemp("options"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory, monkeypatch):
    """A wrong path is a name in the working directory, where nothing is to be left."""
    monkeypatch.chdir(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def calls(known):
    """Function -> its arguments in a call beside the tests of its pattern."""
    return known.calls()


def parameters(name):
    return inspect.signature(FUNCTIONS[name]).parameters


def of_example(name, request):
    """The arguments of the call that stands in the header of a pattern."""
    example = Example(next(pattern for pattern in PATTERNS if pattern.function is FUNCTIONS[name]))
    space, taken = example.begin(request), []

    def take(*args, **options):
        taken.append(inspect.signature(FUNCTIONS[name]).bind(*args, **options).arguments)
        raise Begun

    with suppress(Begun):
        execute(example.calls[0], {**space, name: take})
    return taken[0]


def call(name, arguments):
    """Call a function; what it would only begin, it does not do."""
    bound = inspect.signature(FUNCTIONS[name]).bind_partial()
    bound.arguments.update({n: arguments[n] for n in parameters(name) if n in arguments})
    with without_jobs():
        try:
            found = FUNCTIONS[name](*bound.args, **bound.kwargs)
            if isinstance(found, _GeneratorContextManager):
                with found:
                    pass
        except (Begun, NotReady):  # of what is not there yet, no option is wrong
            pass


def bent(value):
    """Values that differ from a right one by what they hold, how they are spelled, or what holds them."""
    if isinstance(value, str):
        yield from (value.upper(), value.encode(), [value], {value: value}, f"{value}\ud800")
        yield from [f" {value} "] if value else []
    elif isinstance(value, Mapping):
        some = dict(value)
        yield from ([*some], {**some, "": "x"}, {**some, "x": ""}, {**some, 1: "x"}, {**some, "x": None}, {None: None})
        yield from (dict(zip([""], some.values(), strict=False)), dict.fromkeys(some, ""))
        yield from ({str(key).upper(): each for key, each in some.items()}, dict.fromkeys(some, 1), [some])
        yield from (dict.fromkeys(some, wrong) for wrong in (date(2026, 1, 5), "nope", [], {}, 10**30, True))
    elif isinstance(value, list | tuple):
        yield from (tuple(value), {*map(str, value)}, [*value, None], [*value, ""], [*value, 1], [*value, *value])
        yield from ([str(each).upper() for each in value], [[*value]], "".join(map(str, value)), iter(value))
    elif isinstance(value, DataFrame):
        yield from (Split.of(value), value.columns)


def wrong_values(value):
    return [*PLAIN, *bent(value), *(OTHER if FUZZ else OTHER[:3])]


def test_every_public_function_has_a_call_that_works(calls):
    """A main function has that of its example, and a companion one beside the pattern's tests."""
    assert calls.keys() <= FUNCTIONS.keys()
    for pattern in PATTERNS:
        for name in public_functions(pattern)[1:]:
            assert name in calls, (
                f"no call of {name} is known: write into {pattern_file(pattern)} one like this" + LIKE % name
            )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_value_works_or_is_refused_in_one_sentence(calls, name, request):
    """By an error of the library that names the option, or the value; and a refused write leaves the table alone.

    One in two wrong values, and the others once the library is changed; all of them in `make fuzz`.
    """
    right = calls.get(name) or of_example(name, request)
    call(name, right)
    written = [getattr(value, "table", value) for value in right.values()]
    tables = [table for table in written if isinstance(table, Table) and table.ledger.exists()]
    found = []
    for number, (option, wrong, make) in enumerate(changes_of(name, right)):
        if not any(rotated(number, (True, False))):
            continue
        before = [table.ledger.version() for table in tables]
        try:
            call(name, {**right, option.partition(".")[0]: make()})
        except PatternError as error:
            if not named(option.rpartition(".")[2], wrong, str(error)):
                found.append(f"{option}={wrong!r:.60}: says {error}")
            if before != [table.ledger.version() for table in tables]:
                found.append(f"{option}={wrong!r:.60}: wrote something")
        except Exception as error:
            found.append(f"{option}={wrong!r:.60}: {type(error).__name__} {str(error)[:120]}")
    assert not found, "\n".join(found)


def changes_of(name, right):
    """Each option with each wrong value, and how to make the argument; also of what a target holds."""
    for option, parameter in parameters(name).items():
        value = right.get(option, parameter.default)
        several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        for wrong in wrong_values(value):
            yield option, wrong, lambda wrong=wrong, several=several: (wrong,) if several else wrong
        for part in ("run", "partition", "audits") if isinstance(value, Target) else ():
            for wrong in wrong_values(getattr(value, part)):
                yield f"{option}.{part}", wrong, partial(retargeted, value, part, wrong)


def retargeted(into, part, wrong):
    """The target with something wrong in it, made as people make one."""
    told = {"run": into.run, "partition": into.partition, "audits": into.audits, part: wrong}
    return into.table.target(told.pop("run"), **told)


def named(option, wrong, sentence):
    """Whether a message is one sentence that names the option, or the value or name that is wrong."""
    words = {option, option.replace("_", " ")}
    inside = wrong if isinstance(wrong, list | tuple | set | dict) else [wrong]
    words |= {str(each) if str(each).strip() else repr(each) for each in inside}
    words |= {str(each) for each in wrong.values()} if isinstance(wrong, dict) else {"twice"}
    return "\n" not in sentence.strip() and any(re.search(re.escape(word), sentence, re.IGNORECASE) for word in words)
