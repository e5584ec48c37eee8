"""Checks and counts of stored data."""
