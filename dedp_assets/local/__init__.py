"""Servers that only a laptop needs: Spark engine, PostgreSQL, Kafka, and the supervisor that runs them together."""
