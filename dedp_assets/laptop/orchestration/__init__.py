"""Dagster on a laptop: instance, run history, code servers, launcher of runs, runs in this process."""
