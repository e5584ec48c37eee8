"""Kafka: topics as upstream tables, registries of schemas, mirrors."""
