"""Data engineering design patterns as a Dagster asset graph on Spark and Delta Lake.

Importing this package starts nothing and imports no Dagster: ``dedp_assets.patterns`` is a library of its own.
"""
