"""Copies: replicas of tables and folders, and versions of a table behind one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedp_assets.patterns.delta.faces import lazily

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.copies.contents import folder_contents, readable, table_contents
    from dedp_assets.patterns.delta.copies.editions import is_link
    from dedp_assets.patterns.delta.copies.expiry import expire, held, hold, release
    from dedp_assets.patterns.delta.copies.exposure import expired, exposures
    from dedp_assets.patterns.delta.copies.remaking import remake, rules_of
    from dedp_assets.patterns.delta.copies.replicas import copy_replica
    from dedp_assets.patterns.delta.copies.versions import FOLDER, content_of, load_of, names, version_of

__all__ = [
    "FOLDER",
    "content_of",
    "copy_replica",
    "expire",
    "expired",
    "exposures",
    "folder_contents",
    "held",
    "hold",
    "is_link",
    "load_of",
    "names",
    "readable",
    "release",
    "remake",
    "rules_of",
    "table_contents",
    "version_of",
]

if not TYPE_CHECKING:  # which would take every name for one that is there
    __getattr__ = lazily(__spec__)
