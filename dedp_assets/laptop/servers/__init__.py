"""Servers of a laptop: Spark engine, PostgreSQL, Kafka, schema registry."""
