"""Changes by key or predicate: merge, delete, recompute."""
