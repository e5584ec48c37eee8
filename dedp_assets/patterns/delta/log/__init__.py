"""Delta log: commits, states and transaction cursors of a table, read without a JVM."""
