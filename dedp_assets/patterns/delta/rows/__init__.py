"""Copy-on-write: files with changed rows are rewritten, audited and exchanged."""
