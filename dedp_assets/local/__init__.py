"""Servers of a laptop: Spark engine, PostgreSQL, Kafka, and their supervisor."""
