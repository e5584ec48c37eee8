"""The library: one data engineering design pattern per module, on PySpark and Delta, without Dagster.

``dedp_assets.patterns.catalog`` lists them; ``dedp_assets.patterns.core`` is the ground they stand on.
"""
