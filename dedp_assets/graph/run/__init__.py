"""Runs: which partitions they compute, from what, and what they report."""
