"""Staging: replicas of production's tables, for tests of the next version on real data."""
