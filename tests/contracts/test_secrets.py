"""Secrets: no record of the project shows one, and no option of a pattern takes one as a text."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import dedp_assets
from dedp_assets.graph.resources.environments import CHECKOUT, Settings, variables_of
from dedp_assets.patterns.catalog import KINDS
from dedp_assets.patterns.core import results
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.secret import HIDDEN, Secret
from tests.contracts.test_patterns import PATTERNS, public_functions

SECRET = re.compile(r"(^|_)(passwords?|passphrase|secrets?|tokens?|credentials?|masking_key|private_key|api_key)$")
"""Names of what nobody may read."""
SAID = re.compile(
    r"\b(passwords?|passphrases?|secrets?|tokens?|credentials?|(private|masking|API) keys?|URL of [^,;.]*database)\b"
)
"""Words of a description of what nobody may read; a database's URL has a password."""
DENIED = re.compile(r"\b(without|never|name of|version of)\b[^;.]*")
"""Words by which a description says that no secret is there, but something about one."""
ADDRESS = re.compile(r"(^|_)(url|uri|address)(e?s)?$")
"""Names of what may be given with a password in it."""
CANARY = "tok3n-canary"


def records() -> Iterator[type]:
    """Every dataclass of the package; a module without one is not imported, as some do something then."""
    for module in pkgutil.walk_packages(dedp_assets.__path__, "dedp_assets."):
        source = getattr(importlib.util.find_spec(module.name), "origin", None)
        if source and "dataclass" in Path(source).read_text():
            for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if is_dataclass(found) and found.__module__ == module.name and not inspect.isabstract(found):
                    yield found


def described(record: type, name: str) -> str:
    """What a record says of a field, or the field's environment variable."""
    found = re.findall(rf"^    {name}: (.*(?:\n {{8}}.*)*)", inspect.getdoc(record) or "", re.MULTILINE)
    known = variables_of(record) if record.__module__ == Settings.__module__ else {}
    found += [known[name].about] if name in known else []
    return " ".join(DENIED.sub("", each) for each in found)


def is_text(each: Field[Any]) -> bool:
    """Whether a field can hold a text or bytes."""
    return re.search(r"\b(str|bytes|Any)\b", str(each.type)) is not None


def secrets_of(record: type) -> list[str]:
    """The fields of a record that hold a secret, by their name or by their description."""
    texts = [each.name for each in fields(record) if is_text(each)]
    return [name for name in texts if SECRET.search(name) or SAID.search(described(record, name))]


def test_no_record_shows_a_secret():
    """A field that is named or described as one is left out of the representation, whatever the field holds."""
    found = {f"{record.__name__}.{name}": (record, name) for record in records() for name in secrets_of(record)}
    named = {"Address.password", "MaskingKey.secret", "Settings.masking_key", "AlertOutbox.secrets"}
    of_urls = {"Settings.postgres", "Settings.history", "AlertSettings.webhook", "AlertSettings.apprise"}
    assert named | of_urls | {"Webhook.url", "AppriseService.url", "Place.client"} <= found.keys()
    shown = {place for place, (record, name) in found.items() if CANARY in repr(holding(record, name))}
    assert not shown


def holding(record: type, name: str) -> object:
    """A record with a secret in one field and nothing in the others, past the checks of its constructor."""
    made = object.__new__(record)
    for each in fields(record):
        object.__setattr__(made, each.name, (CANARY,) if each.name == name else None)
    return made


def test_an_address_with_a_password_is_hidden_or_refused():
    """A field that is named as an address either takes no password, and does not repeat it, or is not shown."""
    found = [(record, each) for record in records() for each in fields(record) if ADDRESS.search(each.name)]
    shown = {f"{record.__name__}.{each.name}": record for record, each in found if is_text(each) and each.repr}
    assert {"Database.url", "Service.url"} <= shown.keys()
    for place, record in shown.items():
        needed = [other.name for other in fields(record) if other.default is other.default_factory is MISSING]
        url = {place.partition(".")[2]: f"https://ada:{CANARY}@host.example/path"}
        with pytest.raises(ConfigError, match=r"(?i)\burl\b") as refused:
            record(**{**dict.fromkeys(needed, "x"), **url})
        assert CANARY not in str(refused.value), place


def test_the_secret_of_an_access_is_hidden_by_itself():
    """It is shown as a place without its value."""
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
