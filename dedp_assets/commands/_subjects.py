"""Arguments of commands about a person."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

__all__ = ["add_subject", "ids_in"]

_KIND = "user"


def add_subject(parser: argparse.ArgumentParser) -> None:
    """Add the person and the request."""
    meaning = f"person, e.g. user=u-17; of the kind {_KIND} if none is stated"
    parser.add_argument("--subject", action="append", default=[], metavar="KIND=ID", help=meaning)
    parser.add_argument("--because", default="", metavar="TICKET", help="name of the request, e.g. GDPR-17")


def ids_in(stated: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Read ``kind=id``, or an id alone; return kind -> ids."""
    found: dict[str, list[str]] = {}
    for each in stated:
        kind, equal, value = each.partition("=")
        found.setdefault(kind if equal else _KIND, []).append(value if equal else each)
    return found
