"""Maintenance of tables: files are merged, ordered, described, moved, and removed after the retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedp_assets.patterns.delta.faces import lazily

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.maintenance.abandoned import discard_stage, remove_stages, remove_unjudged
    from dedp_assets.patterns.delta.maintenance.compaction import can_exchange, rewrite, small_files
    from dedp_assets.patterns.delta.maintenance.file_order import Curve, FileOrder, depth
    from dedp_assets.patterns.delta.maintenance.repartitioning import repartition
    from dedp_assets.patterns.delta.maintenance.statistics import describe_files
    from dedp_assets.patterns.delta.maintenance.vacuum import remove_unneeded, safe_hours

__all__ = [
    "Curve",
    "FileOrder",
    "can_exchange",
    "depth",
    "describe_files",
    "discard_stage",
    "remove_stages",
    "remove_unjudged",
    "remove_unneeded",
    "repartition",
    "rewrite",
    "safe_hours",
    "small_files",
]

if not TYPE_CHECKING:  # which would take every name for one that is there
    __getattr__ = lazily(__spec__)
