"""Observation of the declared tables: rounds of all detectors, explanations, and the journal of measurements."""
