"""Checks and counts of what is stored."""
