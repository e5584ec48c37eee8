"""Inputs of a run: mappings between partitions, pinned snapshots, branches, landed days, and staleness."""
