"""Secrets: a value hidden in every rendering, and masks of secrets and row values in other texts."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NoReturn

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.row_values import without_row_values

__all__ = ["HIDDEN", "Secret", "masked", "remember", "remembered"]

HIDDEN = "***"
"""Text in place of a secret."""
_LEAST = 4
"""Characters of the shortest secret: a shorter one would be found in texts by coincidence."""
_LEAST_KNOWN = 6
"""Characters of the shortest known value that is masked in texts of others: a shorter one is part of ordinary words."""
_AT = r"(?:(?<=\\[nrt])|\b)"
"""Begin of a word, also behind the escape of a line's end in the representation of a text."""
_START = r"(?:(?<=\\[nrt])|(?<![\w.-]))"
"""As above, not within a name with dots."""
_WITH_BLANKS = r"(?!\d+(?!\w))\S[^\n@]*@(?:\S*@)?"
"""Password of a URL with blanks; a number alone is a port before other words."""
_URL = re.compile(
    # Of a password any characters, of HTTP unless they are a port; of all else those of a URL, without a full stop.
    rf"""(?:(?:(?<=\\[nrt])|\b(?<!\\))(?!https?:)[a-z][a-z0-9+.-]{{0,40}}://(?:[^\s/?#:@"']*:(?:\S*@|{_WITH_BLANKS}))?"""
    rf"""|(?:(?:(?<=\\[nrt])|\b)https?:)?//(?:[^\s/?#:@"']*:(?!\d+(?:[/?#]|$))(?:\S*@|{_WITH_BLANKS}))?)"""
    r"""[^\s"'<>`|\\^]*[^\s"'<>`|\\^.,;:)\]]""",
    re.IGNORECASE,
)
_EXAMPLE = "user:password"
"""User and password of the examples in sentences of this library."""
_MARKED = r"""(?:(?P<of>\\*["']).*?(?P=of)|[^\s"']*[^\s"',;.)])"""
_SAID = r"password|passwort|kennwort|contraseña|mot de passe|passwd|passphrase|passcode"
_KEY = r"(?:api|access|private|account)[_.\- ]?key"
_NAMED = (
    rf"(?:(?-i:[A-Z][A-Z0-9_]*_KEY)\b|[\w.-]{{0,99}}(?:{_SAID}|secret|token|{_KEY}|credentials?|signature|authorization)"
    r"|pwd|sig|sas|bearer|pass(?![a-z])|jsessionid)[\w.-]{0,99}"
)
_OF_TABLES = r"(?<!bronze/)(?<!silver/)(?<!gold/)"
_VALUE = re.compile(
    rf"(?P<name>{_START}{_OF_TABLES}{_NAMED}(?:\s+(?:provided|given))?[\"'\\]*"
    r"\s*(?:=>|->|:=|[:=])\s*(?:[|>][+-]?(?:\n|\\+n)\s*)?)"
    r"(?P<scheme>(?:[\"'\\]*(?:basic|bearer|digest|token)\s+)?)"
    r"(?:[\[(][^\n\])]*|(?P<quote>\\*[\"']).*?(?<!\\)(?P=quote)|\\*[\"'][^\n]*|(?P<plain>(?:(?!\\n)[^\s\"'&,;)}\]])+))",
    re.IGNORECASE | re.DOTALL,
)
"""A value behind a name that tells of a secret: in JSON, a mapping, a connection string, a header, an assignment."""
_STATES = (
    r"(?:\d{1,2}|an?|the|not?|too|in|of|for|from|to|at|as|by|on|only|also|still|yet|never|now|there|here|null|none|empty|valid"
    r"|wrong|right|old|new|short|long|weak|set|kept|read|put|sent|unknown|one|what|where|without|with|under|correct|unset"
    r"|secret|absent|different|\w*(?:text|string|char|int|integer|binary|boolean)"
    r"|[a-z]+(?:ed|ing|able|ible|en|ory|ional|ive|alid|rect))(?=[,;:.)'\"(]*(?:\s|\\n|$))"
)
"""Words for the state of a secret, such as wrong or expired, in place of its value."""
_TOLD = re.compile(
    rf"(?P<said>{_START}(?<!/)(?:{_SAID}|passwords?|{_KEY}|[\w-]{{0,99}}(?:secret|token))\s+(?:is|was|ist|war):?\s+)"
    rf"(?!{_STATES}){_MARKED}"
    rf"|(?P<named>{_START}(?<!/)(?:{_SAID}|token|{_KEY}|\w[\w.-]{{0,99}}[_.](?:secret|token)|[\w.-]{{0,99}}secret[_.]\w[\w.-]{{0,99}})\s+)"
    r"(?=[\w!$%*+~.-]*\d)(?=[\w!$%*+~.-]*[a-z])[\w!$%*+~.-]{5,}",
    re.IGNORECASE,
)
"""A secret in a sentence: the password is ..., token ... was refused."""
_BEARER = re.compile(r"\b(?P<scheme>basic|bearer)\s+(?=[\w+/=.~-]*[\d=])[\w+/=.~-]{8,}", re.IGNORECASE)
_SPELT = re.compile(
    r"(?P<kept>-----BEGIN [A-Z ]*PRIVATE KEY-----)(?:(?!-----END).)*"  # of a file
    rf"|(?P<sent>{_AT}cookie:\s*)(?:(?!\\n)[^\n'\"])+"
    r"|(?P<option>(?<!\w)--[\w-]{0,60}(?:pass(?:word|wd|phrase)?|pw|token|secret|key)(?:\s+|=)|(?<!\w)(?:-u|--user)[\s=]+[^\s:]+:"
    rf"|{_AT}(?:oracle:thin:|sqlplus\w*\s+)[^\s/]+/|{_AT}login\s+\S+\s+password\s+(?![\"'])"
    rf"|{_AT}(?:(?:mysql|mariadb)[\w-]*[^\n;|]{{0,300}}?\s-p|sshpass\s+-p\s*|(?:redis-cli[^\n;|]{{0,300}}?\s-a|docker\s+login[^\n;|]{{0,300}}?\s-p)\s*)"
    r")(?:(?P<open>\\*[\"']).*?(?P=open)|(?:(?!\\n|@//)\S)+)"
    rf"|(?P<pair>auth(?:[\\\"']*\s*[:=]\s*\w{{0,99}})?[(\[])[^\n)\]]+"
    rf"|(?P<said>{_AT}(?:password|passwd|passphrase|identified\s+by)\s+)(?P<mark>\\*[\"']).*?(?P=mark)"
    rf"|(?P<place>{_AT}url: /(?:[^\s/]+/)*?(?:services|[\w-]*hooks?)/)[^\s)]+"
    rf"|(?P<tns>{_AT}[\w$]+/)[^\s/@]+(?=@//)"
    rf"|(?P<element><{_NAMED}>)[^<]+"
    rf"|{_AT}(?:gh[pousr]_|github_pat_|glpat-|xox[a-z]-|[rs]k_(?:live|test)_|sk-|AKIA|ASIA|AIza)[\w-]{{12,}}",
    re.IGNORECASE | re.DOTALL,
)
"""Secrets by the way in which they are written: of command lines, SQL, XML, files with keys, services."""
_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]+){1,2}")
_QUERY = re.compile(r"""(?<![\w:/.])/[^\s?'"<>]{0,2000}\?[^\s'"<>]*[^\s'"<>,.;]""")
"""Path of a request with a query, as servers repeat one."""
_HOOK = re.compile(r"(^hooks\.[^/]+/|/(?:[\w-]*hooks?/|bot(?=\d+:))).+", re.IGNORECASE)
"""Path of a web hook, whose parts are the secret."""
_READ = set[str]()
"""Values of this process's stores; never shown."""
_LIKE_A_TOKEN = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w:@-]{20,}")


