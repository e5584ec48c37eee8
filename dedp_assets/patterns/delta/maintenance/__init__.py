"""Maintenance of tables: files are merged, ordered, described, moved, exported, and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedp_assets.patterns.delta.faces import lazily

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.maintenance.abandoned import Stages, discard_stage, remove_stages, remove_unjudged
    from dedp_assets.patterns.delta.maintenance.compaction import can_exchange, files_to_purge, rewrite, small_files
    from dedp_assets.patterns.delta.maintenance.declared_layout import (
        LAYOUT_CHECK,
        LayoutDifference,
        apply_layout,
        judge_layout,
        layout_differences,
    )
    from dedp_assets.patterns.delta.maintenance.expiry import expire_partitions, older_partitions, remove_expired
    from dedp_assets.patterns.delta.maintenance.exports import (
        Exported,
        damage_of,
        export_version,
        files_of,
        require_apart,
    )
    from dedp_assets.patterns.delta.maintenance.file_order import Curve, FileOrder, depth
    from dedp_assets.patterns.delta.maintenance.holding import hold_partition
    from dedp_assets.patterns.delta.maintenance.layout_advice import FEW_FILES, LayoutAdvice, advise_layout
    from dedp_assets.patterns.delta.maintenance.milestones import put_milestone
    from dedp_assets.patterns.delta.maintenance.moves import bring_in, files_in, move_out, require_movable, to_tier
    from dedp_assets.patterns.delta.maintenance.purge import PURGED, purge_history, require_purgeable
    from dedp_assets.patterns.delta.maintenance.repartitioning import repartition
    from dedp_assets.patterns.delta.maintenance.statistics import describe_files
    from dedp_assets.patterns.delta.maintenance.vacuum import log_hours, remove_unneeded, safe_hours

__all__ = [
    "Curve",
    "Exported",
    "FEW_FILES",
    "FileOrder",
    "LAYOUT_CHECK",
    "LayoutAdvice",
    "LayoutDifference",
    "PURGED",
    "advise_layout",
    "apply_layout",
    "bring_in",
    "Stages",
    "can_exchange",
    "damage_of",
    "depth",
    "describe_files",
    "discard_stage",
    "expire_partitions",
    "judge_layout",
    "layout_differences",
    "export_version",
    "files_of",
    "files_to_purge",
    "files_in",
    "move_out",
    "older_partitions",
    "remove_expired",
    "hold_partition",
    "put_milestone",
    "log_hours",
    "purge_history",
    "remove_stages",
    "remove_unjudged",
    "remove_unneeded",
    "repartition",
    "require_apart",
    "require_movable",
    "require_purgeable",
    "rewrite",
    "safe_hours",
    "small_files",
    "to_tier",
]

if not TYPE_CHECKING:  # which would take every name for one that is there
    __getattr__ = lazily(__spec__)
