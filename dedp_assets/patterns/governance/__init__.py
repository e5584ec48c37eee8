"""Governance: agreements on tables between their producers and consumers, and proofs that they are kept."""
