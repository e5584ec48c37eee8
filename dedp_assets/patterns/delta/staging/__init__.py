"""Staging: rows written to staged files, with metrics, audits and row accounting."""
