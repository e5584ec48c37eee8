"""Staging: rows written beside a table, their metrics, audits and row accounting."""
