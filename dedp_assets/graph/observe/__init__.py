"""Observation of the declared tables: rounds of detectors, alerts, explanations."""
