"""Dagster resources of databases, brokers, registries, HTTP services and secrets."""
