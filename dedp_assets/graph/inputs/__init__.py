"""Inputs of a run: partition mappings, pinned snapshots, branches, landed days, staleness."""
