"""The reconciler: which partitions are stale, and which runs to ask for."""
