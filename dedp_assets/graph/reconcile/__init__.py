"""The reconciler: detection of stale partitions and requests for runs."""
