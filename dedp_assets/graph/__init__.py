"""Bridge between the library and Dagster: table declarations, partition runs, catalogue, reconciler.

The library knows nothing of Dagster. Here its table declarations become assets, its findings check results, its commit
records materialization metadata, and its errors failures that are retried or not.

The packages, each on those before it: ``catalogue`` (specs, lineage, figures), ``run`` (one partition after the other),
``declare`` (the decorator and its records), ``reconcile`` (which partitions are stale), ``checks`` (of stored tables).
"""
