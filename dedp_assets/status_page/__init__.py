"""Status page: troubles, affected tables and recent partitions of every table, made from the ledger without a JVM."""
