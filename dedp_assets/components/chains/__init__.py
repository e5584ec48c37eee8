"""Chains of steps in a document: operations, names and types, and the resulting table."""
