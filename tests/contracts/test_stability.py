"""Stability: what a release had stays until the release that its deprecation names; docs/stability.md says the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.deprecation import Deprecation, deprecated, deprecation_of
from tests.contracts import test_commands
from tests.contracts.test_patterns import PATTERNS, SIGNATURES, public_functions

pytestmark = pytest.mark.budget(30, "imports every command, and with it most packages")

RELEASED = CHECKOUT / "tests" / "contracts" / "released"
"""A file for each release: the names of its interface, and what it said of their end."""
COMMANDS = CHECKOUT / "tests" / "contracts" / "commands"
PAGE = CHECKOUT / "docs" / "stability.md"


def version() -> str:
    """The version that is being made."""
    return re.search(r'^version = "(.+)"$', (CHECKOUT / "pyproject.toml").read_text(), re.MULTILINE)[1]


def interface() -> dict[str, Deprecation | None]:
    """Every public function of a pattern, and every argument of a command, with its deprecation."""
    functions = {f"{p.id}.{name}": getattr(p.module, name) for p in PATTERNS for name in public_functions(p)}
    arguments = [line for lines in test_commands.usage().values() for line in lines]
    return {**{name: deprecation_of(each) for name, each in functions.items()}, **dict.fromkeys(arguments)}


def as_released(names: dict[str, Deprecation | None]) -> list[str]:
    """The lines of a release: a name each, and the end of a deprecated one."""
    ends = {
        name: f"  since {each.since}, gone in {each.gone_in}, use {each.use}" for name, each in names.items() if each
    }
    return sorted(f"{name}{ends.get(name, '')}" for name in names)


def gone_too_soon(released: Iterable[str], now: Collection[str], release: str) -> list[str]:
    """The names of a release that are missing in a later one, and did not say so early enough."""
    found = []
    for line in released:
        name, _, end = line.partition("  since ")
        stated = re.fullmatch(r"(.+), gone in (.+), use (.+)", end)
        over = bool(stated) and Deprecation(stated[1], stated[3], stated[2]).is_over(release)
        found += [name] if name not in now and not over else []
    return found


def releases() -> list[Path]:
    return sorted(RELEASED.glob("*.txt"), key=lambda path: [*map(int, path.stem.split("."))])


def test_a_name_of_a_release_stays_until_its_deprecation_is_over():
    """By the file of the newest release, which `python -m tests.contracts.freeze RELEASE` writes."""
    for path in releases()[-1:]:
        assert gone_too_soon(path.read_text().splitlines(), interface(), version()) == []


def test_the_rule_of_removal():
    """A name without a deprecation, or with one that is not over, is missed; one whose time is over is not."""
    end = "since 0.3.0, gone in 0.5.0, use new"
    released = [f"a.old  {end}", "a.kept", f"a.still  {end}"]
    assert gone_too_soon(released, ["a.kept", "a.still"], "0.5.0") == []
    assert gone_too_soon(released, ["a.kept"], "0.4.9") == ["a.old", "a.still"]
    assert gone_too_soon(released, ["a.old", "a.still"], "1.0.0") == ["a.kept"]
    function = deprecated(since="0.3.0", use="new", gone_in="0.5.0")(lambda: None)
    lines = as_released({"a.kept": None, "a.old": deprecation_of(function)})
    assert lines == ["a.kept", f"a.old  {end}"]


def test_a_deprecated_function_is_in_the_freeze_and_names_another():
    """Until the release that it names, in which it has to go; what to use instead is a public function."""
    frozen = {
        f"{path.stem}.{line.partition('(')[0]}"
        for path in SIGNATURES.glob("*.txt")
        for line in path.read_text().splitlines()
    }
    public = {name.rpartition(".")[2] for name in interface()}
    for name, each in interface().items():
        if each:
            assert name in frozen
            assert not each.is_over(version()), f"{name} is to be removed"
            assert each.use in public


def test_the_arguments_of_commands_stay():
    """What is frozen of the command line is there, a file for each command; `make freeze` adds what is new."""
    now = test_commands.usage()
    frozen = {path.stem: path.read_text().splitlines() for path in COMMANDS.glob("*.txt")}
    assert len(frozen) > 20
    assert {name: [line for line in lines if line not in now.get(name, [])] for name, lines in frozen.items()} == {
        name: [] for name in frozen
    }


def test_the_page_says_what_is_held():
    """The promises of the page are those of this file and of docs/commands.md, by their words."""
    text = " ".join(PAGE.read_text().split())
    for sentence in (
        "A name that goes away is deprecated for two minor releases",
        "`DeprecationWarning`",
        "exit codes",
        "`--json`",
        "begins with an underscore",
    ):
        assert sentence in text
