"""The library: one data engineering design pattern per module, on PySpark and Delta, without Dagster.

``dedp_assets.patterns.catalog`` lists them; they stand on ``core`` (words and rules),
``delta`` (tables) and ``connectors`` (systems that data comes from).
"""
