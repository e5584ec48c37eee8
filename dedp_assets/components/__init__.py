"""Components for `dg`: tables and maintenance in YAML, with the same words as in Python.

`dg` imports this package in every project of an environment: it starts nothing and imports no Spark.
"""

from dedp_assets.components.landing import LandingComponent
from dedp_assets.components.maintenance import MaintenanceComponent
from dedp_assets.components.table import TableComponent

__all__ = ["LandingComponent", "MaintenanceComponent", "TableComponent"]
