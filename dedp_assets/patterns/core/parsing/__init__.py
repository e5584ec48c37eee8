"""Parsing of foreign records: strict JSON, nested fields, and the census of fields."""
