"""Versions of a table behind one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedp_assets.patterns.delta.faces import lazily

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.copies.expiry import expire, held, hold, release
    from dedp_assets.patterns.delta.copies.exposure import expired, exposures
    from dedp_assets.patterns.delta.copies.versions import FOLDER, content_of, load_of, names, version_of

__all__ = [
    "FOLDER",
    "content_of",
    "expire",
    "expired",
    "exposures",
    "held",
    "hold",
    "load_of",
    "names",
    "release",
    "version_of",
]

if not TYPE_CHECKING:  # which would take every name for one that is there
    __getattr__ = lazily(__spec__)
