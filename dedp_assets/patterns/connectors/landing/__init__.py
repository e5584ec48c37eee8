"""Landing zones: complete deliveries, files of text lines, and audits of files."""
