"""Secrets: no record of the project shows one, and no option of a pattern takes one as a text."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import dedp_assets
from dedp_assets.patterns.catalog import KINDS
from dedp_assets.patterns.core import results
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.secret import HIDDEN, Secret
from dedp_assets.resources.environments import CHECKOUT
from tests.contracts.test_patterns import PATTERNS, public_functions

SECRET = re.compile(r"(^|_)(passwords?|passphrase|secrets?|tokens?|credentials?|masking_key|private_key|api_key)$")
"""Names of what nobody may read."""
URLS = {"Settings": {"postgres", "history"}}
"""Class -> its fields with a URL that has a password."""


def records() -> Iterator[type]:
    """Every dataclass of the package, without the modules that do something when they are imported."""
    for module in pkgutil.walk_packages(dedp_assets.__path__, "dedp_assets."):
        if not module.name.endswith("__main__") and not module.name.startswith("dedp_assets.local."):
            for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if is_dataclass(found) and found.__module__ == module.name:
                    yield found


def test_no_record_shows_a_secret():
    """A field with one is left out of the representation, or is a `Secret`, which shows nothing."""
    found = {
        (record.__name__, each.name): each.repr
        for record in records()
        for each in fields(record)
        if SECRET.search(each.name) or each.name in URLS.get(record.__name__, ())
    }
    assert {("Address", "password"), ("MaskingKey", "secret"), ("Settings", "postgres")} <= found.keys()
    shown = [place for place, is_shown in found.items() if is_shown]
    assert shown == [("Access", "secret")]
    assert get_type_hints(Access)["secret"] == Secret | None
    assert repr(Access("ada", {}, "no", secret=Secret("open sesame"))).endswith(f"secret={HIDDEN})")


def test_no_option_of_a_pattern_is_a_secret_in_plain_text():
    """An option may be said in a file and is shown in a run's configuration: it names a secret."""
    taken: dict[str, Any] = {}
    for pattern in PATTERNS:
        for name in public_functions(pattern):
            hints = get_type_hints(inspect.unwrap(getattr(pattern.module, name)))
            taken |= {f"{pattern.id}.{name}({option})": kind for option, kind in hints.items() if SECRET.search(option)}
    assert {place: kind for place, kind in taken.items() if "str" in str(kind) or "bytes" in str(kind)} == {}


def test_every_kind_of_pattern_is_described():
    """In the table of CONTRIBUTING, and where the results are defined."""
    rows = re.findall(r"^\| (`.+`) \| (\w+) \| .+ \|$", (CHECKOUT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    told = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    assert {returned.__name__: kind for returned, kind in KINDS.items()}.items() <= told.items()
    stated = dict(re.findall(r"^``(\w+)``.*?\s(\w+) {2,}\S", results.__doc__ or "", re.MULTILINE))
    assert set(stated.values()) == set(KINDS.values())
