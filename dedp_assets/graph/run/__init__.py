"""Runs: choice of partitions, pinned inputs and reports to Dagster."""
