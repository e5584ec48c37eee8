"""Compatibility of schemas: Avro, JSON Schema and tables."""
