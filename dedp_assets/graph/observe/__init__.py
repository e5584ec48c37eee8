"""Observation of the declared tables: rounds of detectors, and the facts for the detectors."""
