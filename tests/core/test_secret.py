"""Secrets and the access that they open: no rendering shows the value."""

from __future__ import annotations

import copy
import html
import json
import logging
import pickle
import pprint
import traceback
from base64 import b16encode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from datetime import datetime, timezone
from types import MappingProxyType
from urllib.parse import quote, quote_plus

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pyspark import cloudpickle

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.secret import HIDDEN, Secret

VALUE = "p&ss/w'o\"r\\d é+1"
ACCESS = Access("reporter", {"connect": ("operational",)}, "connected", version="3", secret=Secret(VALUE))
LETTERS = st.one_of(st.sampled_from("\\'\"/+%& \n\t\0=<>#;é😀\ud800*"), st.characters())
VALUES = st.text(LETTERS, min_size=4, max_size=20)


def encoded(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def within(written: Callable[[str], str]) -> Callable[[str], str]:
    """The spelling of a value that is written within a longer text."""
    return lambda value: written(f"Q{value}Q").partition("Q")[2].rpartition("Q")[0]


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "repr": within(repr),
    "repr of repr": within(lambda v: repr(repr(v))),
    "ascii": within(ascii),
    "repr within a longer text": within(lambda v: repr(f"'\"{v}")),
    "JSON": within(json.dumps),
    "JSON with letters": within(lambda v: json.dumps(v, ensure_ascii=False)),
    "JSON in JSON": within(lambda v: json.dumps(json.dumps(v))),
    "URL": lambda v: quote(encoded(v)),
    "whole URL": lambda v: quote(encoded(v), safe=""),
    "URL in a URL": lambda v: quote(quote(encoded(v), safe=""), safe=""),
    "form": lambda v: quote_plus(encoded(v)),
    "small digits": lambda v: quote(encoded(v), safe="").lower(),
    "HTML": html.escape,
    "SQL": lambda v: v.replace("'", "''"),
    "CSV": lambda v: v.replace('"', '""'),
    "hexadecimal": lambda v: encoded(v).hex(),
    "capital hexadecimal": lambda v: b16encode(encoded(v)).decode(),
    "Base64": lambda v: b64encode(encoded(v)).decode(),
    "Base64 of URLs": lambda v: urlsafe_b64encode(encoded(v)).decode(),
    "Base64 without padding": lambda v: b64encode(encoded(v)).decode().rstrip("="),
    "capitals": lambda v: v.upper() if v.upper().lower() == v.lower() and len(v.upper()) == len(v) else v,
}


def renderings(found: object) -> Iterator[str]:
    """Every usual way to make a text of a value, and to write it down."""
    yield from (str(found), repr(found), f"{found}", f"{found!r}", "%s %r" % (found, found), pprint.pformat([found]))  # noqa: UP031
    yield from (repr({"found": found}), ascii([found]), json.dumps(found, default=str), repr(copy.deepcopy(found)))
    yield yaml.dump(json.loads(json.dumps(found, default=str)))
    yield logging.makeLogRecord({"msg": "found %s", "args": (found,)}).getMessage()
    with pytest.raises(ConfigError) as raised:
        raise ConfigError(f"no access: {found}")
    yield from ("".join(traceback.format_exception(raised.value)), repr(raised.value))


def shown(text: str, value: str) -> list[str]:
    """The spellings of a value in a text."""
    return [name for name, spelled in SPELLINGS.items() if spelled(value).lower() in text.lower()]


@given(value=VALUES)
@example(VALUE)
def test_no_rendering_of_a_secret_depends_on_its_value(value):
    """Two secrets look the same; what walks through a secret finds a function and no text."""
    secret = Secret(value)
    assert secret.reveal() == value
    assert {str(secret), f"{secret}", repr(secret)} == {HIDDEN}
    assert list(renderings(secret)) == list(renderings(Secret("another one")))
    slots = [getattr(secret, name) for name in Secret.__slots__]
    assert [type(each) for each in slots] == [type(lambda: None)]


@given(value=VALUES, before=st.text("ab:=/ \\", max_size=4), after=st.text("ab:=/ \\", max_size=4))
@example(VALUE, "", "")
@example("a\\\\'b", "\\", "\\")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_hidden_in_a_text_in_every_spelling(spelling, value, before, after):
    """Whatever stands around it, nothing of it is left, and the rest of the text is."""
    spelled = SPELLINGS[spelling](value)
    text = Secret(value).hide(f"«{before}{spelled}{after}»")
    assume(spelled.strip("*"))
    assert HIDDEN in text
    assert spelled not in text
    assert text.startswith("«")
    assert text.endswith("»")


