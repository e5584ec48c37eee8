"""Foundations of all patterns, without I/O: errors, results, records, audits, rows, conversion, types."""
