"""Texts that leave the platform, without secrets of the settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from dedp_assets.graph.resources.environments import Settings, settings, variable
from dedp_assets.patterns.core.secret import masked, remembered

__all__ = ["known_secrets", "shown"]

_SHORTEST_TOKEN, _LONG = 8, 20
_OF_BUCKETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_BETWEEN = re.compile(r"[/?&=@:#;]")
_PASSWORD = re.compile(r"//[^:/@]*:(.*)@|[?&]password=([^&]*)", re.DOTALL)


def shown(text: str) -> str:
    """Mask a text that leaves the platform: secrets of settings and stores, and likely secrets of anybody."""
    try:
        known = known_secrets(settings())
    except ValueError:  # which may be the text: no settings can be read
        known = frozenset()
    return masked(text, known | remembered())


def known_secrets(chosen: Settings) -> frozenset[str]:
    """Return the secrets of the settings, and the parts of their URLs that may be tokens."""
    return frozenset(filter(None, _secrets(chosen)))


def _secrets(chosen: Settings) -> Iterator[str]:
    others = [chosen.lineage_url, chosen.registry, chosen.remote]
    addresses = list(filter(None, [chosen.alerts.webhook, *chosen.alerts.apprise]))
    databases = list(filter(None, [chosen.postgres, chosen.history]))
    yield from (*addresses, *databases, *filter(None, [chosen.masking_key]), *map(variable, _OF_BUCKETS))
    for url in (*addresses, *filter(None, others)):
        yield from filter(_is_like_a_token, {*_BETWEEN.split(url), *_BETWEEN.split(unquote(url))})
    for url in databases:
        for password in filter(None, (part for found in _PASSWORD.findall(url) for part in found)):
            yield from {password, unquote(password)}


def _is_like_a_token(text: str) -> bool:
    """Return whether a part of an address may be a token: not a host's name, nor a plain word of a path."""
    has_digit = any(character.isdigit() for character in text)
    return "." not in text and (len(text) >= _LONG or (len(text) >= _SHORTEST_TOKEN and has_digit))
