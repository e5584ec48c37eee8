"""Chapter 9: rows are published only after passed audits."""
