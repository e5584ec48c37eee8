"""The platform's mail: alerts to channels and events of lineage to a receiver, from durable outboxes.

What is owed lies in files before anybody is called, so that a channel or a receiver that is down delays no run, and
leaves in order and at least once. No Dagster and no Spark: the resource ``alerts`` and the sensors ``alerts`` and
``lineage`` are its callers.
"""