class Secret:
    """A secret value, such as a password, rendered as ``***``.

    Only :meth:`reveal` returns the value. A secret stays in its process: it can be copied, and not be pickled. A text
    from elsewhere, such as the error of a server, is shown only as :meth:`hide` returns it.

    Args:
        value: the value, of at least four characters.

    Raises:
        ConfigError: if the value is no text or too short; without the value.

    Example:
        >>> password = Secret("a/b c")
        >>> print(password, f"{password}", {"password": password})
        *** *** {'password': ***}
        >>> password.hide("cannot open postgresql://ada:a%2Fb%20c@db: 'a/b c' is wrong")
        "cannot open postgresql://ada:***@db: '***' is wrong"
    """

    __slots__ = ("_value",)
    _value: Callable[[], str]

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or len(value) < _LEAST:
            stated = f"one of {len(value)}" if isinstance(value, str) else type(value).__name__
            raise ConfigError(f"a secret must be a text of at least {_LEAST} characters, not {stated}")
        # In a function: whoever walks through attributes, as serializers and debuggers do, finds no text.
        self._value = lambda: value

    def __repr__(self) -> str:
        return HIDDEN

    def __deepcopy__(self, _known: object) -> Secret:
        return self  # `dataclasses.asdict` copies the fields of a record

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret must stay in its process, and cannot be pickled: pass its name, and resolve it there")

    def reveal(self) -> str:
        """Return the secret value."""
        return self._value()

    def hide(self, text: str) -> str:
        """Replace the value in a text by ``***``, in every usual spelling.

        Found are, in any case of letters: the value as it is; escaped as in Python, JSON, SQL, CSV or HTML, also more
        than once; with some or all characters percent-encoded, as in a URL; hexadecimal; and in Base64, also as a part
        of a longer value.
        """
        return re.sub("|".join(_spellings(self._value())), HIDDEN, text, flags=re.IGNORECASE)


