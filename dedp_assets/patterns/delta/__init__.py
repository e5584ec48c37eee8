"""Delta tables: the transaction log, and every write of rows as stage, audit, publish.

This package is the face of its modules: chapters, connectors and the graph import from here. A module is imported when
its name is asked for first, so a reader of logs loads no writer. The packages below, from the lowest: ``storage``,
``log``, ``snapshots``, ``commit``, ``staging``, ``rows`` (copy-on-write), ``merge``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedp_assets.patterns.delta.faces import lazily

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.baselines import Baseline, audits_of_usual, baseline_at, before
    from dedp_assets.patterns.delta.commit.file_exchange import (
        commit_transactions,
        only_spark_changes,
        raise_generation,
        serves,
    )
    from dedp_assets.patterns.delta.commit.idempotency import already_applied
    from dedp_assets.patterns.delta.commit.spark_writer import attempts, is_conflict
    from dedp_assets.patterns.delta.fsck import Verification, verify_table
    from dedp_assets.patterns.delta.inspection import broken_rules, repeated_keys
    from dedp_assets.patterns.delta.log.commit_info import Commit, Glimpse, is_append
    from dedp_assets.patterns.delta.log.ledger import Ledger
    from dedp_assets.patterns.delta.log.partition_values import Partition
    from dedp_assets.patterns.delta.log.table_state import FileStats, KeyedFile, TableState
    from dedp_assets.patterns.delta.log.transactions import Cursors, transaction_id
    from dedp_assets.patterns.delta.merge.clauses import Clause, Delete, Insert, Merge, Update
    from dedp_assets.patterns.delta.merge.declared_keys import require_merge_by_key
    from dedp_assets.patterns.delta.merge.recomputing import Compute
    from dedp_assets.patterns.delta.micro_batches import run_available
    from dedp_assets.patterns.delta.rows.executions import Execution, ExecutionLog
    from dedp_assets.patterns.delta.snapshots.definition import conformed, held_types, require_partition
    from dedp_assets.patterns.delta.snapshots.lost_files import LostFile, lost_files, tell_lost
    from dedp_assets.patterns.delta.snapshots.pruning import Bounds, candidates, is_ordered
    from dedp_assets.patterns.delta.snapshots.reading import predicate
    from dedp_assets.patterns.delta.staging.guards import require_untouched
    from dedp_assets.patterns.delta.staging.staged_write import StagedWrite
    from dedp_assets.patterns.delta.storage.locations import as_folder, folder_at, literal_path, store_at
    from dedp_assets.patterns.delta.storage.locks import table_lock
    from dedp_assets.patterns.delta.storage.store import Store
    from dedp_assets.patterns.delta.tables import Table, Target, same_run

__all__ = [
    "Baseline",
    "Bounds",
    "Clause",
    "Commit",
    "Compute",
    "Cursors",
    "Delete",
    "Execution",
    "ExecutionLog",
    "FileStats",
    "Glimpse",
    "Insert",
    "KeyedFile",
    "Ledger",
    "LostFile",
    "Merge",
    "Partition",
    "StagedWrite",
    "Store",
    "Table",
    "TableState",
    "Target",
    "Update",
    "Verification",
    "already_applied",
    "as_folder",
    "attempts",
    "audits_of_usual",
    "baseline_at",
    "before",
    "broken_rules",
    "candidates",
    "commit_transactions",
    "conformed",
    "folder_at",
    "held_types",
    "is_append",
    "is_conflict",
    "is_ordered",
    "literal_path",
    "lost_files",
    "only_spark_changes",
    "predicate",
    "raise_generation",
    "repeated_keys",
    "require_merge_by_key",
    "require_partition",
    "require_untouched",
    "run_available",
    "same_run",
    "serves",
    "store_at",
    "table_lock",
    "tell_lost",
    "transaction_id",
    "verify_table",
]

if not TYPE_CHECKING:  # which would take every name for one that is there
    __getattr__ = lazily(__spec__)
