"""Versions of a table behind one name, and the switches between versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedp_assets.patterns.delta.faces import lazily

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.versions.exposure import expired, expose, exposures, load
    from dedp_assets.patterns.delta.versions.version_tables import content_of, folder_of, load_of, names, version_of

__all__ = ["content_of", "expired", "expose", "exposures", "folder_of", "load", "load_of", "names", "version_of"]

if not TYPE_CHECKING:  # which would take every name for one that is there
    __getattr__ = lazily(__spec__)
