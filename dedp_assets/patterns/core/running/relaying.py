"""Library errors raised inside of a query, restored from the text of engine errors."""

from __future__ import annotations

import re

from dedp_assets.patterns.core import errors
from dedp_assets.patterns.core.errors import AuditFailed, ContractError, PatternError

__all__ = ["relayed"]

# A plan in the text shows what a query would raise; what was raised stands behind a class of error, or begins a line.
_RELAYED = re.compile(
    r"(?:^|\[USER_RAISED_EXCEPTION\] )[\w.]*core\.errors\.(\w+): (.+?)(?:\.? SQLSTATE: \w+)?$", re.MULTILINE
)


def relayed(text: str) -> PatternError | None:
    """Return the library error in an engine error's text, raised inside of a query; ``None`` if absent.

    Example:
        >>> relayed("[USER_RAISED_EXCEPTION] dedp_assets.patterns.core.errors.NotReady: no rows yet SQLSTATE: P0001")
        NotReady('no rows yet')
    """
    if found := _RELAYED.search(text):
        kind = getattr(errors, found[1], ContractError)
        return AuditFailed(found[2], findings=()) if kind is AuditFailed else kind(found[2])
    return None
