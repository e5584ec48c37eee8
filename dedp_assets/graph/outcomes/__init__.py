"""Outcomes of runs in Dagster's history: tags, failures, refusals, durations."""
