"""Tables declared in YAML: components for Dagster's `dg`, with the same declarations as in Python.

`dg` imports this package in every project of an environment: it starts nothing and imports no Spark.
"""

from dedp_assets.components.landing import LandingComponent
from dedp_assets.components.table import TableComponent

__all__ = ["LandingComponent", "TableComponent"]
