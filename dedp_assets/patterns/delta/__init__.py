"""Delta tables: the transaction log, and every write of rows as stage, audit, publish.

This package is the face of its modules: chapters, connectors and the graph import from here. A module is imported when
its name is asked for first, so a reader of logs loads no writer. The packages below, from the lowest: ``storage``,
``log``, ``snapshots``, ``commit``, ``staging``, ``rows`` (copy-on-write), ``merge``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dedp_assets.patterns.delta.faces import lazily

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.activity import ActivityLog
    from dedp_assets.patterns.delta.adoption import Adoption, adoption_of
    from dedp_assets.patterns.delta.baselines import (
        audits_of_usual,
        earlier_fields,
        usual_values,
    )
    from dedp_assets.patterns.delta.commit.commits import Operation, commit_actions, read_actions
    from dedp_assets.patterns.delta.commit.file_exchange import only_spark_changes, serves
    from dedp_assets.patterns.delta.commit.idempotency import Decision, already_applied, other_rows, same_write
    from dedp_assets.patterns.delta.fsck import Verification, verify_table
    from dedp_assets.patterns.delta.groups import TableGroup, group_of, publish_together, versions_together
    from dedp_assets.patterns.delta.handle import TableHandle
    from dedp_assets.patterns.delta.inspection import broken_rules, repeated_keys
    from dedp_assets.patterns.delta.log.base_changes import BaseChanges, behind, last_refresh
    from dedp_assets.patterns.delta.log.commit_info import RELABELLED, Commit, Glimpse, is_append
    from dedp_assets.patterns.delta.log.fold import LogFold
    from dedp_assets.patterns.delta.log.holds import LegalHold, apart_from_held, holds, shown_holds
    from dedp_assets.patterns.delta.log.ledger import Ledger
    from dedp_assets.patterns.delta.log.moments import milestone_id, milestones, require_lasting, version_at
    from dedp_assets.patterns.delta.log.parsing import MAINTENANCE
    from dedp_assets.patterns.delta.log.partition_values import Partition, partition_name
    from dedp_assets.patterns.delta.log.redacted import REDACTED
    from dedp_assets.patterns.delta.log.simulated import SimulatedLedger
    from dedp_assets.patterns.delta.log.table_state import Files, FileStats, KeyedFile, TableState
    from dedp_assets.patterns.delta.log.transactions import Cursors, Transactions, transaction_id
    from dedp_assets.patterns.delta.merge.clauses import Clause, Delete, Insert, Merge, Update
    from dedp_assets.patterns.delta.merge.declared_keys import require_merge_by_key
    from dedp_assets.patterns.delta.merge.newest_rows import (
        differs,
        newer_wins,
        newest_rows,
        places_agree,
        without_place,
    )
    from dedp_assets.patterns.delta.merge.recomputing import Compute
    from dedp_assets.patterns.delta.phases import PhaseState, enter_phase
    from dedp_assets.patterns.delta.row_changes import keep_log
    from dedp_assets.patterns.delta.rows.base_snapshot import BaseSnapshot, FindBase
    from dedp_assets.patterns.delta.snapshots.definition import (
        conformed,
        constraints,
        held_types,
        require_open,
        require_partition,
        require_replaceable,
    )
    from dedp_assets.patterns.delta.snapshots.layouts import (
        Layout,
        groups_of,
        is_apart,
        require_buckets,
        require_together,
    )
    from dedp_assets.patterns.delta.snapshots.lost_files import (
        LostFile,
        LostFileWatch,
        lost_files,
        lost_files_message,
    )
    from dedp_assets.patterns.delta.snapshots.places import FILE
    from dedp_assets.patterns.delta.snapshots.policy_views import policy_by_class
    from dedp_assets.patterns.delta.snapshots.pruning import Bounds, candidates, is_ordered
    from dedp_assets.patterns.delta.snapshots.reading import lies_outside, missing_files, predicate, read_files
    from dedp_assets.patterns.delta.snapshots.row_queries import QueryRows, RowQueries, ShownTable, UnknownColumn
    from dedp_assets.patterns.delta.staged_writes import stage_nothing
    from dedp_assets.patterns.delta.staging.guards import require_untouched, without_statistics
    from dedp_assets.patterns.delta.staging.staged_write import StagedWrite
    from dedp_assets.patterns.delta.storage.coordination import in_turn, table_lock
    from dedp_assets.patterns.delta.storage.local_store import LocalStore
    from dedp_assets.patterns.delta.storage.locations import (
        as_folder,
        beside,
        folder_at,
        is_in_bucket,
        is_link,
        literal_path,
        path_at,
        store_at,
    )
    from dedp_assets.patterns.delta.storage.object_path import (
        FilePath,
        ObjectPath,
        ObjectStat,
        arrow_source,
        by_first_name,
    )
    from dedp_assets.patterns.delta.storage.object_versions import NoncurrentVersion, NoncurrentVersions
    from dedp_assets.patterns.delta.storage.store import Entry, Store, sha256_of
    from dedp_assets.patterns.delta.suppression import SuppressionList, subjects_of
    from dedp_assets.patterns.delta.tables import Table, Target, same_run

__all__ = [
    "ActivityLog",
    "Adoption",
    "BaseChanges",
    "BaseSnapshot",
    "Bounds",
    "Clause",
    "Commit",
    "Compute",
    "Cursors",
    "Decision",
    "Delete",
    "Entry",
    "FILE",
    "FilePath",
    "FileStats",
    "Files",
    "FindBase",
    "Glimpse",
    "Insert",
    "KeyedFile",
    "Layout",
    "Ledger",
    "MAINTENANCE",
    "LegalHold",
    "LogFold",
    "LocalStore",
    "LostFile",
    "LostFileWatch",
    "Merge",
    "NoncurrentVersion",
    "NoncurrentVersions",
    "ObjectPath",
    "ObjectStat",
    "Operation",
    "Partition",
    "PhaseState",
    "REDACTED",
    "RELABELLED",
    "QueryRows",
    "RowQueries",
    "SimulatedLedger",
    "StagedWrite",
    "Store",
    "ShownTable",
    "SuppressionList",
    "Table",
    "TableGroup",
    "TableHandle",
    "TableState",
    "Target",
    "Transactions",
    "UnknownColumn",
    "Update",
    "Verification",
    "adoption_of",
    "already_applied",
    "apart_from_held",
    "arrow_source",
    "as_folder",
    "audits_of_usual",
    "enter_phase",
    "earlier_fields",
    "behind",
    "broken_rules",
    "by_first_name",
    "candidates",
    "commit_actions",
    "conformed",
    "differs",
    "constraints",
    "folder_at",
    "group_of",
    "groups_of",
    "held_types",
    "holds",
    "in_turn",
    "is_apart",
    "is_append",
    "is_in_bucket",
    "is_link",
    "is_ordered",
    "keep_log",
    "last_refresh",
    "lies_outside",
    "literal_path",
    "lost_files",
    "milestone_id",
    "milestones",
    "missing_files",
    "newer_wins",
    "newest_rows",
    "only_spark_changes",
    "other_rows",
    "partition_name",
    "path_at",
    "places_agree",
    "policy_by_class",
    "predicate",
    "publish_together",
    "read_actions",
    "read_files",
    "repeated_keys",
    "require_buckets",
    "require_lasting",
    "require_merge_by_key",
    "require_open",
    "require_partition",
    "require_replaceable",
    "require_together",
    "shown_holds",
    "require_untouched",
    "same_run",
    "same_write",
    "serves",
    "sha256_of",
    "stage_nothing",
    "beside",
    "store_at",
    "subjects_of",
    "table_lock",
    "lost_files_message",
    "transaction_id",
    "usual_values",
    "verify_table",
    "without_place",
    "versions_together",
    "without_statistics",
    "version_at",
]

if not TYPE_CHECKING:  # which would take every name for one that is there
    __getattr__ = lazily(__spec__)
