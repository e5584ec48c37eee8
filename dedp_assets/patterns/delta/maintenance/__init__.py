"""Maintenance of tables: small files are merged, files that no version needs are removed."""
