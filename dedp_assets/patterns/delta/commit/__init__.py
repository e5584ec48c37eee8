"""Commits: idempotency check, metadata-only commit, Spark's writer as the fallback."""
