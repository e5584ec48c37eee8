"""The Dagster platform: table declarations, partition runs, catalogue, reconciler, checks, sensors.

The second of four houses: it stands on the library (`patterns`) alone, and knows no table of the case study and no
server of the laptop. Its faces are `declare` in Python, `dedp_assets.components` in YAML, whose name stands in the
documents of projects, and `dedp_assets.location`, which makes a code location.

The library knows nothing of Dagster. Here its table declarations become assets, its findings check results, its commit
records materialization metadata, and its errors failures that are retried or not.

The packages, each on those before it: ``mail`` (alerts and lineage events, from durable outboxes), ``resources``
(engine, lake, landing zone, settings), ``systems`` (databases, brokers, services), ``catalogue`` (specs, lineage,
figures), ``outcomes`` (of runs: tags, failures, refusals), ``inputs`` (partition mappings, pinned snapshots), ``run``
(one partition after the other), ``declare`` (the decorator and its records), ``reconcile`` (which partitions are
stale), ``checks`` (of stored tables), ``observe`` (troubles, for page, status and alerts), ``sensors`` (which ask for
runs).
"""