@given(value=VALUES, before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_a_secret_is_hidden_within_a_longer_value_in_base64(value, before, after):
    """As in the header of a login, wherever in a group of three bytes it begins."""
    whole = b64encode(before + encoded(value) + after).decode()
    left = Secret(value).hide(f"Basic {whole}")
    assert HIDDEN in left
    assert len(left.replace(HIDDEN, "").removeprefix("Basic ")) <= len(b64encode(before)) + len(b64encode(after)) + 4


def test_a_text_without_the_secret_is_as_it_was():
    """Also with parts of it, and with characters that an expression would read."""
    text = "p&ss (w)ord [a-z]+ \\d *** %2F"
    assert Secret(VALUE).hide(text) == text


@pytest.mark.parametrize(
    ("value", "words"), [("", "one of 0"), ("abc", "one of 3"), (b"abcdef", "bytes"), (None, "NoneType")]
)
def test_a_value_that_is_no_secret_is_refused_without_it(value, words):
    """By its length or type."""
    with pytest.raises(ConfigError, match=f"^a secret must be a text of at least 4 characters, not {words}$") as raised:
        Secret(value)
    assert not value or str(value) not in str(raised.value)


@pytest.mark.parametrize("write", [pickle.dumps, cloudpickle.dumps, copy.copy], ids=["pickle", "cloudpickle", "copy"])
@pytest.mark.parametrize("found", [Secret(VALUE), ACCESS, [ACCESS]], ids=["secret", "access", "list"])
def test_a_secret_leaves_no_process(write, found):
    """Neither alone nor in a record; a copy of a record shares it."""
    if write is copy.copy and not isinstance(found, Secret):
        assert repr(write(found)) == repr(found)
        return
    with pytest.raises(TypeError, match="a secret must stay in its process") as raised:
        write(found)
    assert not shown(str(raised.value), VALUE)


def refused(spelled: str, value: str) -> Access:
    """An access with a spelling of its secret in the sentences, as an error of a server may hold one."""
    said = f"refused: «{spelled}»"
    return Access("ada", {}, said, denied={"orders": said}, secret=Secret(value))


@given(value=VALUES, spelling=st.sampled_from(sorted(SPELLINGS)))
@example(VALUE, "URL")
def test_no_rendering_of_an_access_depends_on_its_secret(value, spelling):
    """In whatever spelling a sentence holds it."""
    assume(Secret(value).hide("refused: «» ada orders ***") == "refused: «» ada orders ***")
    access, other = refused(SPELLINGS[spelling](value), value), refused("another one", "another one")
    assert (access.reason, access.denied) == (f"refused: «{HIDDEN}»", {"orders": f"refused: «{HIDDEN}»"})
    assert json.loads(json.dumps(access.as_dict())) == json.loads(json.dumps(other.as_dict()))
    for form in (lambda found: found, asdict, Access.as_dict):
        assert list(renderings(form(access))) == list(renderings(form(other)))


@pytest.mark.parametrize(
    ("field", "stated"),
    [
        ("identity", f"user {VALUE}"),
        ("allowed", {"connect": (f"postgresql://ada:{quote(VALUE, safe='')}@db/shop",)}),
        ("allowed", {VALUE: ("shop",)}),
        ("denied", {VALUE: "is no table"}),
        ("limits", {"ip": f"sha2(concat(ip, {VALUE!r}), 256)"}),
        ("version", b64encode(VALUE.encode()).decode()),
    ],
    ids=["identity", "resource", "action", "denied", "condition", "version"],
)
def test_a_name_with_the_secret_is_refused(field, stated):
    """A name or a condition with *** in it would be another one."""
    with pytest.raises(ConfigError, match=rf"^{field} must be without the secret of the access, not \*\*\*$"):
        replace(ACCESS, **{field: stated})


def test_an_access_is_written_as_plain_values():
    """With what is stated, and a time in a form that JSON has; without a secret there is none to hide."""
    until = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
    limited = Access(
        "manager_north",
        MappingProxyType({"read": ("region", "amount")}),
        "may read two columns",
        denied=MappingProxyType({"card": "is tagged as sensitive"}),
        limits=MappingProxyType({"rows": "region = 'north'"}),
        until=until,
    )
    assert json.loads(json.dumps(limited.as_dict())) == {
        "identity": "manager_north",
        "allowed": {"read": ["region", "amount"]},
        "reason": "may read two columns",
        "denied": {"card": "is tagged as sensitive"},
        "limits": {"rows": "region = 'north'"},
        "until": "2026-01-05T12:00:00+00:00",
    }
    assert Access("nobody", {}, "has no policy").as_dict() == {
        "identity": "nobody",
        "allowed": {},
        "reason": "has no policy",
    }
    assert {each.name for each in fields(Access)} >= limited.as_dict().keys()


def test_the_end_of_an_access_has_a_time_zone():
    """A time without one would be another moment on another machine."""
    with pytest.raises(ConfigError, match=r"^until must be a time with a time zone, not 2026-01-05 12:00:00$"):
        replace(ACCESS, until=datetime(2026, 1, 5, 12))  # noqa: DTZ001 - the fault
