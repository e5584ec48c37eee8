"""Servers of a laptop: Spark engine and cluster, PostgreSQL, Kafka, schema registry, S3."""
