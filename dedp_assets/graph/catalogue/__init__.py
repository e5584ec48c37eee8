"""Dagster's catalogue entries of a table: asset spec, lineage, sources, selections, figures."""
