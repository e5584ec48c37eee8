"""Runs: choice and order of partitions, one step after the other, and reports to Dagster."""
