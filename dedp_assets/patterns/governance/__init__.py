"""Governance: contracts on tables between producers and consumers, and tests of both sides."""
