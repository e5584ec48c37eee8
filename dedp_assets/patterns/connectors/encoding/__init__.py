"""Encodings of records: CSV, JSON, Parquet, Avro, and types by values."""
