"""What Dagster's catalogue shows of a table: its spec, lineage, sources, selections, figures."""