def masked(text: str, secrets: Collection[str] = ()) -> str:
    """Mask known and likely secrets, and values of rows, in a text of others, such as a driver's error.

    Masked are the known ``secrets``, in every spelling of :meth:`Secret.hide`; of any URL, user and password (with any
    characters), the values of its query, its fragment, and parts of an HTTP path that look like tokens; and values
    behind a name such as ``password=`` or ``Authorization:``; and values of rows, by the words of engines around them.

    Args:
        text: any text.
        secrets: known values; one shorter than 6 characters is left alone, as it would mask ordinary words.

    Example:
        >>> masked("postgresql://ada:p@w@db/shop refused token-4711", ["token-4711"])
        'postgresql://***@db/shop refused ***'
        >>> masked("GET https://host/rates?day=5&api_key=abc failed, password=hunter2")
        'GET https://host/rates?day=***&api_key=*** failed, password=***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_KNOWN:
            text = _pattern(secret).sub(HIDDEN, text)
    text = _URL.sub(lambda found: _masked_url(found[0]), text)
    text = _QUERY.sub(lambda found: re.sub(r"(?<==)[^&;#]+", HIDDEN, found[0]), text)
    text = _VALUE.sub(lambda found: f"{found['name']}{found['scheme']}{HIDDEN}", text)
    text = _SPELT.sub(lambda found: "".join(filter(None, found.groupdict().values())) + HIDDEN, text)
    text = _TOLD.sub(lambda found: f"{found['said'] or found['named']}{HIDDEN}", text)
    text = without_row_values(text, HIDDEN)
    return _WEB_TOKEN.sub(HIDDEN, _BEARER.sub(lambda found: f"{found['scheme']} {HIDDEN}", text))


def remember(values: Iterable[str]) -> None:
    """Add values that this process read from a store of secrets to :func:`remembered`."""
    _READ.update(values)


def remembered() -> frozenset[str]:
    """Return the values that this process read from stores of secrets, for the masks of texts that leave."""
    return frozenset(_READ)


def _masked_url(url: str) -> str:
    """Mask user, password, query values and token-like path parts of a URL."""
    head, _, rest = url.partition("//")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    # A password may have any characters, unless what stands behind the colon is a port.
    is_database = bool(head) and not head.lower().startswith("http")
    is_split = "@" in rest and (re.search(r":(?!\d+$)", authority) is not None or is_database)
    begun = (rest if is_split else authority).rfind("@")
    who = f"{rest[:begun] if rest[:begun] == _EXAMPLE else HIDDEN}@" if begun >= 0 else ""
    place, mark, query, *_ = (*re.split(r"([?#])", rest[begun + 1 :], maxsplit=1), "", "")
    if head.lower().startswith("http"):
        parts = (HIDDEN if _LIKE_A_TOKEN.fullmatch(part) else part for part in place.split("/"))
        place = _HOOK.sub(rf"\1{HIDDEN}", "/".join(parts))
    values = re.sub(r"(?<==)[^&;#]+|(?<![^&;#])[^&;#=]+(?![^&;#=])(?!=)", HIDDEN, query)
    return f"{head}//{who}{place}{mark}{values}"


@lru_cache(maxsize=256)
def _pattern(value: str) -> re.Pattern[str]:
    return re.compile("|".join(_spellings(value)), re.IGNORECASE)


def _spellings(value: str) -> Iterator[str]:
    """Yield regular expressions of the spellings of a value."""
    encoded = _encoded(value)
    yield encoded.hex()
    yield from _base64(encoded)
    runs = [(char, len(list(same))) for char, same in groupby(value)]
    yield "".join(_backslashes(count) if char == "\\" else _character(char) * count for char, count in runs)


def _base64(encoded: bytes) -> Iterator[str]:
    """Yield the digits of Base64 that a value decides, for each place in a group of three bytes."""
    for before, start in ((0, 0), (1, 2), (2, 3)):
        digits = b64encode(bytes(before) + encoded).decode().rstrip("=")
        # Where the value ends within a group, the last digit is its own only if nothing follows.
        end = len(digits) - (1 if len(digits) % 4 else 0)
        last = f"(?:{re.escape(digits[end:])}=*)?"
        yield (re.escape(digits[start:end]) + last).replace(r"\+", "[+-]").replace("/", "[/_]")


def _backslashes(count: int) -> str:
    """Return a regular expression of backslashes in a row, with any number of escapes."""
    # One expression for each would try all ways to part the backslashes of a text among them.
    return rf"(?:\\{{{count},}}|(?:{_percent(chr(92))}|&#92;){{{count}}})"


def _character(char: str) -> str:
    """Return a regular expression of the spellings of a character."""
    spelled = {char, json.dumps(char)[1:-1], ascii(char)[1:-1], html.escape(char), f"&#{ord(char)};"}
    # A text within a text is escaped again: with more backslashes, and with doubled quotes in SQL and CSV.
    found = {re.escape(each).replace(r"\\", r"\\+") for each in spelled}
    found |= {r"\+"} if char == " " else {rf"\\+{char}", char * 2} if char in "'\"" else set()
    return f"(?:{'|'.join(sorted({_percent(char), *found}, key=len, reverse=True))})"


def _percent(char: str) -> str:
    return "".join(f"%(?:25)*{byte:02X}" for byte in _encoded(char))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
