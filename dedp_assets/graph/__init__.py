"""Between the library and Dagster: tables are declared here, run partition by partition, and reported from their logs.

The library knows nothing of Dagster. Here its table declarations become assets, its findings check results, its commit
records materialization metadata, and its errors failures that are retried or not.
"""
