"""Markup of the status page: templates that escape every value except markup."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import quote

__all__ = ["Markup", "h", "joined", "quoted"]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Characters that HTML or UTF-8 has no place for."""


class Markup(str):
    """A text that is HTML already."""

    __slots__ = ()


class _Escaping(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - whatever a template is given
        if isinstance(value, Markup):
            return value
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", escape(format(value, format_spec), quote=True))


_FORMATTER = _Escaping()


def h(template: str, **values: object) -> Markup:
    """Fill a template of HTML with values, each escaped except markup.

    Args:
        template: HTML with names in braces; attribute values stand in double quotes.
        values: name -> value.

    Example:
        >>> h("<b>{name}</b> {more}", name="<script>", more=h("<i>{x}</i>", x=1))
        '<b>&lt;script&gt;</b> <i>1</i>'
    """
    return Markup(_FORMATTER.vformat(template, (), values))


def joined(parts: Iterable[Markup], between: str = "") -> Markup:
    """Join pieces of markup, with markup in between."""
    return Markup(between.join(parts))


def quoted(text: str, *, safe: str = "") -> str:
    """Quote a text of any characters for an address."""
    return quote(text, safe=safe, errors="replace")
