"""Snapshots: the schema, rows and files of a table at one version."""
