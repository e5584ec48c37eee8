"""Outcomes of runs as Dagster's history keeps them: tags, failures, refusals, durations."""
