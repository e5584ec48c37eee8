"""Status page: troubles, affected tables and recent partitions, from the ledger and without a JVM."""
